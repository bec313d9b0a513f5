"""What families share: an ordinary decoder, layers in a pattern, activations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gambrel.errors import CaptureError
from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import Attention, Layer, LayerGroup, Mlp, ModelSpec

#: Names of activation functions in configurations → `gambrel.ops.elementwise`.
_ACTIVATIONS: Final = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_10": "gelu",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu",
    "relu_squared": "relu",
    "tanh": "tanh",
}


def activation(f: Fields, *names: str, default: str = "silu") -> str:
    """The activation function of the feed-forward networks.

    Raises:
        CaptureError: One that is not known here.
    """
    name = f.text(*(names or ("hidden_act", "hidden_activation")), default=default)
    if name not in _ACTIVATIONS:
        f.refuse(names or ("hidden_act",), name, "one of " + ", ".join(_ACTIVATIONS))
    return _ACTIVATIONS[name]


def attention(f: Fields, **changes: Any) -> Attention:
    """Attention from the usual fields; ``changes`` are what the family does otherwise."""
    head_dim = f.head_dim()
    part = f.number("partial_rotary_factor", "rotary_pct", default=1.0)
    fields: dict[str, Any] = {
        "heads": f.heads,
        "kv_heads": f.kv_heads(),
        "head_dim": head_dim,
        "rotary_dim": None if part == 1.0 else int(head_dim * part),
    }
    return Attention(**{**fields, **changes})


def biased(f: Fields, name: str = "attention_bias", default: bool = False) -> dict[str, Any]:
    """Biases of all four projections, where one flag says so."""
    on = f.flag(name, default=default)
    return {"qkv_bias": "qkv" if on else "", "out_bias": on}


def gated_mlp(f: Fields, **changes: Any) -> Mlp:
    """The gated feed-forward network from the usual fields."""
    bias = f.flag("mlp_bias", default=False)
    return Mlp(**{"width": f.inner, "activation": activation(f), "bias": bias, **changes})


def uniform(f: Fields, layer: Layer) -> tuple[LayerGroup, ...]:
    """All layers alike."""
    return (LayerGroup(layer=layer, count=f.layers),)


def pattern(layers: Iterable[tuple[str, Layer]]) -> tuple[LayerGroup, ...]:
    """Equal layers gathered into groups, in the order in which they first run.

    Args:
        layers: Name and record of each layer, in order.

    Raises:
        CaptureError: There is none.
    """
    found: dict[Layer, int] = {}
    names: dict[Layer, str] = {}
    for name, layer in layers:
        found[layer] = found.get(layer, 0) + 1
        names.setdefault(layer, name)
    if not found:
        raise CaptureError("the configuration describes no layer.")
    groups, used = [], set()
    for layer, count in found.items():
        name = names[layer]
        while name in used:
            name += "_other"
        used.add(name)
        groups.append(LayerGroup(layer=layer, count=count, name=name))
    return tuple(groups)


def decoder(f: Fields, layers: tuple[LayerGroup, ...], **changes: Any) -> ModelSpec:
    """A decoder from the usual fields; ``changes`` are what the family does otherwise."""
    dtype = f.dtype()
    fields: dict[str, Any] = {
        "name": f.family,
        "family": f.family,
        "hidden": f.hidden,
        "vocab": f.vocab,
        "layers": layers,
        "dtype": dtype or "bf16",
        "dtype_given": dtype is not None,
        "max_context": f.optional("max_position_embeddings", "n_positions", "n_ctx", most=10**9),
        "tied": f.flag("tie_word_embeddings", default=False),
    }
    return ModelSpec(**{**fields, **changes})


def check_choice(f: Fields, experts: int, top_k: int, name: str = "num_experts_per_tok") -> None:
    """Raises CaptureError unless a token can be sent to so many experts."""
    if top_k > experts:
        f.refuse((name,), top_k, f"at most the number of experts, {experts}")
