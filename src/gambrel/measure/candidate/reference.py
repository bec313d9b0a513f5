"""The reference as something that can be called, with example inputs; it stays in this process."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gambrel.errors import InputError
from gambrel.measure.candidate.compare import ReferenceOutput, error_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a candidate is compared with.

    Attributes:
        module: A ``torch.nn.Module`` on the CPU.
        example: Its inputs.
        file: Where it is defined; empty for none.
    """

    module: Any
    example: tuple[Any, ...]
    file: str = ""

    def expected(self, inputs: list[Any]) -> ReferenceOutput:
        """What it gives, and how far that is from double precision."""
        import torch

        with torch.no_grad():
            outputs = _listed(self.module(*[t.clone() for t in inputs]))
            try:
                wide = copy.deepcopy(self.module).double()
                exact = _listed(wide(*[_double(t) for t in inputs]))
            except Exception:  # not every reference has a double version
                return ReferenceOutput(outputs=outputs, own_error=0.0)
        errors = [error_of(a, b) for a, b in zip(outputs, exact, strict=True)]
        known = [e for e in errors if e != float("inf")]
        return ReferenceOutput(outputs=outputs, own_error=max(known, default=0.0))


def reference_of(model: Any, inputs: Any, kwargs: Any) -> Reference:
    """The reference of a question.

    Raises:
        InputError: It cannot be run: a description, or example inputs with keywords.
    """
    from gambrel.capture.named_op import is_named_op

    if kwargs:
        raise InputError("--run needs a reference with positional inputs only.")
    if not isinstance(model, (str, Path)):
        return _live(model, inputs)
    text = str(model)
    if is_named_op(text):
        from gambrel.measure.candidate.named import reference_of_op

        module, example = reference_of_op(text)
        return Reference(module=module, example=example)
    place, _, name = text.rpartition(":")
    file = place or text
    if not file.endswith(".py"):
        raise InputError(
            f"{text} cannot be run as a reference; give file.py:function, a KernelBench problem, "
            "a module with inputs, or an op."
        )
    from gambrel.capture.files.python_source import load_target
    from gambrel.capture.kernelbench import is_problem, module_and_inputs

    where = str(Path(file).resolve())
    if name in ("", "Model") and is_problem(Path(file)):
        module, example = module_and_inputs(Path(file))
        return Reference(module=module, example=example, file=where)
    loaded = load_target(text, device="cpu")
    if not loaded.args or loaded.kwargs:
        raise InputError(f"{text} must return (model, inputs) with positional inputs for --run.")
    return Reference(module=loaded.model.eval(), example=loaded.args, file=where)


def _live(model: Any, inputs: Any) -> Reference:
    from gambrel.capture.files.python_source import as_module
    from gambrel.capture.inputs import given_call

    args, kwargs = given_call(model, inputs, None)
    if not args or kwargs:
        raise InputError("give the reference's inputs as inputs=, a tensor or a tuple of them.")
    return Reference(module=model if hasattr(model, "eval") else as_module(model), example=args)


def _double(tensor: Any) -> Any:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _listed(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)
