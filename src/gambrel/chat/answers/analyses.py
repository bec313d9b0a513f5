"""The analyses that answers rest on; those of the last turns are kept for follow-ups."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from gambrel.analysis.result import Analysis
from gambrel.chat.frame import Frame
from gambrel.chat.lexicon import lexicon

#: Questions whose analyses are kept: "why?" and "what if int8?" ask again about the last one.
_KEPT: Final = 8


def analyses_of(frame: Frame) -> tuple[Analysis, ...]:
    """The analyses of a frame's model on its device, one for each batch.

    What is built in cannot change between two turns; a file can, and is read again.

    Raises:
        GambrelError: What the question names cannot be analyzed as asked.
    """
    built_in = all(lexicon().find(name) for name in (frame.models[0], frame.hardware[0]))
    analyze = _kept if built_in else _analyzed
    return analyze(
        frame.models[0],
        frame.hardware[0],
        frame.batch or (None,),
        frame.precision[0] if frame.precision else None,
        frame.sizes,
        frame.phase or None,
        frame.stack or "eager",
    )


def _analyzed(
    model: str,
    hardware: str,
    batches: tuple[int | None, ...],
    precision: str | None,
    sizes: tuple[tuple[str, int], ...],
    phase: str | None,
    stack: str,
) -> tuple[Analysis, ...]:
    from gambrel.api import Question, answer

    return answer(
        Question(
            model=model,
            hardware=hardware,
            batches=batches,
            precision=precision,
            sizes=dict(sizes),
            phase=phase,
            stack=stack,
        )
    )


_kept = lru_cache(maxsize=_KEPT)(_analyzed)


def forget() -> None:
    """Drops what is kept, as when the conversation starts."""
    _kept.cache_clear()
