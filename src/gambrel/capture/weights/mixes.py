"""The formats that llama.cpp's quantizer gives the weights of a model, without the file.

A file of a type such as q4_k_m mixes formats by tensor and layer: more bits for value and down
projections, for the output, and for rows that are no whole number of blocks. On average a mixture
has the bits of `gambrel.dtypes.GGUF_MIXES`, but for models whose rows do not fit: here are the
formats of their weights. Rules: llama_tensor_get_type_impl and tensor_type_fallback of
llama-quant.cpp (https://github.com/ggml-org/llama.cpp @007dbbf3, 2026), of a file without
importance matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from gambrel.capture.weights.pool import Formats, elements_of, module_of
from gambrel.capture.weights.widths import rewritten
from gambrel.dtypes import GGUF_PLAIN
from gambrel.llm.spec import Attention, ModelSpec, mixers_of
from gambrel.workload import Tensor, Workload

#: Values in a block of the formats that mixtures are made of, and in one of those below.
_K_BLOCK, _SMALL_BLOCK = 256, 32
#: What rows get that are no whole number of blocks of 256.
_FALLBACK: Final = {
    "q2_k": "q4_0",
    "q3_k": "q4_0",
    "q4_k": "q5_0",
    "q5_k": "q5_1",
    "q6_k": "q8_0",
}
#: Query heads for each key head from which values get more bits; experts that are few.
_SHARED, _FEW = 4, 8
#: Module within a layer → what the quantizer calls it.
_ROLES: Final = {
    "attention.v_proj": "v",
    "attention.qkv_proj": "v",
    "attention.kv_b_proj": "v",
    "attention.k_proj": "k",
    "attention.o_proj": "o",
    "feed_forward.down_proj": "down",
    "feed_forward.experts.down_proj": "down",
    "feed_forward.shared_expert.down_proj": "down",
}
#: Modules that stay in 16 bits or more.
_WIDE: Final = ("norm", "router", "conv", "positions", "token_types", "shared_expert_gate")


def as_quantized(workload: Workload, spec: ModelSpec, file: str) -> Workload:
    """The same workload with each weight in the format that it has in a file of this type.

    Args:
        workload: Of the model, built in one number format.
        spec: The model.
        file: Type of the file, of `gambrel.dtypes.GGUF_MIXES` or `GGUF_PLAIN`.
    """
    layers = spec.layer_count
    # Rows of whole blocks are taken as the mixture on average: its rates were measured as one. That
    # average is of models whose output is a fiftieth of the weights.
    on_average = spec.hidden % _K_BLOCK == 0 or file in GGUF_PLAIN
    if on_average and not (spec.tied or file in GGUF_PLAIN):
        return workload

    def plan(tensor: Tensor) -> list[tuple[Formats, int]]:
        where, kind, leaf = module_of(tensor.name)
        if leaf != "weight" or len(tensor.shape) < 2 or any(w in kind for w in _WIDE):
            return []
        n = elements_of(tensor)
        row = int(tensor.shape[-2 if "experts" in kind else -1])
        if on_average and (where or not (spec.tied or kind == "lm_head")):
            return []
        if not where:
            return [(((_top(spec, file, kind, row), n),), 1)]
        found = Counter(
            _fitting(_in_layer(spec, file, _ROLES.get(kind, ""), i, layers), row)
            for i in range(layers)
        )
        return [(((dtype, n),), c) for dtype, c in _shared_out(found, tensor.copies)]

    return rewritten(workload, plan)


def _base(file: str) -> str:
    """The format of most weights: q4_k of q4_k_m, q4_0 of q4_0."""
    return file[:4]


def _shared_out(found: Counter[str], copies: int) -> list[tuple[str, int]]:
    """The layers of a group, in the proportions of all layers."""
    total = sum(found.values())
    most, *others = [dtype for dtype, _ in found.most_common()]
    counts = {dtype: round(copies * found[dtype] / total) for dtype in others}
    counts = {dtype: n for dtype, n in counts.items() if n}
    return [(most, copies - sum(counts.values())), *counts.items()]


def _top(spec: ModelSpec, file: str, kind: str, row: int) -> str:
    """Of the output, and of a token table that is the output as well; else as the layers."""
    if kind == "lm_head" or spec.tied:
        return "q8_0" if spec.family == "falcon" or row % _K_BLOCK else "q6_k"
    return _fitting(_base(file), row)


def _fitting(dtype: str, row: int) -> str:
    if dtype == "q8_0":  # of eight experts
        return dtype if row % _SMALL_BLOCK == 0 else "fp16"
    if row % _K_BLOCK == 0:
        return dtype
    return _FALLBACK[dtype] if row % _SMALL_BLOCK == 0 else "fp16"


def _in_layer(spec: ModelSpec, file: str, role: str, i: int, n: int) -> str:
    """The format of a layer's weight, before its rows are looked at."""
    rule = _RULES.get((file, role))
    dtype = _base(file) if rule is None else rule(spec, i, n)
    few = any(m.experts == _FEW for m in spec.mixtures)
    if few and role in ("v", "k"):
        return "q8_0"
    if few and role == "o":
        return "q5_k" if file in _RAISED else _base(file)
    if role == "v" and spec.family == "llama" and n == _LAYERS_OF_70B and dtype in ("q3_k", "q4_k"):
        return "q5_k"
    return dtype


_LAYERS_OF_70B: Final = 80
#: Files whose output projections of attention get more bits beside eight experts.
_RAISED: Final = ("q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m")


def _more(i: int, n: int) -> bool:
    """The first and last eighth of the layers, and every third between."""
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def _grouped(spec: ModelSpec) -> bool:
    mixers = (m for group in spec.layers for m in mixers_of(group.layer))
    return any(isinstance(m, Attention) and m.heads >= _SHARED * m.kv_heads for m in mixers)


_Rule = Callable[[ModelSpec, int, int], str]


def _always(dtype: str) -> _Rule:
    return lambda _spec, _i, _n: dtype


def _alternating(more: str, less: str) -> _Rule:
    return lambda _spec, i, n: more if _more(i, n) else less


#: (File, role) → the rule; the file's own format where there is none.
_RULES: Final[dict[tuple[str, str], _Rule]] = {
    ("q2_k_s", "v"): lambda spec, _i, _n: "q4_k" if _grouped(spec) else "q2_k",
    ("q2_k_s", "down"): lambda _spec, i, n: "q4_k" if i < n // 8 else "q2_k",
    ("q3_k_m", "v"): lambda _spec, i, _n: "q5_k" if i < 2 else "q4_k",
    ("q3_k_m", "down"): lambda _spec, i, n: "q5_k" if i < n // 16 else "q4_k",
    ("q3_k_m", "o"): _always("q4_k"),
    ("q3_k_l", "v"): _always("q5_k"),
    ("q3_k_l", "down"): _always("q5_k"),
    ("q3_k_l", "o"): _always("q5_k"),
    ("q4_k_s", "v"): lambda _spec, i, _n: "q5_k" if i < 4 else "q4_k",
    ("q4_k_s", "down"): lambda _spec, i, n: "q5_k" if i < n // 8 else "q4_k",
    ("q4_k_m", "v"): _alternating("q6_k", "q4_k"),
    ("q4_k_m", "down"): _alternating("q6_k", "q4_k"),
    ("q5_k_m", "v"): _alternating("q6_k", "q5_k"),
    ("q5_k_m", "down"): _alternating("q6_k", "q5_k"),
}
