"""The table from ONNX operators to neutral kinds, and what its rules see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gambrel.capture.aten import Described, TensorArg, describe
from gambrel.capture.aten.call import present
from gambrel.capture.onnx.edges import Edge, Step
from gambrel.ops.rules import RuleTable
from gambrel.workload import Dim


@dataclass(slots=True)
class NodeOperands:
    """A step with its tensors, as rules see it.

    Attributes:
        step: The step.
        inputs: None where one is left out, or its form is not known.
        outputs: Likewise.
        temporary: Makes a tensor between two ops of a rule, from shape and number format.
        times: How many of what the rule describes one step runs; a rule may set it.
    """

    step: Step
    inputs: list[TensorArg | None]
    outputs: list[TensorArg | None]
    temporary: Callable[[tuple[int, ...], str], TensorArg]
    times: int = 1

    def x(self, index: int = 0) -> TensorArg:
        """An input that must be there.

        Raises:
            ValueError: It is not, or its form is not known.
        """
        found = self.optional(index)
        if found is None:
            raise ValueError(f"{self.step.op}: input {index} is not known")
        return found

    def optional(self, index: int) -> TensorArg | None:
        """An input that may be left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def out(self) -> TensorArg:
        """The first output that is asked for.

        Raises:
            ValueError: Its form is not known.
        """
        for output in self.outputs:
            if output is not None:
                return output
        raise ValueError(f"{self.step.op}: the form of the result is not known")

    @property
    def results(self) -> tuple[TensorArg, ...]:
        """All outputs that are asked for."""
        return present(*self.outputs)

    @property
    def read(self) -> tuple[TensorArg, ...]:
        """Inputs that are tensors to read: scalars of known value are part of the kernel."""
        pairs = zip(self.step.inputs, self.inputs, strict=True)
        return tuple(t for e, t in pairs if t is not None and not _is_literal(e))

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        return self.step.attrs.get(name, default)

    def integers(self, index: int, name: str) -> list[int] | None:
        """Numbers that older operator sets have as an attribute, newer ones as an input."""
        edge = self.step.input(index)
        if edge is not None:
            return None if edge.value is None else [int(v) for v in edge.value.reshape(-1)]
        given = self.step.attrs.get(name)
        if given is None:
            return None
        return [int(v) for v in given] if isinstance(given, list) else [int(given)]

    def aten(self, op: str, *args: Any, overload: str = "default", **kwargs: Any) -> Described:
        """What an ATen op of the same meaning is in neutral words, with this step's results."""
        return describe(op, overload, args, kwargs, list(self.results))

    def described(
        self,
        kind: str,
        sizes: Mapping[str, Dim | tuple[Dim, ...]] | None = None,
        attrs: Mapping[str, bool | int | float | str] | None = None,
        *,
        inputs: tuple[TensorArg | None, ...] | None = None,
        outputs: tuple[TensorArg | None, ...] | None = None,
    ) -> Described:
        """A description; by default all tensors are read and all outputs written."""
        return Described(
            kind=kind,
            sizes=dict(sizes or {}),
            attrs=dict(attrs or {}),
            inputs=self.read if inputs is None else present(*inputs),
            outputs=self.results if outputs is None else present(*outputs),
        )


#: One op, or several that the step stands for.
Lowered: TypeAlias = Described | list[Described]
_Rule: TypeAlias = Callable[[NodeOperands], Lowered]
#: Registers the decorated function for operators; ``domain::Operator`` of other domains.
lowers: Final[RuleTable[_Rule]] = RuleTable("operator")


def is_lowered(op: str) -> bool:
    """Whether an operator has a rule."""
    return op in lowers


def lower(operands: NodeOperands) -> list[Described] | None:
    """What a step is in neutral kinds; None where no rule understands it: it is unmodelled."""
    rule = lowers.get(operands.step.op)
    if rule is None:
        return None
    try:
        found = rule(operands)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, ZeroDivisionError):
        return None
    return found if isinstance(found, list) else [found]


def _is_literal(edge: Edge | None) -> bool:
    if edge is None or edge.role != "constant":
        return False
    return edge.generated or edge.scalar is not None
