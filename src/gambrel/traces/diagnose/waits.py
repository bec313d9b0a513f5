"""Rules for time in which nothing was computed: loading, communication, gaps, host syncs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from itertools import pairwise
from typing import Final, NamedTuple

from gambrel.analysis.samples.diagnosis import DiagnosisItem
from gambrel.traces.diagnose.item import enough, item
from gambrel.traces.diagnose.timeline import TraceSpan, TraceTimeline, covered_s, outside_s
from gambrel.units import format_si

#: A gap between two ops that is longer is work of the program itself: eager mode launches an op in
#: some microseconds, under a profiler in some tens.
_HOST_S: Final = 100e-6
#: Occurrences of a pair of ops from which its gaps are judged together. A few long ones among short
#: ones are the system's, which ran something else; more than this share are the program's, each up
#: to a multiple of their median.
_USUAL: Final = 4
_OFTEN: Final = 0.05
_PAUSE: Final = 3.0
#: Values read, and ops for each of them: a loss every step of some hundred ops is no cause.
_LEAST_READS: Final = 4
_OPS_PER_READ: Final = 50
_SYNCS: Final = frozenset(
    {"aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero"}
    | {"aten::equal", "aten::masked_select", "aten::unique2", "aten::_unique2"}
)
_WAITS: Final = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize",
                 "hipStreamSynchronize", "hipDeviceSynchronize", "hipEventSynchronize")  # fmt: skip


class OpGap(NamedTuple):
    """Time between two ops of the busiest thread.

    Attributes:
        start_s: Begin.
        end_s: End.
        before: Name of the op before.
        after: Name of the op after.
    """

    start_s: float
    end_s: float
    before: str
    after: str

    @property
    def time_s(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


def data_loading(line: TraceTimeline) -> list[DiagnosisItem]:
    """The main thread inside a data loader's next()."""
    spent = outside_s(line.loading, ())
    if not enough(spent, line):
        return []
    evidence = f"{line.waits:,} waits for a DataLoader, {format_si(spent, 's')}"
    change = "more workers, pinned memory, prefetching, a cheaper transform"
    return item("data loading", spent, line, evidence, change)


def communication(line: TraceTimeline) -> list[DiagnosisItem]:
    """Collectives while nothing is computed, and the waits of the main thread for them."""
    if not line.communication:
        return []
    busy = line.kernels or [op for op in line.ops if not op.parents]
    spans = [*line.communication, *_waits_for_others(line)]
    exposed = outside_s(spans, busy)
    if not enough(exposed, line):
        return []
    whole = format_si(outside_s(spans, ()), "s")
    evidence = f"{format_si(exposed, 's')} of {whole} in collectives with nothing beside"
    change = "overlap them with the backward pass, larger buckets, fewer bytes"
    return item("unhidden communication", exposed, line, evidence, change)


def _waits_for_others(line: TraceTimeline) -> list[TraceSpan]:
    """Gaps of the main thread of a processor in which a collective runs somewhere."""
    if line.kernels:
        return []
    return [
        TraceSpan(name="wait", start_s=gap.start_s, end_s=gap.end_s)
        for gap in _gaps(line, line.loading)
        if any(c.start_s < gap.end_s and gap.start_s < c.end_s for c in line.communication)
    ]


def _gaps(line: TraceTimeline, explained: tuple[TraceSpan, ...]) -> list[OpGap]:
    """Times in which the busiest thread ran no op and waited for nothing that is known."""
    spans = sorted(
        [*(op for op in line.main_ops if not op.parents), *explained], key=lambda s: s.start_s
    )
    found, end, name = [], spans[0].start_s if spans else 0.0, ""
    for span in spans:
        if span.start_s > end:
            found.append(OpGap(end, span.start_s, name, span.name))
        if span.end_s >= end:
            end, name = span.end_s, span.name
    return found


def gaps(line: TraceTimeline) -> list[DiagnosisItem]:
    """Time between ops: launching them, or work of the program in between."""
    waits = (*line.loading, *line.communication, *_waits_for_others(line))
    found = _gaps(line, waits)
    host = [gap for gap in found if gap.time_s >= _HOST_S]
    if line.kernels:
        return _idle(line, host, waits)
    launching = sum(gap.time_s for gap in found if gap.time_s < _HOST_S)
    return [
        *_host_code(line, host, _usual_s(found)),
        *_launching(line, launching, "the main thread"),
    ]


def _idle(
    line: TraceTimeline, host: list[OpGap], waits: tuple[TraceSpan, ...]
) -> list[DiagnosisItem]:
    """Time in which a GPU ran nothing, by what the main thread did meanwhile."""
    spans = covered_s([*line.kernels, *waits])
    idle = [TraceSpan(name="", start_s=a[1], end_s=b[0]) for a, b in pairwise(spans)]
    between = [TraceSpan(name="", start_s=gap.start_s, end_s=gap.end_s) for gap in host]
    launching = outside_s(idle, between)
    in_code = outside_s(idle, ()) - launching
    return [*_host_code(line, host, in_code), *_launching(line, launching, "the GPU")]


def _usual_s(gaps: list[OpGap]) -> float:
    """The sum of long gaps, without rare ones between two ops that otherwise follow soon."""
    pairs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for gap in gaps:
        pairs[gap.before, gap.after].append(gap.time_s)
    return sum(map(_long_s, pairs.values()))


def _long_s(times: list[float]) -> float:
    """Seconds of the long gaps between two ops that are the program's."""
    long = [time for time in times if time >= _HOST_S]
    if len(times) < _USUAL:
        return sum(long)
    if len(long) < max(_USUAL, _OFTEN * len(times)):
        return 0.0
    most = _PAUSE * statistics.median(long)
    return sum(min(time, most) for time in long)


def _host_code(line: TraceTimeline, host: list[OpGap], spent: float) -> list[DiagnosisItem]:
    if not host or not enough(spent, line):
        return []
    longest = max(host, key=lambda gap: gap.time_s)
    evidence = (
        f"{len(host):,} times the program ran no op for {format_si(_HOST_S, 's')} or more, "
        f"{format_si(spent, 's')} in all; the longest between {longest.before or 'the start'} and "
        f"{longest.after}"
    )
    change = "move it out of the loop, to another process, or into tensors"
    return item("Python between ops", spent, line, evidence, change)


def _launching(line: TraceTimeline, spent: float, what: str) -> list[DiagnosisItem]:
    if not enough(spent, line):
        return []
    count = len(line.kernels) or sum(not op.parents for op in line.main_ops)
    each = format_si(spent / max(count, 1), "s")
    evidence = f"{what} ran no op for {format_si(spent, 's')}: {each} for each of {count:,} ops"
    change = "torch.compile or CUDA graphs, larger batches, fewer and larger ops"
    return item("gaps between launches", spent, line, evidence, change)


def syncs(line: TraceTimeline) -> list[DiagnosisItem]:
    """Values that the host reads while the device works."""
    reads = [op for op in line.main_ops if op.name in _SYNCS and not set(op.parents) & _SYNCS]
    waits = [call for call in line.calls if call.name.startswith(_WAITS)]
    spent = outside_s((*reads, *waits), line.kernels)
    ops = sum(not op.parents for op in line.main_ops)
    often = len(reads) >= _LEAST_READS and len(reads) * _OPS_PER_READ >= ops
    if not often and not (line.kernels and enough(spent, line)):
        return []
    evidence = f"{len(reads):,} values read by the host, {len(waits):,} waits for the device"
    if not line.kernels:
        evidence += "; a GPU's queue would run empty at each"
    change = "read losses and metrics every so many steps; no nonzero() or item() in the loop"
    return item("host syncs", spent, line, evidence, change)
