"""What a report proposes: only what runtime and device take, with the best gain where computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gambrel.analysis.result import Analysis
from gambrel.device.roofs import resolve
from gambrel.dtypes import BITS, PRECISIONS, width_bytes
from gambrel.report.terms import limiter_of
from gambrel.runtimes import Runtime, candidates, following, runtimes, takes


def next_step(analysis: Analysis, changes: Sequence[Any], *, on_page: bool) -> str:
    """The sentence, the same on every face; its end says the best gain, or how to get it.

    Args:
        analysis: As it stands.
        changes: Recommendations, where they were computed.
        on_page: Of a page, on which no option of the command line helps.
    """
    if analysis.on_host:
        return "Next: replace the ops that run on the host by ops that the compiler takes"
    gains = ""
    if changes:
        gains = f" ({changes[0].change}: {changes[0].gain:.2f}× per item)"
    elif analysis.workload is not None and not on_page:
        gains = " (gains: --recommend)"
    if analysis.footprint.fits is False:
        return "Next: a smaller batch, lower precision or more devices" + gains * bool(changes)
    if analysis.roofline_time_s is None:
        return "Next: give the missing roofs" + ("" if on_page else " (--peak, --bandwidth)")
    return f"Next: {_helps(analysis)}{gains}"


def _helps(analysis: Analysis) -> str:
    """What helps against what limits."""
    limiter = limiter_of(analysis) or str(analysis.bound)
    used = runtimes().get(analysis.runtime)
    if limiter == "compute":
        if _narrower(analysis, used, faster=True):
            return "lower precision raises the roof"
        others = "another runtime" if _others(analysis, used) else "another device"
        return f"less work, e.g. pruning, or {others}: no format here is faster"
    if limiter == "memory":
        return _against_traffic(analysis, used)
    if limiter == "network":
        return _against_sending(analysis)
    if limiter == "launches":
        ways = _ways(analysis, used, graph="graphs", fused="fusion", batch="a larger batch")
        what = "launches fewer kernels per item"
        return f"{ways} {what}" if ways else f"a model of fewer, larger ops {what}"
    if limiter == "host":
        ways = _ways(analysis, used, graph="graphs", fused="a compiled runtime")
        if ways:
            return f"{ways} takes the host out of the way"
        batch = _ways(analysis, used, batch="a larger batch shares what every call costs")
        return batch or "fewer calls: each costs this, whatever it computes"
    return "see what would change it"


def _against_traffic(analysis: Analysis, used: Runtime | None) -> str:
    if not any(m.byte_per_s for m in analysis.hardware.memory):
        return "smaller activations, e.g. of a smaller input, pass through the chip sooner"
    narrower = "lower precision" if _narrower(analysis, used, faster=False) else ""
    ways = _ways(analysis, used, first=narrower, fused="fusion", batch="a larger batch")
    return f"{ways or 'a smaller model or input'} moves fewer bytes per item"


def _against_sending(analysis: Analysis) -> str:
    if any(op.kind == "collective" for op in analysis.ops):
        return "fewer devices or overlap with compute communicates less"
    return "narrower or smaller inputs and weights cross the link to the host sooner"


def _ways(
    analysis: Analysis,
    used: Runtime | None,
    *,
    first: str = "",
    graph: str = "",
    fused: str = "",
    batch: str = "",
) -> str:
    """Of the ways that were named those that are open here, as a list in words."""
    device = analysis.hardware
    records = used is None or following(used, "recorded", device) is not None
    fuses = used is None or following(used, "fused", device) is not None
    found = [
        way
        for way, there in (
            (first, True),
            (graph, records),
            (fused, fuses),
            (batch, _takes_more(analysis, used)),
        )
        if way and there
    ]
    *others, last = found or [""]
    return f"{', '.join(others)} or {last}" if others else last


def _others(analysis: Analysis, used: Runtime | None) -> bool:
    """Whether anything is known of another runtime there."""
    if used is None:
        return False
    language, training = used.language is True, analysis.model.training
    there = candidates(analysis.hardware, language=language, training=training)
    precision = analysis.model.precision
    return any(r.constants and r.id != used.id and takes(r, precision) for r in there)


def _takes_more(analysis: Analysis, used: Runtime | None) -> bool:
    """Whether more items at once are possible."""
    now = analysis.model.symbols.get("batch")
    most = None if used is None else used.max_batch
    return now is not None and (most is None or now < most)


def _narrower(analysis: Analysis, used: Runtime | None, *, faster: bool) -> bool:
    """Whether the device has an engine for a narrower format that the runtime takes.

    Args:
        analysis: As it stands; formats part by part stay as they are.
        used: Its runtime; None: any.
        faster: Whether the roof must be higher, too.
    """
    now = analysis.model.precision
    if now not in BITS:
        return False
    peak = analysis.total.peak_flop_per_s or 0.0
    for precision in PRECISIONS:
        roof = resolve(analysis.hardware, "matrix", precision)
        if (
            roof is not None
            and roof.dtype == precision
            and 1 <= width_bytes(precision) < width_bytes(now)
            and (used is None or takes(used, precision))
            and not (used is not None and used.unpacks(precision, analysis.hardware))
            and not (faster and roof.flop_per_s <= peak)
        ):
            return True
    return False
