"""Clock, power and temperature of a GPU while it works, where something can read them."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Final, TypeVar

from gambrel.units import format_si

T = TypeVar("T")
#: Seconds between two readings.
_EVERY_S: Final = 0.05
#: Seconds that nvidia-smi may take.
_PATIENCE_S: Final = 5.0
_QUERY: Final = "clocks.sm,power.draw,temperature.gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at a GPU; None for what it does not tell.

    Attributes:
        clock_hz: Of the multiprocessors.
        power_w: That the board draws.
        celsius: Of the chip.
    """

    clock_hz: float | None = None
    power_w: float | None = None
    celsius: float | None = None

    def __bool__(self) -> bool:
        return any(v is not None for v in (self.clock_hz, self.power_w, self.celsius))

    def __str__(self) -> str:
        parts = [
            format_si(self.clock_hz, "Hz", 4) if self.clock_hz is not None else "",
            f"{self.power_w:.0f} W" if self.power_w is not None else "",
            f"{self.celsius:.0f} °C" if self.celsius is not None else "",
        ]
        return ", ".join(filter(None, parts))


def reader(index: int, uuid: str = "") -> Callable[[], Reading | None] | None:
    """What reads a GPU: torch where its library for that is installed, else nvidia-smi.

    Args:
        index: Of the device.
        uuid: Of the device; nvidia-smi counts devices otherwise than torch does.

    Returns:
        None where neither works.
    """

    def by_torch() -> Reading | None:
        return _by_torch(index)

    def by_smi() -> Reading | None:
        return _by_smi(uuid)

    return next((read for read in (by_torch, by_smi) if read()), None)


def _by_torch(index: int) -> Reading | None:
    import torch

    clock, power = _asked("clock_rate", index), _asked("power_draw", index)
    reading = Reading(
        clock_hz=clock * 1e6 if clock else None,
        # Milliwatts from NVIDIA's library, watts from AMD's.
        power_w=power * (1.0 if torch.version.hip else 1e-3) if power else None,
        celsius=_asked("temperature", index),
    )
    return reading if reading else None


def _asked(question: str, index: int) -> float | None:
    import torch

    try:
        return float(getattr(torch.cuda, question)(index))
    except Exception:  # the libraries behind have errors of their own, and an answer is optional
        return None


def _by_smi(uuid: str) -> Reading | None:
    if not uuid:
        return None
    said = smi(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}", _QUERY)
    return None if said is None else parse(said)


def smi(device: str, query: str) -> str | None:
    """What nvidia-smi answers to a query of a device; None where it does not."""
    found = shutil.which("nvidia-smi")
    if found is None:
        return None
    command = [found, f"--id={device}", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def parse(said: str) -> Reading | None:
    """What nvidia-smi answers: ``"1755, 689.12, 61"``; ``[N/A]`` is unknown."""
    cells = [number_of(cell) for cell in said.strip().partition("\n")[0].split(",")]
    clock, power, celsius = (*cells, None, None, None)[:3]
    reading = Reading(clock_hz=clock * 1e6 if clock else None, power_w=power, celsius=celsius)
    return reading if reading else None


def number_of(text: str) -> float | None:
    """A cell of nvidia-smi's answer; None for ``[N/A]``."""
    try:
        return float(text)
    except ValueError:
        return None


@contextmanager
def watched(read: Callable[[], T | None] | None, every_s: float = 0.0) -> Iterator[list[T]]:
    """Collects readings in a thread of its own while the block runs.

    Args:
        read: What reads; None collects nothing.
        every_s: Between two readings.
    """
    seen: list[T] = []
    if read is None:
        yield seen
        return
    done = threading.Event()

    def look() -> None:
        while not done.wait(every_s or _EVERY_S):
            now = read()
            if now is not None and not done.is_set():
                seen.append(now)

    thread = threading.Thread(target=look, name="gambrel-telemetry", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join(2 * _PATIENCE_S)


def middle(readings: Sequence[Reading]) -> Reading | None:
    """The median of each figure; None where there is no reading."""

    def of(values: Sequence[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return median(known) if known else None

    if not readings:
        return None
    return Reading(
        clock_hz=of([r.clock_hz for r in readings]),
        power_w=of([r.power_w for r in readings]),
        celsius=of([r.celsius for r in readings]),
    )
