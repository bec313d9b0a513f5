"""Setting an attribute of someone else's for a while."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Final

_MISSING: Final = object()


def put(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Sets an attribute for as long as ``stack`` is open; one that was inherited is so again."""
    before = owner.__dict__.get(name, _MISSING)
    stack.callback(_put_back, owner, name, before)
    setattr(owner, name, value)


def _put_back(owner: Any, name: str, before: Any) -> None:
    if before is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, before)
