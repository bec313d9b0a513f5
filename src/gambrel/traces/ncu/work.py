"""FLOP of a kernel from its counters, by the recipes in docs/traces.md, most trusted first.

FMA = 2 FLOP. Counting tensor work by instructions needs the shape of the instruction, which no
counter tells; it is used only where the kernel's name tells it, never with one factor for a chip.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from gambrel.analysis.samples import Known, MeasuredWork
from gambrel.analysis.samples.warn import IDLE_PIPE
from gambrel.traces.ncu.values import Metrics, MetricSchema, MetricSum


class KernelWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one kernel.

    Attributes:
        state: Of the work as a whole.
        why: Why it is missing or not countable.
        work: What was counted.
        notes: About it.
    """

    state: Known
    why: str = ""
    work: tuple[MeasuredWork, ...] = ()
    notes: tuple[str, ...] = ()


#: FLOP per thread instruction on the CUDA cores: format → counter → FLOP. Half instructions are
#: counted as packed pairs (half2): 128 HFMA/clk/SM x 4 x 108 SM x 1.41 GHz = 78 TFLOP/s is the
#: datasheet's figure for the A100.
_VECTOR: Final[dict[str, dict[str, int]]] = {
    "fp64": {"dadd": 1, "dmul": 1, "dfma": 2},
    "fp32": {"fadd": 1, "fmul": 1, "ffma": 2},
    "fp16": {"hadd": 2, "hmul": 2, "hfma": 4},
}
#: Counters that exist on some chips only; absent means none of that kind, not unknown.
_EXTRA: Final[dict[str, dict[str, int]]] = {
    # Uniform instructions (ufadd, ...) of GB202 work for a whole warp of 32 threads.
    "fp32": {"fadd2": 2, "fmul2": 2, "ffma2": 4, "ufadd": 32, "ufmul": 32, "uffma": 64},
    "fp8": {"qadd4": 4, "qmul4": 4, "qfma4": 8},
}

_THREAD: Final = "sm__sass_thread_inst_executed_op_{}_pred_on"
_TWICE: Final = "derived__smsp__sass_thread_inst_executed_op_{}_pred_on_x2"

#: Chips on which the compiler moves constants with HFMA2.MMA: GA100, GA10B, GH100.
_CONSTANT_MOVES: Final = frozenset({"8.0", "8.7", "9.0"})
_HALF_NAME: Final = re.compile(r"half|bf16|bfloat|fp16|f16|_h\d|h\d{3}", re.IGNORECASE)
_SUSPECT_SHARE: Final = 0.05
#: Share of a kernel's instructions from which on half FMA are its work, not moves.
_BULK: Final = 0.5
_WARP: Final = 32

_PATH: Final = "sm__ops_path_tensor_"
_PIPE: Final = "sm__inst_executed_pipe_tensor"
#: Sources as the counters name them → number format. Turing's joint counter runs fp16 only; the
#: joint fp4/fp6/fp8 counter of Blackwell is one path of one rate.
_SOURCES: Final[dict[str, str]] = {
    "fp4_fp6_fp8": "fp8",
    "fp4_fp6": "fp6",
    "fp16_bf16_tf32": "fp16",
}
_SUFFIX: Final = re.compile(
    r"(?:op_(?P<op>[a-z0-9]+)_)?src_(?P<src>[a-z0-9]+(?:_(?:bf|tf|fp)\d+)*?)"
    r"(?:_dst_(?P<dst>[a-z0-9]+))?(?P<sparse>_sparsity_(?:on|off))?"
)

#: fp16 accumulation on Volta: the one factor that no known operation count confirms.
_INFERRED: Final = r"h884"

#: SASS shape in a kernel's name → FLOP of one warp instruction, 2*M*N*K, by generation. Only
#: shapes whose factor does not depend on anything else; warpgroup instructions have none.
_SHAPES: Final[tuple[tuple[str, re.Pattern[str], int, str], ...]] = (
    ("7.0", re.compile(r"s884"), 512, "fp16"),
    ("7.0", re.compile(_INFERRED), 1024, "fp16"),
    ("7.5", re.compile(r"[sh]1688"), 2048, "fp16"),
    ("7.5", re.compile(r"i8816"), 2048, "int8"),
    ("8", re.compile(r"16816"), 4096, "fp16"),
    ("8", re.compile(r"tf32.*s1688|s1688.*tf32"), 2048, "tf32"),
    ("8", re.compile(r"[sh]1688"), 2048, "fp16"),
    ("8", re.compile(r"16832"), 8192, "int8"),
    ("8", re.compile(r"d884"), 512, "fp64"),
)
_BF16_NAME: Final = re.compile(r"bf16|bfloat", re.IGNORECASE)


def count(metrics: Metrics, kernel: str, cc: str) -> KernelWork:
    """Counts the FLOP of one kernel.

    Args:
        metrics: Its values.
        kernel: Its name, for the shape of tensor instructions.
        cc: Compute capability, e.g. ``"8.0"``; empty where the file does not say.
    """
    vector, notes = _vector(metrics)
    state, why, matrix = _matrix(metrics, kernel, cc)
    if cc in _CONSTANT_MOVES:
        vector = _mark_constant_moves(vector, matrix, metrics, kernel)
    if state is Known.NOT_COUNTABLE:
        return KernelWork(state=state, why=why, work=vector, notes=notes)
    if not vector and not matrix:
        return KernelWork(state=Known.MISSING, why=_missing(metrics), notes=notes)
    if state is Known.MISSING:
        notes = (*notes, "tensor-core work was not collected; FLOP are those of the CUDA cores")
    elif why:
        notes = (*notes, why)
    return KernelWork(state=Known.COUNTED, work=(*matrix, *vector), notes=notes)


def _missing(metrics: Metrics) -> str:
    if metrics.time_s is None and any(".per_second" in name for name in metrics.values):
        return "the file holds rates and shares, no time and no sums of instructions"
    return "no FLOP counters were collected; 'gambrel collect ncu' prints the command that does"


_Vector = tuple[tuple[MeasuredWork, ...], tuple[str, ...]]
#: Counters of one format: FLOP an event with the name of a recorded sum; a note where some lack.
_Part = tuple[str, tuple[tuple[int, str], ...], tuple[str, ...]]


def _vector(metrics: Metrics) -> _Vector:
    plan = _plan(metrics.shape)
    if plan is None:
        return _by_rates(metrics)
    values, found = metrics.values, []
    notes: list[str] = []
    for dtype, parts, lacking in plan:
        total = 0.0
        for factor, name in parts:
            total += factor * values[name]
        found.append(MeasuredWork(work_class="vector", dtype=dtype, flops=round(total), how=_SASS))
        if lacking or dtype == "fp16":
            notes += (*lacking, *_packed(found[-1]))
    return tuple(found), tuple(notes)


def _by_rates(metrics: Metrics) -> _Vector:
    """Where some counter has no recorded sum: each by the most exact way that the file allows."""
    found = []
    notes: list[str] = []
    for dtype, factors in _present(metrics.bases).items():
        parts = [(f, s) for n, f in factors.items() if (s := _thread_inst(metrics, n)) is not None]
        if parts:
            found.append(_add("vector", dtype, parts))
            notes += (*_lacking(dtype, factors), *_packed(found[-1]))
    return tuple(found), tuple(notes)


def _packed(work: MeasuredWork) -> tuple[str, ...]:
    if work.dtype != "fp16" or not work.flops:
        return ()
    return ("fp16: instructions counted as packed pairs (2, 2, 4 FLOP), an upper limit",)


_SASS: Final = "SASS thread instructions"


@lru_cache(maxsize=4096)
def _plan(shape: MetricSchema) -> tuple[_Part, ...] | None:
    """The counters of each format by their recorded sums; None where one has no recorded sum."""
    plan = []
    for dtype, factors in _present(shape.bases).items():
        names = {n: shape.sums.get(_THREAD.format(n)) for n in factors}
        parts = tuple((factors[n], name) for n, name in names.items() if name is not None)
        if len(parts) < len(factors):
            return None
        plan.append((dtype, parts, _lacking(dtype, factors)))
    return tuple(plan)


def _lacking(dtype: str, factors: dict[str, int]) -> tuple[str, ...]:
    absent = sorted(set(_VECTOR.get(dtype, {})) - set(factors))
    if not absent:
        return ()
    return (f"{dtype}: {', '.join(absent)} not collected; the rest is a lower limit",)


@lru_cache(maxsize=4096)
def _present(bases: frozenset[str]) -> dict[str, dict[str, int]]:
    """The factors of the counters that are there, by format."""
    found: dict[str, dict[str, int]] = {}
    for table in (_VECTOR, _EXTRA):
        for dtype, factors in table.items():
            for name, factor in factors.items():
                if _THREAD.format(name) in bases or _TWICE.format(name) in bases:
                    found.setdefault(dtype, {})[name] = factor
    return found


def _thread_inst(metrics: Metrics, name: str) -> MetricSum | None:
    found = metrics.total(_THREAD.format(name))
    if found is not None or "fma" not in name:
        return found
    # The roofline section exports twice the rate of FMA under a derived name.
    twice = metrics.values.get(_TWICE.format(name))
    cycles = metrics.cycles
    if twice is None or cycles is None:
        return None
    return MetricSum(value=twice / 2 * cycles, how="rate x cycles", error=1e-3)


def _add(work_class: str, dtype: str, parts: Sequence[tuple[int, MetricSum]]) -> MeasuredWork:
    total = off = 0.0
    how = _SASS
    for factor, s in parts:
        total += factor * s.value
        if s.how:
            off += factor * s.value * s.error
            how = how if how.endswith(s.how) else f"{how}, {s.how}"
    return MeasuredWork(
        work_class=work_class,
        dtype=dtype,
        flops=round(total),
        how=how,
        error=off / total if total else 0.0,
    )


def _mark_constant_moves(
    vector: tuple[MeasuredWork, ...],
    matrix: Sequence[MeasuredWork],
    metrics: Metrics,
    kernel: str,
) -> tuple[MeasuredWork, ...]:
    """Flags half instructions that are probably constant moves.

    On these chips HFMA2.MMA runs in the tensor pipe and is counted as a half FMA, whether it
    computes or moves a constant. Where the counters of tensor operations are zero, half FMA without
    half additions and products are moves, unless they are most of what the kernel executes; a
    SiLU in fp32 has one such move for each eleven instructions. Without those counters a few of
    them in a kernel of fp32 are.
    """
    half = next((w for w in vector if w.dtype == "fp16" and w.flops), None)
    half_tensor = any(w.dtype in {"fp16", "bf16"} and w.flops for w in matrix)
    if half is None or half_tensor or _HALF_NAME.search(kernel):
        return vector
    single = sum(w.flops for w in vector if w.dtype == "fp32")
    idle = any(w.dtype == "fp16" for w in matrix) and not any(w.flops for w in matrix)
    if half.flops >= _SUSPECT_SHARE * single and not (idle and _moves_only(metrics)):
        return vector
    return tuple(msgspec.structs.replace(w, suspect=True) if w is half else w for w in vector)


def _moves_only(metrics: Metrics) -> bool:
    """Whether the half instructions can all be moves: FMA alone, and not the bulk of the kernel."""
    counts = {n: _thread_inst(metrics, n) for n in _VECTOR["fp16"]}
    if any(found.value for n, found in counts.items() if found and n != "hfma"):
        return False
    fma, executed = counts["hfma"], metrics.total("sm__inst_executed")
    if fma is None or executed is None:
        return True
    return fma.value < _BULK * _WARP * executed.value


_State = tuple[Known, str, tuple[MeasuredWork, ...]]


@lru_cache(maxsize=4096)
def _has_tensor(bases: frozenset[str]) -> bool:
    """Whether any counter of the tensor cores is there; most exports have none."""
    return any("tensor" in base or "pipe_tc" in base for base in bases)


def _matrix(metrics: Metrics, kernel: str, cc: str) -> _State:
    """Tensor-core work, by the first recipe that the file has the counters for."""
    if not _has_tensor(metrics.bases):
        return Known.MISSING, "", ()
    recipes: tuple[Callable[[Metrics, str, str], _State | None], ...] = (
        _by_operations,
        _by_instructions,
        _by_activity,
    )
    for recipe in recipes:
        found = recipe(metrics, kernel, cc)
        if found is not None:
            return found
    return Known.MISSING, "", ()


def _by_operations(metrics: Metrics, _kernel: str, _cc: str) -> _State | None:
    """``sm__ops_path_tensor_*``: the hardware counts operations.

    Totals, totals by sparsity, parts by instruction, and parts by sparsity overlap; of each source
    format one level is used. Every listed counter of that level is added.
    """
    levels: dict[str, dict[int, list[tuple[bool, MetricSum]]]] = {}
    for base, dtype, rank, sparse in _paths(metrics.shape):
        found = metrics.total(base)
        if found is not None:
            levels.setdefault(dtype, {}).setdefault(rank, []).append((sparse, found))
    if not levels:
        return None
    work = []
    for dtype, ranks in levels.items():
        for sparse in (False, True):
            chosen = [f for s, f in ranks[min(ranks)] if s is sparse]
            if chosen and (not sparse or any(f.value for f in chosen)):
                work.append(_operations(dtype, sparse, chosen))
    executed = metrics.total(_PIPE)
    idle = executed is not None and executed.value > 0 and not any(w.flops for w in work)
    return Known.COUNTED, _IDLE if idle else "", tuple(work)


_IDLE: Final = f"{IDLE_PIPE}: constant moves"
#: Percent of the peak below which an active tensor pipe may move constants only.
_LITTLE: Final = 2.0
_MATRIX_NAME: Final = re.compile(
    r"gemm|gemv|mma|conv|cutlass|xmma|attn|attention|flash|dot|matmul", re.IGNORECASE
)


@lru_cache(maxsize=4096)
def _paths(shape: MetricSchema) -> tuple[tuple[str, str, int, bool], ...]:
    """Counters of operations: base, format, rank (0 for totals), whether on the sparse path."""
    bases = (
        name.partition(".")[0].replace("smsp__", "sm__", 1)
        for name in shape.names
        if "__ops_path_tensor_" in name
        and "_realtime" not in name
        and ".sum" in name
        and ".peak_" not in name
        and ".pct_" not in name
    )
    found = []
    for base in dict.fromkeys(bases):
        match = _SUFFIX.fullmatch(base.removeprefix(_PATH))
        if match is not None:
            dtype = _SOURCES.get(match["src"], match["src"])
            rank = (2 if match["op"] else 0) + (1 if match["sparse"] else 0)
            found.append((base, dtype, rank, match["sparse"] == "_sparsity_on"))
    return tuple(found)


def _operations(dtype: str, sparse: bool, chosen: Sequence[MetricSum]) -> MeasuredWork:
    total = sum(f.value for f in chosen)
    off = sum(f.value * f.error for f in chosen)
    ways = list(dict.fromkeys(f.how for f in chosen if f.how))
    return MeasuredWork(
        work_class="matrix",
        dtype=dtype,
        flops=round(total),
        sparse=sparse,
        how=", ".join(["sm__ops_path_tensor", *ways]),
        error=off / total if total else 0.0,
    )


def _by_instructions(metrics: Metrics, kernel: str, cc: str) -> _State | None:
    """Warp instructions of the tensor pipe times the FLOP of their shape, where that is known."""
    found = _tensor_instructions(metrics)
    if found is None:
        return None
    moves = metrics.total(f"{_PIPE}_op_hmma_type_hfma2")
    executed = found.value - (moves.value if moves else 0.0)
    if executed <= 0:
        return Known.COUNTED, "", ()
    shape = next(
        (s for s in _SHAPES if cc and cc.startswith(s[0]) and s[1].search(kernel)),
        None,
    )
    if shape is None and cc == "7.0":
        shape = ("7.0", re.compile(""), 512, "fp16")
    if shape is None:
        return Known.NOT_COUNTABLE, _uncountable(executed, cc), ()
    _, pattern, factor, dtype = shape
    if dtype == "fp16" and _BF16_NAME.search(kernel):
        dtype = "bf16"
    guess = "" if pattern.pattern else ", if it accumulates in fp32 (twice that in fp16)"
    if pattern.pattern == _INFERRED:
        guess = ", inferred: half as many steps as with fp32 accumulation"
    work = MeasuredWork(
        work_class="matrix",
        dtype=dtype,
        flops=round(executed * factor),
        how=f"tensor instructions x {factor}{guess}",
        error=found.error,
    )
    note = f"tensor work: {factor} FLOP an instruction, by the shape{guess}"
    return Known.COUNTED, note, (work,)


def _tensor_instructions(metrics: Metrics) -> MetricSum | None:
    """All of them, or the sum over the kinds (HMMA, IMMA, DMMA, ...) that were collected."""
    for name in (_PIPE, "sm__inst_executed_pipe_tc"):
        whole = metrics.total(name)
        if whole is not None:
            return whole
    kinds = [f for name in _kinds(metrics.bases) if (f := metrics.total(name)) is not None]
    if not kinds:
        return None
    worst = max(kinds, key=lambda f: f.error)
    return MetricSum(value=sum(f.value for f in kinds), how=worst.how, error=worst.error)


@lru_cache(maxsize=4096)
def _kinds(bases: frozenset[str]) -> tuple[str, ...]:
    start = f"{_PIPE}_op_"
    return tuple(sorted(b for b in bases if b.startswith(start) and "_type_" not in b))


def _uncountable(executed: float, cc: str) -> str:
    chip = f" (compute capability {cc})" if cc else ""
    return (
        f"{executed:.0f} tensor instructions, whose shape the file does not tell{chip}: they are "
        "worth 512 to 16384 FLOP each; collect sm__ops_path_tensor_* to count them"
    )


def _by_activity(metrics: Metrics, kernel: str, cc: str) -> _State | None:
    """Without counters of work the activity of the pipe tells at least whether there was any."""
    active = [
        value
        for name, value in metrics.values.items()
        if ("pipe_tensor" in name or "pipe_tc" in name)
        and ("cycles_active" in name or "inst_executed" in name)
        and ".pct_" in name
    ]
    if not active:
        return None
    if max(active) == 0:
        return Known.COUNTED, "", ()
    if max(active) < _LITTLE and cc in _CONSTANT_MOVES and not _MATRIX_NAME.search(kernel):
        return Known.COUNTED, f"{IDLE_PIPE}, by its activity of {max(active):g} %", ()
    why = (
        f"the tensor cores were active {max(active):g} % of the time, but the file holds no "
        "counter of their work (sm__ops_path_tensor_*)"
    )
    return Known.NOT_COUNTABLE, why, ()
