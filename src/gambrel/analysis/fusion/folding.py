"""What a library takes into a matmul or convolution without fusing loops in general.

A bias is an argument of the call; a batch norm with stored statistics is multiplied into the
weights of the convolution before it when the model is loaded; cuDNN's fused convolution adds a
tensor and applies relu, in fp32 alone (``conv_activation_fusion.cc`` of ONNX Runtime).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gambrel.analysis.fusion.classes import Shape, iteration, shape_of
from gambrel.analysis.fusion.epilogue import HOSTS
from gambrel.analysis.fusion.program import ProgramStep
from gambrel.ops import TensorView
from gambrel.ops.base import holds, product

#: Formats of convolutions that take in a sum and a relu.
_WIDE: Final = frozenset({"fp32", "tf32"})
#: Roles of what comes with the model.
PARAMETERS: Final = frozenset({"weight", "buffer", "constant"})


def folded_with(i: int, steps: Mapping[int, ProgramStep]) -> tuple[int, ...]:
    """The ops before ``i`` that run in one kernel with it, the latest first.

    Args:
        i: The op.
        steps: All ops that run.

    Returns:
        A library call, or what follows one; none where ``i`` is left to itself.
    """
    step = steps[i]
    if step.view.kind == "elementwise" and step.view.attrs.get("function") == "relu":
        return _under_relu(i, steps)
    before = _before(i, steps)
    host = None if before is None else _host(before, steps)
    return (before,) if before is not None and host and _is_folded(step, host) else ()


def _is_folded(step: ProgramStep, host: ProgramStep) -> bool:
    """Whether what follows a library call only scales and shifts its result by parameters."""
    view = step.view
    if view.kind == "normalization":
        return host.view.kind == "convolution" and shape_of(view) is Shape.POINTWISE
    sums = view.kind == "elementwise" and view.attrs.get("function") == "add"
    return sums and any(t.role in PARAMETERS and _is_vector(t) for t in view.inputs)


def _is_vector(t: TensorView) -> bool:
    """Whether a parameter is one number for each column or channel; a table of positions is not."""
    return sum(1 for size in t.shape if holds(size > 1)) < 2


def _under_relu(i: int, steps: Mapping[int, ProgramStep]) -> tuple[int, ...]:
    """A convolution, or the sum of its result and another tensor together with it."""
    before = _before(i, steps)
    if before is None:
        return ()
    if _is_wide(_host(before, steps)):
        return (before,)
    view = steps[before].view
    if view.kind != "elementwise" or view.attrs.get("function") != "add":
        return ()
    terms = {w for read in steps[before].reads for w in read.writers if w in steps}
    ends = [w for w in terms if _follows(before, w, steps) and _is_wide(_host(w, steps))]
    return (before, max(ends)) if ends else ()


def _is_wide(host: ProgramStep | None) -> bool:
    if host is None or host.view.kind != "convolution":
        return False
    return host.view.operand_dtype(2) in _WIDE


def _host(i: int, steps: Mapping[int, ProgramStep]) -> ProgramStep | None:
    """The matmul or convolution that computes the result of ``i``, with what was folded into it."""
    step = steps[i]
    if step.view.kind in HOSTS:
        return step
    before = _before(i, steps)
    host = None if before is None else _host(before, steps)
    return host if host is not None and _is_folded(step, host) else None


def _before(i: int, steps: Mapping[int, ProgramStep]) -> int | None:
    """The op that ``i`` follows: it alone reads its result, in place, and else parameters."""
    computed = [read for read in steps[i].reads if not steps.keys().isdisjoint(read.writers)]
    if len(computed) != 1 or len(computed[0].writers) != 1:
        return None
    before = computed[0].writers[0]
    return before if _follows(i, before, steps) else None


def _follows(i: int, before: int, steps: Mapping[int, ProgramStep]) -> bool:
    """Whether ``i`` is the only reader of a result and walks over its elements."""
    step, source = steps[i], steps[before]
    read = next((r for r in step.reads if r.writers == (before,)), None)
    return (
        read is not None
        and set(source.users) == {i}
        and source.repeat == step.repeat
        and source.writes.get(read.region) == read.nbytes
        and bool(source.view.outputs)
        and iteration(step.view, Shape.POINTWISE)[0] == product(source.view.outputs[0].shape)
    )
