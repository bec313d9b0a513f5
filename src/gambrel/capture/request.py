"""What is asked of a model, and what is answered: the records of every way in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gambrel.capture.inputs import ExampleInput
from gambrel.dtypes import in_groups, names_parts, of_weights
from gambrel.errors import CaptureError, InputError
from gambrel.workload import Workload


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """How to turn a model into a workload.

    Attributes:
        inputs: Example inputs of a module, live, from code or from a trusted file: one tensor, a
            tuple of positional arguments, or a dict of keyword arguments.
        kwargs: Its keyword arguments.
        input_shapes: Descriptions of example inputs (shape, format, name) in their place.
        phase: ``"prefill"`` or ``"decode"`` for language models.
        train: Include backward and optimizer.
        autocast: The 16-bit format of ``torch.autocast`` around the model, or None.
        trust: The user's explicit word that a file may run code.
        sizes: Sizes already chosen; a configuration file is built or captured at these.
        precision: Number formats, part by part; applied to a language model's configuration.
        keep_open: Leave sizes open even where windows of attention make memory depend on them in
            another way than a polynomial.
        ranges: The least and the greatest value that a size left open will take, where known.
        layers: Whose layers of a language model run, as `gambrel.runtimes.Runtime.layers` has it.
    """

    inputs: Any = None
    kwargs: Mapping[str, Any] | None = None
    input_shapes: Sequence[ExampleInput | Sequence[int] | str] = ()
    phase: str | None = None
    train: bool = False
    autocast: str | None = None
    trust: bool = False
    sizes: Mapping[str, int | None] = msgspec.field(default_factory=dict)
    precision: str | None = None
    keep_open: bool = False
    ranges: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    layers: str = "code"


def by_part(layers: str, precision: str | None) -> str | None:
    """The formats to build a language model with; None leaves one for all to the analysis."""
    if is_for_all(layers, precision):
        return None
    return in_groups(precision) if layers == "grouped" else precision


def is_for_all(layers: str, precision: str | None) -> bool:
    """Whether an engine takes a format for all parts of a language model; ``w4a16`` is int4."""
    one = not names_parts(precision) or of_weights(precision) is not None
    return layers == "single" and one


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A workload, and what the user should know of how it was found."""

    workload: Workload
    notes: tuple[str, ...] = ()


def refuse_what_was_ignored(resolved: ResolvedModel, request: Request) -> None:
    """A training step or casts that were asked for, of a model that has neither.

    Raises:
        CaptureError: The model is no code of PyTorch.
    """
    workload = resolved.workload
    if request.autocast and not workload.is_autocast:
        raise CaptureError(
            f"{workload.name} is neither code of PyTorch nor a built-in network, so that nothing "
            f"casts; give file.py:function or timm/NAME, or say --precision {request.autocast} "
            "for a model that is in 16 bits throughout."
        )
    if request.train and not workload.training:
        raise CaptureError(
            f"{workload.name} is an inference workload; for a training step give code of PyTorch "
            "(file.py:function, timm/NAME, or in Python the module itself with inputs and "
            "train=True) or a built-in network, e.g. 'gambrel analyze resnet50 --hardware h100 "
            "--train'; of a language model run 'gambrel train-plan', e.g. 'gambrel train-plan "
            "llama-3-8b --hardware h100 --seq 4096'."
        )


def refuse_inputs(what: str, request: Request) -> None:
    """Example inputs where nothing is run with them: their sizes would be ignored."""
    if request.inputs is None and not request.kwargs and not request.input_shapes:
        return
    raise InputError(
        f"{what}, which takes no example inputs; leave them out and choose its sizes "
        "(--batch, --seq, --image, --size NAME=N; in Python batch_size=, seq=, image=, sizes=)."
    )
