"""A workload with the widths of a Hugging Face checkpoint: weights and what stands beside them.

Quantized checkpoints store a matrix as several tensors: packed values, scales, zero points.
Together they are one weight, and every byte of them is read with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from gambrel.capture.weights.stored import StoredTensor
from gambrel.capture.weights.widths import Formats, rewritten
from gambrel.dtypes import FLOATING
from gambrel.units import format_si
from gambrel.workload import Tensor, Workload

#: Module of a workload → modules of a checkpoint, alternatives in order.
_MODULES: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "attention.qkv_proj": (("self_attn.qkv_proj",),),
    "attention.kv_a_proj": (("self_attn.kv_a_proj_with_mqa",),),
    "attention.q_a_norm": (("self_attn.q_a_layernorm",),),
    "attention.kv_a_norm": (("self_attn.kv_a_layernorm",),),
    "feed_forward.router": (("mlp.gate",), ("block_sparse_moe.gate",), ("mlp.router",)),
    "feed_forward.experts.gate_up_proj": (
        ("mlp.experts.*.gate_proj", "mlp.experts.*.up_proj"),
        ("block_sparse_moe.experts.*.w1", "block_sparse_moe.experts.*.w3"),
        ("mlp.experts.gate_up_proj",),
    ),
    "feed_forward.experts.down_proj": (
        ("mlp.experts.*.down_proj",),
        ("block_sparse_moe.experts.*.w2",),
        ("mlp.experts.down_proj",),
    ),
    "feed_forward.shared_expert_gate": (("mlp.shared_expert_gate",),),
    "input_norm": (("input_layernorm",),),
    "feed_forward_norm": (("pre_feedforward_layernorm",), ("post_attention_layernorm",)),
    "mixer_norm": (("post_attention_layernorm",),),
    "feed_forward_out_norm": (("post_feedforward_layernorm",),),
    "embedding": (("embed_tokens",),),
    "lm_head": (("lm_head",), ("embed_tokens",)),
    "norm": (("norm",),),
}
#: Beginnings of modules that are called alike otherwise.
_PREFIXES: Final = (
    ("attention.", ("self_attn.",)),
    ("feed_forward.shared_expert.", ("mlp.shared_expert.", "mlp.shared_experts.")),
    ("feed_forward.", ("mlp.",)),
)

_LAYER: Final = re.compile(r"(?:^|\.)layers\.(\d{1,6})\.(.+)$")
_EXPERT: Final = re.compile(r"\.experts\.\d+\.")
_PACKED: Final = frozenset({"weight", "qweight", "weight_packed", "blocks"})
_FUSED_LEAF: Final = re.compile(r"^(.*)_(blocks|scales|bias)$")


def with_checkpoint(
    workload: Workload, tensors: Sequence[StoredTensor], multiply: str | None = None
) -> Workload:
    """The same workload with each weight as wide as in the checkpoint, scales included.

    Args:
        workload: Built from the configuration in one number format.
        tensors: Of all files of the checkpoint.
        multiply: Format in which narrow weights are multiplied; None is that of activations.
    """
    pool = _Pool(tensors)
    found = rewritten(workload, pool.plan, multiply)
    return replace(found, assumptions=(*found.assumptions, *_remarks(tensors, pool)))


class _Pool:
    """The tensors of a checkpoint by module, and within it by layer."""

    def __init__(self, tensors: Iterable[StoredTensor]) -> None:
        self.used: set[str] = set()
        self.unknown: list[str] = []
        self._rows: dict[str, dict[int, list[tuple[str, StoredTensor]]]] = {}
        self._next: Counter[str] = Counter()
        for tensor in tensors:
            layer, module, leaf = _place(tensor.name)
            self._rows.setdefault(module, {}).setdefault(layer, []).append((leaf, tensor))

    def plan(self, weight: Tensor) -> list[tuple[Formats, int]]:
        """(formats, sets of weights) for a weight that stands for ``copies`` layers."""
        before, star, after = weight.name.partition(".*.")
        module, _, leaf = (after if star else before).rpartition(".")
        names = next((g for g in _candidates(module) if all(n in self._rows for n in g)), None)
        if names is None:
            self.unknown.append(weight.name)
            return []
        key = f"{weight.name}:{names[0]}" if leaf == "bias" else names[0]
        layers = sorted(self._rows[names[0]])
        start = self._next[key]
        self._next[key] += weight.copies
        counted: Counter[Formats] = Counter()
        for number in range(start, start + weight.copies):
            layer = layers[number % len(layers)]
            members = [m for n in names for m in self._rows[n].get(layer, ())]
            counted[self._formats(members, weight, leaf)] += 1
        if () in counted:
            self.unknown.append(weight.name)
            return []
        return list(counted.items())

    def _formats(
        self, members: Sequence[tuple[str, StoredTensor]], weight: Tensor, leaf: str
    ) -> Formats:
        """Values first, then what stands beside them; empty when the values are not there."""
        values = [t for own, t in members if (own == "bias") == (leaf == "bias")]
        packed = [t for own, t in members if own in _PACKED] if leaf != "bias" else values
        beside = [t for t in values if t not in packed]
        self.used.update(t.name for t in (*packed, *beside))
        if not packed:
            return ()
        elements = _elements(weight)
        found = [(_format(packed, elements), elements)]
        extra: Counter[str] = Counter()
        for tensor in beside:
            extra[tensor.dtype] += tensor.elements
        return (*found, *extra.items())


def _format(packed: Sequence[StoredTensor], elements: int) -> str:
    """Of the values: the tensors' own, or by the bits of one value where several share a word."""
    dtype = packed[0].dtype
    if dtype in FLOATING:
        return dtype
    bits = round(sum(t.nbytes for t in packed) * 8 / elements) if elements else 8
    return {4: "int4", 8: "int8", 16: "int16", 32: "int32"}.get(bits, dtype)


def _elements(tensor: Tensor) -> int:
    total = 1
    for size in tensor.shape:
        total *= int(size)
    return total


def _place(name: str) -> tuple[int, str, str]:
    """Layer (-1 outside), module without its number, and leaf."""
    found = _LAYER.search(name)
    layer, rest = (int(found.group(1)), found.group(2)) if found else (-1, name)
    rest = _EXPERT.sub(".experts.*.", rest)
    module, _, leaf = rest.rpartition(".")
    fused = _FUSED_LEAF.match(leaf)
    if fused:
        return layer, f"{module}.{fused.group(1)}", fused.group(2)
    if ".experts" in rest and leaf not in _PACKED and leaf.endswith("_proj"):
        return layer, rest, "weight"  # all experts as one tensor without a leaf of its own
    if layer < 0:
        module = module.rpartition(".")[2]
    return layer, module, leaf


def _candidates(module: str) -> Iterable[tuple[str, ...]]:
    yield from _MODULES.get(module, ())
    for begin, others in _PREFIXES:
        if module.startswith(begin):
            for other in others:
                yield (other + module.removeprefix(begin),)
            return


def _remarks(tensors: Sequence[StoredTensor], pool: _Pool) -> list[str]:
    by_format: Counter[str] = Counter()
    for tensor in tensors:
        by_format[tensor.dtype] += tensor.nbytes
    listed = ", ".join(f"{name} {format_si(n, 'B')}" for name, n in by_format.most_common(6))
    remarks = [f"weights as the checkpoint stores them ({listed})."]
    idle = [t for t in tensors if t.name not in pool.used]
    if idle:
        size = format_si(sum(t.nbytes for t in idle), "B")
        remarks.append(
            f"{len(idle)} tensors of the checkpoint ({size}, e.g. {idle[0].name[:80]}) are not "
            "read by this step."
        )
    if pool.unknown:
        remarks.append(
            f"{len(pool.unknown)} weights are not found in the checkpoint and keep the format of "
            f"its configuration, e.g. {pool.unknown[0]}."
        )
    return remarks
