"""What to tell a user whose model reads a number that no capture can know."""

from __future__ import annotations

import re
from typing import Final

from gambrel.capture.torch.scopes import source_text
from gambrel.errors import CaptureError

#: Calls whose argument is a size, and slices.
_SIZE: Final = re.compile(
    r"\b(arange|zeros|ones|full|empty|rand\w*|linspace|pad|expand|repeat\w*|view|reshape|narrow"
    r"|split|unfold|range|new_\w+)\(|\[[^\]]*:[^\]]*\]"
)
_INDEX: Final = re.compile(r"[\w)\]]\[")

#: Characters of a line of the model's code that a sentence quotes.
_WIDTH: Final = 80

_SIZED: Final = (
    "it decides a size, which is therefore unknown before a run: capture the parts of the model "
    "before and after it on their own, the latter with inputs of the length that you expect"
)
_INDEXED: Final = (
    "it is an index, so data decide what is read: capture the submodule before it on its own, or "
    "leave that step out of the forward pass"
)
_OTHER: Final = (
    "pass real example inputs if it depends on integer inputs only, else take that part of the "
    "model out of the forward pass"
)


def unknown_number() -> CaptureError:
    """The refusal of a number that depends on data: the line that reads it, and a way out."""
    place, code = source_text()
    # Code that was typed in or generated has no text.
    at = f" ({place}: {_cut(code)})" if code else ""
    return CaptureError(
        "the model reads a number out of a tensor that depends on its input's data or on its "
        f"weights{at}; {_way_out(code)}"
    )


def _cut(code: str) -> str:
    return code if len(code) <= _WIDTH else f"{code[: _WIDTH - 1]}…"


def _way_out(code: str) -> str:
    if _SIZE.search(code):
        return _SIZED
    return _INDEXED if _INDEX.search(code) else _OTHER


def without_value(name: str) -> CaptureError:
    """The refusal of a number of the model's own that was never made."""
    return CaptureError(
        f"the model reads the value of its tensor {name!r}, which has none on the meta device; "
        "build the model on the CPU (gambrel.capture.torch.lean_init skips the initialization of "
        "weights and keeps such values)"
    )
