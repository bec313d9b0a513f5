"""From a frame to an answer: one call of the API, a sentence that answers first, its evidence."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from gambrel.chat.answers.base import Answer
from gambrel.chat.frame import Frame

__all__ = ["Answer", "answer"]

#: Module of this package → kinds of question; any other rests on one analysis.
_MODULES: Final = {
    "advice": {"check", "judge", "compare", "throughput", "select", "what_if"},
    "batches": {"batch"},
    "plans": {"kv_cache", "serve", "train"},
    "catalog": {"device", "ridge", "devices", "models", "model", "explain", "help"},
}


def answer(frame: Frame) -> Answer:
    """Answers a frame.

    Args:
        frame: Complete, as `gambrel.chat.understand.understand` returns it.

    Raises:
        GambrelError: What the question names cannot be analyzed as asked.
    """
    name = next((name for name, of in _MODULES.items() if frame.intent in of), "analysis")
    found: Answer = import_module(f"gambrel.chat.answers.{name}").answer(frame)
    return found
