"""A training step: forward, loss, backward, optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch.nested import tensors_of
from gambrel.capture.torch.semantic import muted
from gambrel.errors import CaptureError
from gambrel.workload import Attributes, Phase, Role

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """How an optimizer updates one parameter in one fused pass.

    Attributes:
        function: Its name in the formula of kind ``"optimizer"``.
        states: Names of the tensors of the parameter's size that it keeps.
        weight_decay: Whether the decay is added to the gradient first.
    """

    function: str
    states: tuple[str, ...] = ()
    weight_decay: bool = False


_NAMED: Final[dict[str, _Rule]] = {
    "adamw": _Rule(function="adamw", states=("exp_avg", "exp_avg_sq")),
    "adam": _Rule(function="adam", states=("exp_avg", "exp_avg_sq")),
    "sgd": _Rule(function="sgd"),
    "sgd_momentum": _Rule(function="sgd_momentum", states=("momentum_buffer",)),
}


#: Steps before the one that is recorded: the first one makes the states, and RAdam corrects its
#: averages from the sixth on.
_FIRST_STEPS: Final = 6


def train_step(model: Any, args: Any, kwargs: Any, session: Session) -> Any:
    """Runs and records one step; returns the model's outputs.

    Raises:
        CaptureError: Nothing to train, a loss that is no scalar, or an unknown optimizer.
    """
    optimizer = _chosen(session.options.optimizer)
    recorder = session.recorder
    with torch.enable_grad(), recorder:
        with session.autocast.asked():
            outputs = model(*args, **kwargs)
            loss = _loss(outputs, session)
        recorder.phase = Phase.BACKWARD
        loss.backward()
        recorder.phase = Phase.OPTIMIZER
        parameters = _trained(model, session)
        _label_input_gradients((args, kwargs), session)
        if optimizer is not None:
            with torch.no_grad():
                optimizer(parameters, session)
    for _, tensor in parameters:
        tensor.grad = None
    return outputs


def _loss(outputs: Any, session: Session) -> Any:
    total, summed = loss_of(outputs, session.options.loss)
    if summed:
        session.assumptions.add("the loss is the sum of the outputs, for want of another")
    return total


def loss_of(outputs: Any, given: Callable[[Any], Any] | None = None) -> tuple[Any, bool]:
    """The loss of a step, and whether it is only the sum of the outputs.

    Args:
        outputs: Of the model.
        given: The user's own loss; None takes the outputs' ``loss``, else their sum.

    Raises:
        CaptureError: Nothing to train, or a loss that is no scalar.
    """
    if given is not None:
        return _scalar(given(outputs)), False
    own = outputs.get("loss") if isinstance(outputs, dict) else getattr(outputs, "loss", None)
    if isinstance(own, torch.Tensor):
        return _scalar(own), False
    parts = [t for t, cached in tensors_of(outputs) if t.requires_grad and not cached]
    if not parts:
        raise CaptureError("no output depends on a trainable parameter: nothing to train")
    total = parts[0].sum()
    for part in parts[1:]:
        total = total + part.sum()
    return total, True


def _scalar(loss: Any) -> Any:
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
        seen = f"shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(type(loss))
        raise CaptureError(f"the loss must be one number that can be differentiated, not {seen}")
    return loss


def _trained(model: Any, session: Session) -> list[tuple[str, Any]]:
    """The parameters that received a gradient; the gradients get their role."""
    found = []
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            session.ledger.label(parameter.grad, Role.GRADIENT, f"{name}.grad")
            found.append((name, parameter))
    return found


def _label_input_gradients(inputs: Any, session: Session) -> None:
    for tensor, _ in tensors_of(inputs):
        if tensor.is_leaf and tensor.grad is not None:
            session.ledger.label(tensor.grad, Role.GRADIENT)


def _chosen(optimizer: Any) -> Any:
    """A function that records a step over named parameters, or None for no step."""
    if optimizer is None:
        optimizer = "adamw"
    if isinstance(optimizer, str):
        key = optimizer.lower().replace("-", "_")
        if key == "none":
            return None
        if key not in _NAMED:
            raise CaptureError(
                f"unknown optimizer {optimizer!r}; choose one of {', '.join(_NAMED)}, none, or "
                "give a class of torch.optim."
            )
        return _fused(_NAMED[key], f"torch.optim.{key}")
    if isinstance(optimizer, torch.optim.Optimizer):
        return _of_class(type(optimizer), optimizer.defaults)
    if isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer):
        return _of_class(optimizer, {})
    raise CaptureError(
        f"optimizer must be a name or a torch.optim.Optimizer, not {type(optimizer).__name__}"
    )


def _of_class(kind: type, defaults: dict[str, Any]) -> Any:
    name = f"torch.optim.{kind.__name__}"
    decays = bool(defaults.get("weight_decay"))
    if kind is torch.optim.AdamW and not defaults.get("amsgrad"):
        return _fused(_NAMED["adamw"], name)
    if kind is torch.optim.Adam and not defaults.get("amsgrad"):
        states = _NAMED["adam"].states
        return _fused(_Rule(function="adam", states=states, weight_decay=decays), name)
    if kind is torch.optim.SGD:
        rule = _NAMED["sgd_momentum" if defaults.get("momentum") else "sgd"]
        function = "sgd_nesterov" if defaults.get("nesterov") else rule.function
        return _fused(_Rule(function=function, states=rule.states, weight_decay=decays), name)
    return _stepped(kind, defaults)


def _fused(rule: _Rule, name: str) -> Any:
    """One op a parameter, as fused optimizers do it; the module that owns it is noted."""

    def step(parameters: Iterable[tuple[str, Any]], session: Session) -> None:
        recorder = session.recorder
        attrs: Attributes = {
            "function": rule.function,
            "fused": True,
            "weight_decay": rule.weight_decay,
        }
        for full_name, parameter in parameters:
            states = [_state(session, parameter, f"{full_name}.{state}") for state in rule.states]
            recorder.scopes.path = full_name.rpartition(".")[0]
            recorder.update(
                name,
                ("optimizer", {"elements": parameter.numel()}, attrs),
                reads=[parameter, parameter.grad, *states],
                writes=[parameter, *states],
            )
        recorder.scopes.path = ""

    return step


def _state(session: Session, parameter: Any, name: str) -> Any:
    state = torch.empty_like(parameter, device="meta")
    session.ledger.label(state, Role.OPTIMIZER_STATE, name)
    return state


def _stepped(kind: type, defaults: dict[str, Any]) -> Any:
    """Runs the step of a class that has no formula: its element-wise ops are recorded."""

    def step(parameters: Iterable[tuple[str, Any]], session: Session) -> None:
        accepted = {k: v for k, v in defaults.items() if k not in ("foreach", "fused")}
        instance = _under_way(lambda: kind([p for _, p in parameters], **accepted), session)
        instance.step()
        for state in instance.state.values():
            for name, tensor in state.items():
                if isinstance(tensor, torch.Tensor) and tensor.dim():
                    session.ledger.label(tensor, Role.OPTIMIZER_STATE, name)

    return step


def _under_way(make: Callable[[], Any], session: Session) -> Any:
    """An optimizer that has made its states; as new where its steps read values of tensors."""
    try:
        with muted(session):
            instance = make()
            for _ in range(_FIRST_STEPS):
                instance.step()
    except (RuntimeError, CaptureError):
        return make()
    return instance
