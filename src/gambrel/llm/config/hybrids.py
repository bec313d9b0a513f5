"""State-space models and hybrids: Mamba, Jamba, Zamba, Bamba, Falcon-H1, Nemotron-H, Qwen3-Next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gambrel.errors import CaptureError
from gambrel.llm.config.common import (
    activation,
    alike,
    attention,
    biased,
    decoder,
    gated_mlp,
    mixed,
    pattern,
    plain_mlp,
    uniform,
)
from gambrel.llm.config.dense import every_nth
from gambrel.llm.config.families import family
from gambrel.llm.config.fields import Fields
from gambrel.llm.config.mixtures import routed, sparse_layers
from gambrel.llm.spec import (
    FeedForward,
    Layer,
    LayerGroup,
    LinearAttention,
    Mixer,
    Mlp,
    ModelSpec,
    SelectiveScan,
    ShortConvolution,
    StateSpaceDual,
)


@family("mamba", "falcon_mamba", tie_word_embeddings=True)
def mamba(f: Fields) -> ModelSpec:
    """Mamba 1: a scan in every layer, no feed-forward."""
    layer = Layer(
        mixer=_scan(f, "state_size", "conv_kernel", "time_step_rank", "expand", bias="use_bias")
    )
    return decoder(f, uniform(f, layer))


def _scan(
    f: Fields, state: str, kernel: str, rank: str, expand: str, *, bias: str, norms: bool = False
) -> SelectiveScan:
    hidden = f.hidden
    channels = f.optional("intermediate_size") if rank == "time_step_rank" else None
    given = f.raw(rank)
    return SelectiveScan(
        channels=channels or f.whole(expand, default=2) * hidden,
        state=f.whole(state, default=16),
        conv_kernel=f.whole(kernel, default=4),
        dt_rank=-(-hidden // 16) if given in (None, "auto") else f.whole(rank),
        bias=f.flag(bias, default=False),
        conv_bias=f.flag("use_conv_bias", "mamba_conv_bias", default=True),
        inner_norms=norms,
    )


@family("mamba2", head_dim=64, num_heads=128, state_size=128, n_groups=8)
def mamba2(f: Fields) -> ModelSpec:
    """Mamba 2: a chunked scan in every layer."""
    mixer = _dual(f, "num_heads", "head_dim", "state_size", "n_groups")
    inner = f.whole("expand", default=2) * f.hidden
    if mixer.channels != inner:
        raise CaptureError(
            f"the configuration has num_heads * head_dim = {mixer.channels} and expand * "
            f"hidden_size = {inner}; they are equal in a mamba2 model."
        )
    return decoder(f, uniform(f, Layer(mixer=mixer)))


def _dual(
    f: Fields,
    heads: str,
    head_dim: str,
    state: str,
    groups: str,
    kernel: str = "conv_kernel",
    chunk: str = "chunk_size",
    **changes: Any,
) -> StateSpaceDual:
    """A chunked scan from the fields of these names."""
    count = f.whole(heads)
    shared = f.whole(groups, default=1)
    if count % shared:
        f.refuse((groups,), shared, f"a divisor of {heads}={count}")
    fields: dict[str, Any] = {
        "bias": f.flag("use_bias", "mamba_proj_bias", default=False),
        "conv_bias": f.flag("use_conv_bias", "mamba_conv_bias", default=True),
    }
    return StateSpaceDual(
        heads=count,
        head_dim=f.whole(head_dim),
        state=f.whole(state),
        groups=shared,
        conv_kernel=f.whole(kernel, default=4),
        chunk=f.whole(chunk, default=256),
        **{**fields, **changes},
    )


@family("jamba")
def jamba(f: Fields) -> ModelSpec:
    """Jamba: attention in every eighth layer, a mixture in every other."""
    names = ("mamba_d_state", "mamba_d_conv", "mamba_dt_rank", "mamba_expand")
    mixer = _scan(f, *names, bias="mamba_proj_bias", norms=True)
    mixture = routed(f, ("num_experts",), f.inner)
    attends = (
        f.whole("attn_layer_period", default=8),
        f.whole("attn_layer_offset", default=4, least=0),
    )
    mixes = (
        f.whole("expert_layer_period", default=2),
        f.whole("expert_layer_offset", default=1, least=0),
    )

    def kind(i: int) -> str:
        full = i % attends[0] == attends[1]
        sparse = i % mixes[0] == mixes[1] and mixture.experts > 1
        return f"{'attention' if full else 'mamba'}_{'moe' if sparse else 'mlp'}"

    def layer(kind: str) -> Layer:
        mix: Mixer = attention(f, rope=False) if kind.startswith("attention") else mixer
        feed: FeedForward = mixture if kind.endswith("moe") else gated_mlp(f)
        return Layer(mixer=mix, feed_forward=feed)

    return mixed(f, map(kind, range(f.layers)), layer)


_BAMBA: Final = (
    "mamba_n_heads",
    "mamba_d_head",
    "mamba_d_state",
    "mamba_n_groups",
    "mamba_d_conv",
    "mamba_chunk_size",
)


def _bamba_mixer(f: Fields, **changes: Any) -> StateSpaceDual:
    given = f.raw("mamba_d_head")
    inner = f.optional("mamba_d_ssm") or f.whole("mamba_expand", default=2) * f.hidden
    heads = f.whole("mamba_n_heads", default=128)
    size = f.divided("mamba_expand * hidden_size", inner, "mamba_n_heads", heads)
    if given not in (None, "auto") and given != size:
        f.refuse(("mamba_d_head",), given, f"{size}, the inner width {inner} over {heads} heads")
    defaults = {"mamba_n_heads": 128, "mamba_d_state": 256, "mamba_n_groups": 1}
    fixed = Fields({**f.given, "mamba_d_head": size}, f.family, f.where, defaults)
    return _dual(fixed, *_BAMBA, **changes)


@family("bamba", partial_rotary_factor=0.5)
def bamba(f: Fields) -> ModelSpec:
    """Bamba: Mamba 2 with attention in the layers listed."""
    mixer = _bamba_mixer(f)
    full = f.wholes("attn_layer_indices") or ()

    def layer(kind: str) -> Layer:
        mix: Mixer = attention(f, **biased(f)) if kind == "attention" else mixer
        return Layer(mixer=mix, feed_forward=gated_mlp(f))

    kinds = ("attention" if i in full else "mamba" for i in range(f.layers))
    return mixed(f, kinds, layer)


@family("granitemoehybrid")
def granitemoehybrid(f: Fields) -> ModelSpec:
    """Granite 4: Mamba 2 or attention, a shared expert and, in some sizes, routed ones."""
    shared = f.whole("shared_intermediate_size")
    experts = f.whole("num_local_experts", default=0, least=0, most=65_536)
    feed: FeedForward = (
        routed(f, ("num_local_experts",), f.inner, shared_width=shared, shared_fused=True)
        if experts
        else Mlp(width=shared, activation=activation(f), fused=True)
    )
    given = f.names("layer_types", "layers_block_type", count=f.layers) or ("mamba",) * f.layers
    types = _plain(given)
    rope = f.text("position_embedding_type") == "rope"
    mixers: dict[str, Mixer] = {"attention": attention(f, rope=rope, **biased(f))}
    if "mamba" in types:
        mixers["mamba"] = _bamba_mixer(f)
    for kind in types:
        if kind not in mixers:
            f.refuse(("layer_types",), kind, "mamba and attention")

    def layer(kind: str) -> Layer:
        return Layer(mixer=mixers[kind], feed_forward=feed)

    return mixed(f, types, layer)


#: Kinds of layers as transformers 5 writes them → as the models' own files do.
_KINDS: Final = {"linear_attention": "mamba", "full_attention": "attention"}


def _plain(kinds: Iterable[str]) -> tuple[str, ...]:
    return tuple(_KINDS.get(kind, kind) for kind in kinds)


@family("falcon_h1")
def falcon_h1(f: Fields) -> ModelSpec:
    """Falcon-H1: attention and Mamba 2 side by side in every layer."""
    mixer = _bamba_mixer(f, gated_norm=f.flag("mamba_rms_norm", default=False))
    return alike(f, mixer, layer={"beside": attention(f, **biased(f))})


@family("nemotron_h", head_dim=128)
def nemotron_h(f: Fields) -> ModelSpec:
    """Nemotron-H: each layer is one part: Mamba 2, attention, or a feed-forward network."""
    text = f.text("hybrid_override_pattern")
    types = f.names("layers_block_type", "layer_types")
    kinds = _plain(types or ()) or tuple(
        {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}.get(c, c) for c in text
    )
    if f.has("num_hidden_layers") and len(kinds) != f.layers:
        raise CaptureError(
            f"the configuration has num_hidden_layers={f.layers} and a hybrid_override_pattern of "
            f"{len(kinds)} layers; they are equal in a nemotron_h model."
        )
    mixer = _dual(f, "mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups")
    parts = {
        "mamba": lambda: Layer(mixer=mixer),
        "attention": lambda: Layer(mixer=attention(f, rope=False, **biased(f))),
        "mlp": lambda: Layer(
            feed_forward=plain_mlp(f, activation="relu", bias=f.flag("mlp_bias", default=False))
        ),
        "moe": lambda: Layer(
            feed_forward=routed(
                f,
                ("n_routed_experts",),
                f.whole("moe_intermediate_size"),
                gated=False,
                activation="relu",
                correction_bias=True,
                latent=f.optional("moe_latent_size") or 0,
                latent_bias=f.flag("mlp_bias", default=False),
                shared_width=f.whole("moe_shared_expert_intermediate_size", default=0, least=0),
            )
        ),
    }
    for kind in kinds:
        if kind not in parts:
            f.refuse(("hybrid_override_pattern",), kind, "layers of M, *, - and E")
    return mixed(f, kinds, lambda kind: parts[kind]())


@family("qwen3_next", "qwen3_5_moe_text", head_dim=256, partial_rotary_factor=0.25)
def qwen3_next(f: Fields) -> ModelSpec:
    """Qwen3-Next, Qwen 3.5 with a mixture: gated delta rule, full attention in every fourth."""
    mixture = routed(
        f,
        ("num_experts",),
        f.whole("moe_intermediate_size"),
        shared_gate=True,
        shared_width=f.whole("shared_expert_intermediate_size"),
    )
    return _delta_ruled(f, [mixture if sparse else gated_mlp(f) for sparse in sparse_layers(f)])


@family("qwen3_5_text", head_dim=256, partial_rotary_factor=0.25)
def qwen3_5_text(f: Fields) -> ModelSpec:
    """Qwen 3.5 without a mixture: the same mixers."""
    return _delta_ruled(f, [gated_mlp(f)] * f.layers)


def _delta_ruled(f: Fields, feeds: Sequence[FeedForward]) -> ModelSpec:
    """The gated delta rule, full attention in every fourth layer, ``feeds`` after each."""
    keys, values = f.whole("linear_num_key_heads"), f.whole("linear_num_value_heads")
    if values % keys:
        f.refuse(("linear_num_value_heads",), values, f"a multiple of linear_num_key_heads={keys}")
    linear = LinearAttention(
        key_heads=keys,
        value_heads=values,
        key_dim=f.whole("linear_key_head_dim"),
        value_dim=f.whole("linear_value_head_dim"),
        conv_kernel=f.whole("linear_conv_kernel_dim", default=4),
        state_format="fp32" if f.text("mamba_ssm_dtype") == "float32" else None,
    )
    full = attention(f, gated=True, qk_norm="head", **biased(f))
    every = f.whole("full_attention_interval", default=4)
    types = f.names("layer_types", count=f.layers) or every_nth(f, every, "linear_attention")
    layers: list[tuple[str, Layer]] = []
    for kind, feed in zip(types, feeds, strict=True):
        if kind not in ("full_attention", "linear_attention"):
            f.refuse(("layer_types",), kind, "full_attention and linear_attention")
        mix: Mixer = full if kind == "full_attention" else linear
        layers.append((kind, Layer(mixer=mix, feed_forward=feed)))
    return decoder(f, pattern(layers))


@family("lfm2", "lfm2_moe")
def lfm2(f: Fields) -> ModelSpec:
    """LFM2: short convolutions, attention in some layers."""
    types = f.names("layer_types", count=f.layers)
    full = f.wholes("full_attn_idxs")
    kinds = types or tuple(
        "full_attention" if full is None or i in full else "conv" for i in range(f.layers)
    )
    conv = ShortConvolution(
        channels=f.hidden,
        conv_kernel=f.whole("conv_L_cache", default=3),
        bias=f.flag("conv_bias", default=False),
    )
    dense = Mlp(width=_lfm2_width(f))
    leading = f.whole("num_dense_layers", default=0, least=0)
    mixture: FeedForward = dense
    if f.family == "lfm2_moe":
        mixture = routed(
            f,
            ("num_experts",),
            f.whole("moe_intermediate_size"),
            correction_bias=f.flag("use_expert_bias", default=True),
        )
    layers: list[tuple[str, Layer]] = []
    for i, kind in enumerate(kinds):
        mix: Mixer = attention(f, qk_norm="head") if kind == "full_attention" else conv
        layers.append((kind, Layer(mixer=mix, feed_forward=dense if i < leading else mixture)))
    tied = f.flag("tie_word_embeddings", "tie_embedding", default=True)
    return decoder(f, pattern(layers), tied=tied)


def _lfm2_width(f: Fields) -> int:
    """The file's width is adjusted: two thirds, times a factor, up to a multiple."""
    width = f.whole("intermediate_size", "block_ff_dim")
    if not f.flag("block_auto_adjust_ff_dim", default=f.family == "lfm2"):
        return width
    width = int(int(2 * width / 3) * f.number("block_ffn_dim_multiplier", default=1.0))
    multiple = f.whole("block_multiple_of", default=256)
    return multiple * -(-width // multiple)


@family("zamba2", tie_word_embeddings=True)
def zamba2(f: Fields) -> ModelSpec:
    """Zamba 2: Mamba 2 layers; now and then a transformer block whose weights are shared."""
    types = f.names("layers_block_type", "layer_types", count=f.layers)
    hybrid = f.wholes("hybrid_layer_ids")
    kinds = types or tuple("hybrid" if hybrid and i in hybrid else "mamba" for i in range(f.layers))
    hidden = f.hidden
    inner = f.whole("mamba_expand", default=2) * hidden
    heads = f.whole("n_mamba_heads", default=8)
    size = f.divided("mamba_expand * hidden_size", inner, "n_mamba_heads", heads)
    fixed = Fields(
        {**f.given, "n_mamba_heads": heads, "mamba_headdim": size},
        f.family,
        f.where,
        {"mamba_d_state": 64, "mamba_ngroups": 1},
    )
    names = ("n_mamba_heads", "mamba_headdim", "mamba_d_state", "mamba_ngroups", "mamba_d_conv")
    mixer = _dual(fixed, *names)
    count = kinds.count("hybrid")
    if not count:
        return decoder(f, uniform(f, Layer(mixer=mixer)))
    head = f.optional("attention_head_dim") or 2 * hidden // f.heads
    adapted = f.flag("use_shared_mlp_adapter", default=True)
    if f.flag("use_shared_attention_adapter", default=False):
        f.refuse(("use_shared_attention_adapter",), True, "false, or a capture of the model")
    shared = Layer(
        mixer=attention(
            f,
            head_dim=head,
            input_hidden=2 * hidden,
            rope=f.flag("use_mem_rope", default=False),
            rotary_dim=None,
        ),
        feed_forward=Mlp(
            width=f.inner,
            activation="gelu",
            fused=True,
            adapter_rank=f.whole("adapter_rank", default=128) if adapted else 0,
        ),
        norm_hidden=2 * hidden,
        linear=True,
    )
    blocks = min(f.whole("num_mem_blocks", default=1), count)
    groups = (
        LayerGroup(layer=Layer(mixer=mixer), count=f.layers, name="mamba"),
        LayerGroup(layer=shared, count=count, distinct=blocks, name="shared"),
    )
    return decoder(f, groups)
