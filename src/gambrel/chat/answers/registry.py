"""Which function answers which kind of question."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from gambrel.chat.answers.base import Answer
from gambrel.chat.frame import Frame
from gambrel.report.options import Options

#: Intent → module of this package, imported when it is asked for.
_MODULES: Final = {
    **dict.fromkeys(
        ("bound", "intensity", "latency", "memory", "energy", "power", "utilization", "ops", "why",
         "recommend"),
        "of_analysis",
    ),
    **dict.fromkeys(("kv_cache", "serve"), "of_serving"),
    **dict.fromkeys(("check", "compare", "throughput", "select", "what_if"), "of_advice"),
    **dict.fromkeys(
        ("device", "ridge", "devices", "models", "model", "explain", "help"), "of_catalog"
    ),
}  # fmt: skip


def answer(frame: Frame, options: Options) -> Answer:
    """Answers a frame.

    Args:
        frame: Complete, as `gambrel.chat.understand.understand` returns it.
        options: Width and colour of the report.

    Raises:
        GambrelError: What the question names cannot be analyzed as asked.
    """
    module = import_module(f"gambrel.chat.answers.{_MODULES[frame.intent]}")
    found: Answer = module.answer(frame, options)
    return found
