"""The speed of light of a published row."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import gambrel

from .rows import FOLDER, Row
from .single_ops import single_op

#: Batches that a submitter may have used, where the source does not say.
BATCHES = (1, 8, 64, 512, 4096)


def sol_s(row: Row) -> float | None:
    """Seconds that no run of the row's workload can beat, for an item where a rate is published.

    Args:
        row: A row.

    Returns:
        None where the device publishes no roof that counts.
    """
    if row.note.startswith("training"):
        return _training_s(row)
    if row.quantity == "latency_s":
        seconds = _run_s(row.model, row.device, row.precision, row.batch, row.sizes)
        return seconds and seconds / row.devices
    times = [(b, _run_s(row.model, row.device, row.precision, b, row.sizes)) for b in BATCHES]
    return min((seconds / batch for batch, seconds in times if seconds), default=None)


def sol_of(analysis: gambrel.Analysis) -> float | None:
    """The figure that is claimed to be unbeatable."""
    return analysis.ideal_bound_time_s


@cache
def _run_s(
    model: str, device: str, precision: str, batch: int | None, sizes: str
) -> float | None:
    chosen = {k: int(v) for k, _, v in (pair.partition("=") for pair in sizes.split())}
    if model.startswith("op:"):
        subject, chosen = single_op(model[3:], chosen), {}
    else:
        subject = _model(model, batch, chosen.get("image"))
        if not isinstance(subject, str):
            batch, chosen = None, {}
    phase = {"seq": "prefill", "context": "decode"}.get(next(iter(chosen), ""))
    return sol_of(
        gambrel.analyze(
            subject,
            device,
            batch_size=batch,
            precision=precision,
            sizes=chosen,
            phase=phase if _is_language_model(subject) else None,
        )
    )


def _training_s(row: Row) -> float:
    """Seconds per token on one device."""
    found = gambrel.train_plan(
        _model(row.model, None, None),
        row.device,
        seq=row.numbers["seq"],
        sequences=row.batch or 1,
        precision=row.precision,
    )
    return found.model_flops / _peak(found)


def _peak(plan: Any) -> float:
    return max(w.peak_flop_per_s for w in plan.passes.total.work if w.work_class == "matrix")


def _is_language_model(subject: Any) -> bool:
    return isinstance(subject, str) and (
        subject.endswith(".json") or subject in {"qwen3-32b", "minimax-m2", "llama-3.1-8b"}
        or subject == "deepseek-v3"
    )


@cache
def _model(name: str, batch: int | None, image: int | None) -> Any:
    """What `gambrel.analyze` takes: a name, the path of a file, or a captured workload."""
    place, _, rest = name.partition(":")
    if place == "torchvision":
        return _torchvision(rest, batch or 1, image or 224)
    if name.startswith("kernelbench/"):
        return _problem(name)
    return str(FOLDER / name) if name.startswith("configs/") else name


def _torchvision(name: str, batch: int, image: int) -> gambrel.Workload:
    import torch

    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()
    from torchvision import models

    build = getattr(models.segmentation if "." in name else models, name.split(".")[-1])
    known = {"weights": None} | ({"weights_backbone": None} if "." in name else {})
    extra = {"init_weights": False} if name in {"googlenet", "inception_v3"} else {}
    extra |= {"aux_logits": False} if name == "googlenet" else {}
    with torch.device("meta"):
        module = build(**known, **extra).eval()
        return gambrel.load_model(module, inputs=torch.empty(batch, 3, image, image))


def _problem(name: str) -> gambrel.Workload:
    """Captures a problem of KernelBench; its inputs take gigabytes, so they stay on meta."""
    import torch

    spec = importlib.util.spec_from_file_location("problem", FOLDER / name)
    problem = importlib.util.module_from_spec(spec)
    with torch.device("meta"):
        spec.loader.exec_module(problem)
        module = problem.Model(*problem.get_init_inputs())
        return gambrel.load_model(module, inputs=tuple(problem.get_inputs()))
