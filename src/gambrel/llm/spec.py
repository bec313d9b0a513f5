"""What a language model is made of: layers, mixers and feed-forwards as plain records.

A `ModelSpec` says what runs, not how often or how wide the numbers are: `gambrel.llm.step` says
which tokens pass, `gambrel.llm.precision` in which formats, `gambrel.llm.build` turns the three
into a workload. All widths are numbers of elements.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

NormKind: TypeAlias = Literal["rms_norm", "layer_norm", "layer_norm_free"]


class Attention(msgspec.Struct, frozen=True, kw_only=True, tag="attention", omit_defaults=True):
    """Softmax attention over keys and values that are cached per head.

    Attributes:
        heads: Query heads.
        kv_heads: Key and value heads; fewer than ``heads`` share them (GQA, MQA).
        head_dim: Length of a query and of a key.
        v_head_dim: Length of a value; None is ``head_dim``.
        window: Newest positions that a query sees, itself included; None sees all.
        chunk: A query sees only its own chunk of so many positions; None is no chunks.
        causal: Queries see no later position.
        rope: Queries and keys are rotated.
        rotary_dim: How much of the head is rotated; None is all.
        qk_norm: ``"head"`` normalizes each head of queries and keys, ``"full"`` the whole
            projection, ``"free"`` each head without weights.
        qkv_bias: Which of the projections have a bias: of ``"qkv"``.
        out_bias: Whether the output projection has one.
        fused: Projections stored as one matrix: ``"qkv"``, ``"kv"`` or none.
        gated: The output is multiplied by a sigmoid of as many further query values.
        gate_per_head: A sigmoid gate of one value a head, from a projection of its own.
        sinks: One learned logit a head joins the softmax.
        softcap: The scores pass a tanh.
        memory_hidden: Width of the sequence that keys and values come from, for cross attention.
        relative_buckets: Rows of a learned position bias, one value a head (T5).
        input_hidden: Width of its input where that is not the model's (Zamba concatenates).
        shared_kv: Keys and values are those of an earlier layer: no projections, no cache.
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int | None = None
    window: int | None = None
    chunk: int | None = None
    causal: bool = True
    rope: bool = True
    rotary_dim: int | None = None
    qk_norm: Literal["", "head", "full", "free"] = ""
    qkv_bias: str = ""
    out_bias: bool = False
    fused: Literal["", "qkv", "kv"] = ""
    gated: bool = False
    gate_per_head: bool = False
    sinks: bool = False
    softcap: bool = False
    memory_hidden: int | None = None
    relative_buckets: int | None = None
    input_hidden: int | None = None
    shared_kv: bool = False

    @property
    def value_dim(self) -> int:
        """Length of one value head."""
        return self.head_dim if self.v_head_dim is None else self.v_head_dim

    @property
    def kv_elements(self) -> int:
        """Elements that one token adds to the cache."""
        return 0 if self.shared_kv else self.kv_heads * (self.head_dim + self.value_dim)

    @property
    def reach(self) -> int | None:
        """Most positions that a query can see; None when there is no limit."""
        limits = [n for n in (self.window, self.chunk) if n is not None]
        return min(limits) if limits else None


class LatentAttention(msgspec.Struct, frozen=True, kw_only=True, tag="latent", omit_defaults=True):
    """Multi-head latent attention (DeepSeek V2): a compressed cache shared by all heads.

    Attributes:
        heads: Query heads.
        q_lora_rank: Width that queries are compressed to; None projects them directly.
        kv_lora_rank: Width of the cached latent.
        nope_head_dim: Length of the part of queries and keys that is not rotated.
        rope_head_dim: Length of the rotated part; its key is one for all heads.
        v_head_dim: Length of a value.
        qkv_bias: Whether the compressing projections have biases.
        causal: Queries see no later position.
    """

    heads: int
    kv_lora_rank: int
    nope_head_dim: int
    rope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None
    qkv_bias: bool = False
    causal: bool = True

    @property
    def head_dim(self) -> int:
        """Length of a query or of a key re-expanded."""
        return self.nope_head_dim + self.rope_head_dim

    @property
    def kv_elements(self) -> int:
        """Elements that one token adds to the cache: the latent and the rotated key."""
        return self.kv_lora_rank + self.rope_head_dim


class SelectiveScan(msgspec.Struct, frozen=True, kw_only=True, tag="mamba1", omit_defaults=True):
    """Mamba 1: convolution, input-dependent scan over a state of each channel.

    Attributes:
        channels: Inner width.
        state: Values of state a channel.
        conv_kernel: Taps of the causal depthwise convolution.
        dt_rank: Width that step sizes are compressed to.
        bias: Whether the projections in and out have biases.
        conv_bias: Whether the convolution has one.
        inner_norms: Whether step size, B and C are normalized (Jamba).
        heads: Groups of channels with scan parameters of their own (Zamba); 1 elsewhere.
    """

    channels: int
    state: int
    conv_kernel: int
    dt_rank: int
    bias: bool = False
    conv_bias: bool = True
    inner_norms: bool = False
    heads: int = 1

    @property
    def state_elements(self) -> int:
        """Elements that a sequence keeps: the state and the last inputs of the convolution."""
        return self.channels * (self.state + self.conv_kernel - 1)


class StateSpaceDual(msgspec.Struct, frozen=True, kw_only=True, tag="mamba2", omit_defaults=True):
    """Mamba 2: a scan with one decay a head, computed in chunks.

    Attributes:
        heads: Heads.
        head_dim: Channels of a head; ``heads * head_dim`` is the inner width.
        state: Values of state a channel.
        groups: Groups that share B and C.
        conv_kernel: Taps of the causal depthwise convolution over x, B and C.
        chunk: Tokens of a chunk.
        bias: Whether the projections in and out have biases.
        conv_bias: Whether the convolution has one.
        gated_norm: Whether the output is normalized, with weights, after its gate.
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    conv_kernel: int
    chunk: int = 256
    bias: bool = False
    conv_bias: bool = True
    gated_norm: bool = True

    @property
    def channels(self) -> int:
        """Inner width."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        """Channels that pass the convolution: x, B and C."""
        return self.channels + 2 * self.groups * self.state

    @property
    def state_elements(self) -> int:
        """Elements that a sequence keeps: the state and the last inputs of the convolution."""
        return self.channels * self.state + self.conv_channels * (self.conv_kernel - 1)


class LinearAttention(msgspec.Struct, frozen=True, kw_only=True, tag="linear", omit_defaults=True):
    """Linear attention with a state of keys times values a head.

    Attributes:
        rule: ``"gated_delta"`` (Qwen3-Next: decay, then a correction towards the new value) or
            ``"decay"`` (Lightning attention of MiniMax-01: a fixed decay a head).
        key_heads: Heads of queries and keys.
        value_heads: Heads of values; each has a state.
        key_dim: Length of a key.
        value_dim: Length of a value.
        conv_kernel: Taps of the causal depthwise convolution over q, k, v; 0 is none.
        chunk: Tokens of a chunk.
    """

    rule: Literal["gated_delta", "decay"]
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int = 4
    chunk: int = 64

    @property
    def conv_channels(self) -> int:
        """Channels that pass the convolution: q, k and v."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def state_elements(self) -> int:
        """Elements that a sequence keeps: the state and the last inputs of the convolution."""
        conv = self.conv_channels * (self.conv_kernel - 1) if self.conv_kernel else 0
        return self.value_heads * self.key_dim * self.value_dim + conv


class ShortConvolution(msgspec.Struct, frozen=True, kw_only=True, tag="conv", omit_defaults=True):
    """A gated causal depthwise convolution in place of attention (LFM2).

    Attributes:
        channels: Width.
        conv_kernel: Taps.
        bias: Whether projections and convolution have biases.
    """

    channels: int
    conv_kernel: int
    bias: bool = False

    @property
    def state_elements(self) -> int:
        """Elements that a sequence keeps: the last inputs of the convolution."""
        return self.channels * (self.conv_kernel - 1)


Mixer: TypeAlias = (
    Attention
    | LatentAttention
    | SelectiveScan
    | StateSpaceDual
    | LinearAttention
    | ShortConvolution
)


class Mlp(msgspec.Struct, frozen=True, kw_only=True, tag="mlp", omit_defaults=True):
    """A dense feed-forward network.

    Attributes:
        width: Its inner width.
        gated: Three matrices (gate, up, down) instead of two.
        activation: A function of `gambrel.ops.elementwise`.
        bias: Whether its projections have biases.
        fused: Gate and up are stored as one matrix.
        input_hidden: Width of its input where that is not the model's.
        adapter_rank: Rank of a low-rank addition to gate and up that each use of shared weights
            has of its own (Zamba 2); 0 is none.
    """

    width: int
    adapter_rank: int = 0
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    fused: bool = False
    input_hidden: int | None = None


class Mixture(msgspec.Struct, frozen=True, kw_only=True, tag="mixture", omit_defaults=True):
    """A mixture of experts: a router picks ``top_k`` of ``experts`` networks for each token.

    Attributes:
        experts: Routed experts.
        top_k: Of them, those that a token passes.
        width: Inner width of one expert.
        gated: Experts have three matrices instead of two.
        activation: A function of `gambrel.ops.elementwise`.
        bias: Whether the experts' projections have biases.
        router_bias: A bias of the router's projection.
        correction_bias: A learned term that only picks (DeepSeek V3); it is no parameter that
            gradients train, but the checkpoint holds it.
        shared_width: Inner width of what every token passes besides (all shared experts
            together); 0 is none.
        shared_fused: Its gate and up are stored as one matrix.
        shared_gate: The shared part is multiplied by a learned sigmoid of the token.
        held: Experts on this device, where they are divided among several; None is all.
        spread: Devices whose tokens reach these experts, each with sequences of its own.
    """

    experts: int
    top_k: int
    width: int
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    router_bias: bool = False
    correction_bias: bool = False
    shared_width: int = 0
    shared_gate: bool = False
    shared_fused: bool = False
    held: int | None = None
    spread: int = 1


FeedForward: TypeAlias = Mlp | Mixture


class Layer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One layer: a mixer over positions, then a feed-forward network, each with its norms.

    Attributes:
        mixer: What mixes positions; None when there is only a feed-forward.
        beside: A second mixer that sees the same input, the sum of both goes on (Falcon-H1).
        cross: Attention to the encoder's output, after the mixer.
        feed_forward: None when there is only a mixer.
        norm: Kind of its norms; ``"layer_norm_free"`` has no weights.
        norm_bias: Whether they have biases.
        pre_norms: Whether each part normalizes its input.
        post_norms: Whether each part normalizes its output as well.
        residual_norms: Whether each addition is followed by a norm instead (BERT).
        parallel: Mixer and feed-forward see the same input and are added together.
        parallel_norms: With ``parallel``: 1 when both read one normalized input, else 2.
        linear: A projection from hidden to hidden after the layer, of each use of shared weights
            (Zamba 2).
        norm_hidden: Width of the first norm where it is not the model's (Zamba concatenates).
        scales: Learned vectors that scale each part's output (LayerScale of vision towers).
    """

    mixer: Mixer | None = None
    beside: Mixer | None = None
    cross: Attention | None = None
    feed_forward: FeedForward | None = None
    norm: NormKind = "rms_norm"
    norm_bias: bool = False
    pre_norms: bool = True
    post_norms: bool = False
    residual_norms: bool = False
    parallel: bool = False
    parallel_norms: int = 1
    linear: bool = False
    norm_hidden: int | None = None
    scales: bool = False


class LayerGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Equal layers; a model lists its groups in the order in which they first run.

    Attributes:
        layer: The layer.
        count: How often it runs.
        distinct: Sets of weights among them; None is one a layer, fewer share (Zamba).
        name: What reports call it, e.g. ``"layers"`` or ``"full_attention"``.
    """

    layer: Layer
    count: int
    distinct: int | None = None
    name: str = "layers"

    @property
    def copies(self) -> int:
        """Sets of weights."""
        return self.count if self.distinct is None else self.distinct


class Patches(msgspec.Struct, frozen=True, kw_only=True, tag="patches", omit_defaults=True):
    """Images (or stacks of frames) cut into patches, each projected to a token.

    Attributes:
        channels: Of the image.
        image: Side in pixels.
        patch: Side of a patch.
        frames: Frames that one patch spans.
        bias: Whether the projection has one.
        extra_tokens: Class and register tokens.
        positions: Rows of a learned position table.
    """

    channels: int
    image: int
    patch: int
    frames: int = 1
    bias: bool = True
    extra_tokens: int = 0
    positions: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of one image."""
        return (self.image // self.patch) ** 2 + self.extra_tokens


class Frames(msgspec.Struct, frozen=True, kw_only=True, tag="frames", omit_defaults=True):
    """A spectrogram passed through two convolutions over time, the second with stride 2.

    Attributes:
        mels: Frequency bands.
        positions: Tokens after the convolutions.
        learned: Whether the positions are a table of the model (a buffer otherwise).
    """

    mels: int
    positions: int
    learned: bool = True

    @property
    def tokens(self) -> int:
        """Tokens of one item."""
        return self.positions


class Projector(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What maps an encoder's output into the text model's width.

    Attributes:
        widths: Of its linear layers, from input to output.
        bias: Whether they have biases.
        tokens: Tokens that it yields for one item.
        norm: Kind of a norm on its input; empty for none.
        norm_width: Width of that norm.
        norm_bias: Whether it has a bias.
    """

    widths: tuple[int, ...]
    tokens: int
    bias: bool = True
    norm: str = ""
    norm_width: int = 0
    norm_bias: bool = False


class Encoder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part that runs once over its own input: text, image or audio encoder.

    Attributes:
        name: As in module paths, e.g. ``"encoder"`` or ``"vision"``.
        hidden: Width.
        layers: Groups of layers.
        front: How its input becomes tokens; None for a look-up in the model's own embedding.
        entry_norm: Kind of a norm before the first layer; empty for none.
        final_norm: Kind of the norm after the last; empty for none.
        norm_bias: Whether these have biases.
        projector: Into the text model; None when its output is read by cross attention.
        pooling_head: Parameters of parts that exist but do not run here (a pooled class token).
        biasing: A learned T5 table of position biases is shared by all layers: its rows times
            heads.
    """

    name: str
    hidden: int
    layers: tuple[LayerGroup, ...]
    front: Patches | Frames | None = None
    entry_norm: str = ""
    final_norm: str = ""
    norm_bias: bool = False
    projector: Projector | None = None
    pooling_head: int = 0
    biasing: int = 0


class Quantization(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a ``quantization_config`` says.

    Attributes:
        method: As the file names it, e.g. ``"fp8"``, ``"gptq"``, ``"mxfp4"``.
        precision: The spelling that `gambrel.llm.precision.Precisions.parse` understands.
        note: One sentence for the reader.
    """

    method: str
    precision: str
    note: str = ""


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A language model (or another transformer) as widths and counts.

    Attributes:
        name: For reports.
        family: The ``model_type`` of its configuration.
        hidden: Width of the residual stream.
        vocab: Rows of the token embedding; 0 for a model without one (a vision transformer).
        layers: Groups of equal layers, in the order in which they first run.
        dtype: Number format of its checkpoint.
        dtype_given: Whether the configuration says so; else ``dtype`` is only a placeholder.
        max_context: Most positions that it was made for; None when unlimited or unknown.
        tied: The LM head is the embedding's matrix.
        head: ``"lm"`` (logits over the vocabulary), ``"pooler"`` (a dense layer on the first
            token), ``"classifier"`` or ``"none"``.
        head_bias: Whether the head has a bias.
        labels: Outputs of a classifier.
        embedding_width: Width of the embedding where it is not ``hidden``; it is then projected.
        positions: Rows of a learned position table.
        token_types: Rows of a token-type table.
        embedding_norm: Kind of a norm after the embedding; empty for none.
        final_norm: Kind of the last norm; empty for none.
        norm_bias: Whether these have biases.
        head_transform: The head has a dense layer and a norm first (masked language models).
        softcap: Logits pass a tanh.
        front: Images instead of tokens (a vision transformer).
        encoders: Parts that run once over inputs of their own.
        mtp: Extra layers that predict further tokens (multi-token prediction); 0 is none.
        mtp_layer: Such a layer.
        causal: A decoder with phases; False for encoders.
        biasing: Rows times heads of a position-bias table shared by all layers (T5's decoder).
        quantization: Of the checkpoint; None when it is not quantized.
        notes: What had to be assumed, one sentence each.
        unused: Parameters of the checkpoint that no step runs, by name (a text-only step of a
            vision-language model runs no tower, but it is loaded).
    """

    name: str
    family: str
    hidden: int
    vocab: int
    layers: tuple[LayerGroup, ...]
    dtype: str = "bf16"
    dtype_given: bool = True
    max_context: int | None = None
    tied: bool = False
    head: Literal["lm", "pooler", "classifier", "none"] = "lm"
    head_bias: bool = False
    labels: int = 0
    embedding_width: int | None = None
    positions: int = 0
    token_types: int = 0
    embedding_norm: str = ""
    final_norm: str = "rms_norm"
    norm_bias: bool = False
    head_transform: bool = False
    softcap: bool = False
    front: Patches | None = None
    encoders: tuple[Encoder, ...] = ()
    mtp: int = 0
    mtp_layer: Layer | None = None
    causal: bool = True
    biasing: int = 0
    quantization: Quantization | None = None
    notes: tuple[str, ...] = ()
    unused: dict[str, int] = {}

    @property
    def layer_count(self) -> int:
        """Layers that a token passes."""
        return sum(group.count for group in self.layers)

    @property
    def kv_elements_per_token(self) -> int:
        """Elements that one token adds to all caches of the model, windows not considered."""
        return sum(
            group.count * mixer.kv_elements
            for group in self.layers
            for mixer in mixers_of(group.layer)
            if isinstance(mixer, (Attention, LatentAttention))
        )

    @property
    def state_elements_per_sequence(self) -> int:
        """Elements of recurrent state that one sequence keeps, whatever its length."""
        return sum(
            group.count * mixer.state_elements
            for group in self.layers
            for mixer in mixers_of(group.layer)
            if not isinstance(mixer, (Attention, LatentAttention))
        )

    @property
    def mixtures(self) -> tuple[Mixture, ...]:
        """The different mixtures of experts; empty for a dense model."""
        found = [g.layer.feed_forward for g in self.layers]
        return tuple(dict.fromkeys(f for f in found if isinstance(f, Mixture)))


def mixers_of(layer: Layer) -> tuple[Mixer, ...]:
    """What mixes positions in a layer, cross attention apart."""
    return tuple(m for m in (layer.mixer, layer.beside) if m is not None)
