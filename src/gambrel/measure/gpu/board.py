"""The state of a GPU's board as its driver tells it: clocks, power, throttle reasons, ECC, lanes.

NVIDIA's library is asked through nvidia-ml-py where that is installed, else the command nvidia-smi,
else torch.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from statistics import median
from typing import Any, Final

import msgspec

from gambrel.units import format_si

#: Bit → reason for which the driver lowers clocks: nvmlClocksEventReasons of NVML 13
#: (https://docs.nvidia.com/deploy/nvml-api, 2026-11). That a GPU is idle, or runs at the clocks
#: that someone set, is no reason to doubt it, and stands in no report.
REASONS: Final = {
    4: "power cap",
    8: "hardware slowdown",
    16: "sync boost",
    32: "software thermal slowdown",
    64: "hardware thermal slowdown",
    128: "power brake",
}
#: Those that a healthy board in a healthy chassis does not show.
FAULTS: Final = ("hardware slowdown", "hardware thermal slowdown", "power brake")
#: What nvidia-smi is asked for, in the order of the fields; ``clocks_throttle_reasons`` is the name
#: that drivers before 535 know, and later ones still take.
_QUERY: Final = (
    *("clocks.sm", "clocks.max.sm", "power.draw", "enforced.power.limit", "temperature.gpu"),
    *("ecc.errors.corrected.volatile.total", "ecc.errors.uncorrected.volatile.total"),
    *("pcie.link.width.current", "pcie.link.width.max", "clocks_throttle_reasons.active"),
)
#: How it is to answer, and the seconds that it may take.
_PLAIN, _PATIENCE_S = "--format=csv,noheader,nounits", 5.0


class BoardState(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a board, or a summary of several; None for what it does not tell.

    Attributes:
        clock_hz: Of the multiprocessors.
        clock_limit_hz: Their highest clock.
        power_w: That the board draws.
        power_limit_w: That it may draw.
        celsius: Of the chip.
        ecc_corrected: Errors in memory since the driver was loaded that ECC corrected.
        ecc_uncorrected: Those that it could not.
        pcie_lanes: Of the link to the host.
        pcie_lanes_limit: That the board has.
        throttled: Reasons for which the driver lowered clocks.
    """

    clock_hz: float | None = None
    clock_limit_hz: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    celsius: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    pcie_lanes: int | None = None
    pcie_lanes_limit: int | None = None
    throttled: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != BoardState()

    def __str__(self) -> str:
        return ", ".join(self._parts())

    def _parts(self) -> Iterable[str]:
        if self.clock_hz is not None:
            limit = self.clock_limit_hz
            yield format_si(self.clock_hz, "Hz", 4) + (
                f" of {format_si(limit, 'Hz', 4)}" if limit else ""
            )
        if self.power_w is not None:
            limit = self.power_limit_w
            yield f"{self.power_w:.0f}" + (f" of {limit:.0f} W" if limit else " W")
        if self.celsius is not None:
            yield f"{self.celsius:.0f} °C"
        yield from self.throttled
        if self.ecc_corrected or self.ecc_uncorrected:
            counts = f"{self.ecc_corrected or 0} corrected, {self.ecc_uncorrected or 0} not"
            yield f"ECC errors: {counts}"
        if self.narrow:
            yield f"PCIe x{self.pcie_lanes} of x{self.pcie_lanes_limit}"

    @property
    def narrow(self) -> bool:
        """Whether the link to the host has fewer lanes than the board."""
        lanes, limit = self.pcie_lanes, self.pcie_lanes_limit
        return bool(lanes and limit and lanes < limit)

    @property
    def faults(self) -> tuple[str, ...]:
        """What alone makes a board suspect."""
        wrong = [reason for reason in self.throttled if reason in FAULTS]
        if self.ecc_uncorrected:
            wrong.append(f"{self.ecc_uncorrected} uncorrected ECC errors")
        return tuple(wrong)


def board_reader(uuid: str, index: int | None = None) -> Callable[[], BoardState | None] | None:
    """What reads a board.

    Args:
        uuid: Of the GPU, with or without the ``GPU-`` before it; nvidia-smi counts devices
            otherwise than torch does.
        index: As torch counts devices; None does not ask torch, which reads boards of AMD too.

    Returns:
        None where nothing answers.
    """
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    ways: list[Callable[[], BoardState | None]] = []
    if uuid:
        ways += [partial(_by_library, name), partial(_by_command, name)]
    if index is not None:
        ways.append(partial(_by_torch, index))
    return next((read for read in ways if read()), None)


def over(states: Sequence[BoardState]) -> BoardState | None:
    """What was seen while something ran: the median clock, the most of everything else."""
    if not states:
        return None

    def known(name: str) -> list[Any]:
        return [v for v in (getattr(s, name) for s in states) if v is not None]

    clocks = known("clock_hz")
    rest = [name for name in BoardState.__struct_fields__ if name not in ("clock_hz", "throttled")]
    reasons = dict.fromkeys(reason for s in states for reason in s.throttled)
    return BoardState(
        clock_hz=median(clocks) if clocks else None,
        throttled=tuple(reasons),
        **{name: max(known(name), default=None) for name in rest},
    )


def parsed(said: str) -> BoardState | None:
    """What nvidia-smi answers to the query; ``[N/A]`` and what is left out are unknown."""
    cells = [cell.strip() for cell in said.strip().partition("\n")[0].split(",")]
    if len(cells) != len(_QUERY):
        return None
    *numbers, reasons = cells
    mask = None
    with suppress(ValueError):
        mask = int(reasons, 16)
    return _state([_number(cell) for cell in numbers], 1e6, 1.0, mask)


def _state(
    values: Sequence[float | None], hertz: float, watts: float, mask: int | None
) -> BoardState | None:
    """From values in the order of the query, in some units, and the bits of the reasons."""
    clock, top, power, cap, celsius, *counts = values
    whole = [None if v is None else round(v) for v in counts]
    found = BoardState(
        clock_hz=None if clock is None else clock * hertz,
        clock_limit_hz=None if top is None else top * hertz,
        power_w=None if power is None else power * watts,
        power_limit_w=None if cap is None else cap * watts,
        celsius=celsius,
        ecc_corrected=whole[0],
        ecc_uncorrected=whole[1],
        pcie_lanes=whole[2],
        pcie_lanes_limit=whole[3],
        throttled=tuple(name for bit, name in REASONS.items() if mask and mask & bit),
    )
    return found or None


def _by_command(name: str) -> BoardState | None:
    said = _smi(name)
    return None if said is None else parsed(said)


def _smi(device: str) -> str | None:
    """What nvidia-smi answers about a device; None where it does not."""
    found = shutil.which("nvidia-smi")
    if found is None:
        return None
    command = [found, f"--id={device}", f"--query-gpu={','.join(_QUERY)}", _PLAIN]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _number(text: str) -> float | None:
    """A cell of nvidia-smi's answer; None for ``[N/A]``."""
    try:
        return float(text)
    except ValueError:
        return None


def _by_library(name: str) -> BoardState | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            return _asked(pynvml, pynvml.nvmlDeviceGetHandleByUUID(name))
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None


def _asked(nvml: Any, board: Any) -> BoardState | None:
    """Each figure by itself: boards and drivers tell some and refuse others."""

    def tell(question: str, *more: Any) -> Any:
        ask = getattr(nvml, question, None)
        try:
            return None if ask is None else ask(board, *more)
        except nvml.NVMLError:
            return None

    ecc = (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
    values = [
        tell("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        tell("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        tell("nvmlDeviceGetPowerUsage"),
        tell("nvmlDeviceGetEnforcedPowerLimit"),
        tell("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        *(tell("nvmlDeviceGetTotalEccErrors", kind, nvml.NVML_VOLATILE_ECC) for kind in ecc),
        tell("nvmlDeviceGetCurrPcieLinkWidth"),
        tell("nvmlDeviceGetMaxPcieLinkWidth"),
    ]
    mask = tell("nvmlDeviceGetCurrentClocksEventReasons")
    if mask is None:  # drivers before 535
        mask = tell("nvmlDeviceGetCurrentClocksThrottleReasons")
    # Megahertz and milliwatts.
    return _state(values, 1e6, 1e-3, mask)


def _by_torch(index: int) -> BoardState | None:
    import torch

    clock, power = _torch_says("clock_rate", index), _torch_says("power_draw", index)
    state = BoardState(
        clock_hz=clock * 1e6 if clock else None,
        # Milliwatts from NVIDIA's library, watts from AMD's.
        power_w=power * (1.0 if torch.version.hip else 1e-3) if power else None,
        celsius=_torch_says("temperature", index),
    )
    return state or None


def _torch_says(question: str, index: int) -> float | None:
    import torch

    try:
        return float(getattr(torch.cuda, question)(index))
    except Exception:  # the libraries behind have errors of their own, and an answer is optional
        return None
