"""How one thing that can be asked is declared and read, from a text or from a Python value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Final, NoReturn

import msgspec

from gambrel.dtypes import BITS
from gambrel.errors import InputError, UnknownNameError, shown
from gambrel.units import exact_text, parse_quantity
from gambrel.workload.inputs import ExampleInput, parse_input

#: No size of a model, and no count of anything, is larger.
MOST: Final = 10**9
#: Values of one range.
_MOST_VALUES: Final = 1_000_000
_BARE: Final = re.compile(r"^\s*[+-]?[\d.]+(?:[eE][+-]?\d+)?\s*$")


class FieldType(msgspec.Struct, frozen=True, kw_only=True):
    """A type of value.

    Attributes:
        metavar: What help calls it.
        schema: JSON schema of one value.
        read: From (value, kind, what the user calls the field) to the value that is used.
        unit: Of a number; empty for anything else.
        choices: All texts that there are; empty for any.
        least: Smallest whole number.
        quantity: Of a text with a unit, for `gambrel.units.parse_quantity`.
        bare: Whether such a text needs no unit.
        slowest: A rate that no device is below: a smaller bare number lacks its prefix.
        example: What to write.
    """

    metavar: str
    schema: Mapping[str, Any]
    read: Callable[[Any, FieldType, str], Any]
    unit: str = ""
    choices: tuple[str, ...] = ()
    least: int = 1
    quantity: str = ""
    bare: bool = False
    slowest: float = 0.0
    example: str = ""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked.

    Attributes:
        name: Keyword in Python, argument of the MCP tools.
        kind: Type and parser.
        help: One sentence; command line, docstring and schema show it.
        flags: Options of the command line; empty for a positional argument.
        group: Heading of the help under which it stands.
        verbs: The questions in which it has a meaning.
        several: Those that take several values at once.
        required: Those that cannot be asked without it.
        default: Where nothing is given.
        words: Further names by which people call it, for questions in words.
        absent: Face (``cli``, ``python``, ``mcp``) → why it has no meaning there.
        split: Whether a comma divides several values in a text.
    """

    kind: FieldType
    help: str
    group: str
    verbs: frozenset[str]
    name: str = ""
    flags: tuple[str, ...] = ()
    several: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    default: Any = None
    words: tuple[str, ...] = ()
    absent: Mapping[str, str]
    split: bool = True

    def read(self, value: Any, verb: str, label: str = "") -> Any:
        """The value that is used, a tuple where the verb takes several; None stays None.

        Args:
            value: As given: a text, or a value of the right type.
            verb: The question.
            label: What the user calls the field; its name by default.

        Raises:
            InputError: A value of another type, or out of range.
        """
        called = label or self.name
        if value is None:
            return None
        if verb not in self.several:
            return self.kind.read(value, self.kind, called)
        found = tuple(self.kind.read(one, self.kind, called) for one in self._parts(value, called))
        return found or _refuse(called, value, "a list with a value in it")

    def on(self, face: str, verb: str) -> bool:
        """Whether a face offers it for a verb."""
        return verb in self.verbs and face not in self.absent

    def schema(self, verb: str) -> dict[str, Any]:
        """JSON schema of its values, a list as well where the verb takes several."""
        one: dict[str, Any] = dict(self.kind.schema)
        if verb in self.several:
            one = {"anyOf": [one, {"type": "array", "items": one}]}
        unit = {"unit": self.kind.unit} if self.kind.unit else {}
        default = {} if self.default in (None, ()) else {"default": self.default}
        return {**one, "description": self.help, **unit, **default}

    def texts(self, value: Any) -> list[str]:
        """A value as the command line takes it; several make several texts."""
        if isinstance(value, Mapping):
            return [f"{name}={number}" if name else str(number) for name, number in value.items()]
        if isinstance(value, (list, tuple, range)):
            return [text for one in value for text in self.texts(one)]
        if not isinstance(value, (int, float)) or not self.kind.quantity:
            return [str(value)]
        unit = self.kind.unit.partition("/")[0].replace("byte", "B")
        return [exact_text(value, "" if self.kind.bare else unit)]

    def label(self, face: str) -> str:
        """What the users of a face call it."""
        return self.flags[0] if face == "cli" and self.flags else self.name

    def _parts(self, value: Any, label: str) -> Iterable[Any]:
        """One value after another; ``"1:256"``, ``"1:256:5"`` and ``"1:256:x2"`` are ranges."""
        single = isinstance(value, (str, bytes, Mapping, PathLike)) or self.kind is MODEL
        listed = isinstance(value, (list, tuple)) or (isinstance(value, Iterable) and not single)
        for one in value if listed else (value,):
            if not isinstance(one, str) or not self.split:
                yield one
                continue
            counts = self.kind.read in (_whole, _tokens)
            parts = one.split(",") if counts else _split(one)
            if not parts:
                _refuse(label, one, "a list of values")
            for part in parts:
                ranged = counts and ":" in part
                yield from _range(part, self.kind, label) if ranged else (part,)


#: An op with sizes begins so, and these of its parts are no sizes.
_OP: Final = re.compile(r"\w+:\w+=")
_OP_WORDS: Final = frozenset({*BITS, "causal"})


def _split(text: str) -> list[str]:
    """``"fp16,int8"`` → two; ``"w4a16,kv=fp8,int8"`` → two: ``kv=`` belongs to what precedes.

    Of an op with its sizes (``"matmul:m=64,n=64,k=64,int8"``) words that are no sizes do as well.
    """
    parts: list[str] = []
    for part in text.split(","):
        of_op = bool(parts) and bool(_OP.match(parts[-1])) and part.strip() in _OP_WORDS
        if parts and ("=" in part or of_op):
            parts[-1] += f",{part.strip()}"
        elif part.strip():
            parts.append(part.strip())
    return parts


def _range(
    text: str, kind: FieldType, label: str, end: Callable[..., int] | None = None
) -> Iterable[int]:
    """``1:256``, ``1:256:5`` and, each value a multiple of the one before, ``1:256:x2``.

    ``end`` reads its ends, where the kind itself reads more than numbers.
    """
    wanted = "a range such as 1:256, 1:256:5 or 1:256:x2"
    parts = text.split(":")
    if not 2 <= len(parts) <= 3:
        _refuse(label, text, wanted)
    last_part = parts[2].strip() if len(parts) == 3 else "1"
    grows = last_part[:1] in ("x", "*")
    first, last = (int((end or kind.read)(part, kind, label)) for part in parts[:2])
    step = _whole_text(last_part[grows:], label)
    if last < first or step < 1 + grows or (grows and not first):
        _refuse(label, text, wanted)
    if not grows:
        found = range(first, last + 1, step)
        if len(found) > _MOST_VALUES:
            raise InputError(
                f"{label}: {shown(text)} makes {len(found):,} values, more than {_MOST_VALUES:,}; "
                f"take steps, e.g. {first}:{last}:x2."
            )
        return found
    return (first * step**i for i in range(MOST.bit_length()) if first * step**i <= last)


def _refuse(label: str, value: object, wanted: str) -> NoReturn:
    raise InputError(f"{label}: {shown(value)} is not {wanted}.")


def _any(value: Any, _: FieldType, __: str) -> Any:
    return value


def _text(value: Any, kind: FieldType, label: str) -> str:
    if isinstance(value, PathLike):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        _refuse(label, value, f"a name{_such(kind)}")
    if kind.choices and value not in kind.choices:
        raise UnknownNameError(label, value, kind.choices)
    return value.strip()


def _such(kind: FieldType) -> str:
    return f", e.g. {kind.example}" if kind.example else ""


def _flag(value: Any, _: FieldType, label: str) -> bool:
    if not isinstance(value, bool):
        _refuse(label, value, "True or False")
    return value


def _whole_text(text: str, label: str, least: int = 1) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit()):
        _refuse(label, text, f"a whole number of at least {least}")
    return int(text[:20])


def _whole(value: Any, kind: FieldType, label: str) -> int:
    found = _whole_text(value, label, kind.least) if isinstance(value, str) else value
    if isinstance(found, bool) or not hasattr(found, "__index__") or int(found) < kind.least:
        _refuse(label, value, f"a whole number of at least {kind.least}")
    if int(found) > MOST:
        _refuse(label, value, f"a whole number of at most {MOST:,}")
    return int(found)


def _tokens(value: Any, kind: FieldType, label: str) -> int:
    """8192, ``"8192"``, ``"8k"`` (8 x 1,024) or ``"1M"`` (1,024 x 1,024)."""
    if not isinstance(value, str):
        return _whole(value, kind, label)
    text = value.strip().lower()
    scale = {"k": 1024, "m": 1024**2}.get(text[-1:], 1)
    digits = text[:-1] if scale > 1 else text
    number = float(digits) * scale if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", digits) else -1.0
    if number != int(number) or not kind.least <= number <= MOST:
        _refuse(label, value, "a number of tokens, e.g. 8192 or 8k")
    return int(number)


def _number(value: Any, kind: FieldType, label: str) -> float:
    """A plain number that is not negative; a share is at most 1."""
    most = 1.0 if kind.metavar == "SHARE" else math.inf
    wanted = "a share between 0 and 1" if kind.metavar == "SHARE" else "a number of at least 0"
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        _refuse(label, value, wanted)
    if isinstance(value, bool) or not (math.isfinite(found) and 0 <= found <= most):
        _refuse(label, value, wanted)
    return found


def _quantity(value: Any, kind: FieldType, label: str) -> float:
    """A text with its unit, or a number in the SI unit."""
    if isinstance(value, str):
        if not value.strip():
            raise InputError(f"{label} is empty; write for example {kind.example}.")
        if not kind.bare and _BARE.match(value):
            raise InputError(
                f"{label} {shown(value)} has no unit; write for example {kind.example}."
            )
        try:
            parsed = parse_quantity(value, kind.quantity, zero=not kind.least)
        except InputError as error:
            raise InputError(f"{label}: {error}") from None
        return _prefixed(parsed, kind, label) if _BARE.match(value) else parsed
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if (
        isinstance(value, bool)
        or not math.isfinite(found)
        or found < 0
        or (not found and kind.least)
    ):
        raise InputError(
            f"{label} {shown(value)}: give a positive number in {kind.unit}, or a text such as "
            f"{kind.example}."
        )
    return _prefixed(found, kind, label)


def _prefixed(value: float, kind: FieldType, label: str) -> float:
    """A number without a unit, which is no rate of a device where its prefix was forgotten."""
    if value >= kind.slowest:
        return value
    raise InputError(
        f"{label} {value:g} is {value:g} {kind.unit}, slower than any device; write the unit: "
        f"{value:g}T or {value:g} T{kind.unit.replace('byte', 'B')}."
    )


def _sizes(value: Any, kind: FieldType, label: str) -> dict[str, int]:
    """Name → whole number, from a mapping or from texts NAME=NUMBER; None values are left out.

    Several numbers (``steps=20,50`` or ``steps=10:50:10``) are a tuple, which a sweep takes.
    """
    return {
        name: _one_or_more(number, kind, f"{label} {name}")
        for name, number in _pairs(value, label, "NAME=NUMBER", "seq=2048")
        if number is not None
    }


def _one_or_more(value: Any, kind: FieldType, label: str) -> Any:
    if isinstance(value, str) and re.search(r"[,:]", value):
        parts = [
            p
            for part in value.split(",")
            for p in (_range(part, kind, label, _whole) if ":" in part else (part,))
        ]
    elif isinstance(value, (list, tuple, range)):
        parts = list(value)
    else:
        return _whole(value, kind, label)
    if not parts:
        _refuse(label, value, "a list of numbers")
    return tuple(_whole(part, kind, label) for part in parts)


def _prices(value: Any, _: FieldType, label: str) -> dict[str, float]:
    """Device → price; a price without a device is that of all, under ``""``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = {"": value}
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, (list, tuple)) and len(texts) == 1 and "=" not in str(texts[0]):
        value = {"": texts[0]} if _price_text(str(texts[0])) else value
    return {
        name: _price(number, label)
        for name, number in _pairs(value, label, "DEVICE=NUMBER", "l4=2500")
    }


def _price_text(text: str) -> bool:
    return bool(re.match(r"^[$€]?[\d.]", text.strip()))


def _price(value: Any, label: str) -> float:
    text = value.strip().removesuffix("/h").lstrip("$€") if isinstance(value, str) else value
    try:
        found = float(text)
    except (TypeError, ValueError, OverflowError):
        _refuse(label, value, "a price: write a number, e.g. l4=2500 or 3.5/h")
    if isinstance(value, bool) or not math.isfinite(found) or found <= 0:
        _refuse(label, value, "a positive price")
    return found


def _pairs(value: Any, label: str, form: str, example: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        items = list(value.items())
    else:
        listed = isinstance(value, (list, tuple))
        items = [_pair(one, label, form, example) for one in (value if listed else (value,))]
    names = [name for name, _ in items]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{label}: {twice} is given twice; give it once.")
    if not all(isinstance(name, str) for name in names):
        _refuse(label, value, f"a mapping of names; write {form}, e.g. {example}")
    return items


def _pair(text: Any, label: str, form: str, example: str) -> tuple[str, Any]:
    name, equals, number = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not equals or not name.strip():
        raise InputError(f"{label} {shown(text)}: write {form}, e.g. {label} {example}.")
    return name.strip(), number.strip()


def _shape(value: Any, _: FieldType, label: str) -> ExampleInput:
    return parse_input(value, label)


_NO_MODEL: Final = (int, float, complex, bytes, bytearray, list, tuple, set, frozenset, type)


def _model(value: Any, _: FieldType, label: str) -> Any:
    """A name or a path as a text; anything else is for the readers of models."""
    named = str(value) if isinstance(value, (str, PathLike)) else "object"
    if isinstance(value, _NO_MODEL) or not named.strip():
        _refuse(label, value, "a model: give a name, a file, a torch.nn.Module or a Workload")
    return value


def _deployment(value: Any, _: FieldType, label: str) -> Any:
    from gambrel.analysis.deployment import read_deployment

    return read_deployment(value, label)


def _hardware(value: Any, _: FieldType, label: str) -> Any:
    named = isinstance(value, (str, PathLike)) and str(value).strip()
    if named or hasattr(value, "ceilings") or hasattr(value, "to_device"):
        return value
    _refuse(label, value, "a device: give a name, a .toml file, a Device or measured peaks")


def whole(unit: str, least: int = 1) -> FieldType:
    """A count."""
    schema = {"type": "integer", "minimum": least, "maximum": MOST}
    return FieldType(metavar="N", schema=schema, read=_whole, unit=unit, least=least)


def tokens(least: int = 1) -> FieldType:
    """A count of tokens, ``"8k"`` is 8,192."""
    schema = {"type": ["integer", "string"]}
    return FieldType(metavar="TOKENS", schema=schema, read=_tokens, unit="tokens", least=least)


def number(unit: str) -> FieldType:
    """A number that is not negative."""
    schema = {"type": "number", "minimum": 0}
    return FieldType(metavar="X", schema=schema, read=_number, unit=unit)


def quantity(
    name: str, unit: str, example: str, *, bare: bool = False, slowest: float = 0.0
) -> FieldType:
    """A text with a unit, or a number in the SI unit."""
    return FieldType(
        metavar=example.split(maxsplit=1)[0],
        schema={"type": ["string", "number"], "examples": [example]},
        read=_quantity,
        unit=unit,
        quantity=name,
        bare=bare,
        slowest=slowest,
        example=example,
    )


def choice(*choices: str) -> FieldType:
    """One of some texts."""
    schema = {"type": "string", "enum": list(choices)}
    return FieldType(metavar="|".join(choices), schema=schema, read=_text, choices=choices)


def named_numbers(metavar: str, unit: str) -> FieldType:
    """A mapping of names to whole numbers."""
    values = {"type": "integer", "minimum": 1}
    schema = {"type": "object", "additionalProperties": values}
    return FieldType(metavar=metavar, schema=schema, read=_sizes, unit=unit)


_STRING: Final = {"type": "string"}
ANY: Final = FieldType(metavar="NAME", schema=_STRING, read=_any)
TEXT: Final = FieldType(metavar="NAME", schema=_STRING, read=_text)
FLAG: Final = FieldType(metavar="", schema={"type": "boolean"}, read=_flag)
SHARE: Final = FieldType(
    metavar="SHARE",
    schema={"type": "number", "minimum": 0, "maximum": 1},
    read=_number,
    unit="1",
)
PRICES: Final = FieldType(
    metavar="[DEVICE=]X",
    schema={"type": "object", "additionalProperties": {"type": "number"}},
    read=_prices,
    unit="currency",
)
SHAPE: Final = FieldType(
    metavar="[NAME:]SHAPE[:DTYPE]",
    schema={"type": ["array", "string"], "items": {"type": "integer"}},
    unit="elements",
    read=_shape,
)
MODEL: Final = FieldType(metavar="MODEL", schema=_STRING, read=_model)
DEPLOYMENT: Final = FieldType(metavar="FILE|COMMAND", schema=_STRING, read=_deployment)
HARDWARE: Final = FieldType(metavar="DEVICE", schema=_STRING, read=_hardware)
TIME: Final = quantity("time", "s", "10ms")
SPENT: Final = msgspec.structs.replace(TIME, least=0, schema={**TIME.schema, "minimum": 0})
#: Per second: no device of the catalog is within a factor of 50 of it.
_SLOWEST: Final = 1e6
RATE: Final = quantity("rate", "FLOP/s", "989T", bare=True, slowest=_SLOWEST)
BANDWIDTH: Final = quantity("bandwidth", "byte/s", "3.35T", bare=True, slowest=_SLOWEST)
PER_S: Final = quantity("throughput", "item/s", "30fps", bare=True)
POWER: Final = quantity("power", "W", "15W")
ENERGY: Final = quantity("energy", "J/item", "500mJ")
MEMORY: Final = quantity("size", "byte", "4096MB or 4GiB")
