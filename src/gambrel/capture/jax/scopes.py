"""Where an equation comes from: the path of named scopes, the line of the user's code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gambrel.workload import Phase

#: What JAX writes around a scope: transpose(jvp(Dense_0)), vmap(...), jit(f).
_WRAPPED: Final = re.compile(r"(?:\w+\()+([^()]*)\)+")
_JIT: Final = re.compile(r"p?jit\([^()]*\)")


def module_of(stack: str) -> str:
    """``transpose(jvp(Net))/Dense_0`` → ``Net.Dense_0``."""
    parts = []
    for part in stack.split("/"):
        if _JIT.fullmatch(part) or "->" in part:  # the equation of an einsum
            continue
        matched = _WRAPPED.fullmatch(part)
        plain = matched[1] if matched else part
        if plain and plain not in ("while", "body", "cond", "closed_call", "checkpoint"):
            parts.append(plain)
    return ".".join(parts)


def phase_of(stack: str) -> Phase:
    """What JAX derives for a gradient runs under ``transpose(...)``, recomputation included."""
    return Phase.BACKWARD if "transpose(" in stack else Phase.FORWARD


class EquationPlace:
    """The place that is being recorded.

    Attributes:
        module: Path of named scopes.
        source: ``file.py:line`` of the user's code; empty where JAX does not say.
        phase: Forward, or backward within what a gradient added.
    """

    def __init__(self) -> None:
        """Starts at the top."""
        self.module = self.source = ""
        self.phase = Phase.FORWARD
        self._lines: dict[int, tuple[Any, str]] = {}
        self._modules: dict[str, str] = {}

    @contextmanager
    def entered(self, info: Any) -> Iterator[None]:
        """The place of an equation; of those within it, the beginning of theirs."""
        before = (self.module, self.source, self.phase)
        stack = str(info.name_stack)
        if stack not in self._modules:
            self._modules[stack] = module_of(stack)
        own = self._modules[stack]
        self.module = f"{before[0]}.{own}" if before[0] and own else before[0] or own
        self.source = self._line(info.traceback) or before[1]
        self.phase = phase_of(stack) if before[2] is Phase.FORWARD else before[2]
        try:
            yield
        finally:
            self.module, self.source, self.phase = before

    def _line(self, traceback: Any) -> str:
        if traceback is None:
            return ""
        known = self._lines.get(id(traceback))
        if known is None:
            known = self._lines[id(traceback)] = (traceback, _user_line(traceback))
        return known[1]


def _user_line(traceback: Any) -> str:
    """The innermost frame of the user's own code; else the innermost one outside of JAX."""
    from jax._src import source_info_util

    try:
        frames = list(source_info_util.user_frames(traceback))
    except (AttributeError, TypeError):
        return ""
    own = [f for f in frames if "site-packages" not in f.file_name]
    best = next(iter([*own, *frames]), None)
    return "" if best is None else f"{Path(best.file_name).name}:{best.start_line}"
