"""What was shown of expected times: rows, errors and ranges by runtime, device and class of op.

One table says it for every runtime; a prediction is called ``high`` only where a line of it is good
enough (`shows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from gambrel.analysis.estimate.constants import Calibration, Cycles, Shares
from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.language_constants import LanguageRates

#: Share of the held-out rows that lie inside the range, and their mean error, from which on a
#: prediction may be called high. The range aims at 90 % and was found within five points of it on
#: sets of some hundred rows; few rows scatter more.
_INSIDE: Final = 0.8
_ERROR: Final = 0.25
#: The same of the rows in one bin of times, whose range is its own.
_INSIDE_BIN: Final = 0.85
#: Median width of the range (high / low) from which on it says little: fallback kernels.
_LOOSE: Final = 5.0
#: Range of shares: from the 5th to the 95th percentile of the runs that were left out.
_CENTRAL: Final = 0.9


class ErrorLine(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of one class of op, or of whole runs, on one device or family.

    Attributes:
        what: Class of op, or ``whole runs``.
        formats: Number formats.
        device: Id, or the family.
        rows: Measurements that were held out.
        error: Their mean absolute error, 1.
        inside: Share of them inside the range; None where it was not kept.
        confidence: The best that a prediction from it is called.
    """

    what: str
    formats: str
    device: str
    rows: int
    error: float
    inside: float | None
    confidence: str


def shows(held_out: HeldOut) -> bool:
    """Whether held-out rows bear out a high confidence."""
    return held_out.inside >= _INSIDE and held_out.mape <= _ERROR


def misses(held_out: HeldOut | None) -> tuple[float | None, ...]:
    """Share inside the range in the bins of times in which it is too small; None in the others."""
    shares = () if held_out is None else held_out.inside_by_bin
    return tuple(s if s is not None and s < _INSIDE_BIN else None for s in shares)


def level_of(held_out: HeldOut | None) -> str:
    """The best that a prediction may be called: low where kernels differ beyond any formula."""
    if held_out is None or shows(held_out):
        return "high"
    loose = held_out.mape > _ERROR and (held_out.width or 0.0) > _LOOSE
    return "low" if loose else "medium"


def shown_of(names: Sequence[str], calibration: Calibration) -> tuple[ErrorLine, ...]:
    """What was shown of a runtime.

    Args:
        names: Under which its constants are stored, best first; the first that has any counts.
        calibration: All constants.
    """
    for name in names:
        found = (*_whole(name, calibration), *_kernels(name, calibration))
        if found:
            return found
    return ()


def shares_shown(runtime: str, calibration: Calibration) -> tuple[ErrorLine, ...]:
    """What was shown of a runtime of which only shares of the roofs, or cycles, are known."""
    known: tuple[Shares | Cycles, ...] = (*calibration.shares, *calibration.cycles)
    steps = (line for c in calibration.language if c.runtime == runtime for line in _language(c))
    shares = tuple(
        ErrorLine(
            what="whole runs",
            formats=s.dtype if isinstance(s, Cycles) else "",
            device=", ".join(s.match),
            rows=s.rows,
            error=s.error,
            inside=_CENTRAL,
            confidence=s.confidence,
        )
        for s in known
        if s.runtime == runtime and s.error is not None
    )
    return *shares, *steps


def _language(c: LanguageRates) -> Iterator[ErrorLine]:
    for what, span in (("decoding", c.decode), ("prompts", c.prompts)):
        if span is not None and span.error is not None:
            yield ErrorLine(
                what=what,
                formats=", ".join(c.formats),
                device=", ".join(c.match),
                rows=span.rows,
                error=span.error,
                inside=_CENTRAL,
                confidence=span.confidence,
            )


def _whole(name: str, calibration: Calibration) -> Iterator[ErrorLine]:
    for chip in calibration.tiled:
        if chip.runtime == name and chip.held_out is not None:
            yield _line("whole runs", "", chip.device, chip.held_out, chip.confidence)
    for streamed in calibration.streams:
        held = streamed.held_out
        if streamed.runtime == name and held is not None:
            yield _line("whole runs", "", streamed.device, held, streamed.confidence)
    for one in calibration.engines:
        if one.runtime == name and one.held_out is not None:
            where = f"{len(one.devices)} devices ({', '.join(one.match)})"
            formats = ", ".join(one.formats)
            yield _line("whole runs", formats, where, one.held_out, one.confidence)


def _kernels(name: str, calibration: Calibration) -> Iterator[ErrorLine]:
    for s in calibration.sets:
        if s.framework == name and s.held_out is not None:
            best = s.confidence or level_of(s.held_out)
            op = s.form.removeprefix("torch_").replace("_", " ")
            yield _line(op, ", ".join(s.formats), s.device, s.held_out, best)


def _line(what: str, formats: str, device: str, held: HeldOut, confidence: str) -> ErrorLine:
    return ErrorLine(
        what=what,
        formats="" if formats == "any" else formats,
        device=device,
        rows=held.points,
        error=held.mape,
        inside=held.inside,
        confidence=confidence,
    )
