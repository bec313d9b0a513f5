"""The exceptions of gambrel, one tree.

    GambrelError
    ├── InputError            what the user gave cannot be used
    │   ├── UnknownNameError  no such model, device, precision, ...; carries the closest names
    │   └── FileFormatError   a file is missing, truncated, of another type, or hostile
    ├── WorkloadError         a workload contradicts itself or cannot be bound to these sizes
    ├── DeviceError           a device lacks a ceiling that the question needs
    ├── CaptureError          a model could not be turned into a workload
    └── MissingExtraError     an optional dependency is not installed

A message says what was seen, where, and what to do, on one line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

#: Characters of a user's text that a message repeats.
SHOWN: Final = 200
#: What a user or a file gave, where a message repeats it whole: a long word, a long quotation.
_LONG: Final = re.compile(rf"\S{{{SHOWN + 10},}}|(?<!\w)(['\"])(?:(?!\1).){{{SHOWN + 10},}}\1")


def clean(text: str) -> str:
    """Returns ``text`` on one line with control characters made visible.

    A name from a file could otherwise move the cursor or recolour the terminal; direction marks
    could reorder what is read.
    """
    if text.isprintable():  # nothing hidden is
        return text
    return "".join(_visible(c) for c in text)


def is_hidden(char: str) -> bool:
    """Whether a character moves the cursor, reorders what is read, or shows nothing."""
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _visible(char: str) -> str:
    if is_hidden(char):
        return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
    return char


def shown(value: object) -> str:
    """A user's value as messages repeat it: quoted, cut, without control characters."""
    text = value[: SHOWN + 1] if isinstance(value, (str, bytes)) else value
    return cut(clean(repr(text)))


def cut(text: str) -> str:
    """A text of a user as messages repeat it: cut."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


_withheld: ContextVar[bool] = ContextVar("withheld", default=False)


@contextmanager
def withholding() -> Iterator[None]:
    """While it lasts, messages do not repeat what a file of an unknown kind holds.

    An agent may name any file that the server can read; an error is no way to read it.
    """
    token = _withheld.set(True)
    try:
        yield
    finally:
        _withheld.reset(token)


def told(name: object) -> str:
    """A name out of a file as messages repeat it."""
    return "(withheld)" if _withheld.get() else shown(name)


def first_line(error: BaseException) -> str:
    """What an error of others says first; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def kind_and_line(error: BaseException) -> str:
    """The kind of an error of others, and what it says first."""
    kind, said = type(error).__name__, first_line(error)[:SHOWN]
    return kind if said == kind else f"{kind}: {said}"


def sentence(message: str) -> str:
    """A message on one line, without control characters, long words and quotations cut."""
    lines = (clean(line) for line in message.replace("\t", " ").splitlines())
    whole = " ".join(line for line in lines if line)
    return _LONG.sub(lambda given: cut(given[0]), whole)


class GambrelError(Exception):
    """Base of every error that gambrel raises on purpose.

    Args:
        message: Goes through `sentence`.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(sentence(message))

    def __reduce__(self) -> tuple[object, ...]:
        """An error that another process raised arrives with its message and attributes."""
        return _restored, (type(self), str(self), self.__dict__)


def _restored(kind: type[GambrelError], message: str, attributes: dict[str, object]) -> object:
    made = kind.__new__(kind)
    Exception.__init__(made, message)
    made.__dict__.update(attributes)
    return made


class InputError(GambrelError):
    """What the user gave cannot be used as it stands."""


class UnknownNameError(InputError):
    """A name matches nothing that is known.

    Attributes:
        kind: What was looked up, e.g. ``"device"``.
        name: The name as given.
        closest: The nearest known names, best first.
    """

    def __init__(self, kind: str, name: str, closest: Iterable[str] = (), hint: str = "") -> None:
        self.kind = kind
        self.name = name
        self.closest = tuple(closest)
        parts = [f"unknown {kind} {shown(name)}"]
        if self.closest:
            parts.append(f"closest: {', '.join(self.closest)}")
        message = "; ".join(parts) + "."
        super().__init__(f"{message} {hint}".rstrip())


class FileFormatError(InputError):
    """A file is missing, truncated, of another type than its name says, or hostile."""


class WorkloadError(GambrelError):
    """A workload contradicts itself or cannot be evaluated at the sizes asked for."""


class DeviceError(GambrelError):
    """A device lacks a figure that the question needs."""


class CaptureError(GambrelError):
    """A model could not be turned into a workload."""


def require(package: str, extra: str, purpose: str) -> None:
    """Refuses what an optional dependency is missing for, before anything is imported of it.

    Args:
        package: Name that is imported.
        extra: Of gambrel, which brings it.
        purpose: What needs it.

    Raises:
        MissingExtraError: It is not installed.
    """
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(package, extra, purpose)


class MissingExtraError(GambrelError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed. "
            f"Run: pip install 'gambrel[{extra}]'"
        )
