"""Changes of how the model is run: kernels, layout, batch and other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from gambrel.advise.attention import fused_attention, spells_out_attention
from gambrel.advise.case import (
    Effort,
    Kind,
    Scenario,
    as_built,
    none_proposed,
    on_workload,
    where,
    with_settings,
)
from gambrel.advise.layout import channels_last, has_layout_copies, has_turned
from gambrel.analysis.settings import is_language_model, runs_as_language
from gambrel.errors import InputError
from gambrel.runtimes import Kernels, candidates, check_runs, following, named

_LARGEST_BATCH: Final = 1024


def sized(case: Scenario, name: str, text: str) -> Scenario:
    """The case with another value of a size.

    Raises:
        InputError: No whole number.
    """
    try:
        value = int(text)
    except ValueError:
        raise InputError(f"change {name}={text!r}: write a whole number.") from None
    if value < 1:
        raise InputError(f"change {name}={text!r}: give a whole number of at least 1.")
    changed = with_settings(case, sizes={**(case.settings.sizes or {}), name: value})
    fixed = any(s.name == name and s.minimum == s.maximum for s in case.workload.symbols)
    return as_built(changed) if fixed else changed


def _after(move: str, refusal: str) -> Callable[[Scenario, str], Scenario]:
    """The change to the runtime that follows the present one, and why there is none."""

    def apply(case: Scenario, _: str) -> Scenario:
        after: str = getattr(case.runtime, move)
        if not after:
            raise InputError(f"{case.runtime.name} {refusal}")
        return _under(case, after)

    return apply


def _follows(move: str) -> Callable[[Scenario], Iterable[str]]:
    return where(lambda case: following(case.runtime, move, case.device) is not None)


def _under(case: Scenario, name: str) -> Scenario:
    """The case under another runtime.

    Raises:
        UnknownNameError: No such runtime.
        InputError: It does not run there.
    """
    found = named(name, case.device)
    language, training = runs_as_language(case.workload, found.id), case.workload.training
    check_runs(found, case.device, language=language, training=training)
    return as_built(replace(with_settings(case, runtime=found.id), default_runtime=False))


def _runtimes(case: Scenario) -> Iterable[str]:
    """Others that run there, those apart that changes of their own lead to."""
    now = case.runtime.id
    language, training = is_language_model(case.workload), case.workload.training
    precision = None if case.workload.precisions else case.precision
    there = candidates(case.device, precision, language=language, training=training)
    found = (r.id for r in there)
    return [name for name in found if name not in {now, case.runtime.fused, case.runtime.recorded}]


def _turns(case: Scenario) -> bool:
    """Whether something turns images: PyTorch's libraries on GPUs, or copies in the model."""
    library = case.runtime.kernels is Kernels.OP and "gpu" in case.device.category
    return has_layout_copies(case.form) or (library and has_turned(case.form))


def _size(name: str) -> Callable[[Scenario, str], Scenario]:
    def apply(case: Scenario, text: str) -> Scenario:
        if name not in case.sizes:
            have = ", ".join(case.sizes) or "none"
            raise InputError(f"{case.workload.name} has no size {name!r}; it has {have}.")
        return sized(case, name, text)

    return apply


def _batches(case: Scenario) -> Iterable[str]:
    """Doublings; the caller stops where they no longer pay."""
    batch = case.sizes.get("batch")
    most = min(_LARGEST_BATCH, case.runtime.max_batch or _LARGEST_BATCH)
    while batch is not None and batch < most:
        batch *= 2
        yield str(batch)


FUSION: Final = (
    Kind(
        name="fuse",
        about="Compile the model: element-wise chains and reductions run as one kernel; costs "
        "compile time.",
        example="fuse",
        apply=_after("fused", "fuses already what it can; fuse changes nothing."),
        propose=_follows("fused"),
        takes_value=False,
    ),
    Kind(
        name="attention",
        about="Run attention that the model spells out as one kernel; costs a change of code, and "
        "the kernel must take its mask and head size.",
        example="attention",
        apply=on_workload(fused_attention),
        propose=where(lambda case: spells_out_attention(case.form)),
        takes_value=False,
    ),
    Kind(
        name="channels-last",
        about="Keep the channels of images last (in PyTorch, memory_format=torch.channels_last for "
        "model and inputs), so that neither libraries nor the model turn them for convolutions.",
        example="channels-last",
        apply=on_workload(channels_last),
        propose=where(_turns),
        takes_value=False,
    ),
    Kind(
        name="graphs",
        about="Record the kernels once and replay them as a CUDA graph, so that the host does not "
        "launch each; shapes must not change.",
        example="graphs",
        apply=_after("recorded", "has no host launches to record."),
        propose=_follows("recorded"),
        takes_value=False,
    ),
)

BATCH: Final = Kind(
    name="batch",
    about="Weights are read once for more items; each batch takes longer and needs more memory, "
    "and that many requests must be there at once.",
    example="batch=8",
    apply=_size("batch"),
    propose=_batches,
    effort=Effort.BATCH,
)

RUNTIME: Final = Kind(
    name="runtime",
    about="Another runtime: other kernels, other host overhead.",
    example="runtime=tensorrt",
    apply=_under,
    propose=_runtimes,
)

SIZES: Final = tuple(
    Kind(
        name=name,
        about="Other sizes: another question, not the same work done faster.",
        example=example,
        apply=_size(name),
        propose=none_proposed,
    )
    for name, example in (
        ("seq", "seq=512"),
        ("context", "context=1024"),
        ("image", "image=320"),
    )
)
