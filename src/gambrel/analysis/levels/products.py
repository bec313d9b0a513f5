"""What each op kind reads more than once when a memory is small: one rule a kind.

A kind without a rule streams: it reads and writes the same bytes at every level.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from gambrel.analysis.levels.blocking import Product
from gambrel.analysis.levels.window import Window
from gambrel.dtypes import width_bytes
from gambrel.ops import OpView
from gambrel.ops.attention import visible_pairs
from gambrel.ops.matmul import touched_share
from gambrel.ops.rules import RuleTable


class Blocked(Protocol):
    """Something whose traffic depends on the size of the memory that it runs in."""

    def reread_bytes(self, capacity_bytes: int, instances: int) -> int:
        """Bytes read beyond every distinct input once.

        Args:
            capacity_bytes: Of one memory.
            instances: Memories that work side by side.
        """


Rule: TypeAlias = Callable[[OpView], tuple[Blocked, ...]]

_rule: Final[RuleTable[Rule]] = RuleTable("kind of op")


def blocked(op: OpView) -> tuple[Blocked, ...]:
    """The parts of an op that read again what a memory cannot hold; none for ops that stream.

    Args:
        op: At whole sizes.
    """
    rule = _rule.get(op.kind)
    return () if rule is None or len(op.inputs) < 2 else rule(op)


@_rule("matmul")
def _matmul(op: OpView) -> tuple[Blocked, ...]:
    return _product(
        batches=op.size("b", 1),
        m=op.size("m"),
        n=op.size("n"),
        k=op.size("k"),
        a_bytes=op.inputs[0].nbytes,
        b_bytes=op.inputs[1].nbytes,
        accumulator_bytes=_accumulator(op),
    )


@_rule("grouped_matmul")
def _grouped_matmul(op: OpView) -> tuple[Blocked, ...]:
    """Each touched expert multiplies its share of the rows."""
    experts, rows = op.size("experts"), op.size("rows")
    share = touched_share(experts, op.size("top_k"), op.size("tokens"))
    touched = max(1, round(experts * share))
    return _product(
        batches=touched,
        m=-(-rows // touched),
        n=op.size("n"),
        k=op.size("k"),
        a_bytes=op.inputs[0].nbytes,
        b_bytes=round(op.inputs[1].nbytes * share),
        accumulator_bytes=_accumulator(op),
    )


@_rule("convolution")
def _convolution(op: OpView) -> tuple[Blocked, ...]:
    """Implicit GEMM: output positions × output channels × taps of the input channels.

    A transposed convolution multiplies each input position by all taps of all output channels.
    """
    groups, taps = op.size("groups", 1), prod(op.size("kernel"))
    transposed = bool(op.attrs.get("transposed"))
    out, channels = op.size("out_channels") // groups, op.size("in_channels") // groups
    return _product(
        batches=groups,
        m=op.size("batch") * prod(op.size("spatial")),
        n=out * taps if transposed else out,
        k=channels if transposed else channels * taps,
        a_bytes=op.inputs[0].nbytes,
        b_bytes=op.inputs[1].nbytes,
        accumulator_bytes=_accumulator(op),
        window=None if transposed else _window(op),
    )


@_rule("convolution_backward")
def _convolution_backward(op: OpView) -> tuple[Blocked, ...]:
    """Two GEMMs: dy with the weights, and dy with the inputs, summed over positions."""
    if len(op.inputs) < 3:
        return ()
    groups, taps = op.size("groups", 1), prod(op.size("kernel"))
    positions = op.size("batch") * prod(op.size("spatial"))
    out, channels = op.size("out_channels") // groups, op.size("in_channels") // groups
    gradient, x, weight = (t.nbytes for t in op.inputs[:3])
    common = {"batches": groups, "a_bytes": gradient, "accumulator_bytes": _accumulator(op)}
    found: tuple[Blocked, ...] = ()
    if op.attrs.get("grad_input", True):
        found += _product(m=positions, n=channels, k=out * taps, b_bytes=weight, **common)
    if op.attrs.get("grad_weight", True):
        found += _product(m=out, n=channels * taps, k=positions, b_bytes=x, **common)
    return found


class KeyValues(msgspec.Struct, frozen=True, kw_only=True):
    """Keys and values, read once for each block of queries that fits.

    The queries of all heads that share a key/value head are the rows of one problem. A row holds
    its query and its partial result; one key and one value stream past. Where a head's keys and
    values fit whole, they stay instead. Of a causal mask only the visible blocks are read.
    Source of the tiling: Dao, "FlashAttention-2" (2023), algorithm 1.

    Attributes:
        problems: Batch × key/value heads.
        rows: Queries of a problem.
        keys: Keys of a problem.
        row_bytes: What a row keeps in the memory.
        pair_bytes: Of a key and its value.
        visible: Share of the query-key pairs that the mask leaves.
    """

    problems: int
    rows: int
    keys: int
    row_bytes: float
    pair_bytes: float
    visible: float

    def reread_bytes(self, capacity_bytes: int, instances: int) -> int:
        """See `Blocked`."""
        block = max(1, int((capacity_bytes - self.pair_bytes) / self.row_bytes))
        passes = -(-self.rows // block)
        if self.pair_bytes * self.keys + self.row_bytes <= capacity_bytes:
            passes = min(passes, max(1, min(self.rows, instances // self.problems)))
        once = self.problems * self.keys * self.pair_bytes
        return round(once * max(0.0, passes * self.visible - 1))


@_rule("attention")
def _attention(op: OpView) -> tuple[Blocked, ...]:
    """A row keeps its query and 32-bit sums of its result."""
    d, dv, width = _head(op, op.inputs[0].dtype)
    return _key_values(op, d * width + 4 * dv, (d + dv) * width)


@_rule("attention_backward")
def _attention_backward(op: OpView) -> tuple[Blocked, ...]:
    """A row keeps its query, the gradient of its result and 32-bit sums of its own gradient."""
    d, dv, width = _head(op, op.inputs[1].dtype)
    return _key_values(op, (d + dv) * width + 4 * d, (d + dv) * width)


def _head(op: OpView, dtype: str) -> tuple[int, int, float]:
    d = op.size("head_dim")
    return d, op.size("v_head_dim", d), width_bytes(dtype)


def _key_values(op: OpView, row_bytes: float, pair_bytes: float) -> tuple[Blocked, ...]:
    heads, q, kv = op.size("heads"), op.size("q_len"), op.size("kv_len")
    kv_heads = op.size("kv_heads", heads)
    if not q * kv * kv_heads * op.size("batch"):
        return ()
    parts = KeyValues(
        problems=op.size("batch") * kv_heads,
        rows=q * (heads // kv_heads),
        keys=kv,
        row_bytes=row_bytes,
        pair_bytes=pair_bytes,
        visible=visible_pairs(op) / (q * kv),
    )
    return (parts,)


class StepWeights(msgspec.Struct, frozen=True, kw_only=True):
    """Weights between the states of a recurrent layer: every step needs them, one after another.

    They are read again in each step unless all memories together hold them. Matmuls with the
    inputs do not wait for each other, and read their weights once.

    Attributes:
        layer_bytes: State weights of one layer in one direction.
        layers: How many such layers run one after another.
        steps: Of the sequence.
    """

    layer_bytes: int
    layers: int
    steps: int

    def reread_bytes(self, capacity_bytes: int, instances: int) -> int:
        """See `Blocked`."""
        fits = self.layer_bytes <= capacity_bytes * instances
        return 0 if fits else self.layer_bytes * self.layers * (self.steps - 1)


_GATES: Final = {"lstm": 4, "gru": 3}


@_rule("recurrent")
def _recurrent(op: OpView) -> tuple[Blocked, ...]:
    hidden = op.size("hidden")
    state = op.size("projection", 0) or hidden
    gates = _GATES.get(str(op.attrs.get("cell")), 1)
    weights = StepWeights(
        layer_bytes=int(gates * hidden * state * width_bytes(op.operand_dtype(1))),
        layers=op.size("layers", 1) * op.size("directions", 1),
        steps=max(1, op.size("seq")),
    )
    return (weights,)


def _window(op: OpView) -> Window | None:
    kernel, outputs = op.size("kernel"), op.size("spatial")
    if prod(kernel) == 1:
        return None  # neighbours share no input
    inputs = op.inputs[0].shape[-len(outputs) :]
    if len(inputs) != len(outputs) or not all(outputs):
        return None
    strides = tuple(i / o for i, o in zip(inputs, outputs, strict=True))
    return Window(outputs=tuple(outputs), kernel=tuple(kernel), stride=strides)


def _accumulator(op: OpView) -> int:
    """Bytes of a partial sum: 32 bits, or 64 for double precision."""
    return 8 if op.inputs[0].dtype == "fp64" else 4


def _product(**sizes: Any) -> tuple[Blocked, ...]:
    empty = not (sizes["m"] and sizes["n"] and sizes["k"] and sizes["batches"])
    return () if empty else (Product(**sizes),)
