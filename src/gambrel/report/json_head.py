"""The one head of every JSON answer: type, versions, units, assumptions, warnings."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.errors import is_hidden
from gambrel.report.registry import kind_of
from gambrel.report.units import units_in

#: Of every answer of this version.
SCHEMA_VERSION: Final = 2


def envelope(record: object, options: Any = None) -> dict[str, Any]:
    """Returns an answer as plain data: the head, then what the kind of result says.

    A number that JSON cannot hold is the text ``"Infinity"``; what is unknown is None.

    Args:
        record: Any result that `gambrel.report.registry.KINDS` knows.
        options: What the content may depend on (``recommend``).

    Raises:
        TypeError: No kind of result is registered for the record.
    """
    kind = kind_of(record)
    return with_head(kind.type, kind.content(record, options))


def with_head(type_: str, content: Any) -> dict[str, Any]:
    """Plain data under the head of every answer.

    Args:
        type_: E.g. ``"gambrel/check"``.
        content: A record, or a mapping of what is to follow the head.
    """
    found: dict[str, Any] = plain(content)
    head = {
        "type": type_,
        "schema_version": SCHEMA_VERSION,
        "gambrel_version": found.pop("gambrel_version", "") or __version__,
    }
    found.pop("schema_version", None)
    said = {name: list(found.pop(name, ())) for name in ("assumptions", "warnings")}
    return head | {"units": units_in(found)} | said | found


def json_text(record: object, options: Any = None) -> str:
    """The answer as indented JSON text, ending with a newline."""
    return encoded(envelope(record, options), indent=2) + "\n"


#: All but what a terminal shows as it is.
_SPECIAL: Final = re.compile(r"[^\x20-\x7e\n]")


def encoded(value: Any, indent: int = 0) -> str:
    """Plain data as JSON text in which no character can steer a terminal or reorder what is read.

    A reader of JSON gets the same texts: such characters are escaped by their number.
    """
    raw = msgspec.json.encode(value)
    text = (msgspec.json.format(raw, indent=indent) if indent else raw).decode()
    return _SPECIAL.sub(lambda one: _escaped(one[0]), text)


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if is_hidden(char) else char


def plain(value: Any) -> Any:
    """Records, tuples and enums as dicts, lists and texts; infinite numbers as text."""
    built = msgspec.to_builtins(value, enc_hook=_fields)
    return _finite(built)


def _fields(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "tolist"):  # an array of numpy
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return finite(value) if isinstance(value, float) else value


def finite(value: float) -> float | str | None:
    """A number as JSON can hold it: one that is infinite as a text, one that is none as None."""
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
