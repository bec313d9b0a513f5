"""What families share: an ordinary decoder, layers in a pattern, activations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from gambrel.errors import CaptureError
from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import Attention, FeedForward, Layer, LayerGroup, Mixer, Mlp, ModelSpec

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


#: Of them, those that transformers computes in several ops (5.24, activations.py).
_WRITTEN: Final = ("gelu_new", "gelu_fast", "quick_gelu", "relu2", "relu_squared")


def activation(f: Fields, *names: str, default: str = "silu") -> str:
    """The activation function of the feed-forward networks.

    Raises:
        CaptureError: One that is not known here.
    """
    name = f.text(*(names or ("hidden_act", "hidden_activation")), default=default)
    if name not in _ACTIVATIONS:
        f.refuse(names or ("hidden_act",), name, "one of " + ", ".join(_ACTIVATIONS))
    return _ACTIVATIONS[name]


def written(f: Fields, *names: str, default: str = "silu") -> str:
    """The activation's name where the code of transformers writes it out in several ops."""
    name = f.text(*(names or ("hidden_act", "hidden_activation")), default=default)
    return name if name in _WRITTEN else ""


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
    return bias_of(f.flag(name, default=default))


def bias_of(on: bool) -> dict[str, Any]:
    """Biases of all four projections of attention, or none."""
    return {"qkv_bias": "qkv" if on else "", "out_bias": on}


def window_of(f: Fields, kind: str) -> int | None:
    """The window of a layer, if it is a sliding one."""
    return f.optional("sliding_window") if kind == "sliding_attention" else None


def plain_mlp(f: Fields, *names: str, default: str = "gelu", **changes: Any) -> Mlp:
    """Two matrices with biases, without a gate.

    Args:
        f: The fields.
        *names: Spellings of the activation's field.
        default: The activation where the file names none.
        **changes: What the family does otherwise.
    """
    if "activation" not in changes:
        changes["activation"] = activation(f, *names, default=default)
        changes["written"] = written(f, *names, default=default)
    if "width" not in changes:
        changes["width"] = f.inner
    return Mlp(**{"gated": False, "bias": True, **changes})


def gated_mlp(f: Fields, **changes: Any) -> Mlp:
    """The gated feed-forward network from the usual fields."""
    bias = f.flag("mlp_bias", default=False)
    return Mlp(**{"width": f.inner, "activation": activation(f), "bias": bias, **changes})


#: Of a layer whose norms are layer norms with biases.
LAYER_NORMS: Final[dict[str, Any]] = {"norm": "layer_norm", "norm_bias": True}
#: Of a model that ends in one.
LAST_NORM: Final[dict[str, Any]] = {"final_norm": "layer_norm", "norm_bias": True}


def alike(
    f: Fields,
    mixer: Mixer,
    feed_forward: FeedForward | None = None,
    layer: Mapping[str, Any] | None = None,
    **changes: Any,
) -> ModelSpec:
    """A decoder whose layers are all alike.

    Args:
        f: The fields.
        mixer: Of each layer.
        feed_forward: Of each layer; None is the usual gated one.
        layer: What its layers do otherwise.
        **changes: What the model does otherwise.
    """
    one = Layer(mixer=mixer, feed_forward=feed_forward or gated_mlp(f), **(layer or {}))
    return decoder(f, uniform(f, one), **changes)


def mixed(
    f: Fields, kinds: Iterable[str], layer_of: Callable[[str], Layer], **changes: Any
) -> ModelSpec:
    """A decoder of layers of several kinds.

    Args:
        f: The fields.
        kinds: Of each layer, in order.
        layer_of: The layer of a kind.
        **changes: What the model does otherwise.
    """
    return decoder(f, pattern((kind, layer_of(kind)) for kind in kinds), **changes)


def windowed(
    f: Fields,
    kinds: Iterable[str],
    feed_forward: FeedForward | None = None,
    layer: Mapping[str, Any] | None = None,
    **changes: Any,
) -> ModelSpec:
    """A decoder whose layers are alike, but that those called sliding have a window.

    Args:
        f: The fields.
        kinds: Of each layer, in order.
        feed_forward: Of each layer; None is the usual gated one.
        layer: What its layers do otherwise.
        **changes: What its attention does otherwise.
    """

    def one(kind: str) -> Layer:
        mixer = attention(f, window=window_of(f, kind), **changes)
        return Layer(mixer=mixer, feed_forward=feed_forward or gated_mlp(f), **(layer or {}))

    return mixed(f, kinds, one)


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
