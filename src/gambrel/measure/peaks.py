"""`measure_peaks`: the ceilings of a device, measured once and remembered."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import msgspec

from gambrel._version import __version__
from gambrel.analysis.fields import MOST
from gambrel.dtypes import parse_dtype
from gambrel.errors import DeviceError, InputError, shown
from gambrel.measure import store
from gambrel.measure.records import HardwarePeaks, Survey, summarize

Progress = Callable[[int, int, str], None]

#: How torch names the formats that a compute roof may be asked for in.
_TORCH_NAMES = {
    "fp64": "torch.float64",
    "fp32": "torch.float32",
    "tf32": "torch.float32",
    "fp16": "torch.float16",
    "bf16": "torch.bfloat16",
    "int8": "torch.int8",
    "fp8": "torch.float8_e4m3fn",
}

#: Formats that a processor's loops are in, where it has the instructions.
_CPU_FORMATS: Final = ("fp64", "fp32", "fp16", "bf16", "int8")

#: Rounds of a full measurement by kind of device, and of a quick one.
_ROUNDS: Final = {"cpu": 20, "cuda": 3, "hip": 3}
_QUICK_ROUNDS: Final = {"cpu": 8}
#: With fewer repetitions than this, a rough measurement, libraries are tried in fewer ways.
_ROUGH: Final = 10


def quick(device: object = "cpu") -> dict[str, int]:
    """Settings of `measure_peaks` for a rough measurement in seconds."""
    return {"steps": 5, "warmup": 1, "rounds": _QUICK_ROUNDS.get(str(device).partition(":")[0], 1)}


def measure_peaks(
    device: object = "cpu",
    *,
    steps: int = 20,
    warmup: int = 5,
    dtype: object = "float32",
    allow_tf32: bool = False,
    rounds: int | None = None,
    refresh: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> HardwarePeaks:
    """Measures the ceilings of a device of this machine, or recalls them.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or a ``torch.device``.
        steps: Repetitions of each measurement in a round (on a CPU: half-millisecond slices).
        warmup: Repetitions before, which are thrown away.
        dtype: Number format of the compute roof of the compact view, as text or ``torch.dtype``.
        allow_tf32: Give the TF32 roof for fp32. Without it fp32 is honest fp32.
        rounds: How often everything is repeated, in fresh memory. None: 20 on a CPU, whose clock
            changes by the second, 3 on a GPU. Slow machines stop earlier.
        refresh: Measure again even if there is a stored result.
        cache: Recall and store results.
        progress: Called with the number done, the number of all and what comes next.

    Returns:
        The compact view; ``.survey`` has every figure, ``.to_device()`` is a `Device`.

    Raises:
        InputError: Steps or rounds below 1, a negative warm-up, an unknown format or device.
        DeviceError: There is no such device here, or it has no such roof.
        MissingExtraError: llvmlite (CPU) or torch (GPU) is not installed.
    """
    name, canonical = str(device), parse_dtype(str(dtype))
    family = name.partition(":")[0]
    if rounds is None:
        rounds = _ROUNDS.get(family, 3)
    check_effort(steps, warmup, rounds)
    if family == "cpu":
        _check_processor(name, canonical)
    if canonical == "tf32":
        allow_tf32 = True
    effort = {"steps": steps, "warmup": warmup, "rounds": rounds}
    if family == "cpu":
        survey = _recalled(_cpu_key(effort), refresh, cache, lambda: _cpu(effort, progress))
    elif family in {"cuda", "hip"}:
        from gambrel.measure import gpu

        index = gpu.index_of(name)
        key = store.key_of({**gpu.identity(index), **_texts(effort)})
        survey = _recalled(key, refresh, cache, lambda: gpu.survey(index, effort, progress))
        if canonical == "fp32" and allow_tf32:
            canonical = "tf32"
    else:
        raise InputError(
            f"cannot measure {name!r}; give cpu, cuda or cuda:N (AMD's GPUs are cuda to torch). "
            "For any other device take its datasheet: 'gambrel hardware list'."
        )
    return _compact(survey, canonical, allow_tf32 and family != "cpu")


def clear_peaks_cache() -> int:
    """Forgets every stored measurement of peaks and returns how many there were."""
    return store.clear()


def check_effort(steps: int, warmup: int, rounds: int = 1) -> None:
    """Refuses numbers of repetitions that are none.

    Raises:
        InputError: One of them is no whole number, or out of range.
    """
    for label, value, least in (("steps", steps, 1), ("warmup", warmup, 0), ("rounds", rounds, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{label}={shown(value)}: give a whole number of at least {least}.")
        if value > MOST:
            raise InputError(f"{label}={shown(value)}: give a whole number of at most {MOST:,}.")


def _check_processor(name: str, dtype: str) -> None:
    """Refuses at once what would only be missing after the measurement."""
    if name not in {"cpu", "cpu:0"}:
        raise InputError(f"cannot measure {name!r}: a processor is measured as a whole; give cpu.")
    if dtype not in _CPU_FORMATS:
        raise DeviceError(
            f"no processor is measured in {dtype}; there are loops for {', '.join(_CPU_FORMATS)}."
        )


def _recalled(key: str, refresh: bool, cache: bool, measure: Callable[[], Survey]) -> Survey:
    known = store.load(key) if cache and not refresh else None
    if known is not None:
        return known
    survey = measure()
    if cache:
        store.save(key, survey)
    return survey


def _compact(survey: Survey, dtype: str, tf32: bool) -> HardwarePeaks:
    peaks = summarize(survey, dtype, _TORCH_NAMES.get(dtype, f"torch.{dtype}"))
    return msgspec.structs.replace(peaks, tf32_enabled=tf32)


def _cpu(effort: dict[str, int], progress: Progress | None) -> Survey:
    from gambrel.measure import cpu, library

    search = library.Search(rough=effort["steps"] < _ROUGH)
    survey = cpu.survey(cpu.TimingBudget(**effort), progress, between=search.turn)
    attained = search.result()
    return msgspec.structs.replace(
        survey,
        measurements=(*survey.measurements, *attained.measurements),
        versions=survey.versions | attained.versions,
    )


def _cpu_key(effort: dict[str, int]) -> str:
    from gambrel.measure.machine import this_machine

    here = this_machine()
    return store.key_of(
        {
            "device": here.name,
            "cpus": ",".join(map(str, here.cpus)),
            "caches": str(here.caches),
            "system": platform.release(),
            "gambrel": __version__,
            **{p: _version(p) for p in ("llvmlite", "numpy", "torch")},
            **_texts(effort),
        }
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _texts(values: dict[str, int]) -> dict[str, str]:
    return {k: str(v) for k, v in values.items()}
