"""Rules for what was computed: from a timeline to a line of a diagnosis, or nothing."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from gambrel.analysis.samples.diagnosis import DiagnosisItem
from gambrel.traces.diagnose.item import enough, item
from gambrel.traces.diagnose.timeline import TraceSpan, TraceTimeline
from gambrel.traces.diagnose.waits import communication, data_loading, gaps, syncs
from gambrel.units import format_percent, format_si

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
_LAYOUT: Final = frozenset({"aten::contiguous", "aten::reshape", "aten::clone"})
_CASTS: Final = frozenset({"aten::to", "aten::_to_copy"})
_LAYOUT_KERNELS: Final = ("nchwToNhwc", "nhwcToNchw", "transpose", "permute")
_MATMULS: Final = frozenset({"aten::mm", "aten::addmm"})
#: Kernels that work in fp32 on CUDA cores.
_WIDE_KERNELS: Final = ("sgemm", "f32f32", "scudnn")
#: Calls of an op in a chain that could be one kernel, at least.
_CHAIN: Final = 3
#: Multiples that vector units and matrix engines want of the sides of a product.
_ALIGNED: Final = 8
_LARGE: Final = 64
#: Later calls of the same op are slower by this factor, in so many calls at least.
_SHORT_S: Final = 5e-6
#: Torch's names of formats.
_NAMES: Final = {"double": "fp64", "float": "fp32", "c10::Half": "fp16", "c10::BFloat16": "bf16"}
_SLOWER: Final = 1.25
_CALLS: Final = 12


def chains(line: TraceTimeline) -> list[DiagnosisItem]:
    """Element-wise ops one after another on the same shape: one kernel would move the data once."""
    saved, length, runs = 0.0, 0, 0
    run: list[TraceSpan] = []

    def close() -> None:
        nonlocal saved, length, runs
        if len(run) >= _CHAIN:
            times = [op.busy_s for op in run]
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
    if not runs or not enough(saved, line):
        return []
    evidence = f"{length:,} element-wise ops in {runs:,} chains on the same data"
    change = "fuse them: torch.compile, or one kernel for the chain"
    return item("small ops to fuse", saved, line, evidence, change)


def precision(line: TraceTimeline) -> list[DiagnosisItem]:
    """GEMMs in a wider format than they need."""
    wide = "float" if line.kernels else "double"
    found = [op for op in line.ops if op.name in _PRODUCTS_NAMES and wide in op.types[:2]]
    found = [op for op in found if not set(op.parents) & _PRODUCTS_NAMES]
    spent = sum(op.busy_s for op in found)
    if line.kernels:
        spent = sum(k.time_s for k in line.kernels if any(n in k.name for n in _WIDE_KERNELS))
    if not found or not enough(spent / 2, line):
        return []
    name, better = ("fp32", "TF32 or bf16") if line.kernels else ("fp64", "fp32")
    evidence = f"{len(found):,} matmuls or convolutions in {name}, {format_si(spent, 's')}"
    change = f"{better}: at least twice the rate and half the bytes"
    return item("wrong precision", spent / 2, line, evidence, change, _largest(found, name))


def _largest(found: Sequence[TraceSpan], dtype: str) -> str:
    """The matmul that takes most time, as ``gambrel judge`` takes it; empty where none is."""
    for op in sorted(found, key=lambda op: -op.busy_s):
        sides = [shape for shape in op.dims if len(shape) == 2][-2:]
        if op.name in _MATMULS and len(sides) == 2 and sides[0][1] == sides[1][0]:
            (m, k), n = sides[0], sides[1][1]
            return f"matmul:m={m},n={n},k={k},{dtype}"
    return ""


def layout(line: TraceTimeline) -> list[DiagnosisItem]:
    """Copies that only change the order in memory."""
    found = [
        op
        for op in line.ops
        if op.name == "aten::copy_"
        and set(op.parents) & (_LAYOUT | _CASTS)
        and not set(op.parents) & _PRODUCTS_NAMES
        and len(set(op.types[:2])) < 2
    ]
    found += [k for k in line.kernels if any(n in k.name for n in _LAYOUT_KERNELS)]
    change = "keep one layout (channels_last, or a transposed operand) and drop contiguous()"
    return _copies(found, line, "layout transposes", change)


def casts(line: TraceTimeline) -> list[DiagnosisItem]:
    """Copies that only change the number format."""
    found = [op for op in line.ops if op.name == "aten::copy_" and set(op.parents) & _CASTS]
    found = [op for op in found if len(set(op.types[:2])) > 1]
    change = "keep tensors in the format that the products take, cast weights once"
    return _copies(found, line, "format conversions", change)


def _copies(
    found: Sequence[TraceSpan], line: TraceTimeline, cause: str, change: str
) -> list[DiagnosisItem]:
    spent = sum(span.busy_s or span.time_s for span in found)
    if not found or not enough(spent, line):
        return []
    evidence = f"{len(found):,} copies, {format_si(spent, 's')}"
    return item(cause, spent, line, evidence, change)


def unaligned(line: TraceTimeline) -> list[DiagnosisItem]:
    """Matmuls with sides that no vector width divides; what padding gives must be measured."""
    found = [
        op
        for op in line.ops
        if op.name in {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
        and any(side > _LARGE and side % _ALIGNED for shape in op.dims[:3] for side in shape[-2:])
    ]
    spent = sum(op.busy_s for op in found)
    if not found or not enough(spent, line):
        return []
    sides = Counter(n for op in found for s in op.dims[:3] for n in s[-2:] if n % _ALIGNED)
    odd = ", ".join(str(side) for side, _ in sides.most_common(3))
    evidence = f"{len(found):,} matmuls with sides of {odd}, {format_si(spent, 's')}"
    change = f"pad to a multiple of {_ALIGNED} (64 for tensor cores); what it gives is not known"
    dtype = _NAMES.get(found[0].types[-1] if found[0].types else "", "fp32")
    return item("unaligned shapes", None, line, evidence, change, _largest(found, dtype))


def short_kernels(line: TraceTimeline) -> list[DiagnosisItem]:
    """Short kernels: their start and end cost as much as their work."""
    short = [k for k in line.kernels if k.time_s < _SHORT_S]
    spent = sum(k.time_s for k in short)
    if not short or not enough(spent, line):
        return []
    evidence = f"{len(short):,} kernels shorter than 5 µs, {format_si(spent, 's')}"
    change = "fuse them, or give each more work: larger batches"
    return item("short kernels", spent / 2, line, evidence, change)


def occupancy(line: TraceTimeline) -> list[DiagnosisItem]:
    """Kernels with fewer blocks than the GPU has multiprocessors: the others have nothing to do."""
    few = [k for k in line.kernels if k.blocks is not None and 0 < k.blocks < 1]
    idle = sum(k.time_s * (1 - (k.blocks or 0.0)) for k in few)
    if not enough(idle, line):
        return []
    spent = format_si(sum(k.time_s for k in few), "s")
    evidence = f"{len(few):,} kernels with fewer blocks than multiprocessors, {spent}"
    change = "split the work into more blocks (split-K, smaller tiles), larger batches"
    return item("low occupancy", idle, line, evidence, change)


def throttling(line: TraceTimeline) -> list[DiagnosisItem]:
    """The same op on the same shapes gets slower in the course of the recording.

    What else a machine does makes some calls slow; a lower clock makes all calls of most ops slow.
    So the fast end of the last third is held against the middle of the first.
    """
    groups: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for span in line.kernels or line.ops:
        groups[span.name, span.dims].append(span.time_s if line.kernels else span.own_s)
    excess = fair = total = steady = 0.0
    for times in groups.values():
        third = len(times) // 3
        if len(times) < _CALLS or not enough(sum(times), line):
            continue
        early, late = statistics.median(times[:third]), sorted(times[-third:])[third // 4]
        if late <= _SLOWER * early:
            steady += sum(times)
            continue
        excess += max(sum(times) - early * len(times), 0.0)
        fair += early * len(times)
        total += sum(times)
    if not fair or steady > total or not enough(excess, line):
        return []
    more = format_percent(total / fair - 1)
    evidence = f"the same calls take {more} longer than in the first third"
    change = "look at clock, power and temperature, and at what else runs on the machine"
    return item("clock throttling", excess, line, evidence, change)


RULES: Final[tuple[Callable[[TraceTimeline], list[DiagnosisItem]], ...]] = (
    *(data_loading, communication, gaps, chains, precision, layout, casts, unaligned, syncs),
    *(short_kernels, occupancy, throttling),
)
