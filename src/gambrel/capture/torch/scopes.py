"""Where an op comes from: the module that runs it, in backward as well, and the source line."""

from __future__ import annotations

import linecache
import os
import sys
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

#: Beginnings of file names that are no model's code; ``<`` is generated code.
_HIDDEN: Final = (
    str(Path(torch.__file__).parent) + os.sep,
    str(Path(__file__).resolve().parent) + os.sep,
    "<",
)
_next_node: Final[Callable[[], int]] = torch._C._autograd._get_sequence_nr
_current_node: Final[Callable[[], Any]] = torch._C._current_autograd_node


class Scopes:
    """The stack of running modules, as paths, and its history in terms of autograd nodes.

    Every autograd node carries a sequence number, drawn from one counter when the forward op
    created it. Noting the counter whenever a module begins or ends tells, in backward, which
    module's forward created the node that is running.
    """

    def __init__(self) -> None:
        self.path = ""
        self.module: Any = None
        self.failed: str | None = None
        self._starts: list[int] = []
        self._paths: list[str] = []
        self.tracing = False

    def wrap(self, module: Any, path: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        """A module's forward, noting that it runs. Works for direct calls of forward too."""

        def scoped(*args: Any, **kwargs: Any) -> Any:
            before = self.path, self.module
            self._move(path, module)
            try:
                return forward(*args, **kwargs)
            except BaseException:
                if self.failed is None:
                    self.failed = path
                raise
            finally:
                self._move(*before)

        scoped.__wrapped__ = forward  # type: ignore[attr-defined]  # for inspect.signature
        return scoped

    def _move(self, path: str, module: Any) -> None:
        self.path, self.module = path, module
        if self.tracing:
            self._starts.append(_next_node())
            self._paths.append(path)

    def of_backward(self, owners: dict[int, str]) -> str:
        """The module whose forward made the autograd node that is running now.

        Args:
            owners: Paths of the modules that own parameters, by the parameters' identity; for the
                nodes that only accumulate a gradient.
        """
        if self.path:
            return self.path  # forward again: activation checkpointing
        node = _current_node()
        if node is None:
            return ""
        variable = getattr(node, "variable", None)
        if variable is not None:
            return owners.get(id(variable), "")
        place = bisect_right(self._starts, node._sequence_nr()) - 1
        return self._paths[place] if place >= 0 else ""


_SHORT: Final[dict[str, str]] = {}


def source_text() -> tuple[str, str]:
    """``file.py:line`` of `source_line` and what is written there; empty where it is not known."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HIDDEN):
        frame = frame.f_back
    if frame is None:
        return "", ""
    filename, number = frame.f_code.co_filename, frame.f_lineno
    return f"{Path(filename).name}:{number}", linecache.getline(filename, number).strip()


def source_line() -> str:
    """``file.py:line`` of the innermost running code outside torch and gambrel's capture."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        filename = frame.f_code.co_filename
        short = _SHORT.get(filename)
        if short is None:
            hidden = filename.startswith(_HIDDEN)
            short = _SHORT[filename] = "" if hidden else Path(filename).name
        if short:
            return f"{short}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
