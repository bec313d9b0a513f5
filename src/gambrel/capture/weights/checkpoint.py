"""A workload with the widths of a Hugging Face checkpoint: weights and what stands beside them.

Quantized checkpoints store a matrix as several tensors: packed values, scales, zero points.
Together they are one weight, and every byte of them is read with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from gambrel.capture.weights.pool import Formats, WeightPool, elements_of, module_of
from gambrel.capture.weights.stored import StoredTensor
from gambrel.capture.weights.widths import rewritten
from gambrel.dtypes import FLOATING
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
    pool = _CheckpointPool(tensors)
    found = rewritten(workload, pool.plan, multiply)
    remarks = pool.remarks("checkpoint", "the format of its configuration")
    return replace(found, assumptions=(*found.assumptions, *remarks))


class _CheckpointPool(WeightPool):
    """The tensors of a checkpoint by module, and within it by layer."""

    def __init__(self, tensors: Sequence[StoredTensor]) -> None:
        super().__init__(tensors)
        self._rows: dict[str, dict[int, list[tuple[str, StoredTensor]]]] = {}
        for tensor in tensors:
            layer, module, leaf = _place(tensor.name)
            self._rows.setdefault(module, {}).setdefault(layer, []).append((leaf, tensor))

    def match(self, weight: Tensor) -> tuple[str, Callable[[int], Formats]] | None:
        """The first group of modules that are all in the checkpoint."""
        _, module, leaf = module_of(weight.name)
        names = next((g for g in _candidates(module) if all(n in self._rows for n in g)), None)
        if names is None:
            return None
        layers = sorted(self._rows[names[0]])

        def formats_of(number: int) -> Formats:
            layer = layers[number % len(layers)]
            members = [m for n in names for m in self._rows[n].get(layer, ())]
            return self._formats(members, weight, leaf)

        return f"{weight.name}:{names[0]}" if leaf == "bias" else names[0], formats_of

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
        elements = elements_of(weight)
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
