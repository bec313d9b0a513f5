"""Records of results as plain data, and the JSON schema of that data, from one walk over types."""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from gambrel.analysis.result import Analysis
from gambrel.device.model import Device
from gambrel.report.json_head import finite
from gambrel.report.text import clean
from gambrel.report.units import unit_of

#: Fields that agents do not need: what was asked, or what other tools show.
_HIDDEN: Final = {
    *("workload", "times", "work", "levels", "by_module", "decode", "prefill", "points"),
    *("schema_version", "gambrel_version", "conventions", "cache_notes", "free_ops"),
    "bound_shares",
}
_PLAIN: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def plain(record: object, top: int = 0) -> dict[str, Any]:
    """A record as dicts and lists; names from a model are made harmless.

    Args:
        record: A struct, a dataclass, or a mapping of lists of them.
        top: Most entries of each list of records; 0 keeps all. What is left out is counted.
    """
    cut = _Cut(top)
    found: dict[str, Any] = cut.value(record, whole=True)
    return found | ({"left_out": cut.left_out} if top else {})


@dataclasses.dataclass(slots=True)
class _Cut:
    """Walks over values and counts what it leaves out."""

    top: int
    left_out: int = 0

    def value(self, value: Any, *, whole: bool = False) -> Any:
        """One value as plain data; a device inside of a record is its id."""
        if isinstance(value, Device) and not whole:
            return value.id
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, float):
            return finite(value)
        if isinstance(value, Mapping):
            return {clean(str(k)): self.value(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return self._listed(value)
        if _is_record(type(value)):
            record: type = type(value)
            return {name: self.value(getattr(value, name)) for name in _shown(record)}
        return value

    def _listed(self, values: Any) -> list[Any]:
        listed = list(values)
        rows = bool(listed) and (isinstance(listed[0], Mapping) or _is_record(type(listed[0])))
        if self.top and rows and len(listed) > self.top:
            self.left_out += len(listed) - self.top
            listed = listed[: self.top]
        return [self.value(one) for one in listed]


def schema(record: type, listed: str = "", *, top: bool = False) -> dict[str, Any]:
    """JSON schema of what `plain` gives for a record; every number says its unit.

    Args:
        record: A struct or dataclass.
        listed: Name of the list, where there are several.
        top: Whether its lists may be cut.
    """
    defs: dict[str, Any] = {}
    found = _record(record, defs)
    if listed:
        found = {
            "type": "object",
            "properties": {listed: {"type": "array", "items": found}},
        }
    if top:
        left_out = {"type": "integer", "unit": "rows", "description": "Rows beyond `top`."}
        found["properties"]["left_out"] = left_out
    return found | ({"$defs": defs} if defs else {})


def _record(record: type, defs: dict[str, Any]) -> dict[str, Any]:
    properties = {
        name: {**_schema(hint, name, defs), **({"description": about} if about else {})}
        for name, (hint, about) in _shown(record).items()
    }
    head = (record.__doc__ or "").strip().split("\n", 1)[0]
    return {"type": "object", "description": head, "properties": properties}


def _schema(hint: Any, name: str, defs: dict[str, Any]) -> dict[str, Any]:
    """Schema of one value; unknown numbers are null."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        some = [_schema(one, name, defs) for one in inner if one is not type(None)]
        if len(some) < len(inner):
            some.append({"type": "null"})
        return some[0] if len(some) == 1 else {"anyOf": some} | _unit_among(some)
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin in (tuple, list):
        items = _schema(inner[0], name, defs) if inner else {}
        return {"type": "array", "items": items} | _unit_among([items])
    if origin is dict:
        values = _schema(inner[1], name, defs)
        return {"type": "object", "additionalProperties": values} | _unit_among([values])
    return _single(hint, name, defs)


def _single(hint: Any, name: str, defs: dict[str, Any]) -> dict[str, Any]:
    if hint is Device:
        return {"type": "string"}
    if hint in _PLAIN:
        kind = _PLAIN[hint]
        if hint not in (int, float):
            return {"type": kind}
        unit = unit_of(name) or ("1" if hint is int else None)  # a whole number counts something
        if unit is None:
            raise TypeError(f"no unit is declared for {name}; see gambrel.report.units")
        # An infinite intensity is a text.
        return {"type": [kind, "null", "string"] if hint is float else kind, "unit": unit}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [one.value for one in hint]}
    if isinstance(hint, type) and _is_record(hint):
        if hint.__name__ not in defs:
            defs[hint.__name__] = {}  # known while its own fields are described
            defs[hint.__name__] = _record(hint, defs)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {}


def _unit_among(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return next(({"unit": part["unit"]} for part in parts if "unit" in part), {})


def _is_record(found: type) -> bool:
    return issubclass(found, msgspec.Struct) or dataclasses.is_dataclass(found)


@functools.cache
def _shown(record: type) -> dict[str, tuple[Any, str]]:
    """Name → (type, description) of the fields and figures of a record."""
    hints = _hints(record)
    about = dict(_described(record.__doc__ or ""))
    fields = {
        name: (hint, about.get(name, ""))
        for name, hint in hints.items()
        if hint is not Analysis and Analysis not in typing.get_args(hint)  # of single steps
    }
    return {k: v for k, v in {**fields, **dict(_figures(record))}.items() if k not in _HIDDEN}


def _hints(record: type) -> dict[str, Any]:
    if issubclass(record, msgspec.Struct):
        return {field.name: field.type for field in msgspec.structs.fields(record)}
    found = typing.get_type_hints(record)
    return {field.name: found[field.name] for field in dataclasses.fields(record)}  # type: ignore[arg-type]


def _figures(record: type) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Properties that are a number, a text or an estimate."""
    for name in dir(record):
        found = getattr(record, name)
        if not isinstance(found, property) or name.startswith("_") or found.fget is None:
            continue
        hint = typing.get_type_hints(found.fget).get("return")
        parts = set(typing.get_args(hint)) - {type(None)} or {hint}
        if all(p in _PLAIN or (isinstance(p, type) and issubclass(p, Enum)) for p in parts):
            yield name, (hint, (found.__doc__ or "").strip().split("\n", 1)[0])


def _described(docstring: str) -> Iterator[tuple[str, str]]:
    """(name, sentence) from the Attributes of a Google docstring."""
    body = docstring.partition("Attributes:\n")[2]
    for name, text in re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", body, re.MULTILINE):
        yield name, " ".join(text.split())
