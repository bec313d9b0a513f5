"""Capture of PyTorch models. Importing this package does not import torch; calling it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

from gambrel.capture.torch.shim import ensure_torchvision
from gambrel.errors import MissingExtraError
from gambrel.workload import Workload

__all__ = ["capture", "ensure_torchvision", "lean_init"]


def capture(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    train: bool = False,
    autocast: str | None = None,
    optimizer: Any = None,
    loss: Callable[[Any], Any] | None = None,
    name: str = "",
    origin: str = "",
    source: bool = True,
    views: bool = False,
    execute: bool = False,
    device: str = "cuda",
) -> Workload:
    """Runs a model over tensors without data and returns what it asked for.

    No weight is read and nothing is computed: parameters, buffers and inputs are replaced by
    twins on torch's meta device for the duration of the call, and put back afterwards, whatever
    happens. The model's training flag decides how dropout and batch norm behave, as in a call.

    Args:
        model: A ``torch.nn.Module`` (or any callable), on any device, with or without weights.
        args: Example inputs: a tensor, a tuple of positional arguments, or a dict of keyword
            arguments. Real or meta tensors, nested in containers, dataclasses or cache objects.
        kwargs: More keyword arguments.
        train: Record a training step (forward, backward, optimizer) in training mode. Otherwise
            the model runs as it is, without gradients.
        autocast: ``"fp16"`` or ``"bf16"``: runs the forward pass and the loss inside
            ``torch.autocast`` of that format, as code that calls it does by itself; casts are ops.
        optimizer: With ``train``: ``"adamw"`` (the default), ``"adam"``, ``"sgd"``,
            ``"sgd_momentum"``, a class or an instance of ``torch.optim.Optimizer``, or ``"none"``.
        loss: With ``train``: a scalar from the model's outputs; by default the outputs' ``loss``,
            else their sum.
        name: Name of the workload; by default the model's class.
        origin: Where the model comes from; by default torch's version and the class.
        source: Note the line of the model's code for every op.
        views: Keep views (reshape, slice, ...) as ops of kind ``"view"``; they cost nothing and
            are otherwise only seen in the storages that tensors share.
        execute: Run for real on the model's own device instead (needs weights, memory and time);
            used to check that both say the same.
        device: torch's name of what it will run on. GPUs have one kernel for dropout, a CPU three
            ops.

    Returns:
        The workload, with fixed sizes.

    Raises:
        CaptureError: The model fails on the meta device or reads values that depend on data; the
            message names the op and the module and says what to do.
        MissingExtraError: torch is not installed.
    """
    _require_torch()
    from gambrel.capture.torch.session import CaptureOptions, run

    options = CaptureOptions(
        train=train,
        autocast=autocast,
        optimizer=optimizer,
        loss=loss,
        name=name,
        origin=origin,
        source=source,
        views=views,
        execute=execute,
        device=device,
    )
    return run(model, args, kwargs, options)


def lean_init(dtype: Any = None) -> AbstractContextManager[None]:
    """A context in which modules are built without memory for their parameters.

    Parameters go to the meta device as they are registered; buffers and other small tensors stay
    real, so that constructors that compute with them work. A model of 405 billion parameters is
    built in a fraction of a gigabyte.

    Args:
        dtype: Default floating dtype while building, as a ``torch.dtype``; unchanged when None.

    Raises:
        MissingExtraError: torch is not installed.
    """
    _require_torch()
    from gambrel.capture.torch.lean import lean

    return lean(dtype)


def _require_torch() -> None:
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", "capturing a PyTorch model")
