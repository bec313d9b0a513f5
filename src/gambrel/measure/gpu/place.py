"""Which GPU is meant, what it is, and sentences for when there is none that works."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from gambrel._version import __version__
from gambrel.errors import DeviceError, MissingExtraError, first_line

_INSTALL: Final = "install a build of torch for your GPU (https://pytorch.org/get-started/locally)"
#: Between these lie the clocks of all GPUs, Hz.
_CLOCKS: Final = (1e8, 1e10)
#: Which GPUs a process sees; an empty text or -1 hides all.
_VISIBLE: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
#: Settings outside torch that change what its products compute; recorded with the figures.
_OUTSIDE: Final = (
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_EMULATE_DOUBLE_PRECISION",
    "HIPBLASLT_ALLOW_TF32",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCH_BLAS_PREFER_HIPBLASLT",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What torch says of a GPU.

    Attributes:
        name: Full name.
        architecture: ``"sm_90"`` or ``"gfx942"``.
        capability: Major and minor number of it.
        amd: Whether it is reached through ROCm.
        units: Multiprocessors or compute units.
        total_bytes: Of its memory.
        level2_bytes: Of its L2; None where unknown.
        integrated: Whether it shares the host's memory.
        clock_hz: Highest clock; None where unknown.
        uuid: Of the device; empty where unknown.
    """

    name: str
    architecture: str
    capability: tuple[int, int]
    amd: bool
    units: int
    total_bytes: int
    level2_bytes: int | None
    integrated: bool
    clock_hz: float | None
    uuid: str


def about(index: int) -> About:
    """What torch says of a GPU; older versions say less."""
    import torch

    said = torch.cuda.get_device_properties(index)
    amd = torch.version.hip is not None
    plain = f"sm_{said.major}{said.minor}"
    return About(
        name=said.name,
        # "gfx942:sramecc+:xnack-"
        architecture=str(getattr(said, "gcnArchName", "")).partition(":")[0] if amd else plain,
        capability=(said.major, said.minor),
        amd=amd,
        units=said.multi_processor_count,
        total_bytes=said.total_memory,
        level2_bytes=int(getattr(said, "L2_cache_size", 0)) or None,
        integrated=bool(getattr(said, "is_integrated", False)),
        clock_hz=_clock_hz(getattr(said, "clock_rate", 0)),
        uuid=str(getattr(said, "uuid", "")),
    )


def _clock_hz(kilohertz: float) -> float | None:
    """A clock that a GPU can have; some drivers say 0."""
    hertz = kilohertz * 1e3
    return hertz if _CLOCKS[0] < hertz < _CLOCKS[1] else None


def index_of(name: str) -> int:
    """The number of a device from ``"cuda"`` or ``"cuda:1"``, after it has done something.

    Raises:
        MissingExtraError: torch is not installed.
        DeviceError: There is no such device here, or it does not work.
    """
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", "measuring a GPU")
    import torch

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        there = torch.cuda.is_available()
    if not there:
        raise DeviceError(f"cannot measure {name!r}: {_why_none([str(w.message) for w in said])}")
    text = name.partition(":")[2]
    count = torch.cuda.device_count()
    if text and (not text.isdecimal() or int(text) >= count):
        known = ", ".join(f"cuda:{i}" for i in range(count))
        raise DeviceError(f"there is no device {name!r}; torch finds {known}.")
    try:
        index = int(text) if text else int(torch.cuda.current_device())
        torch.ones(1, device=f"cuda:{index}").add_(1).item()
    except (RuntimeError, AssertionError) as error:
        raise DeviceError(_broken(name, first_line(error))) from None
    return index


def _why_none(warned: list[str]) -> str:
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        return (
            f"torch {torch.__version__} finds no GPU here, since it is built for processors alone; "
            f"{_INSTALL}, or measure 'cpu'."
        )
    hidden = next((v for v in _VISIBLE if os.environ.get(v, "0").strip() in {"", "-1"}), "")
    if hidden:
        return f"torch finds no GPU here, since {hidden} hides them all; unset it."
    try:
        torch.cuda.init()
        reason = next(iter(warned), "the driver lists none")
    except (RuntimeError, AssertionError) as error:
        reason = str(error)
    return (
        f"torch {torch.__version__} finds no GPU here: {_first_sentence(reason)}. Install or "
        f"update the driver, or {_INSTALL} and driver, or measure 'cpu'."
    )


def _broken(name: str, reason: str) -> str:
    import torch

    built = ", ".join(torch.cuda.get_arch_list()) or "none"
    return (
        f"{name!r} does not work: {reason.rstrip('.')}. This torch has kernels for {built}; if "
        f"'no kernel image' is the reason, {_INSTALL}. If memory is, end what else runs on it."
    )


def _first_sentence(text: str) -> str:
    line = (text.strip().splitlines() or ["no reason was given"])[0]
    return line.partition(". ")[0].rstrip(".")


def identity(index: int) -> dict[str, str]:
    """What decides whether a stored measurement of a GPU still holds."""
    import torch

    seen = about(index)
    return {
        "device": f"{seen.name} cuda:{index}",
        "uuid": seen.uuid,
        "memory": str(seen.total_bytes),
        "units": str(seen.units),
        "runtime": str(torch.version.cuda or torch.version.hip),
        "driver": driver(),
        "torch": str(torch.__version__),
        "gambrel": __version__,
    } | outside_settings()


def outside_settings() -> dict[str, str]:
    """Variables of the environment that change what the libraries compute, where they are set."""
    return {name: value for name in _OUTSIDE if (value := os.environ.get(name))}


def driver() -> str:
    """The kernel driver's version as it says itself; else which CUDA it serves; else empty."""
    for place in ("/sys/module/nvidia/version", "/sys/module/amdgpu/version"):
        try:
            return Path(place).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
    import torch

    asked: Any = getattr(torch._C, "_cuda_getDriverVersion", None)
    if asked is None or torch.version.hip:
        return ""
    try:
        return f"for CUDA {asked() / 1000:g}"  # 12040 is 12.4
    except RuntimeError:
        return ""
