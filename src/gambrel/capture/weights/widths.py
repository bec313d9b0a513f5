"""A workload whose weights have the widths that a file gives them, tensor by tensor.

Quantized files mix formats: in a q4_k_m file some layers hold their value and down projections in
q6_k. An op that stands for such layers becomes one op a format, so that every byte is that of the
file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace

from gambrel.capture.weights.gguf import GgufHeader
from gambrel.capture.weights.pool import Formats, WeightPool, elements_of, module_of
from gambrel.capture.weights.stored import StoredTensor
from gambrel.dtypes import parse_dtype, width_bytes
from gambrel.workload import Op, Role, Tensor, Workload

#: Module within a layer → tensors of a file, without ``blk.N.`` and ``.weight``. Alternatives in
#: order; each is what together holds the weight.
_LAYER: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "attention.q_proj": (("attn_q",), ("attn_qkv",)),
    "attention.k_proj": (("attn_k",), ("attn_qkv",)),
    "attention.v_proj": (("attn_v",), ("attn_qkv",)),
    "attention.qkv_proj": (("attn_qkv",), ("attn_q", "attn_k", "attn_v")),
    "attention.o_proj": (("attn_output",),),
    "attention.q_a_proj": (("attn_q_a",),),
    "attention.q_b_proj": (("attn_q_b",),),
    "attention.kv_a_proj": (("attn_kv_a_mqa",),),
    "attention.kv_b_proj": (("attn_kv_b",), ("attn_k_b", "attn_v_b")),
    "attention.k_b_proj": (("attn_k_b",), ("attn_kv_b",)),
    "attention.v_b_proj": (("attn_v_b",), ("attn_kv_b",)),
    "attention.q_norm": (("attn_q_norm",),),
    "attention.k_norm": (("attn_k_norm",),),
    "attention.q_a_norm": (("attn_q_a_norm",),),
    "attention.kv_a_norm": (("attn_kv_a_norm",),),
    "feed_forward.gate_proj": (("ffn_gate",),),
    "feed_forward.up_proj": (("ffn_up",),),
    "feed_forward.gate_up_proj": (("ffn_gate", "ffn_up"), ("ffn_up",)),
    "feed_forward.down_proj": (("ffn_down",),),
    "feed_forward.router": (("ffn_gate_inp",),),
    "feed_forward.experts.gate_up_proj": (("ffn_gate_exps", "ffn_up_exps"), ("ffn_gate_up_exps",)),
    "feed_forward.experts.up_proj": (("ffn_up_exps",),),
    "feed_forward.experts.down_proj": (("ffn_down_exps",),),
    "feed_forward.shared_expert.gate_proj": (("ffn_gate_shexp",),),
    "feed_forward.shared_expert.up_proj": (("ffn_up_shexp",),),
    "feed_forward.shared_expert.down_proj": (("ffn_down_shexp",),),
    "feed_forward.shared_expert_gate": (("ffn_gate_inp_shexp",),),
    "mamba.in_proj": (("ssm_in",),),
    "mamba.x_proj": (("ssm_x",),),
    "mamba.dt_proj": (("ssm_dt",),),
    "mamba.conv": (("ssm_conv1d",),),
    "mamba.conv1d": (("ssm_conv1d",),),
    "mamba.out_proj": (("ssm_out",),),
    "mamba.norm": (("ssm_norm",),),
    "linear_attention.out_proj": (("ssm_out",),),
    "linear_attention.conv1d": (("ssm_conv1d",),),
    "linear_attention.norm": (("ssm_norm",),),
    "input_norm": (("attn_norm",),),
    "mixer_norm": (("post_attention_norm",),),
    "feed_forward_norm": (("ffn_norm",), ("post_attention_norm",)),
    "feed_forward_out_norm": (("post_ffw_norm",),),
}
_TOP: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "embedding": (("token_embd",),),
    "lm_head": (("output",), ("token_embd",)),
    "norm": (("output_norm",),),
    "embedding_norm": (("token_embd_norm",),),
    "positions": (("position_embd",),),
}


def with_widths(workload: Workload, header: GgufHeader) -> Workload:
    """The same workload with each weight in the format that it has in the file.

    Args:
        workload: Built from the file's metadata in one number format.
        header: Of the file.

    Returns:
        Ops over layers that differ in format are one op a format. The sentences say how many of
        the file's bytes the step holds, and in which formats.
    """
    pool = _GgufPool(header.tensors)
    found = rewritten(workload, pool.plan)
    converted = "; they are converted to 16 bits where they are multiplied"
    remarks = pool.remarks("file", "16 bits", converted)
    return replace(found, assumptions=(*found.assumptions, *remarks))


def rewritten(
    workload: Workload,
    plan: Callable[[Tensor], list[tuple[Formats, int]]],
    multiply: str | None = None,
) -> Workload:
    """The workload with its weights in planned formats.

    Args:
        workload: Built in one number format.
        plan: For a weight: the formats of its layers, and how many layers have each; empty to
            leave it as it is. What stands beside the weight (scales) is listed after it.
        multiply: Format in which narrow weights are multiplied; None is that of the other operand.
    """
    plans = {
        index: plan(tensor)
        for index, tensor in enumerate(workload.tensors)
        if tensor.role is Role.WEIGHT
    }
    writer = _Writer(list(workload.tensors), plans, multiply)
    ops = tuple(new for op in workload.ops for new in writer.rewrite(op))
    return replace(workload, tensors=tuple(writer.tensors), ops=ops)


class _GgufPool(WeightPool):
    """The tensors of a GGUF file by name, the number of the block left out."""

    def __init__(self, tensors: Sequence[StoredTensor]) -> None:
        super().__init__(tensors)
        self._rows: dict[str, list[StoredTensor]] = {}
        for tensor in sorted(tensors, key=_layer_number):
            self._rows.setdefault(_kind(tensor.name), []).append(tensor)

    def match(self, weight: Tensor) -> tuple[str, Callable[[int], Formats]] | None:
        """The first group of tensors that are all in the file."""
        where, kind, leaf = module_of(weight.name)
        for group in (_LAYER if where else _TOP).get(kind, ()):
            names = [f"{'blk.' if where else ''}{one}.{leaf}" for one in group]
            if all(name in self._rows for name in names):
                return f"{kind}:{names[0]}", partial(self._formats, names, weight)
        return None

    def _formats(self, names: list[str], weight: Tensor, number: int) -> Formats:
        members = [self._rows[n][number % len(self._rows[n])] for n in names]
        self.used.update(m.name for m in members)
        return _formats(members, weight)


def _formats(members: Iterable[StoredTensor], weight: Tensor) -> Formats:
    """Format and elements of each member; a part of a fused tensor has its format."""
    found: Counter[str] = Counter()
    for member in members:
        found[_dtype(member.dtype)] += member.elements
    if len(found) == 1:
        return ((next(iter(found)), elements_of(weight)),)
    return tuple(found.items())


_SPELLED: Final = {"i16": "int16", "i64": "int64"}


def _dtype(name: str) -> str:
    return parse_dtype(_SPELLED.get(name, name))


_BLOCK: Final = re.compile(r"^blk\.(\d+)\.")


def _layer_number(tensor: StoredTensor) -> int:
    found = _BLOCK.match(tensor.name)
    return int(found.group(1)) if found and len(found.group(1)) < 7 else -1


def _kind(name: str) -> str:
    return _BLOCK.sub("blk.", name)


@dataclass(slots=True)
class _Writer:
    """Rewrites ops with planned weights."""

    tensors: list[Tensor]
    plans: dict[int, list[tuple[Formats, int]]]
    multiply: str | None = None
    _done: dict[tuple[int, Formats, int | None], list[int]] = field(default_factory=dict)
    _bases: dict[int, Tensor] = field(default_factory=dict)
    _taken: set[int] = field(default_factory=set)

    def rewrite(self, op: Op) -> Iterator[Op]:
        """The op, or one op for each format among its layers."""
        split = next((i for i in op.inputs if self._splits(i, op)), None)
        if split is None:
            yield self._with(op, {i: p[0][0] for i in op.inputs if (p := self.plans.get(i))}, None)
            return
        for formats, count in self.plans[split]:
            chosen = {i: p[0][0] for i in op.inputs if (p := self.plans.get(i))}
            yield replace(self._with(op, chosen | {split: formats}, count), repeat=count)

    def _splits(self, index: int, op: Op) -> bool:
        plan = self.plans.get(index, [])
        return len(plan) > 1 and sum(n for _, n in plan) == op.repeat

    def _with(self, op: Op, formats: dict[int, Formats], copies: int | None) -> Op:
        inputs: list[int] = []
        for index in op.inputs:
            if index in formats:
                inputs.extend(self._stored(index, formats[index], copies))
            else:
                inputs.append(index)
        replaced = replace(op, inputs=tuple(inputs))
        return self._computed(replaced, op, formats)

    def _stored(self, index: int, formats: Formats, copies: int | None) -> list[int]:
        """The weight in its formats: one tensor, or one for each of its parts."""
        key = (index, formats, copies)
        if key not in self._done:
            base = self._bases.setdefault(index, self.tensors[index])
            self._done[key] = [
                self._place_of(index, base, dtype, elements, copies, whole=len(formats) == 1)
                for dtype, elements in formats
            ]
        return self._done[key]

    def _place_of(
        self, index: int, base: Tensor, dtype: str, elements: int, copies: int | None, whole: bool
    ) -> int:
        """The weight's own place for the first of its formats, new tensors for the others."""
        first = index not in self._taken
        self._taken.add(index)
        made = replace(
            base,
            dtype=dtype,
            shape=base.shape if whole else (elements,),
            storage=base.storage if first else 1 + max(t.storage for t in self.tensors),
            copies=base.copies if copies is None else copies,
        )
        if first:
            self.tensors[index] = made
            return index
        self.tensors.append(made)
        return len(self.tensors) - 1

    def _computed(self, op: Op, before: Op, formats: dict[int, Formats]) -> Op:
        """Weights narrower than what they are multiplied with are converted first."""
        if op.kind not in {"matmul", "grouped_matmul"} or not formats:
            return op
        given = self.tensors[op.inputs[0]].dtype
        attrs = dict(op.attrs)
        extra = len(op.inputs) - len(before.inputs)
        if extra:
            attrs["expert_inputs"] = int(attrs.get("expert_inputs", 1)) + extra
        stored = next(iter(formats.values()))[0][0]
        if width_bytes(stored) < width_bytes(given):
            attrs["compute_dtype"] = self.multiply or given
            if width_bytes(stored) < width_bytes(self.multiply or given):
                attrs["dequantize"] = True
        return replace(op, attrs=attrs)
