"""Changes of how the model is run: kernels, layout, batch and other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NoReturn

from gambrel.advise.attention import fused_attention, spells_out_attention
from gambrel.advise.case import Case, Effort, Kind, none_proposed, with_settings
from gambrel.advise.layout import channels_last, has_layout_copies
from gambrel.errors import InputError

_LARGEST_BATCH: Final = 1024


def sized(case: Case, name: str, text: str) -> Case:
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
    return with_settings(case, sizes={**(case.settings.sizes or {}), name: value})


def _fuse(case: Case, _: str) -> Case:
    return with_settings(case, stack="compiled")


def _fusable(case: Case) -> Iterable[str]:
    return [""] if case.settings.stack == "eager" else []


def _stack(case: Case, text: str) -> Case:
    from gambrel.analysis.fusion import parse_stack

    return with_settings(case, stack=parse_stack(text).value)


def _graphs(case: Case, _: str) -> NoReturn:
    raise InputError(
        f"graphs changes no figure of {case.workload.name}: expected times are of kernels back to "
        "back, as in a CUDA graph. Without one the host adds its own time for each launch, which "
        "is not known here; 'fuse' has fewer launches."
    )


def _attention(case: Case, _: str) -> Case:
    return replace(case, workload=fused_attention(case.workload))


def _has_attention(case: Case) -> Iterable[str]:
    return [""] if spells_out_attention(case.workload) else []


def _layout(case: Case, _: str) -> Case:
    return replace(case, workload=channels_last(case.workload))


def _has_copies(case: Case) -> Iterable[str]:
    return [""] if has_layout_copies(case.workload) else []


def _size(name: str) -> Callable[[Case, str], Case]:
    def apply(case: Case, text: str) -> Case:
        if name not in case.sizes:
            have = ", ".join(case.sizes) or "none"
            raise InputError(f"{case.workload.name} has no size {name!r}; it has {have}.")
        return sized(case, name, text)

    return apply


def _batches(case: Case) -> Iterable[str]:
    """Doublings; the caller stops where they no longer pay."""
    batch = case.sizes.get("batch")
    while batch is not None and batch < _LARGEST_BATCH:
        batch *= 2
        yield str(batch)


FUSION: Final = (
    Kind(
        name="fuse",
        about="Compile the model: element-wise chains and reductions run as one kernel; costs "
        "compile time.",
        example="fuse",
        apply=_fuse,
        propose=_fusable,
        takes_value=False,
    ),
    Kind(
        name="attention",
        about="Run attention that the model spells out as one kernel; costs a change of code, and "
        "the kernel must take its mask and head size.",
        example="attention",
        apply=_attention,
        propose=_has_attention,
        takes_value=False,
    ),
    Kind(
        name="channels-last",
        about="Keep convolutional activations with channels last, so that no layout is copied "
        "beside convolutions; what libraries convert inside them is not known here.",
        example="channels-last",
        apply=_layout,
        propose=_has_copies,
        takes_value=False,
    ),
    Kind(
        name="graphs",
        about="Record the run as a CUDA graph.",
        example="graphs",
        apply=_graphs,
        propose=none_proposed,
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

STACK: Final = Kind(
    name="stack",
    about="Another way of making kernels of ops.",
    example="stack=epilogue",
    apply=_stack,
    propose=none_proposed,
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
