"""From a frame to an answer: one call of the API, its report, and a sentence that says it first."""

from __future__ import annotations

from gambrel.chat.answers.base import Answer
from gambrel.chat.answers.registry import answer

__all__ = ["Answer", "answer"]
