"""One layer: norms, mixers, feed-forward and the additions between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gambrel.llm.blocks.attention import Memory, attention, cross_attention
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.blocks.feed_forward import mixture, mlp
from gambrel.llm.blocks.latent import latent_attention
from gambrel.llm.blocks.linear import linear
from gambrel.llm.blocks.norms import add, add_norm, norm
from gambrel.llm.blocks.recurrent import (
    linear_attention,
    selective_scan,
    short_convolution,
    state_space_dual,
)
from gambrel.llm.spec import (
    Attention,
    FeedForward,
    LatentAttention,
    Layer,
    LinearAttention,
    Mixer,
    Mixture,
    SelectiveScan,
    ShortConvolution,
    StateSpaceDual,
)
from gambrel.workload import Dim

#: Called after the output of a part that devices share: (emitter, part, tensor, rows, width).
Exchange = Callable[[Emitter, str, Index, Dim, int], Index]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualStream:
    """The residual stream that layers work on.

    Attributes:
        rows: Tokens.
        hidden: Width.
        memory: What cross attention reads; None without an encoder.
        exchange: What devices do after each part; None for one device.
    """

    rows: Dim
    hidden: int
    memory: Memory | None = None
    exchange: Exchange | None = None


MIXERS: Final[dict[type, Callable[[Emitter, Any, Index, Dim, int], Index]]] = {
    Attention: attention,
    LatentAttention: latent_attention,
    SelectiveScan: selective_scan,
    StateSpaceDual: state_space_dual,
    LinearAttention: linear_attention,
    ShortConvolution: short_convolution,
}
_NAMES: Final[dict[type, str]] = {
    Attention: "attention",
    LatentAttention: "attention",
    SelectiveScan: "mamba",
    StateSpaceDual: "mamba",
    LinearAttention: "linear_attention",
    ShortConvolution: "convolution",
}


def run_layer(e: Emitter, layer: Layer, x: Index, s: ResidualStream) -> Index:
    """Writes one layer.

    Returns:
        The stream behind it.
    """
    if layer.parallel:
        return _parallel(e, layer, x, s)
    entry = x
    h = _before(e, layer, entry, "input_norm", s) if layer.mixer is not None else None
    delta: Index | None = None
    if layer.mixer is not None and h is not None:
        delta = _after(e, layer, _mix(e, layer, h, s), "mixer_norm", s)
    if layer.cross is not None and delta is not None:
        x, h = _joined(e, layer, x, delta, "cross_norm", s)
        delta = _after(e, layer, _cross(e, layer.cross, h, s), "cross_out_norm", s)
    if layer.feed_forward is not None:
        if delta is not None:
            x, h = _joined(e, layer, x, delta, "feed_forward_norm", s)
        else:
            h = _before(e, layer, x, "feed_forward_norm", s)
        out = _feed(e, layer.feed_forward, h, s)
        delta = _after(e, layer, out, "feed_forward_out_norm", s)
    if delta is None:
        return x
    if layer.linear:
        with e.each_use():
            delta = linear(e, delta, "linear", s.rows, s.hidden, s.hidden)
    if layer.residual_norms:
        return add_norm(
            e,
            x,
            delta,
            "output_norm",
            s.rows,
            s.hidden,
            layer.norm,
            bias=layer.norm_bias,
            keep_sum=False,
        )[1]
    return add(e, x, delta, s.rows, s.hidden)


def _parallel(e: Emitter, layer: Layer, x: Index, s: ResidualStream) -> Index:
    """Both parts read the same stream; their outputs are added to it together."""
    h = _before(e, layer, x, "input_norm", s)
    second = h if layer.parallel_norms == 1 else _before(e, layer, x, "feed_forward_norm", s)
    mixed = _mix(e, layer, h, s)
    if layer.feed_forward is None:
        return add(e, x, mixed, s.rows, s.hidden)
    fed = _feed(e, layer.feed_forward, second, s)
    return add(e, add(e, mixed, fed, s.rows, s.hidden), x, s.rows, s.hidden)


def _before(e: Emitter, layer: Layer, x: Index, name: str, s: ResidualStream) -> Index:
    if not layer.pre_norms:
        return x
    width = s.hidden
    if name == "input_norm" and layer.norm_hidden is not None:
        width = layer.norm_hidden
        x = e.elementwise("cast", (x, x), s.rows, width)
    return norm(e, x, name, s.rows, width, layer.norm, bias=layer.norm_bias)


def _after(e: Emitter, layer: Layer, x: Index, name: str, s: ResidualStream) -> Index:
    if not layer.post_norms:
        return x
    return norm(e, x, name, s.rows, s.hidden, layer.norm, bias=layer.norm_bias)


def _joined(
    e: Emitter, layer: Layer, x: Index, delta: Index, name: str, s: ResidualStream
) -> tuple[Index, Index]:
    """The stream with a part added, and the input of the next part."""
    if layer.residual_norms or layer.pre_norms:
        return add_norm(
            e,
            x,
            delta,
            name,
            s.rows,
            s.hidden,
            layer.norm,
            bias=layer.norm_bias,
            keep_sum=not layer.residual_norms,
        )
    x = add(e, x, delta, s.rows, s.hidden)
    return x, x


def _mix(e: Emitter, layer: Layer, h: Index, s: ResidualStream) -> Index:
    assert layer.mixer is not None  # callers have looked
    out = _mixer(e, layer.mixer, h, s)
    if layer.beside is not None:
        out = add(e, out, _mixer(e, layer.beside, h, s), s.rows, s.hidden)
    return _exchanged(e, "mixer", out, s)


def _mixer(e: Emitter, mixer: Mixer, h: Index, s: ResidualStream) -> Index:
    with e.inside(_NAMES[type(mixer)]):
        return MIXERS[type(mixer)](e, mixer, h, s.rows, s.hidden)


def _cross(e: Emitter, cross: Attention, h: Index, s: ResidualStream) -> Index:
    with e.inside("cross_attention"):
        out = cross_attention(e, cross, h, s.rows, s.hidden, s.memory or (None, 1))
    return _exchanged(e, "mixer", out, s)


def _feed(e: Emitter, f: FeedForward, h: Index, s: ResidualStream) -> Index:
    with e.inside("feed_forward"):
        run: Callable[..., Index] = mixture if isinstance(f, Mixture) else mlp
        out = run(e, f, h, s.rows, s.hidden)
    return _exchanged(e, "feed_forward", out, s)


def _exchanged(e: Emitter, part: str, out: Index, s: ResidualStream) -> Index:
    return s.exchange(e, part, out, s.rows, s.hidden) if s.exchange else out
