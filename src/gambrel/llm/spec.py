"""What a language model is made of: layers, mixers and feed-forwards as plain records.

A `ModelSpec` says what runs, not how often or how wide the numbers are: `gambrel.llm.step` says
which tokens pass, `gambrel.llm.precision` in which formats, `gambrel.llm.build` turns the three
into a workload. All widths are numbers of elements.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gambrel.llm.mixers import (
    Attention,
    Indexer,
    LatentAttention,
    LinearAttention,
    Mixer,
    SelectiveScan,
    ShortConvolution,
    StateSpaceDual,
)
from gambrel.llm.precision import Precisions, with_parts

__all__ = [
    "Attention",
    "Encoder",
    "FeedForward",
    "Frames",
    "Indexer",
    "LatentAttention",
    "Layer",
    "LayerGroup",
    "LinearAttention",
    "Mixer",
    "Mixture",
    "Mlp",
    "ModelSpec",
    "NormKind",
    "Patches",
    "Projector",
    "Quantization",
    "SelectiveScan",
    "ShortConvolution",
    "StateSpaceDual",
    "mixers_of",
]

NormKind: TypeAlias = Literal["rms_norm", "layer_norm", "layer_norm_free"]


class Mlp(msgspec.Struct, frozen=True, kw_only=True, tag="mlp", omit_defaults=True):
    """A dense feed-forward network.

    Attributes:
        width: Its inner width.
        gated: Three matrices (gate, up, down) instead of two.
        activation: A function of `gambrel.ops.elementwise`.
        bias: Whether its projections have biases.
        fused: Gate and up are stored as one matrix.
        adapter_rank: Rank of a low-rank addition to gate and up that each use of shared weights
            has of its own (Zamba 2); 0 is none.
        written: Name of the activation where the model's code writes it out in several ops
            (``"gelu_new"``).
    """

    width: int
    adapter_rank: int = 0
    written: str = ""
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    fused: bool = False


class Mixture(msgspec.Struct, frozen=True, kw_only=True, tag="mixture", omit_defaults=True):
    """A mixture of experts: a router picks ``top_k`` of ``experts`` networks for each token.

    Attributes:
        experts: Routed experts.
        top_k: Of them, those that a token passes.
        width: Inner width of one expert.
        latent: Width at which experts read and write, between two projections of every token; 0
            is the model's (Nemotron 3 Super and Ultra have such experts).
        gated: Experts have three matrices instead of two.
        activation: A function of `gambrel.ops.elementwise`.
        bias: Whether the experts' projections have biases.
        latent_bias: Whether the projections to their width and back have biases.
        written: Name of their gate where transformers' code writes it out in several ops.
        chosen_first: The router's softmax is over the chosen experts alone.
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
    latent: int = 0
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    latent_bias: bool = False
    written: str = ""
    chosen_first: bool = False
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
    """

    mels: int
    positions: int

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
        shifted_norms: RMS norms multiply by one plus their weights (Gemma).
        written_norms: Layer norms are written out in transformers' code (Command R).
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
    shifted_norms: bool = False
    written_norms: bool = False
    front: Patches | None = None
    encoders: tuple[Encoder, ...] = ()
    mtp: int = 0
    mtp_layer: Layer | None = None
    causal: bool = True
    biasing: int = 0
    quantization: Quantization | None = None
    notes: tuple[str, ...] = ()
    unused: dict[str, int] = {}

    def precisions(self, text: str | None = None) -> Precisions:
        """Number formats: as written in ``text``, or the checkpoint's own."""
        own = self.quantization.precision if self.quantization else self.dtype
        if text and "=" in text.partition(",")[0] and self.quantization:
            text = with_parts(own, text)  # parts alone: the rest stays the checkpoint's
        return Precisions.parse(text or own, self.dtype)

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
    def mixtures(self) -> tuple[Mixture, ...]:
        """The different mixtures of experts; empty for a dense model."""
        found = [g.layer.feed_forward for g in self.layers]
        return tuple(dict.fromkeys(f for f in found if isinstance(f, Mixture)))


def mixers_of(layer: Layer) -> tuple[Mixer, ...]:
    """What mixes positions in a layer, cross attention apart."""
    return tuple(m for m in (layer.mixer, layer.beside) if m is not None)
