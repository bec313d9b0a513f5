"""From a file to a diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gambrel.analysis.samples import Samples, place
from gambrel.analysis.samples.diagnose import recommend
from gambrel.analysis.samples.diagnosis import Diagnosis, DiagnosisItem
from gambrel.device.model import Device
from gambrel.errors import InputError
from gambrel.traces.devices import catalog_device, roofs_for
from gambrel.traces.diagnose.checks import CheckContext
from gambrel.traces.diagnose.rules import RULES
from gambrel.traces.diagnose.timeline import read_timeline
from gambrel.traces.formats import is_beside, read
from gambrel.traces.kineto.reader import FORMAT

#: Lines that a reader takes in.
_MOST: Final = 10


def diagnose(
    paths: Sequence[Path], device: Device | str | None = None, model: str = ""
) -> Diagnosis:
    """What makes a recorded run slow.

    Args:
        paths: A trace of PyTorch, or any other file that `gambrel import` reads; beside it logs of
            clocks and power.
        device: Whose roofs kernels are held against; None takes what the file says.
        model: What ran, as commands take it.

    Raises:
        FileFormatError: A file cannot be read, or nothing in it has a time.
        InputError: Several recordings are named.
    """
    logs = [path for path in paths if is_beside(path)]
    recordings = [path for path in paths if path not in logs]
    if len(recordings) > 1:
        raise InputError(
            f"one recording at a time, with logs of clocks beside it; {len(recordings)} are named."
        )
    samples = read(list(paths))
    path = recordings[0]
    roofs, _ = roofs_for(samples, device)
    line = read_timeline(path) if samples.format == FORMAT else None
    whole_s = line.whole_s if line else sum(s.time_s or 0.0 for s in samples.launches)
    context = CheckContext(
        files=(path, *logs),
        model=model,
        device=device if isinstance(device, str) else _named(samples),
        on_gpu=line is None or bool(line.kernels),
    )
    items = [] if line is None else [i for rule in RULES for i in rule(line)]
    if line is None or line.kernels:
        items += _kernels(samples, roofs, whole=line is None)
    items = _with_clocks(items, samples, whole_s)
    items = [replace(i, command=context.command(i.cause, i.command)) for i in items]
    return _ranked(path, whole_s, items, samples.notes if line is None else _said(samples))


def _named(samples: Samples) -> str:
    """The device of the catalog that the files name."""
    known = catalog_device(samples)
    return "" if known is None else known.id


def _said(samples: Samples) -> tuple[str, ...]:
    """What was logged beside a trace."""
    return () if samples.clocks is None else (samples.clocks.summary,)


def _with_clocks(
    items: list[DiagnosisItem], samples: Samples, whole_s: float
) -> list[DiagnosisItem]:
    """What the clocks beside a recording say of throttling, in place of a guess from times."""
    if samples.clocks is None:
        return items
    slow = samples.clocks.slowdown()
    others = [i for i in items if i.cause != "clock throttling"]
    if slow is None:
        return others
    said = DiagnosisItem(
        cause="clock throttling",
        saves_s=slow.share * whole_s,
        saves_share=slow.share,
        evidence=slow.evidence,
        change=_COOLING.get(slow.because, "look at cooling, the power limit and set clocks"),
    )
    return [*others, said]


_COOLING: Final = {
    "power cap": "a higher power limit (nvidia-smi -pl), fewer GPUs on one supply, less traffic",
    "power at its limit": "a higher power limit (nvidia-smi -pl), less traffic for the same work",
    "temperature": "better cooling: air flow, fans, the place in the rack",
    "clocks set by the user": "reset the clocks: nvidia-smi -rgc, nvidia-smi -rac",
}


def _kernels(samples: Samples, roofs: Device | None, *, whole: bool) -> list[DiagnosisItem]:
    """What the roofs say of single kernels, and of the run where no rule of a timeline does."""
    if roofs is None:
        return []
    return [
        DiagnosisItem(
            cause=found.kernel or "the run",
            saves_s=found.saves_s,
            saves_share=found.share,
            evidence=found.cause,
            change=found.change,
        )
        for found in recommend(place(samples, roofs))
        if whole or found.kernel
    ]


def _ranked(
    path: Path, whole_s: float, items: Sequence[DiagnosisItem], notes: Sequence[str]
) -> Diagnosis:
    order = sorted(items, key=lambda item: -(item.saves_s or 0.0))
    return Diagnosis(
        source=path.name, whole_s=whole_s, items=tuple(order[:_MOST]), notes=tuple(notes)
    )
