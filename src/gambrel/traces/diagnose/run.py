"""From a file to a diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gambrel.analysis.samples import place
from gambrel.analysis.samples.diagnose import recommend
from gambrel.analysis.samples.diagnosis import Diagnosis, DiagnosisItem
from gambrel.device.model import Device
from gambrel.traces.devices import roofs_for
from gambrel.traces.diagnose.rules import RULES
from gambrel.traces.diagnose.timeline import read_timeline
from gambrel.traces.formats import read

#: Lines that a reader takes in.
_MOST: Final = 10


def diagnose(path: Path, device: Device | str | None = None) -> Diagnosis:
    """What makes a recorded run slow.

    Args:
        path: A trace of PyTorch, or any other file that `gambrel import` reads.
        device: Whose roofs kernels are held against; None takes what the file says.

    Raises:
        FileFormatError: The file cannot be read, or nothing in it has a time.
    """
    samples = read([path])
    kernels = _kernels(samples, device)
    if samples.format != "PyTorch trace":
        whole = sum(sample.time_s or 0.0 for sample in samples.launches)
        return _ranked(path, whole, kernels, samples.notes)
    line = read_timeline(path)
    items = [item for rule in RULES for item in rule(line)]
    on_gpu = kernels if line.kernels else []
    return _ranked(path, line.whole_s, [*items, *on_gpu], ())


def _kernels(samples: object, device: Device | str | None) -> list[DiagnosisItem]:
    """What the roofs say of single kernels."""
    roofs, _ = roofs_for(samples, device)  # type: ignore[arg-type]
    if roofs is None:
        return []
    standing = place(samples, roofs)  # type: ignore[arg-type]
    return [
        DiagnosisItem(
            cause=found.kernel or "the run",
            saves_s=found.saves_s,
            saves_share=found.share,
            evidence=found.cause,
            change=found.change,
            command="gambrel import FILE --sort headroom",
        )
        for found in recommend(standing)
    ]


def _ranked(
    path: Path, whole_s: float, items: Sequence[DiagnosisItem], notes: Sequence[str]
) -> Diagnosis:
    order = sorted(items, key=lambda item: -(item.saves_s or 0.0))
    return Diagnosis(
        source=path.name, whole_s=whole_s, items=tuple(order[:_MOST]), notes=tuple(notes)
    )
