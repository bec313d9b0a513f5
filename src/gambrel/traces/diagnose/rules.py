"""One rule for each cause: from a timeline to an item, or nothing."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from gambrel.analysis.samples.diagnosis import DiagnosisItem
from gambrel.traces.diagnose.timeline import TraceSpan, TraceTimeline, chosen, outside_s
from gambrel.units import format_percent, format_si

#: What takes less of the whole is not worth a line.
LEAST: Final = 0.03
#: Of the whole; reading one value can stall a pipeline, so counts matter more than CPU time.
_LEAST_SYNCS: Final = 4
_PRODUCTS: Final = ("mm", "bmm", "addmm", "baddbmm", "convolution", "mkldnn_convolution")
_PRODUCTS_NAMES: Final = frozenset(
    {f"aten::{n}" for n in _PRODUCTS}
    | {"aten::_convolution", "aten::cudnn_convolution", "aten::mkldnn_linear", "aten::_mm"}
    | {
        "aten::_scaled_dot_product_flash_attention",
        "aten::thnn_conv2d",
        "aten::slow_conv2d_forward",
    }
)
_POINTWISE: Final = frozenset(
    f"aten::{n}"
    for base in (
        *("add", "sub", "mul", "div", "relu", "gelu", "sigmoid", "tanh", "exp", "neg", "silu"),
        *("clamp", "clamp_min", "pow", "sqrt", "rsqrt", "abs", "where", "maximum", "sin", "cos"),
        *("threshold", "leaky_relu", "addcmul", "lerp", "log", "erf", "reciprocal", "square"),
    )
    for n in (base, f"{base}_")
)
_SYNCS: Final = frozenset(
    {"aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero"}
    | {"aten::equal", "aten::masked_select", "aten::unique2"}
)
_WAITS: Final = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
_LAYOUT: Final = frozenset({"aten::contiguous", "aten::reshape", "aten::clone"})
_CASTS: Final = frozenset({"aten::to", "aten::_to_copy"})
_LAYOUT_KERNELS: Final = ("nchwToNhwc", "nhwcToNchw", "transpose", "permute")
#: Calls of an op in a chain that could be one kernel, at least.
_CHAIN: Final = 3
#: Multiples that vector units and matrix engines want of the sides of a product.
_ALIGNED: Final = 8
_LARGE: Final = 64
#: Later calls of the same op are slower by this factor, in so many calls at least.
_SLOWER: Final = 1.25
_CALLS: Final = 12


def _item(
    cause: str, saves_s: float | None, line: TraceTimeline, evidence: str, change: str, command: str
) -> list[DiagnosisItem]:
    share = None if saves_s is None else saves_s / line.whole_s
    return [
        DiagnosisItem(
            cause=cause,
            saves_s=saves_s,
            saves_share=share,
            evidence=evidence,
            change=change,
            command=command,
        )
    ]


def _enough(seconds: float, line: TraceTimeline) -> bool:
    return seconds >= LEAST * line.whole_s


def _is_loading(span: TraceSpan) -> bool:
    return "DataLoader" in span.name


def data_loading(line: TraceTimeline) -> list[DiagnosisItem]:
    """The main thread inside a data loader's next()."""
    ranges = chosen((*line.ranges, *line.ops), _is_loading)
    spent = outside_s(ranges, ())
    if not ranges or not _enough(spent, line):
        return []
    evidence = f"{len(ranges):,} waits for a DataLoader, {format_si(spent, 's')}"
    change = "more workers, pinned memory, prefetching, a cheaper transform"
    return _item("data loading", spent, line, evidence, change, "run once on one kept batch")


def communication(line: TraceTimeline) -> list[DiagnosisItem]:
    """Collectives while nothing is computed."""
    if not line.communication:
        return []
    busy = line.kernels or [op for op in line.ops if not op.parents]
    exposed = outside_s(line.communication, busy)
    if not _enough(exposed, line):
        return []
    whole = outside_s(line.communication, ())
    evidence = (
        f"{format_si(exposed, 's')} of {format_si(whole, 's')} in collectives with nothing beside"
    )
    change = "overlap them with the backward pass, larger buckets, fewer bytes"
    return _item("unhidden communication", exposed, line, evidence, change, "run on one rank")


def gaps(line: TraceTimeline) -> list[DiagnosisItem]:
    """Time in which neither an op nor a kernel ran, nor a loader or a collective was waited for."""
    explained = [*chosen(line.ranges, _is_loading), *line.communication]
    if line.kernels:
        begin = min(k.start_s for k in line.kernels)
        end = max(k.end_s for k in line.kernels)
        busy, what = [*line.kernels, *explained], "the GPU"
    else:
        begin = min(op.start_s for op in line.main_ops)
        end = max(op.end_s for op in line.main_ops)
        busy, what = [*line.main_ops, *explained], "the main thread"
    idle = outside_s([TraceSpan(name="", start_s=begin, end_s=end)], busy)
    if not _enough(idle, line):
        return []
    count = len(line.kernels) or sum(not op.parents for op in line.main_ops)
    each = format_si(idle / max(count, 1), "s")
    evidence = f"{what} ran no op for {format_si(idle, 's')}: {each} for each of {count:,} ops"
    change = "torch.compile or CUDA graphs, larger batches, less Python in the loop"
    command = "gambrel profile model.py:build --compile --compare"
    return _item("gaps between launches", idle, line, evidence, change, command)


def chains(line: TraceTimeline) -> list[DiagnosisItem]:
    """Element-wise ops one after another on the same shape: one kernel would move the data once."""
    saved, length, runs = 0.0, 0, 0
    run: list[TraceSpan] = []

    def close() -> None:
        nonlocal saved, length, runs
        if len(run) >= _CHAIN:
            times = [op.time_s for op in run]
            saved += sum(times) - max(times)
            length, runs = length + len(run), runs + 1

    for op in (o for o in line.main_ops if not any(p.startswith("aten::") for p in o.parents)):
        near = run and op.start_s - run[-1].end_s < run[-1].time_s
        same = near and op.dims[:1] == run[-1].dims[:1]
        if op.name in _POINTWISE and (same or not run):
            run.append(op)
            continue
        close()
        run = [op] if op.name in _POINTWISE else []
    close()
    if not runs or not _enough(saved, line):
        return []
    evidence = f"{length:,} element-wise ops in {runs:,} chains on the same data"
    change = "fuse them: torch.compile, or one kernel for the chain"
    command = "gambrel what-if MODEL --change fuse"
    return _item("small ops to fuse", saved, line, evidence, change, command)


def precision(line: TraceTimeline) -> list[DiagnosisItem]:
    """GEMMs in a wider format than they need."""
    wide = "float" if line.kernels else "double"
    found = [op for op in line.ops if op.name in _PRODUCTS_NAMES and wide in op.types[:2]]
    found = [op for op in found if not set(op.parents) & _PRODUCTS_NAMES]
    spent = sum(op.time_s for op in found)
    if line.kernels:
        spent = sum(k.time_s for k in line.kernels if "sgemm" in k.name or "f32f32" in k.name)
    if not found or not _enough(spent / 2, line):
        return []
    name, better = ("fp32", "TF32 or bf16") if line.kernels else ("fp64", "fp32")
    evidence = f"{len(found):,} matmuls or convolutions in {name}, {format_si(spent, 's')}"
    change = f"{better}: at least twice the rate and half the bytes"
    command = f"gambrel what-if MODEL --change precision={'bf16' if line.kernels else 'fp32'}"
    return _item("wrong precision", spent / 2, line, evidence, change, command)


def layout(line: TraceTimeline) -> list[DiagnosisItem]:
    """Copies that only change the order in memory."""
    found = [
        op
        for op in line.ops
        if op.name == "aten::copy_"
        and set(op.parents) & _LAYOUT
        and not set(op.parents) & _CASTS
        and not set(op.parents) & _PRODUCTS_NAMES
    ]
    found += chosen(line.kernels, lambda k: any(n in k.name for n in _LAYOUT_KERNELS))
    change = "keep one layout (channels_last, or a transposed operand) and drop contiguous()"
    command = "gambrel what-if MODEL --change channels-last"
    return _copies(found, line, "layout transposes", change, command)


def casts(line: TraceTimeline) -> list[DiagnosisItem]:
    """Copies that only change the number format."""
    found = [op for op in line.ops if op.name == "aten::copy_" and set(op.parents) & _CASTS]
    found = [op for op in found if len(set(op.types[:2])) > 1]
    change = "keep tensors in the format that the products take, cast weights once"
    command = "gambrel profile model.py:build"
    return _copies(found, line, "format conversions", change, command)


def _copies(
    found: Sequence[TraceSpan], line: TraceTimeline, cause: str, change: str, command: str
) -> list[DiagnosisItem]:
    spent = sum(span.time_s for span in found)
    if not found or not _enough(spent, line):
        return []
    evidence = f"{len(found):,} copies, {format_si(spent, 's')}"
    return _item(cause, spent, line, evidence, change, command)


def unaligned(line: TraceTimeline) -> list[DiagnosisItem]:
    """Matmuls with sides that no vector width divides; what padding gives must be measured."""
    found = [
        op
        for op in line.ops
        if op.name in {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
        and any(side > _LARGE and side % _ALIGNED for shape in op.dims[:3] for side in shape[-2:])
    ]
    spent = sum(op.time_s for op in found)
    if not found or not _enough(spent, line):
        return []
    sides = Counter(n for op in found for s in op.dims[:3] for n in s[-2:] if n % _ALIGNED)
    odd = ", ".join(str(side) for side, _ in sides.most_common(3))
    evidence = f"{len(found):,} matmuls with sides of {odd}, {format_si(spent, 's')}"
    change = f"pad to a multiple of {_ALIGNED} (64 for tensor cores); what it gives is not known"
    command = "gambrel judge matmul:m=M,n=N,k=K --hardware DEVICE --limits"
    return _item("unaligned shapes", None, line, evidence, change, command)


def syncs(line: TraceTimeline) -> list[DiagnosisItem]:
    """Values that the host reads while the device works."""
    reads = [op for op in line.ops if op.name in _SYNCS and not set(op.parents) & _SYNCS]
    waits = [call for call in line.calls if call.name.startswith(_WAITS)]
    spent = sum(s.time_s for s in (*reads, *waits))
    if len(reads) < _LEAST_SYNCS and not _enough(spent, line):
        return []
    evidence = f"{len(reads):,} values read by the host, {len(waits):,} waits for the device"
    change = "read losses and metrics every so many steps; no nonzero() or item() in the loop"
    command = "torch.cuda.set_sync_debug_mode('warn')"
    return _item("host syncs", spent, line, evidence, change, command)


def occupancy(line: TraceTimeline) -> list[DiagnosisItem]:
    """Short kernels: their start and end cost as much as their work."""
    short = [k for k in line.kernels if k.time_s < 5e-6]
    spent = sum(k.time_s for k in short)
    if not short or not _enough(spent, line):
        return []
    evidence = f"{len(short):,} kernels shorter than 5 µs, {format_si(spent, 's')}"
    change = "fuse them, or give each more work: larger batches"
    return _item("short kernels", spent / 2, line, evidence, change, "gambrel import TRACE")


def throttling(line: TraceTimeline) -> list[DiagnosisItem]:
    """The same op on the same shapes gets slower in the course of the recording."""
    groups: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for span in line.kernels or line.ops:
        groups[span.name, span.dims].append(span.time_s if line.kernels else span.own_s)
    excess = fair = total = 0.0
    for times in groups.values():
        third = len(times) // 3
        if len(times) < _CALLS or not _enough(sum(times), line):
            continue
        early, late = statistics.median(times[:third]), statistics.median(times[-third:])
        fair += early * len(times)
        total += sum(times)
        excess += max(late - early, 0.0) * third if late > _SLOWER * early else 0.0
    if not fair or not _enough(excess, line):
        return []
    evidence = (
        f"the same calls take {format_percent(total / fair - 1)} longer than at the beginning"
    )
    change = "look at clock, power and temperature, and at what else runs on the machine"
    return _item("clock throttling", excess, line, evidence, change, "nvidia-smi -q -d CLOCK,POWER")


RULES: Final[tuple[Callable[[TraceTimeline], list[DiagnosisItem]], ...]] = (
    *(data_loading, communication, gaps, chains, precision, layout, casts, unaligned, syncs),
    *(occupancy, throttling),
)
