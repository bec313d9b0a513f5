"""Bytes at each memory level, by the definition that matches kernels of known traffic.

Every definition that the file allows is kept; the first of a level is the one used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gambrel.analysis.samples import MeasuredTraffic
from gambrel.traces.ncu.values import Metrics, MetricSchema, MetricSum


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One way to say what the bytes of a level are.

    Attributes:
        level: ``DRAM``, ``L2``, ``L1`` or ``shared``.
        counters: Counters that are added; all must be there.
        how: For reading; empty for the first counter times the factor.
        factor: Bytes an event.
        optional: Counters that are added where the file has them.
        caveat: What it counts too much or too little.
        fabric: Whether it counts L2-to-L2 traffic twice on chips with a divided L2.
    """

    level: str
    counters: tuple[str, ...]
    how: str = ""
    factor: int = 1
    optional: tuple[str, ...] = ()
    caveat: str = ""
    fabric: bool = False

    def __post_init__(self) -> None:
        if not self.how:
            times = f" x {self.factor}" if self.factor > 1 else ""
            object.__setattr__(self, "how", f"{self.counters[0]}{times}")


_SECTOR: Final = 32
_SECTORS: Final = "l1tex__t_sectors_pipe_lsu_mem_"
#: Chips whose L2 has two halves with traffic between them: GA100, GH100, GB100.
_DIVIDED_L2: Final = ("8.0", "9.0", "10.")

_DEFINITIONS: Final = (
    Definition(level="DRAM", counters=("dram__bytes",)),
    Definition(
        level="DRAM",
        how="dram__bytes_read + _write",
        counters=("dram__bytes_read", "dram__bytes_write"),
    ),
    Definition(
        level="DRAM",
        how="dram__bytes_op_read + _op_write",
        counters=("dram__bytes_op_read", "dram__bytes_op_write"),
    ),
    Definition(
        level="DRAM",
        how="dram__sectors x 32",
        counters=("dram__sectors_read", "dram__sectors_write"),
        factor=_SECTOR,
    ),
    Definition(
        level="L2",
        counters=("lts__t_sectors_srcunit_tex",),
        factor=_SECTOR,
    ),
    Definition(
        level="L2",
        how="xbar2l1tex + l1tex2xbar bytes",
        counters=("l1tex__m_xbar2l1tex_read_bytes", "l1tex__m_l1tex2xbar_write_bytes"),
    ),
    Definition(
        level="L2",
        counters=("lts__t_bytes",),
        caveat="counts traffic of all clients of the L2",
        fabric=True,
    ),
    Definition(
        level="L2",
        counters=("lts__t_sectors",),
        factor=_SECTOR,
        caveat="counts traffic of all clients of the L2",
        fabric=True,
    ),
    Definition(
        level="L2",
        how="lts__lts2xbar_cycles_active x 32 (Nsight Compute's chart)",
        counters=("lts__lts2xbar_cycles_active",),
        factor=_SECTOR,
        caveat="counts reads only",
    ),
    Definition(level="L1", counters=("l1tex__t_bytes",)),
    Definition(level="L1", counters=("l1tex__t_sectors",), factor=_SECTOR),
    Definition(
        level="L1",
        how="l1tex sectors of global and local access x 32",
        counters=(f"{_SECTORS}global_op_ld", f"{_SECTORS}global_op_st"),
        optional=(
            f"{_SECTORS}local_op_ld",
            f"{_SECTORS}local_op_st",
            f"{_SECTORS}global_op_atom",
            f"{_SECTORS}global_op_red",
        ),
        factor=_SECTOR,
        caveat="texture access, and atomics where not collected, are left out",
    ),
    *(
        Definition(
            level="L1",
            how=f"{counter} x 128 (Nsight Compute's chart)",
            counters=(counter,),
            factor=128,
            caveat="counts what reaches the registers: reads only",
        )
        for counter in (
            "l1tex__lsu_writeback_active_mem_lgds",
            "l1tex__lsu_writeback_active_mem_lg",
            "l1tex__lsu_writeback_active",
        )
    ),
    Definition(
        level="shared",
        counters=("l1tex__data_pipe_lsu_wavefronts_mem_shared",),
        factor=128,
        caveat="bank conflicts included",
    ),
    # Chips with one memory for CPU and GPU have no counter of it: what misses L2 goes there.
    Definition(
        level="DRAM",
        counters=("lts__t_sectors_aperture_sysmem",),
        factor=_SECTOR,
        caveat="system memory as seen by the L2; the chip has no DRAM counters",
    ),
)
#: Chips without DRAM counters, on which the last definition stands for DRAM: Orin, Thor, GB10.
_UNIFIED: Final = ("8.7", "11.0", "12.1")
_LEVELS: Final = ("DRAM", "L2", "L1", "shared")


def measure(metrics: Metrics, cc: str) -> tuple[tuple[MeasuredTraffic, ...], tuple[str, ...]]:
    """The bytes of one kernel at every level that the file allows.

    Args:
        metrics: Its values.
        cc: Compute capability; empty where unknown.

    Returns:
        The levels, outermost first, and notes on the definitions.
    """
    plan = _plan(metrics.shape, cc)
    if plan is None:
        return _measure(metrics, cc)
    levels, notes = plan
    return tuple([_recorded(metrics.values, ways) for ways in levels]), notes


#: A definition with the names of the recorded sums of its counters.
_Way = tuple[Definition, tuple[str, ...]]


@lru_cache(maxsize=4096)
def _plan(
    shape: MetricSchema, cc: str
) -> tuple[tuple[tuple[_Way, ...], ...], tuple[str, ...]] | None:
    """The ways to get each level, and notes; None where some counter has no recorded sum."""
    levels: dict[str, list[_Way]] = {}
    for definition in _applicable(shape.bases, cc in _UNIFIED):
        optional = [c for c in definition.optional if c in shape.bases]
        names = [shape.sums.get(c) for c in (*definition.counters, *optional)]
        known = tuple(name for name in names if name is not None)
        if len(known) < len(names):
            return None
        levels.setdefault(definition.level, []).append((definition, known))
    ordered = tuple(tuple(levels[level]) for level in _LEVELS if level in levels)
    notes = tuple(note for ways in ordered for note in _caveats(ways[0][0], cc))
    return ordered, notes


def _recorded(values: Mapping[str, float], ways: Sequence[_Way]) -> MeasuredTraffic:
    """The bytes of one level from recorded sums."""
    sizes = []
    for definition, names in ways:
        total = values[names[0]]
        for name in names[1:]:
            total += values[name]
        sizes.append((definition.how, round(total * definition.factor)))
    (how, first), *rest = sizes
    return MeasuredTraffic(
        level=ways[0][0].level, traffic_bytes=first, how=how, others=dict(rest) if rest else {}
    )


def _measure(metrics: Metrics, cc: str) -> tuple[tuple[MeasuredTraffic, ...], tuple[str, ...]]:
    """The bytes of a kernel whose file lacks sums, from rates as well."""
    found: dict[str, list[tuple[Definition, MetricSum]]] = {}
    rates: dict[str, tuple[Definition, float]] = {}
    for definition in _applicable(metrics.bases, cc in _UNIFIED):
        total = _total(metrics, definition)
        if total is not None:
            found.setdefault(definition.level, []).append((definition, total))
        elif (rate := _rate(metrics, definition)) is not None:
            rates.setdefault(definition.level, (definition, rate))
    traffic, notes = [], []
    for level in _LEVELS:
        if level in found:
            traffic.append(_level(level, found[level]))
            notes += _caveats(found[level][0][0], cc)
        elif level in rates:
            definition, rate = rates[level]
            traffic.append(
                MeasuredTraffic(
                    level=level, traffic_bytes=None, byte_per_s=rate, how=definition.how
                )
            )
    return tuple(traffic), tuple(notes)


@lru_cache(maxsize=4096)
def _applicable(bases: frozenset[str], unified: bool) -> tuple[Definition, ...]:
    """Definitions whose counters are all there in some form."""
    return tuple(
        d
        for d in _DEFINITIONS
        if all(c in bases for c in d.counters)
        and (unified or d.counters[0] != "lts__t_sectors_aperture_sysmem")
    )


def _total(metrics: Metrics, definition: Definition) -> MetricSum | None:
    if len(definition.counters) == 1 and not definition.optional:
        one = metrics.total(definition.counters[0])
        if one is None or definition.factor == 1:
            return one
        return MetricSum(value=one.value * definition.factor, how=one.how, error=one.error)
    parts = [metrics.total(counter) for counter in definition.counters]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    known += [p for c in definition.optional if (p := metrics.total(c)) is not None]
    total = sum(p.value for p in known)
    off = sum(p.value * p.error for p in known)
    ways = list(dict.fromkeys(p.how for p in known if p.how))
    return MetricSum(
        value=total * definition.factor,
        how=", ".join(ways),
        error=off / total if total else 0.0,
    )


def _rate(metrics: Metrics, definition: Definition) -> float | None:
    rates = [metrics.rate(counter) for counter in definition.counters]
    known = [r for r in rates if r is not None]
    return sum(known) * definition.factor if len(known) == len(rates) else None


def _level(level: str, found: list[tuple[Definition, MetricSum]]) -> MeasuredTraffic:
    (first, total), *rest = found
    return MeasuredTraffic(
        level=level,
        traffic_bytes=round(total.value),
        how=", ".join(filter(None, (first.how, total.how))),
        others={d.how: round(t.value) for d, t in rest},
        error=total.error,
    )


def _caveats(used: Definition, cc: str) -> list[str]:
    found = [f"{used.level} bytes: {used.how}, {used.caveat}"] if used.caveat else []
    if used.fabric and cc.startswith(_DIVIDED_L2):
        found.append(
            f"L2 bytes: {used.how} counts traffic between the halves of this chip's L2 as well, "
            "up to twice the truth; collect lts__t_sectors_srcunit_tex"
        )
    return found
