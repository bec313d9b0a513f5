"""Tests the figures of a device against each other: a slip in a catalog shows in arithmetic.

Every check returns findings; a finding with a reason is a known exception that recomputes from the
vendor's own figures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from gambrel import roofline
from gambrel.device.cores import at_highest, highest_clock
from gambrel.device.files import CONFIDENCES
from gambrel.device.levels import byte_per_s
from gambrel.device.model import Ceiling, Device, Fact, MemoryLevel, Source
from gambrel.device.modes import with_modes

#: A printed peak and units x clock x rate may differ by rounding of all four.
FORMULA_TOLERANCE: Final = 0.03
#: FLOP/byte of DRAM. Outside it a figure is more likely a slip (GB for TB, sparse for dense) than
#: a design.
RIDGE_RANGE: Final = (4.0, 1200.0)

#: Exceptions, with the reason: (device, engine, dtype).
FORMULA_EXCEPTIONS: Final[dict[tuple[str, str, str], str]] = {
    ("b200-hgx-180gb", "matrix", "bf16"): (
        "the clock is the maximum that the device reports; the printed peak belongs to 1.856 GHz"
    ),
    ("p4-8gb", "vector", "fp32"): "the printed peak belongs to a boost of 1.063 GHz",
    ("wormhole-n150", "matrix", "fp8"): (
        "the rate of 4096 is an assumption (twice block fp8); the vendor prints the peak alone"
    ),
    ("wormhole-n300", "matrix", "fp8"): (
        "the rate of 4096 is an assumption (twice block fp8); the vendor prints the peak alone"
    ),
}
_CUT: Final = "the fp64 path was cut on this generation"
_NARROW: Final = "4 and 6 bit formats double the peak, not the bandwidth"
_LPDDR: Final = "the vendor's own peak over its own LPDDR bandwidth"
_LAPTOP: Final = "a laptop's memory is fast for eight to ten cores"
_AMX: Final = "AMX at a clock that all cores hold for a moment, if at all"
_NARROW_CORE: Final = "one 128-bit pipe per core"
RIDGE_EXCEPTIONS: Final[dict[tuple[str, str, str], str]] = {
    ("b300-hgx-270gb", "vector", "fp64"): _CUT,
    ("b300-hgx-270gb", "matrix", "fp64"): _CUT,
    ("gb300-279gb", "vector", "fp64"): _CUT,
    ("h20-96gb", "vector", "fp64"): "the arithmetic was cut for export, the bandwidth was not",
    ("b300-hgx-270gb", "matrix", "fp4"): _NARROW,
    ("gb200-186gb", "matrix", "fp4"): _NARROW,
    ("gb300-279gb", "matrix", "fp4"): _NARROW,
    ("jetson-agx-thor-t5000", "matrix", "fp4"): _NARROW,
    ("mi355x", "matrix", "fp4"): _NARROW,
    ("mi355x", "matrix", "fp6"): _NARROW,
    ("gb10", "matrix", "fp4"): _NARROW,
    ("tpu-v6e", "matrix", "int4"): _NARROW,
    ("jetson-agx-thor-t5000", "matrix", "fp8"): _LPDDR,
    ("jetson-agx-thor-t5000", "matrix", "int8"): _LPDDR,
    ("rdk-s100p", "matrix", "int8"): _LPDDR,
    ("cloud-ai-100-pro", "matrix", "int8"): _LPDDR,
    ("cloud-ai-100-ultra", "matrix", "int8"): _LPDDR,
    ("ax620q", "matrix", "int4"): _NARROW,
    ("ax630c", "matrix", "int4"): _NARROW,
    ("ax650n", "matrix", "int4"): _NARROW,
    ("core-i7-1355u", "vector", "fp64"): _LAPTOP,
    ("core-ultra-7-258v", "vector", "fp64"): _LAPTOP,
    ("intel-n100", "vector", "fp64"): _LAPTOP,
    ("xeon-6979p", "matrix", "int8"): _AMX,
    ("xeon-6980p", "matrix", "int8"): _AMX,
    ("xeon-8490h", "matrix", "int8"): _AMX,
    ("xeon-8592+", "matrix", "int8"): _AMX,
    ("raspberry-pi-4", "vector", "fp64"): _NARROW_CORE,
    ("inferentia", "matrix", "int8"): "the vendor's own peak over its own DDR4 bandwidth",
    ("blackhole-p150", "matrix", "bfp8"): "the vendor's own peak over its own GDDR6 bandwidth",
}

_RATE: Final = re.compile(
    r"rate_per_clk_per_unit_(?P<engine>matrix|vector)_(?P<dtype>[a-z0-9]+?)(?P<fp16acc>_fp16acc)?$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A figure that does not fit the others.

    Attributes:
        device: Its id.
        check: Which check found it.
        message: What was computed from what.
        reason: Why it is right all the same; empty for a violation.
    """

    device: str
    check: str
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A peak recomputed from units, clock and rate.

    Attributes:
        ceiling: The printed peak.
        computed_flop_per_s: Units x clock x rate.
        text: The product written out.
    """

    ceiling: Ceiling
    computed_flop_per_s: float
    text: str

    @property
    def deviation(self) -> float:
        """Computed over printed, minus one."""
        return roofline.ratio(self.computed_flop_per_s, self.ceiling.flop_per_s) - 1


#: What was computed from what, and why it is right all the same; empty for a violation.
Misfit: TypeAlias = tuple[str, str]


def check_device(device: Device) -> tuple[Finding, ...]:
    """Runs every check on a device of the catalog."""
    return tuple(
        Finding(device=device.id, check=name, message=message, reason=reason)
        for name, check in _CHECKS.items()
        for message, reason in check(device)
    )


def formulas(device: Device) -> Iterator[Formula]:
    """Every peak for which units, clock and rate per clock are known."""
    yield from _of_cores(device)
    units = device.fact("num_units")
    for rate in device.facts:
        match = _RATE.match(rate.name)
        if match is None or units is None:
            continue
        accumulate = "fp16" if match["fp16acc"] else ""
        ceiling = device.ceiling(match["engine"], match["dtype"], accumulate)
        clock = _clock(device, match["engine"], match["dtype"])
        if ceiling is not None and clock is not None:
            yield Formula(
                ceiling=ceiling,
                computed_flop_per_s=units.value * clock.value * rate.value,
                text=f"{units.value:g} {units.unit} x {rate.value:g} x {clock.value / 1e9:g} GHz",
            )


def _clock(device: Device, engine: str, dtype: str) -> Fact | None:
    """The clock that a peak belongs to: the highest.

    Hopper has two boost clocks: the vector engine and fp64 run at the higher one.
    """
    high = engine == "vector" or dtype == "fp64"
    own = device.fact("boost_clock_vector") if high else None
    return own or highest_clock(device)


def _of_cores(device: Device) -> Iterator[Formula]:
    """The fp32 peak of a hybrid processor: the sum over its kinds of cores."""
    ceiling = device.ceiling("vector", "fp32")
    if device.cores and ceiling is not None:
        kinds = (
            f"{c.count} x {c.flop_per_clock:g} x {c.boost_clock_hz / 1e9:g} GHz"
            for c in device.cores
        )
        yield Formula(
            ceiling=ceiling,
            computed_flop_per_s=at_highest(device.cores),
            text=" + ".join(kinds),
        )


def _check_formulas(device: Device) -> Iterator[Misfit]:
    for formula in formulas(device):
        ceiling = formula.ceiling
        if abs(formula.deviation) > FORMULA_TOLERANCE:
            said = (
                f"{ceiling.engine} {ceiling.dtype}: {formula.text} is "
                f"{formula.deviation:+.1%} off {ceiling.flop_per_s:.4g}"
            )
            yield said, FORMULA_EXCEPTIONS.get((device.id, ceiling.engine, ceiling.dtype), "")


def _check_ridges(device: Device) -> Iterator[Misfit]:
    dram = device.level("DRAM")
    if dram is None or dram.byte_per_s is None:
        return
    for ceiling in device.ceilings:
        ridge = roofline.ratio(ceiling.flop_per_s, dram.byte_per_s)
        if not RIDGE_RANGE[0] <= ridge <= RIDGE_RANGE[1]:
            said = f"{ceiling.engine} {ceiling.dtype}: ridge point {ridge:.4g} FLOP/byte"
            yield said, RIDGE_EXCEPTIONS.get((device.id, ceiling.engine, ceiling.dtype), "")


def _check_sparse(device: Device) -> Iterator[Misfit]:
    for ceiling in device.ceilings:
        sparse = ceiling.sparse_flop_per_s
        if sparse is not None and sparse < ceiling.flop_per_s:
            said = (
                f"{ceiling.engine} {ceiling.dtype}: sparse {sparse:.4g} is below dense "
                f"{ceiling.flop_per_s:.4g}"
            )
            yield said, ""


def _check_module(device: Device) -> Iterator[Misfit]:
    for whole in device.ceilings:
        parts = [device.ceiling(name, whole.dtype) for name in ("matrix", "dla")]
        if whole.engine != "module" or None in parts:
            continue
        total = sum(part.flop_per_s for part in parts if part is not None)
        if abs(roofline.ratio(total, whole.flop_per_s) - 1) > FORMULA_TOLERANCE:
            said = (
                f"{whole.dtype}: GPU and DLA add up to {total:.4g}, the module says "
                f"{whole.flop_per_s:.4g}"
            )
            yield said, ""


def _check_levels(device: Device) -> Iterator[Misfit]:
    """A level nearer to the engines is faster as a whole, and one of its memories is smaller.

    Registers and operand memories are beside the first-level cache rather than inside it.
    """
    caches = [m for m in device.memory if m.name not in {"registers", "TMEM"}]
    for outer, inner in pairwise(caches):
        sizes = (_instance_bytes(outer), _instance_bytes(inner))
        rates = (byte_per_s(device, outer), byte_per_s(device, inner))
        for what, (a, b), grows in (("capacity", sizes, False), ("bandwidth", rates, True)):
            if a is not None and b is not None and (b > a) is not grows:
                said = f"{what} of {inner.name} ({b:.4g}) against {outer.name} ({a:.4g})"
                yield said, ""
    for level in device.memory:
        whole, part = level.capacity_bytes, level.instance_bytes
        if whole is not None and part is not None and whole % part:
            said = f"{level.name}: {whole} byte are not a multiple of {part}"
            yield said, ""


def _instance_bytes(level: MemoryLevel) -> int | None:
    return level.capacity_bytes if level.instance_bytes is None else level.instance_bytes


def _check_demonstrated(device: Device) -> Iterator[Misfit]:
    """A demonstrated rate is worth its place where no roof is published, or above the roof."""
    for reached in device.demonstrated:
        roof = device.ceiling(reached.engine, reached.dtype, reached.accumulate)
        if roof is not None and reached.flop_per_s <= roof.flop_per_s:
            said = (
                f"{reached.engine} {reached.dtype}: {reached.flop_per_s:.4g} is not above "
                f"the published {roof.flop_per_s:.4g}"
            )
            yield said, ""


def _check_sources(device: Device) -> Iterator[Misfit]:
    for what, source in numbers(device):
        if source is None or not source.title or source.confidence not in CONFIDENCES[:4]:
            yield f"{what} has no source", ""


def numbers(device: Device) -> Iterator[tuple[str, Source | None]]:
    """Every number of a device with its source."""
    for c in (*device.ceilings, *device.demonstrated):
        yield f"{c.engine} {c.dtype}", c.source
        if c.sparse_flop_per_s is not None:
            yield f"{c.engine} {c.dtype} sparse", c.sparse_source
    for m in device.memory:
        if _instance_bytes(m) is not None:
            yield f"{m.name} capacity", m.capacity_source
        if m.byte_per_s is not None or m.byte_per_clock is not None:
            yield f"{m.name} bandwidth", m.bandwidth_source
    for link in device.links:
        yield link.name, link.source
    for fact in device.facts:
        yield fact.name, fact.source
    for cores in device.cores:
        yield f"{cores.name} cores", cores.source
    yield from _powers(device)


def _powers(device: Device) -> Iterator[tuple[str, Source | None]]:
    for name in ("tdp", "typical_power", "idle_power"):
        if getattr(device, f"{name}_w") is not None:
            yield name, getattr(device, f"{name}_source")
    for mode in device.modes:
        yield f"mode {mode.name}", mode.source


def _check_powers(device: Device) -> Iterator[Misfit]:
    """Idle below typical below the most; a power mode draws no more and computes no faster."""
    powers = (device.idle_power_w, device.typical_power_w, device.tdp_w)
    known = [watt for watt in powers if watt is not None]
    if known != sorted(known):
        yield f"{known} W do not rise", ""
    for mode in with_modes([device])[1:]:
        faster = [
            c.dtype
            for c, full in zip(mode.ceilings, device.ceilings, strict=True)
            if c.flop_per_s > full.flop_per_s * (1 + FORMULA_TOLERANCE)
        ]
        if faster or (mode.tdp_w or 0) > (device.tdp_w or math.inf):
            yield f"{mode.id} exceeds the device at full power", ""


_CHECKS: Final[dict[str, Callable[[Device], Iterator[Misfit]]]] = {
    "formula": _check_formulas,
    "ridge": _check_ridges,
    "sparse": _check_sparse,
    "module": _check_module,
    "levels": _check_levels,
    "demonstrated": _check_demonstrated,
    "source": _check_sources,
    "power": _check_powers,
}
