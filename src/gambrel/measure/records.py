"""What a measurement of a machine yields."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from gambrel.errors import DeviceError

SCHEMA_VERSION = 2

#: The quantile of the slices that stands for what the hardware gives. Slices that another process
#: or the hypervisor interrupted are slow and fall below it.
UPPER: Final = 0.95


class Measurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One ceiling, measured in one way.

    Attributes:
        resource: ``vector`` or ``matrix`` (an engine), ``L1`` ... ``DRAM`` (a memory level), or
            ``library`` (what a library attains: no ceiling of the hardware).
        mix: Instructions (``fma``, ``fma+add``, ``dot``, ``tile``), accesses (``read``, ``copy``,
            ``triad nt``, ...) or the library's function.
        value: The figure. On a CPU the upper quantile over the slices of a round, the mean over the
            faster half of the rounds; on a GPU the best of the rounds.
        unit: ``FLOP/s`` or ``B/s``. Bytes are those that the program reads and writes.
        threads: How many ran, each on a core of its own; 0 on a device that is used as a whole.
        dtype: Number format of the operands.
        median: Median over the slices, same unit. On a CPU of all rounds, on a GPU of the best.
        spread: How far the rounds are apart, as a share of the value: on a CPU their 90% quantile
            less the 10% quantile, on a GPU the best less the worst.
        samples: Slices in all rounds (CPU) or in each (GPU).
        rounds: Independent rounds, each with memory of its own.
        working_set_bytes: Of each thread; None for arithmetic.
        clock_hz: Just after the slices, on the slowest core, the median over the rounds; None where
            unknown.
        per_cycle: Rate / clock / threads, the median over the rounds; None where the clock is
            unknown.
        variant: How the loop over memory was written; empty for everything else.
        tried: Rate of each variant that was tried over that of the first, before the rounds; empty
            where none was.
        note: Caveats.
    """

    resource: str
    mix: str
    value: float
    unit: str
    threads: int
    dtype: str = ""
    median: float = math.nan
    spread: float = 0.0
    samples: int = 0
    rounds: int = 1
    working_set_bytes: int | None = None
    clock_hz: float | None = None
    per_cycle: float | None = None
    variant: str = ""
    tried: dict[str, float] = {}
    note: str = ""


class Survey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that was measured of one device in one session.

    Attributes:
        device: As torch names it: ``cpu``, ``cuda:0``.
        id: Short unique name.
        name: Full name.
        vendor: Maker.
        category: As in the catalog.
        date: ISO date.
        versions: Of gambrel, libraries, drivers.
        settings: What was chosen, as text.
        capacities: Bytes by level, as the system says.
        measurements: The figures.
        load: Processes that wanted to run just before; None where unknown.
        stolen: Share of the processors' time that a hypervisor gave to others meanwhile.
        huge_page_share: Share of the largest working set that lay on huge pages.
        one_way_s: Seconds that a cache line takes between the first two cores.
        architecture: Of a GPU, e.g. ``"sm_90"``: decides whose kernels are expected on it.
        num_units: Its multiprocessors or compute units.
        boost_clock_hz: Its highest clock.
        unknown: What was looked for and cannot be measured here, with the reason.
        notes: Sentences that a user must know.
    """

    device: str
    id: str
    name: str
    vendor: str
    category: str
    date: str
    measurements: tuple[Measurement, ...]
    versions: dict[str, str] = {}
    settings: dict[str, str] = {}
    capacities: dict[str, int] = {}
    load: float | None = None
    stolen: float | None = None
    huge_page_share: float | None = None
    one_way_s: float | None = None
    architecture: str = ""
    num_units: int | None = None
    boost_clock_hz: float | None = None
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def best(self, resource: str, dtype: str = "", *, mix: str = "") -> Measurement | None:
        """The highest figure of a resource with all threads; None when it was not measured.

        Args:
            resource: Engine or memory level.
            dtype: Number format of an engine's roof.
            mix: Only this mix; the fused multiply-add or dot product of an engine when empty.
        """
        most = max((m.threads for m in self.measurements if m.resource == resource), default=0)
        found = [
            m
            for m in self.measurements
            if m.resource == resource
            and m.threads == most
            and (not dtype or m.dtype == dtype)
            and (m.mix == mix if mix else m.mix not in EXTRA_MIXES)
        ]
        return max(found, key=lambda m: m.value, default=None)


#: Mixes that are shown beside a ceiling and are none: no kernel's work is counted in that mix.
EXTRA_MIXES: Final = frozenset({"fma+add"})


class HardwarePeaks(msgspec.Struct, frozen=True, kw_only=True):
    """The compact view of a survey: one compute roof, one memory roof.

    Attributes:
        peak_flops: Compute roof in ``dtype``, FLOP/s, all cores.
        peak_bandwidth: Main memory roof, byte/s: the best of the access mixes.
        ridge_point: Their quotient, FLOP/byte.
        device: As torch names it.
        dtype: As torch names it, e.g. ``"torch.float32"``.
        tf32_enabled: Whether the fp32 roof is that of TF32.
        cudnn_benchmark: Whether cuDNN may try algorithms; it is off while peaks are measured.
        survey: Everything else.
    """

    peak_flops: float
    peak_bandwidth: float
    ridge_point: float
    device: str
    dtype: str
    tf32_enabled: bool
    cudnn_benchmark: bool
    survey: Survey

    def __repr__(self) -> str:
        shown = [f for f in self.__struct_fields__ if f != "survey"]
        return f"HardwarePeaks({', '.join(f'{f}={getattr(self, f)!r}' for f in shown)})"

    def to_device(self) -> Any:
        """The device with measured ceilings, to be used wherever a device is."""
        from gambrel.measure.convert import to_device

        return to_device(self.survey)

    @property
    def device_record(self) -> Any:
        """The same as `to_device`."""
        return self.to_device()


def summarize(survey: Survey, dtype: str, torch_dtype: str) -> HardwarePeaks:
    """The compact view of a survey.

    Args:
        survey: What was measured.
        dtype: Number format of the compute roof, as gambrel names it.
        torch_dtype: The same as torch names it.

    Raises:
        DeviceError: The survey has no such roof.
    """
    roofs = [m for engine in ("matrix", "vector") if (m := survey.best(engine, dtype))]
    memory = survey.best("DRAM")
    if not roofs or memory is None:
        known = sorted({m.dtype for m in survey.measurements if m.unit == "FLOP/s" and m.dtype})
        what = f"no {dtype} compute roof" if memory else "no memory bandwidth"
        why = [text for text in survey.unknown if text.startswith(dtype if memory else "DRAM")]
        raise DeviceError(
            f"{survey.name} was measured to have {what}"
            f"{f' ({why[0]})' if why else ''}; it has {', '.join(known) or 'none'}."
        )
    peak = max(m.value for m in roofs)
    return HardwarePeaks(
        peak_flops=peak,
        peak_bandwidth=memory.value,
        ridge_point=peak / memory.value,
        device=survey.device,
        dtype=torch_dtype,
        tf32_enabled=survey.settings.get("allow_tf32") == "True",
        cudnn_benchmark=False,
        survey=survey,
    )
