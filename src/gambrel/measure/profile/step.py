"""One step of a model as a call: a forward pass, or forward, loss, backward and optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any, Final

from gambrel.errors import InputError

#: Marks the optimizer's part of a step in the profiler's record.
OPTIMIZER: Final = "gambrel.optimizer"

#: A step must not move the weights far: values that overflow run at another speed.
_RATE: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What a training step consists of beside the model.

    Attributes:
        optimizer: As for `gambrel.capture.torch.capture`; None is AdamW, ``"none"`` is no step.
        loss: A scalar from the model's outputs; None takes their ``loss``, else their sum.
    """

    optimizer: Any = None
    loss: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStep:
    """One step, ready to run.

    Attributes:
        run: Runs it.
        held: Frees what the last step left, and returns the tensors that live on between steps.
    """

    run: Callable[[], Any]
    held: Callable[[], tuple[Any, ...]]


@contextmanager
def step_of(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], training: Training | None
) -> Iterator[PreparedStep]:
    """One step of a model; afterwards everything is as it was.

    Weights, gradients, buffers, the training flag and the random state are restored.

    Args:
        model: A module, or what ``torch.compile`` made of one.
        args: Positional arguments, on the model's device.
        kwargs: Keyword arguments.
        training: None for a forward pass without gradients.
    """
    import torch

    # Without a list, every GPU of the machine would be started, and torch warns of it.
    gpus = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    if training is None:

        def forward() -> Any:
            with torch.no_grad():
                return model(*args, **kwargs)

        with torch.random.fork_rng(devices=gpus):  # dropout of a model in training mode
            yield PreparedStep(run=forward, held=lambda: (*model.parameters(), *model.buffers()))
        return
    with _as_before(model), torch.random.fork_rng(devices=gpus), torch.enable_grad():
        model.train()
        yield _training_step(model, args, kwargs, training)


def _training_step(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], training: Training
) -> PreparedStep:
    import torch
    from torch.profiler import record_function

    from gambrel.capture.torch.training import loss_of

    optimizer = _optimizer(training.optimizer, [p for p in model.parameters() if p.requires_grad])

    def free() -> None:
        for parameter in model.parameters():
            parameter.grad = None

    def step() -> None:
        free()
        loss, _ = loss_of(model(*args, **kwargs), training.loss)
        loss.backward()
        if optimizer is not None:
            with record_function(OPTIMIZER):
                optimizer.step()

    def held() -> tuple[Any, ...]:
        free()
        states = optimizer.state.values() if optimizer is not None else ()
        kept = [t for state in states for t in state.values() if isinstance(t, torch.Tensor)]
        return (*model.parameters(), *model.buffers(), *kept)

    return PreparedStep(run=step, held=held)


def _optimizer(chosen: Any, parameters: list[Any]) -> Any:
    """An optimizer of the user's kind over the parameters; never the user's own instance."""
    import torch

    if isinstance(chosen, torch.optim.Optimizer):
        taken = signature(type(chosen).__init__).parameters
        settings = {k: v for k, v in chosen.defaults.items() if k in taken}
        return type(chosen)(parameters, **{**settings, "lr": _RATE})
    if isinstance(chosen, type):
        return chosen(parameters, lr=_RATE)
    name = "adamw" if chosen is None else str(chosen).lower().replace("-", "_")
    kinds = {
        "adamw": (torch.optim.AdamW, {}),
        "adam": (torch.optim.Adam, {}),
        "sgd": (torch.optim.SGD, {}),
        "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9}),
    }
    if name == "none":
        return None
    if name not in kinds:
        raise InputError(f"unknown optimizer {chosen!r}; choose one of {', '.join(kinds)}, none.")
    kind, options = kinds[name]
    return kind(parameters, lr=_RATE, fused=True, **options)


@contextmanager
def _as_before(model: Any) -> Iterator[None]:
    import torch

    flags = {m: m.training for m in model.modules()}
    gradients = [(p, p.grad) for p in model.parameters()]
    tensors = (*model.parameters(), *model.buffers())
    values = [(t, t.detach().clone()) for t in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in values:
                tensor.copy_(value)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for module, flag in flags.items():
            module.training = flag
