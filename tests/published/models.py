"""What a published row names as its model: a zoo entry, a configuration, code, or a single op."""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache

import gambrel

from .rows import FOLDER
from .single_ops import single_op

#: Language models, built from their configuration in the phase that is asked for.
CONFIGURED = {
    "deepseek-v3",
    "gpt-oss-120b",
    "llama-3.1-405b",
    "llama-3.1-70b",
    "llama-3.1-8b",
    "minimax-m2",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "qwen3-32b",
}
#: Built for the number of steps that is asked for.
PIPELINES = {"stable-diffusion-xl"}


@cache
def subject_of(name: str, batch: int | None, sizes: str) -> str | gambrel.Workload:
    """What `gambrel.analyze` takes.

    Args:
        name: The ``model`` of a row.
        batch: Items at once, for models that are captured.
        sizes: The ``sizes`` of a row.
    """
    kind, _, rest = name.partition(":")
    chosen = {k: int(v) for k, _, v in (pair.partition("=") for pair in sizes.split())}
    if kind == "op":
        return single_op(rest, chosen)
    if kind == "torchvision":
        return _torchvision(rest, batch or 1, chosen["image"])
    if name.startswith("kernelbench/"):
        return _problem(name)
    if name.startswith("configs/"):
        return str(FOLDER / name)
    return name if name in CONFIGURED | PIPELINES else _zoo(name)


def is_language_model(subject: str | gambrel.Workload) -> bool:
    """Whether a phase must be chosen."""
    return isinstance(subject, str) and (subject.endswith(".json") or subject in CONFIGURED)


@cache
def _zoo(name: str) -> gambrel.Workload:
    return gambrel.load_model(name)


@cache
def _torchvision(name: str, batch: int, image: int) -> gambrel.Workload:
    import torch

    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()
    from torchvision import models

    build = getattr(models.segmentation if "." in name else models, name.split(".")[-1])
    options = {"weights": None} | ({"weights_backbone": None} if "." in name else {})
    if name in {"googlenet", "inception_v3"}:
        options |= {"init_weights": False, "aux_logits": name == "inception_v3"}
    # RegNet reads the values of a tensor while it is built.
    with torch.device("cpu" if name.startswith("regnet") else "meta"):
        module = build(**options).eval()
        return gambrel.load_model(module, inputs=torch.empty(batch, 3, image, image))


@cache
def _problem(name: str) -> gambrel.Workload:
    """Captures a problem of KernelBench; its inputs take gigabytes, so they stay on meta."""
    import torch

    spec = importlib.util.spec_from_file_location("problem", FOLDER / name)
    problem = importlib.util.module_from_spec(spec)
    # Some problems make torch warn about their own shapes.
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        spec.loader.exec_module(problem)
        module = problem.Model(*problem.get_init_inputs())
        return gambrel.load_model(module, inputs=tuple(problem.get_inputs()))
