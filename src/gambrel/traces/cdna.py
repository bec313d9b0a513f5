"""FLOP and bytes from the counters of AMD's GPUs.

Work = 64 x (ADD + MUL + 2 FMA + TRANS) of each vector format, because a wave has 64 lanes (lanes
that are masked out are counted as well; 32 on RDNA), and 512 x the MFMA_MOPS counters.

Requests are turned into bytes by their size, which the generations do not share:

================  ==============  ==============================  ==============================
generation        L1 access       L1-L2 request                   read from DRAM
================  ==============  ==============================  ==============================
CDNA 1, 2         64              64                              32 or 64
CDNA 3 (gfx94x)   128             read 128, write and atomic 64   32, 64, or 128 (TCC_BUBBLE)
CDNA 4 (gfx950)   128             read 128, write and atomic 64   a counter a size
================  ==============  ==============================  ==============================

ROCm Compute Profiler, analysis_configs/gfx942 and gfx950, "L1-L2 BW" and "L2-Fabric Read BW",
2025-06. A copy of 8,388,608 bytes on an MI300A counts 65,536 read and 131,072 write requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gambrel.analysis.samples import Known, MeasuredTraffic, MeasuredWork

#: How the counters of AMD's GPUs begin.
PREFIXES: Final = (
    "SQ_",
    "TCC_",
    "TCP_",
    "GRBM_",
    "TA_",
    "FETCH_SIZE",
    "WRITE_SIZE",
    "FetchSize",
    "WriteSize",
)
_LANES: Final = 64
_LANES_RDNA: Final = 32
_MOPS: Final = 512
_SIMDS: Final = 4
_VECTOR: Final = {"F16": "fp16", "F32": "fp32", "F64": "fp64"}
#: FLOP an instruction of a lane.
_KINDS: Final = {"ADD": 1, "MUL": 1, "FMA": 2, "TRANS": 1}
_MATRIX: Final = {
    "F64": "fp64",
    "F32": "fp32",
    "F16": "fp16",
    "BF16": "bf16",
    "F8": "fp8",
    "F6F4": "fp4",  # fp6 as well, at the same rate
    "I8": "int8",
    "XF32": "tf32",
}
#: Requests of L1 to L2. The parts of each by memory type (``TCP_TCC_RW_READ_REQ``, NC, UC, CC) add
#: up to it, and rocprof-compute collects both.
_L2_REQUESTS: Final = ("READ_REQ", "WRITE_REQ", "ATOMIC_WITH_RET_REQ", "ATOMIC_WITHOUT_RET_REQ")
_TYPES: Final = ("NC", "UC", "CC", "RW")
#: Counters that only CDNA 4 has.
_CDNA4_ONLY: Final = ("TCC_EA0_RDREQ_128B", "TCC_READ_SECTORS", "SQ_INSTS_VALU_MFMA_MOPS_F6F4")

Counters = Mapping[str, float]


def fields_of(counters: Counters, chip: str = "") -> dict[str, Any]:
    """The fields of a sample that follow from its counters; arguments as for `count_work`."""
    work = count_work(counters, chip)
    return {
        "state": Known.COUNTED if work else Known.MISSING,
        "why": "" if work else why_missing(counters),
        "work": work,
        "traffic": tuple(measure(counters, chip)),
        "instructions": instructions(counters),
    }


def why_missing(counters: Counters) -> str:
    """Why there is no work, where there is none."""
    if "SQ_INSTS_VALU" in counters:
        return (
            "only instructions were counted, not which: the instruction roofline shows them "
            "(--instructions); MI200 and later count SQ_INSTS_VALU_{ADD,MUL,FMA,TRANS}_F.. as well"
        )
    return "no SQ_INSTS_VALU counters were collected; see 'gambrel collect rocprof'"


def instructions(counters: Counters) -> int | None:
    """Wave instructions: a vector instruction is counted once for four passes of 16 lanes.

    Leinhauser et al., "Metrics and Design of an Instruction Roofline Model for AMD GPUs", ACM TOPC
    2022, https://arxiv.org/abs/2110.08221 .
    """
    vector, scalar = counters.get("SQ_INSTS_VALU"), counters.get("SQ_INSTS_SALU")
    if vector is None or scalar is None:
        return None
    return round(_SIMDS * vector + scalar)


def count_work(counters: Counters, chip: str = "") -> tuple[MeasuredWork, ...]:
    """FLOP by engine and format; empty where no counter tells.

    Args:
        counters: By name, without ``_sum``.
        chip: Such as ``"gfx942"``; empty where nothing tells.
    """
    found = []
    for suffix, dtype in _MATRIX.items():
        count = counters.get(f"SQ_INSTS_VALU_MFMA_MOPS_{suffix}")
        if count is not None:
            how = f"SQ_INSTS_VALU_MFMA_MOPS_{suffix} x {_MOPS}"
            found.append(_one("matrix", dtype, count * _MOPS, how))
    wave = _LANES_RDNA if chip.startswith("gfx1") else _LANES
    for suffix, dtype in _VECTOR.items():
        names = {n: f"SQ_INSTS_VALU_{n}_{suffix}" for n in _KINDS}
        known = {n: counters[k] for n, k in names.items() if k in counters}
        if known:
            lanes = sum(_KINDS[n] * v for n, v in known.items())
            absent = "" if len(known) == len(names) else ", the rest not collected: a lower limit"
            how = f"{wave} x ({' + '.join(known)}, FMA = 2), masked lanes included{absent}"
            found.append(_one("vector", dtype, lanes * wave, how))
    return tuple(found)


def _one(work_class: str, dtype: str, flops: float, how: str) -> MeasuredWork:
    return MeasuredWork(work_class=work_class, dtype=dtype, flops=round(flops), how=how)


def measure(c: Counters, chip: str = "") -> list[MeasuredTraffic]:
    """Bytes by level, outermost first.

    Args:
        c: Counters by name, without ``_sum``.
        chip: Such as ``"gfx942"``; empty where nothing tells.
    """
    late = _is_late(c, chip)
    found = [*_dram(c, chip), *_l2(c, late)]
    accesses = c.get("TCP_TOTAL_CACHE_ACCESSES")
    if accesses is not None:
        line = 128 if late else 64
        found.append(_level("L1", line * accesses, f"TCP_TOTAL_CACHE_ACCESSES x {line}"))
    if {"SQ_LDS_IDX_ACTIVE", "SQ_LDS_BANK_CONFLICT"} <= set(c):
        cycles = c["SQ_LDS_IDX_ACTIVE"] - c["SQ_LDS_BANK_CONFLICT"]
        found.append(_level("shared", 128 * cycles, "LDS cycles without conflicts x 4 x 32 banks"))
    return found


def _is_late(c: Counters, chip: str) -> bool:
    """CDNA 3 or later: by the chip, else because they number the ports to the fabric."""
    if chip:
        return chip.startswith(("gfx94", "gfx95"))
    return "TCC_BUBBLE" in c or any(name.startswith("TCC_EA0_") for name in c)


def _level(level: str, size: float, how: str) -> MeasuredTraffic:
    return MeasuredTraffic(level=level, traffic_bytes=max(round(size), 0), how=how)


def _l2(c: Counters, late: bool) -> list[MeasuredTraffic]:
    read_size, size = (128, 64) if late else (64, 64)
    sizes = f"x {size}" if size == read_size else f"reads x {read_size}, others x {size}"
    reads, writes, *atomics = (_requests(c, name) for name in _L2_REQUESTS)
    if reads is not None and writes is not None:
        rest = writes + sum(n for n in atomics if n is not None)
        return [_level("L2", read_size * reads + size * rest, f"TCP_TCC requests, {sizes}")]
    if {"TCC_READ", "TCC_WRITE"} <= set(c):
        rest = c["TCC_WRITE"] + c.get("TCC_ATOMIC", 0.0)
        return [_level("L2", read_size * c["TCC_READ"] + size * rest, f"TCC requests, {sizes}")]
    return []


def _requests(c: Counters, name: str) -> float | None:
    """Requests of one kind: the total, else its parts where all of them were collected."""
    total = c.get(f"TCP_TCC_{name}")
    if total is not None:
        return total
    parts = [c.get(f"TCP_TCC_{memory}_{name}") for memory in _TYPES]
    return None if None in parts else sum(filter(None, parts))


def _dram(c: Counters, chip: str) -> list[MeasuredTraffic]:
    reads, writes = _reads(c, chip), _writes(c)
    if reads is not None and writes is not None:
        size, how = reads
        return [_level("DRAM", size + writes, f"TCC_EA requests x {how}")]
    return _kilobytes(c, chip)


def _reads(c: Counters, chip: str) -> tuple[float, str] | None:
    """Bytes read from memory, with the sizes that requests were counted at."""
    wide, middle = c.get("TCC_EA0_RDREQ_128B"), c.get("TCC_EA0_RDREQ_64B")
    short = c.get("TCC_EA_RDREQ_32B", c.get("TCC_EA0_RDREQ_32B", 0.0))
    if wide is not None and middle is not None:
        return 128 * wide + 64 * middle + 32 * short, "32, 64, 128 bytes"
    total = c.get("TCC_EA_RDREQ", c.get("TCC_EA0_RDREQ"))
    if total is None:
        return None
    if wide is None and _misses_wide(c, chip):
        # Measured there with a copy of known size: as 64 bytes, reads come to half of the truth.
        how = "32 bytes, other reads 128: TCC_EA0_RDREQ_64B and _128B tell them apart on MI350"
        return 128 * (total - short) + 32 * short, how
    wide = c.get("TCC_BUBBLE", 0.0) if wide is None else wide
    return 128 * wide + 64 * (total - wide - short) + 32 * short, "32, 64, 128 bytes"


def _misses_wide(c: Counters, chip: str) -> bool:
    """Whether reads of 128 bytes were counted by none of the counters: CDNA 4 without its own."""
    if chip:
        return chip.startswith("gfx95")
    return any(name in c for name in _CDNA4_ONLY) or c.get("TCC_BUBBLE") == 0


def _writes(c: Counters) -> float | None:
    total = c.get("TCC_EA_WRREQ", c.get("TCC_EA0_WRREQ"))
    wide = c.get("TCC_EA_WRREQ_64B", c.get("TCC_EA0_WRREQ_64B"))
    if total is None or wide is None:
        return None
    return 64 * wide + 32 * (total - wide)


def _kilobytes(c: Counters, chip: str) -> list[MeasuredTraffic]:
    """Rocprof's own sums of the same requests, in units of 1024 bytes."""
    for names in (("FETCH_SIZE", "WRITE_SIZE"), ("FetchSize", "WriteSize")):
        if set(names) <= set(c):
            size = 1024 * sum(c[n] for n in names)
            how = f"{names[0]} + {names[1]}, x 1024"
            if chip.startswith("gfx95"):
                how += "; ROCm before 10 counts reads of 128 bytes as 64 there: a lower limit"
            return [_level("DRAM", size, how)]
    return []
