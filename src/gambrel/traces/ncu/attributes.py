"""Roofs derived from the attributes of a device: for chips that are in no catalog.

Peak = operations of one multiprocessor a clock x multiprocessors x clock. The operations are those
of the table "Throughput of Native Arithmetic Instructions" of NVIDIA's CUDA C++ Programming Guide
(FMA = 2) and, for tensor cores, of NVIDIA's architecture papers: dense, fp32 accumulation.
DRAM = 2 x memory clock x bus width / 8: the driver reports half the data rate of HBM, GDDR5,
GDDR6, GDDR6X and GDDR7 alike (1215 MHz for the 2.43 Gbit/s of an A100, 5001 MHz for the 10 Gbit/s
of a T4, 10501 MHz for the 21 Gbit/s of an RTX 4090).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from gambrel.analysis.samples import PROFILED
from gambrel.device.model import Ceiling, CeilingKind, Device, Fact, MemoryLevel, Source
from gambrel.traces.ncu.values import Metrics
from gambrel.units import format_si

_TITLE: Final = "derived from the device's attributes in the report"
_DATA_RATE: Final = 2
_L1_BYTES: Final = 128
#: Clocks in attributes are kHz without a unit; larger values are Hz already.
_KHZ_BELOW: Final = 1e8
_ATTRIBUTE: Final = "device__attribute_"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """FLOP of one multiprocessor a clock, dense; and bytes of its L1.

    Attributes:
        vector: On the CUDA cores, by format.
        matrix: On the tensor cores, by format; as on boards for servers and workstations.
        halved: Formats that GeForce boards run at half of that: fp32 accumulation.
        l1_bytes: 0 where no figure is published.
    """

    vector: Mapping[str, int]
    matrix: Mapping[str, int] = field(default_factory=dict)
    halved: tuple[str, ...] = ()
    l1_bytes: int = _L1_BYTES


_ADA: Final = {"fp16": 1024, "bf16": 1024, "tf32": 512, "int8": 2048, "int4": 4096}
_GRAPHICS: Final = {"fp64": 4, "fp32": 256, "fp16": 256}
_RATES: Final[dict[str, _Rates]] = {
    "7.0": _Rates(vector={"fp64": 64, "fp32": 128, "fp16": 256}, matrix={"fp16": 1024}),
    "7.5": _Rates(
        vector={"fp64": 4, "fp32": 128, "fp16": 256},
        matrix={"fp16": 1024, "int8": 2048, "int4": 4096},
        halved=("fp16",),
        l1_bytes=64,
    ),
    "8.0": _Rates(
        vector={"fp64": 64, "fp32": 128, "fp16": 512},
        matrix={"fp64": 128, "fp16": 2048, "bf16": 2048, "tf32": 1024, "int8": 4096, "int4": 8192},
    ),
    "8.6": _Rates(vector=_GRAPHICS, matrix=_ADA, halved=("fp16", "bf16", "tf32")),
    "8.9": _Rates(
        vector=_GRAPHICS, matrix=_ADA | {"fp8": 2048}, halved=("fp16", "bf16", "tf32", "fp8")
    ),
    "9.0": _Rates(
        vector={"fp64": 128, "fp32": 256, "fp16": 512},
        matrix={"fp64": 256, "fp16": 4096, "bf16": 4096, "tf32": 2048, "fp8": 8192, "int8": 8192},
    ),
    "10.0": _Rates(
        vector={"fp64": 128, "fp32": 256, "fp16": 512},
        matrix={"fp64": 128, "fp16": 8192, "bf16": 8192, "tf32": 4096, "fp8": 16384},
    ),
    "12.0": _Rates(
        vector=_GRAPHICS,
        matrix={"fp16": 1024, "bf16": 1024, "tf32": 512, "fp8": 2048, "int8": 2048, "fp4": 4096},
        halved=("fp16", "bf16", "tf32", "fp8"),
    ),
    "12.1": _Rates(
        vector=_GRAPHICS,
        matrix={"fp16": 1024, "bf16": 1024, "tf32": 512, "fp8": 2048, "int8": 2048, "fp4": 4096},
    ),
}
#: Turing boards without tensor cores: TU116 and TU117.
_NO_TENSOR: Final = re.compile(
    r"GTX 16\d\d|MX4[0-9]0|\bT(?:400|500|600|1000|1200)\b", re.IGNORECASE
)
#: Boards that accumulate in fp32 at half rate; A10G, unlike A10, is one of them.
_HALF_RATE: Final = re.compile(r"geforce|\bA10G\b", re.IGNORECASE)
#: Chips that share the memory of the CPU; its clock in the attributes is not that of DRAM.
_UNIFIED: Final = frozenset({"8.7", "11.0", "12.1"})
_NAMES: Final = {
    "units": ("multiprocessor_count", "sm_count"),
    "clock": ("clock_rate", "max_gpu_frequency_khz"),
    "memory clock": ("memory_clock_rate", "max_mem_frequency_khz"),
    "bus": ("global_memory_bus_width", "fb_bus_width"),
}


class Attributes:
    """Attributes of the device that launches carry, put together while a file is read.

    Attributes:
        values: The first value of each, by what it is.
    """

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def add(self, metrics: Metrics) -> None:
        """Looks at one launch."""
        for what, name in _held(metrics.shape.bases):
            value = metrics.values.get(name)
            if value:
                self.values.setdefault(what, value)


def reckon(found: Mapping[str, float], profiled: float | None, cc: str, name: str) -> Device | None:
    """Builds a device of the attributes that a report holds.

    Args:
        found: Values of `Attributes`, of one device.
        profiled: Its clock while profiling, Hz; None where not recorded.
        cc: Its compute capability; empty where unknown.
        name: Its name; empty where unknown.

    Returns:
        The device at the clock while profiling, at its highest clock where that is not recorded;
        None where the attributes do not suffice for any roof.
    """
    boost = _hertz(found.get("clock"))
    clock = profiled or boost
    rates = _RATES.get(cc)
    units = found.get("units")
    ceilings: tuple[Ceiling, ...] = ()
    memory = [] if cc in _UNIFIED else _dram(found)
    if rates and units and clock:
        ceilings = tuple(_ceilings(rates, units, (clock, boost), name, cc))
        if rates.l1_bytes:
            memory.append(_l1(units, rates.l1_bytes, clock))
    if not ceilings and not memory:
        return None
    at = f" at {format_si(clock, 'Hz')}" if clock else ""
    label = name or f"device of compute capability {cc}"
    return Device(
        id=PROFILED,
        name=f"{label}{at}",
        vendor="NVIDIA",
        ceilings=ceilings,
        memory=tuple(memory),
        facts=tuple(_facts(units, boost, profiled)),
    )


def completed(own: Device | None, derived: Device | None) -> Device | None:
    """The roofs of a report, those that it lacks derived from the attributes.

    Args:
        own: Of the peaks in the report.
        derived: Of the attributes.
    """
    if own is None or derived is None:
        return own or derived
    from msgspec.structs import replace

    have = {(c.engine, c.dtype) for c in own.ceilings}
    levels = {m.name for m in own.memory}
    more = tuple(c for c in derived.ceilings if (c.engine, c.dtype) not in have)
    memory = tuple(m for m in derived.memory if m.name not in levels)
    return replace(own, ceilings=own.ceilings + more, memory=own.memory + memory)


@lru_cache(maxsize=4096)
def _held(bases: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The attributes that can be there at all; most exports have none."""
    pairs = ((what, _ATTRIBUTE + name) for what, names in _NAMES.items() for name in names)
    return tuple(pair for pair in pairs if pair[1] in bases)


def _hertz(value: float | None) -> float | None:
    if value is None:
        return None
    return value * 1e3 if value < _KHZ_BELOW else value


def _source() -> Source:
    return Source(title=_TITLE, confidence="derived")


def _ceilings(
    rates: _Rates, units: float, clocks: tuple[float, float | None], name: str, cc: str
) -> list[Ceiling]:
    clock, boost = clocks
    engines = [("vector", rates.vector)]
    if not _NO_TENSOR.search(name):
        engines.append(("matrix", rates.matrix))
    found = []
    for engine, table in engines:
        for dtype, rate in table.items():
            half = engine == "matrix" and dtype in rates.halved
            rate = rate // 2 if half and _HALF_RATE.search(name) else rate
            note = f"{units:.0f} SM x {rate} FLOP/clk x {format_si(clock, 'Hz')}"
            if boost and abs(boost / clock - 1) > 1e-3:
                peak = format_si(units * rate * boost, "FLOP/s")
                note += f"; {peak} at the boost clock of {format_si(boost, 'Hz')}"
            if half and not name:
                note += "; half of it on GeForce boards, which the report does not tell apart"
            found.append(
                Ceiling(
                    engine=engine,
                    dtype=dtype,
                    flop_per_s=units * rate * clock,
                    kind=CeilingKind.DERIVED,
                    source=_source(),
                    note=f"compute capability {cc}: {note}",
                )
            )
    return found


def _dram(found: Mapping[str, float]) -> list[MemoryLevel]:
    clock, bus = _hertz(found.get("memory clock")), found.get("bus")
    if not clock or not bus:
        return []
    return [
        MemoryLevel(
            name="DRAM",
            byte_per_s=_DATA_RATE * clock * bus / 8,
            kind=CeilingKind.DERIVED,
            bandwidth_source=_source(),
            note=f"{_DATA_RATE} x {format_si(clock, 'Hz')} x {bus:.0f} bit / 8",
        )
    ]


def _l1(units: float, size: int, clock: float) -> MemoryLevel:
    return MemoryLevel(
        name="L1",
        byte_per_s=units * size * clock,
        kind=CeilingKind.DERIVED,
        bandwidth_source=_source(),
        note=f"{units:.0f} SM x {size} B/clk x {format_si(clock, 'Hz')}",
    )


def _facts(units: float | None, boost: float | None, profiled: float | None) -> list[Fact]:
    found = [
        ("num_units", units, "SM"),
        ("boost_clock", boost, "Hz"),
        ("profiling_clock", profiled, "Hz"),
    ]
    return [Fact(name=n, value=v, unit=u, source=_source()) for n, v, u in found if v]
