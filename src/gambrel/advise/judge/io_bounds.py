"""Lower bounds on the traffic of one op between a memory and a store of S words on chip.

All are of one form. A run is cut into segments of 2S transfers. A segment can use at most 3S words
of the three operands together, and a set of multiply-adds that touches i, w and o words of them has
at most sqrt(R·i·w·o) members (Loomis and Whitney), so a segment does at most sqrt(R)·S^1.5 of them,
and a run of N multiply-adds moves at least 2N/sqrt(R·S) - 2S words. R is how many multiply-adds of
one output channel use the same input value: 1 in a GEMM, at most the taps of a convolution.
The form charges a read of every output; as a run may start outputs at zero, their number is taken
off. Both corrections make the bound smaller, never wrong. It holds for the direct algorithm, with
whatever the store holds at the start.
"""

from __future__ import annotations

import math
from typing import Final

from gambrel.advise.judge.records import IoBound
from gambrel.dtypes import width_bytes
from gambrel.ops import OpView
from gambrel.ops.base import Size, product

GEMM: Final = (
    "Smith, Lowery, Langou and van de Geijn, 'A Tight I/O Lower Bound for Matrix Multiplication', "
    "arXiv:1702.02017 (2017)"
)
CONVOLUTION: Final = (
    "Chen, Han and Wang, 'Communication Lower Bound in Convolution Accelerators', HPCA 2020"
)
ATTENTION: Final = (
    "Saha and Ye, 'The I/O Complexity of Attention, or How Optimal is FlashAttention?', ICML 2024"
)


def io_bound(view: OpView, name: str, on_chip_bytes: int) -> IoBound | None:
    """The published lower bound of an op; None for other kinds, and where it is not positive.

    Args:
        view: The op with its sizes.
        name: What to call it.
        on_chip_bytes: Capacity of everything inside the main memory.
    """
    rule = {"matmul": _matmul, "convolution": _convolution}.get(view.kind)
    if rule is None or on_chip_bytes <= 0:
        return None
    width = min((width_bytes(t.dtype) for t in (*view.inputs[:2], *view.outputs[:1])), default=0.0)
    if not width:
        return None
    words, formula, source = rule(view, on_chip_bytes / width)
    if words <= 0:
        return None
    return IoBound(
        op=name,
        traffic_bytes=int(words * width),
        on_chip_bytes=on_chip_bytes,
        formula=formula,
        source=source,
    )


def _segments(multiply_adds: Size, outputs: Size, store: float, reuse: int = 1) -> float:
    return float(2 * multiply_adds / math.sqrt(reuse * store) - 2 * store - outputs)


def _matmul(view: OpView, store: float) -> tuple[float, str, str]:
    b, m, n, k = view.size("b", 1), view.size("m"), view.size("n"), view.size("k")
    words = _segments(b * m * n * k, b * m * n, store)
    return words, "2mnk/sqrt(S) - 2S - mn words", GEMM


def _convolution(view: OpView, store: float) -> tuple[float, str, str]:
    """An output channel uses an input value at most once for each tap, whatever the stride."""
    if view.attrs.get("transposed") or view.attrs.get("deformable") or not view.outputs:
        return 0.0, "", CONVOLUTION
    taps = product(view.size("kernel"))
    channels = view.size("out_channels") * view.size("in_channels") // view.size("groups", 1)
    total = view.size("batch") * channels * taps * product(view.size("spatial"))
    words = _segments(total, view.outputs[0].elements, store, taps)
    return words, f"2N/sqrt(R·S) - 2S - outputs words, R = {taps}", CONVOLUTION


def attention_note(view: OpView, on_chip_bytes: int) -> str:
    """What is known of attention; empty for other kinds.

    The bound is of the order of q·kv·d²/S words where S exceeds d², without a constant that could
    prove anything, so it is said and not counted.
    """
    if view.kind != "attention" or on_chip_bytes <= 0 or not view.inputs:
        return ""
    store = on_chip_bytes / width_bytes(view.inputs[0].dtype)
    d = view.size("head_dim")
    if store <= d * d:
        return ""
    heads = view.size("batch") * view.size("heads")
    words = heads * view.size("q_len") * view.size("kv_len") * d * d / store
    own = sum(t.elements for t in (*view.inputs[:3], *view.outputs[:1]))
    above = "above" if words > own else "below"
    return (
        f"the I/O complexity of attention, of the order of q·kv·d²/S, is {above} its compulsory "
        f"traffic here; it has no known constant and is not counted ({ATTENTION})."
    )
