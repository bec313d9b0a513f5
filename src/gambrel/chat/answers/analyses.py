"""What answers rest on: analyses, advice and fleets; those of the last turns are kept."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from gambrel.analysis.result import Analysis
from gambrel.chat.frame import Frame
from gambrel.chat.names import names

if TYPE_CHECKING:
    from gambrel.advise.recommend import Advice
    from gambrel.analysis.estimate.constants import Calibration

#: Questions whose analyses are kept: "why?" and "what if int8?" ask again about the last one.
_KEPT: Final = 8


def analyses_of(frame: Frame) -> tuple[Analysis, ...]:
    """The analyses of a frame's model on its device, one for each batch.

    What is built in cannot change between two turns; a file can, and is read again.

    Raises:
        GambrelError: What the question names cannot be analyzed as asked.
    """
    built_in = all(names().find(name) for name in (frame.models[0], frame.hardware[0]))
    analyze = _kept if built_in else _analyzed
    return analyze(
        frame.models[0],
        frame.hardware[0],
        tuple(frame.batch) or None,
        frame.precision[0] if frame.precision else None,
        frame.sizes,
        frame.phase or None,
        frame.runtime or None,
    )


def _analyzed(
    model: str,
    hardware: str,
    batches: tuple[int, ...] | None,
    precision: str | None,
    sizes: tuple[tuple[str, int], ...],
    phase: str | None,
    runtime: str | None,
) -> tuple[Analysis, ...]:
    from gambrel.analysis.question import ask
    from gambrel.api.analyze import answers

    given = {
        "model": model,
        "hardware": hardware,
        "batch_size": batches,
        "precision": precision,
        "sizes": dict(sizes),
        "phase": phase,
        "runtime": runtime,
    }
    return answers(ask("analyze", given))


_kept = lru_cache(maxsize=_KEPT)(_analyzed)


#: Analysis, the user's own constants, and what was advised.
_advised: list[tuple[Analysis, Calibration | None, Advice]] = []
_subjects: dict[str, Any] = {}


def advice_of(analysis: Analysis) -> Advice:
    """What to change; of the analyses of the last turns it is known.

    Args:
        analysis: With a workload and a bound time.
    """
    from gambrel.advise.recommend import advise
    from gambrel.analysis.estimate.store import load

    calibration = load()
    for known, constants, advice in _advised:
        if known is analysis and constants == calibration:
            return advice
    _advised[:] = [(analysis, calibration, advise(analysis, calibration)), *_advised[: _KEPT - 1]]
    return _advised[0][2]


def subjects_of(model: str) -> dict[str, Any] | None:
    """What earlier selections prepared; None for a model that can change between two turns."""
    if not names().find(model):
        return None
    if len(_subjects) >= _KEPT:
        _subjects.clear()
    return _subjects


def forget() -> None:
    """Drops what is kept, as when the conversation starts."""
    _kept.cache_clear()
    _advised.clear()
    _subjects.clear()
