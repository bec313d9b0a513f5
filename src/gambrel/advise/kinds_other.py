"""Changes that trade memory, or put another model or device in place of the present one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from gambrel.advise.case import Effort, Kind, Scenario, as_built, on_workload, where, with_settings
from gambrel.analysis.checkpointing import checkpointed
from gambrel.device.model import Device
from gambrel.device.roofs import default_precision, main_memory, resolve
from gambrel.errors import InputError
from gambrel.views import view
from gambrel.workload import Phase, Workload
from gambrel.workload.model import WorkloadSummary


def _trains(case: Scenario) -> bool:
    return any(op.phase is Phase.BACKWARD for op in case.workload.ops)


def _hardware(case: Scenario, text: str) -> Scenario:
    from gambrel.device.files import load_file
    from gambrel.device.lookup import find

    device = load_file(Path(text)) if text.endswith(".toml") else find(text).device
    changed = replace(case, device=device)
    return as_built(with_settings(changed, runtime=None) if case.default_runtime else changed)


def _peers(case: Scenario) -> Iterable[str]:
    """Devices of the same maker and class that draw no more power and could be faster."""
    from gambrel.device.catalog import index, load

    own = case.device
    if own.tdp_w is None:
        return []
    makers = index().vendors
    return [
        d.id
        for d in (load(name) for name in makers if makers[name] == own.vendor)
        if d.category == own.category
        and d.id != own.id
        and d.tdp_w is not None
        and d.tdp_w <= own.tdp_w
        and any(b > a for a, b in zip(_rates(own), _rates(d), strict=True))
    ]


def _rates(device: Device) -> tuple[float, float]:
    """Peak of its own format, and bandwidth; 0 where unknown."""
    roof, memory = resolve(device, "matrix", default_precision(device)[0]), main_memory(device)
    rate = memory.byte_per_s if memory else None
    return (roof.flop_per_s if roof else 0.0, rate or 0.0)


def _model(case: Scenario, text: str) -> Scenario:
    """Another model of the zoo; sizes that it does not have, or that were defaults, are its own."""
    if case.workload.training:
        raise InputError("model=: the built-in models are inference workloads, this is a training.")
    workload: Workload = view("other_model", case.workload, text)
    own = {s.name: s.default for s in workload.symbols}
    old = {s.name: s.default for s in case.workload.symbols}
    asked = {
        name: value
        for name, value in (case.settings.sizes or {}).items()
        if name in own and value != old.get(name)
    }
    new = replace(case, workload=workload, edits=(), unedited=None)
    return as_built(with_settings(new, sizes=asked))


def _variants(case: Scenario) -> Iterable[str]:
    """The next smaller model of the same line: yolov8n for yolov8s."""
    from gambrel.capture import zoo

    models = {m.name: m for m in zoo.list_models()}
    own = models.get(case.workload.name)
    if own is None or case.workload.chosen_dtype:
        return []
    smaller = [m for m in models.values() if _line(m) == _line(own) and m.flops < own.flops]
    nearest = max(smaller, key=lambda m: m.flops, default=None)
    return [nearest.name] if nearest else []


#: Heads that a detector may have instead of boxes: another question, not another size.
_TASKS: Final = ("seg", "pose", "obb", "cls")


def _line(model: WorkloadSummary) -> tuple[str, str, str]:
    """Family, stem of the name, and phase or task: equal for sizes of one architecture."""
    stem = re.match(r"[a-z]+(?:v?\d+(?=[a-z]))?", model.name)
    task = next((t for t in _TASKS if model.name.endswith(f"-{t}")), "")
    return model.family, stem.group() if stem else model.name, _phase(model.name) or task


def _phase(name: str) -> str | None:
    return next((p for p in ("prefill", "decode") if name.endswith(f"-{p}")), None)


KEEPING: Final = (
    Kind(
        name="checkpoint",
        about="Keep only what crosses blocks and compute the rest again in backward: less "
        "memory for more work.",
        example="checkpoint",
        apply=on_workload(lambda workload: checkpointed(workload).workload),
        propose=where(_trains),
        takes_value=False,
    ),
)

REPLACING: Final = (
    Kind(
        name="model",
        about="Another model of the same line; its accuracy is another one and not judged here.",
        example="model=yolov8n",
        apply=_model,
        propose=_variants,
        effort=Effort.REPLACE,
    ),
    Kind(
        name="hardware",
        about="Another device.",
        example="hardware=h200",
        apply=_hardware,
        propose=_peers,
        effort=Effort.REPLACE,
    ),
)
