"""Element-wise formulas: all steps between one tensor and one result, read as a function of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gambrel.capture.onnx.edges import Edge, Step
from gambrel.capture.onnx.patterns.flow import Flow, successor

_ARITHMETIC: Final = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "Neg", "Reciprocal", "Identity", "Clip", "Relu", "Cast"}
)
_BENDS: Final = frozenset(
    {"Erf", "xla::erfc", "Tanh", "Sigmoid", "Softplus", "HardSigmoid", "Exp", "Min", "Max"}
)
#: Longest formula: gelu by tanh has eight steps.
_MAX_STEPS: Final = 12


@dataclass(slots=True)
class Cone:
    """The steps of a formula.

    Attributes:
        source: The one tensor that goes in.
        steps: From the source to the result.
    """

    source: Edge
    steps: list[Step]

    def count(self, *ops: str) -> int:
        """How many steps are of certain operators."""
        return sum(s.op in ops for s in self.steps)

    def numbers(self) -> list[float]:
        """The constants of the formula."""
        edges = (e for s in self.steps for e in s.inputs if e is not None)
        return [e.scalar for e in edges if e.scalar is not None]


def recognise_activations(flow: Flow) -> None:
    """Replaces gelu, silu, mish and the like, written out, by one step each."""
    for anchor in flow.steps(
        "Erf", "xla::erfc", "Tanh", "Sigmoid", "HardSigmoid", "Clip", "Relu", "Min"
    ):
        for end in _ends(flow, anchor):
            cone = _cone(flow, end)
            name = None if cone is None else _named(cone, end)
            if cone is None or name is None or anchor not in cone.steps:
                continue
            new = successor(end, name[0], [cone.source], end.out)
            new.attrs.update(name[1])
            flow.replace(cone.steps, new)
            break


def _ends(flow: Flow, anchor: Step) -> list[Step]:
    """Products behind a bend, the furthest first: where a formula may end."""
    found: list[Step] = []
    step = anchor
    for _ in range(4):
        after = flow.only_reader(step.out, "Add", "Mul", "Div", "Sub")
        if after is None:
            break
        step = after
        if step.op in ("Mul", "Div"):
            found.append(step)
    return found[::-1]


def _cone(flow: Flow, end: Step) -> Cone | None:
    """All steps back to one tensor, if nothing else goes in and nothing else comes out."""
    steps: list[Step] = [end]
    sources: dict[Edge, None] = {}
    at = 0
    while at < len(steps) and len(steps) <= _MAX_STEPS:
        for edge in steps[at].inputs:
            if edge is None or edge.scalar is not None:
                continue
            maker = flow.maker.get(edge)
            inner = maker is not None and maker.op in _ARITHMETIC | _BENDS
            if maker is not None and inner and _stays(flow, edge, end):
                if maker not in steps:
                    steps.append(maker)
            else:
                sources[edge] = None
        at += 1
    if len(sources) != 1 or len(steps) > _MAX_STEPS:
        return None
    inside = set(steps)
    if any(not flow.is_internal(s.out, inside) for s in steps if s is not end):
        return None
    return Cone(next(iter(sources)), steps)


def _stays(flow: Flow, edge: Edge, end: Step) -> bool:
    """Whether an edge is part of the formula: read once. What is read twice is its argument."""
    once = len(flow.readers(edge)) == 1 and not flow.is_returned(edge)
    return once and edge.shape == end.out.shape


def _named(cone: Cone, end: Step) -> tuple[str, dict[str, object]] | None:
    """The operator that a formula is; None for any other."""
    if cone.source.shape != end.out.shape:
        return None
    bends = cone.count(*_BENDS)
    products = cone.count("Mul", "Div")
    if cone.count("Erf") == 1 and bends == 1 and cone.count("Add") == 1 and 2 <= products <= 4:
        return "Gelu", {}
    if cone.count("xla::erfc") == 1 and bends == 1 and not cone.count("Add") and 2 <= products <= 4:
        return "Gelu", {}  # 0.5 x erfc(-x / sqrt(2)), as JAX writes it
    if cone.count("Tanh") == 1 and bends == 1 and _is_tanh_gelu(cone):
        return "Gelu", {"approximate": "tanh"}
    if cone.count("Tanh") == 1 and cone.count("Softplus") == 1 and len(cone.steps) == 3:
        return "Mish", {}
    if cone.count("Sigmoid") == 1 and bends == 1 and cone.count("Mul") == len(cone.steps) - 1:
        scaled = [n for n in cone.numbers() if abs(n - 1.702) < 0.01]
        if len(cone.steps) == 2:
            return "Swish", {}
        return ("com.microsoft::QuickGelu", {}) if scaled and len(cone.steps) == 3 else None
    return _hard_swish(cone)


def _is_tanh_gelu(cone: Cone) -> bool:
    return any(abs(n - 0.044715) < 1e-3 for n in cone.numbers()) and cone.count("Add") == 2


def _hard_swish(cone: Cone) -> tuple[str, dict[str, object]] | None:
    """X · clip(x + 3, 0, 6) / 6, or x · hard_sigmoid(x)."""
    if cone.count("HardSigmoid") == 1 and len(cone.steps) == 2 and cone.count("Mul") == 1:
        return "HardSwish", {}
    clipped = cone.count("Clip") == 1 and cone.count("Add") == 1
    six = any(abs(n - 6) < 1e-6 or abs(n - 1 / 6) < 1e-3 for n in cone.numbers())
    if clipped and six and cone.count("Mul", "Div") == 2 and len(cone.steps) == 4:
        return "HardSwish", {}
    return None
