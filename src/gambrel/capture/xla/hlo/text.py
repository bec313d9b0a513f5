"""A parser of HLO text: computations of instructions, each a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gambrel.capture.xla.elements import CODES
from gambrel.capture.xla.graph import Form
from gambrel.errors import FileFormatError, told

_HEAD: Final = re.compile(r"^(ENTRY )?%?([\w.\-]+) *(?:\(.*)?\{$")
_INSTRUCTION: Final = re.compile(r"^(ROOT )?%?([\w.\-]+) = (.*)$")
_ARRAY: Final = re.compile(r"([a-z]\w*)\[([^\]]*)\](?:\{[^}]*\})?")
_OPCODE: Final = re.compile(r" *([a-z][\w\-]*)\(")
_COMMENT: Final = re.compile(r"/\*.*?\*/")
_OPEN: Final = {"(": ")", "{": "}", "[": "]"}


@dataclass(slots=True)
class Instruction:
    """One line.

    Attributes:
        name: What others read it by.
        opcode: What it does.
        forms: Shape and element type of each result; a tuple has several.
        operands: Names of what it reads; of constants and parameters the text in brackets.
        attrs: Its attributes as text.
        is_root: Whether it is the result of its computation.
    """

    name: str
    opcode: str
    forms: list[Form]
    operands: list[str]
    attrs: dict[str, str]
    is_root: bool = False


@dataclass(slots=True)
class Computation:
    """A function of a module.

    Attributes:
        name: What instructions call it by.
        instructions: In order.
    """

    name: str
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(slots=True)
class HloModule:
    """A module.

    Attributes:
        computations: By name.
        entry: Where it begins.
    """

    computations: dict[str, Computation]
    entry: Computation


def parse(text: str) -> HloModule:
    """Reads a module.

    Raises:
        FileFormatError: A line is none, or the entry computation is missing.
    """
    found: dict[str, Computation] = {}
    current: Computation | None = None
    entry: Computation | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if current is None:
            head = _HEAD.match(line)
            if head is not None:
                current = found[head[2]] = Computation(head[2])
                entry = current if head[1] else entry
        elif line.startswith("}"):
            current = None
        elif line:
            current.instructions.append(_instruction(line, number))
    if current is not None:
        raise FileFormatError(f"the text ends within the computation {told(current.name)}.")
    if entry is None:
        raise FileFormatError("the text has no ENTRY computation.")
    return HloModule(found, entry)


def _instruction(line: str, number: int) -> Instruction:
    line = _COMMENT.sub("", line)
    head = _INSTRUCTION.match(line)
    if head is None:
        raise FileFormatError(f"line {number} is no instruction of HLO: {told(line[:80])}.")
    kind, rest = _type(head[3], number)
    opcode = _OPCODE.match(rest)
    if opcode is None:
        raise FileFormatError(f"line {number} names no operation: {told(line[:80])}.")
    start = opcode.end() - 1
    end = _closing(rest, start, number)
    inside = rest[start + 1 : end]
    operands = [inside] if opcode[1] in ("constant", "parameter") else list(_operands(inside))
    attrs = dict(_attributes(rest[end + 1 :]))
    return Instruction(head[2], opcode[1], forms(kind), operands, attrs, bool(head[1]))


def _type(text: str, number: int) -> tuple[str, str]:
    """The type that a text begins with, and the rest."""
    if text.startswith("("):
        end = _closing(text, 0, number) + 1
        return text[:end], text[end:]
    array = _ARRAY.match(text)
    if array is not None:
        return array[0], text[array.end() :]
    word, _, rest = text.partition(" ")
    return word, " " + rest


def _unquoted(text: str, start: int = 0) -> Iterator[tuple[int, str, int]]:
    """Place, character and depth of brackets behind it of all that stands in no quotes."""
    depth, quoted, i = 0, False, start
    while i < len(text):
        c = text[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        else:
            depth += (c in _OPEN) - (c in ")}]")
            yield i, c, depth
        i += 1


def _closing(text: str, start: int, number: int) -> int:
    """Where the bracket closes that opens at a place."""
    for i, c, depth in _unquoted(text, start):
        if c in ")}]" and not depth:
            return i
    raise FileFormatError(f"line {number} opens a bracket that it does not close.")


def forms(kind: str) -> list[Form]:
    """Shape and element type of every array of a type.

    Raises:
        FileFormatError: A size is no number.
    """
    found: list[Form] = []
    for name, sizes in _ARRAY.findall(kind):
        texts = [s.strip().removeprefix("<=") for s in sizes.split(",") if s.strip()]
        if not all(t.isdigit() for t in texts):
            raise FileFormatError(f"the sizes {told(sizes[:40])} are not known.")
        found.append((tuple(map(int, texts)), CODES.get(name, 0)))
    return found or [((), 0)]


def _split(text: str) -> Iterator[str]:
    """Parts between the commas outside of brackets and quotes."""
    start = 0
    for i, c, depth in _unquoted(text):
        if c == "," and not depth:
            yield text[start:i]
            start = i + 1
    yield text[start:]


def _operands(text: str) -> Iterator[str]:
    """Names, with or without types before them."""
    for part in _split(text):
        words = part.split()
        if words:
            yield words[-1].removeprefix("%")


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for part in _split(text):
        name, equal, value = part.strip().partition("=")
        if equal:
            yield name, value


def integers(text: str) -> list[int]:
    """The numbers of ``{1,0}``."""
    return [int(n) for n in re.findall(r"-?\d+", text)]


def window(text: str) -> dict[str, list[str]]:
    """The fields of ``{size=3x3 stride=2x2 pad=0_1x0_1}``."""
    fields = text.strip("{}").split()
    return {k: v.split("x") for k, _, v in (f.partition("=") for f in fields)}
