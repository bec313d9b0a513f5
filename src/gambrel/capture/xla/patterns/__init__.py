"""What libraries for JAX write out, recognised as what it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gambrel.capture.onnx.edges import Trace
from gambrel.capture.onnx.patterns.cones import recognise_activations
from gambrel.capture.onnx.patterns.flow import Flow
from gambrel.capture.onnx.patterns.norms import recognise_norms
from gambrel.capture.onnx.patterns.scores import recognise_attention
from gambrel.capture.xla.patterns.bias import recognise_bias
from gambrel.capture.xla.patterns.layouts import choose_layouts
from gambrel.capture.xla.patterns.means import recognise_means
from gambrel.capture.xla.patterns.sigmoid import recognise_sigmoids
from gambrel.capture.xla.patterns.softmax import recognise_softmax
from gambrel.capture.xla.patterns.unread import drop_unread

#: In this order: each sees what those before it put in place.
_PASSES: Final[tuple[Callable[[Flow], None], ...]] = (
    recognise_sigmoids,
    recognise_norms,
    recognise_softmax,
    recognise_activations,
    recognise_attention,
    recognise_bias,
    recognise_means,
    choose_layouts,
)


def refine(trace: Trace) -> None:
    """Replaces decompositions by what they stand for, in place."""
    drop_unread(trace)
    for recognise in _PASSES:
        flow = Flow(trace)
        recognise(flow)
        flow.finish()


__all__ = ["refine"]
