"""One line of a diagnosis, and when it is worth one."""

from __future__ import annotations

from typing import Final

from gambrel.analysis.samples.diagnosis import DiagnosisItem
from gambrel.traces.diagnose.timeline import TraceTimeline

#: What takes less of the whole is not worth a line.
LEAST: Final = 0.03


def item(
    cause: str, saves_s: float | None, line: TraceTimeline, evidence: str, change: str, op: str = ""
) -> list[DiagnosisItem]:
    """A cause, with a share of the whole where its time is known.

    Args:
        cause: In two or three words.
        saves_s: What removing it gives back at most.
        line: What was recorded.
        evidence: What was seen.
        change: What to do.
        op: The op that the cause is about, as ``gambrel judge`` takes it.
    """
    share = None if saves_s is None else saves_s / line.whole_s
    return [
        DiagnosisItem(
            cause=cause,
            saves_s=saves_s,
            saves_share=share,
            evidence=evidence,
            change=change,
            command=op,
        )
    ]


def enough(seconds: float, line: TraceTimeline) -> bool:
    """Whether a time is worth a line."""
    return seconds > 0 and seconds >= LEAST * line.whole_s
