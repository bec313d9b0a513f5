"""What mixes positions in a layer: attention, latent attention, state spaces, convolutions.

Records of widths and counts; all widths are numbers of elements.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

import msgspec


class Divided(NamedTuple):
    """A size of a mixer that tensor parallelism divides among devices.

    Attributes:
        field: Of the record.
        about: What a message calls it; empty for a size that never stands in the way.
        copied: Where there are fewer than devices, each is copied: a device has at least one.
    """

    field: str
    about: str
    copied: bool = False


#: Of every kind of attention.
_HEADS = Divided("heads", "attention heads")
_CHANNELS = Divided("channels", "channels of the mixer")


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
        fused: Projections stored as one matrix: ``"qkv"`` or none.
        gated: The output is multiplied by a sigmoid of as many further query values.
        halves: The code rotates the halves of a head one after the other.
        sinks: One learned logit a head joins the softmax.
        scores: What transformers' code does to the scores, op by op, where it calls no fused
            kernel.
        memory_hidden: Width of the sequence that keys and values come from, for cross attention.
        input_hidden: Width of its input where that is not the model's (Zamba concatenates).
    """

    DIVIDED: ClassVar = (_HEADS, Divided("kv_heads", "key/value heads", copied=True))

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
    fused: Literal["", "qkv"] = ""
    gated: bool = False
    halves: bool = False
    sinks: bool = False
    scores: tuple[str, ...] = ()
    memory_hidden: int | None = None
    input_hidden: int | None = None

    @property
    def value_dim(self) -> int:
        """Length of one value head."""
        return self.head_dim if self.v_head_dim is None else self.v_head_dim

    @property
    def kv_elements(self) -> int:
        """Elements that one token adds to the cache."""
        return self.kv_heads * (self.head_dim + self.value_dim)

    @property
    def reach(self) -> int | None:
        """Most positions that a query can see; None when there is no limit."""
        limits = [n for n in (self.window, self.chunk) if n is not None]
        return min(limits) if limits else None


#: Queries and cached keys of an indexer, in the published implementation and in serving engines.
INDEXER_FORMAT: Final = "fp8"


class Indexer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Small attention that scores every position, so that the large one sees the best only.

    Its keys are cached in 8 bits beside the latents, whatever the format of the cache: so do the
    published implementation and the serving engines. It runs whole on every device of a tensor
    parallel group.

    Source: DeepSeek-V3.2-Exp, technical report (2025), section 2.

    Attributes:
        heads: Query heads, whose rectified scores are added with a weight of each token.
        head_dim: Length of a query, and of the one key of a position.
    """

    heads: int
    head_dim: int


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
        chosen: Most positions that a query attends to; None is all.
        indexer: What chooses them; None where they are those of an earlier layer.
    """

    DIVIDED: ClassVar = (_HEADS,)

    heads: int
    kv_lora_rank: int
    nope_head_dim: int
    rope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None
    qkv_bias: bool = False
    causal: bool = True
    chosen: int | None = None
    indexer: Indexer | None = None

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
    """

    DIVIDED: ClassVar = (_CHANNELS,)

    channels: int
    state: int
    conv_kernel: int
    dt_rank: int
    bias: bool = False
    conv_bias: bool = True
    inner_norms: bool = False

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

    DIVIDED: ClassVar = (Divided("heads", "state-space heads"), Divided("groups", "", copied=True))

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
    """Gated delta rule (Qwen3-Next) with a state of keys times values a head.

    Attributes:
        key_heads: Heads of queries and keys.
        value_heads: Heads of values; each has a state.
        key_dim: Length of a key.
        value_dim: Length of a value.
        conv_kernel: Taps of the causal depthwise convolution over q, k, v; 0 is none.
        chunk: Tokens of a chunk.
        state_format: In which the state is kept unless another is asked for; None is that of the
            activations.
    """

    DIVIDED: ClassVar = (
        Divided("value_heads", "value heads"),
        Divided("key_heads", "key heads", copied=True),
    )

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int = 4
    chunk: int = 64
    state_format: str | None = None

    @property
    def conv_channels(self) -> int:
        """Channels that pass the convolution: q, k and v."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def state_elements(self) -> int:
        """Elements that a sequence keeps: the state and the last inputs of the convolution."""
        return self.recurrent_elements + self.conv_channels * max(self.conv_kernel - 1, 0)

    @property
    def recurrent_elements(self) -> int:
        """Elements of the state alone."""
        return self.value_heads * self.key_dim * self.value_dim


class ShortConvolution(msgspec.Struct, frozen=True, kw_only=True, tag="conv", omit_defaults=True):
    """A gated causal depthwise convolution in place of attention (LFM2).

    Attributes:
        channels: Width.
        conv_kernel: Taps.
        bias: Whether projections and convolution have biases.
    """

    DIVIDED: ClassVar = (_CHANNELS,)

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
