"""Caches by hand: bytes that are needed, bytes that engines reserve, what fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.errors import InputError
from gambrel.llm.kv import Policy, growth, kv_cache, room
from gambrel.llm.precision import Precisions
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import (
    Attention,
    Encoder,
    Frames,
    LatentAttention,
    Layer,
    LayerGroup,
    LinearAttention,
    Mixer,
    ModelSpec,
    StateSpaceDual,
)

BF16 = Precisions.parse("bf16")
FULL = Attention(heads=32, kv_heads=8, head_dim=128)


def model(*groups: tuple[Mixer, int], max_context: int | None = None) -> ModelSpec:
    return ModelSpec(
        name="m",
        family="m",
        hidden=64,
        vocab=100,
        layers=tuple(LayerGroup(layer=Layer(mixer=m), count=n) for m, n in groups),
        max_context=max_context,
    )


LLAMA3_8B = model((FULL, 32), max_context=8192)


def test_llama_3_8b() -> None:
    # 2 x 8 heads x 128 x 2 bytes = 4,096 bytes a token and layer; 32 layers: 131,072 a token.
    cache = kv_cache(LLAMA3_8B, BF16, batch_size=64, context=2048)
    assert cache.bytes_per_token == 131_072
    assert cache.logical_bytes == 64 * 2048 * 131_072 == 17_179_869_184
    assert cache.allocated_bytes == cache.logical_bytes  # 2048 is 128 pages of 16


def test_deepseek_v3_keeps_the_latent() -> None:
    # (512 + 64) x 61 layers x 2 bytes = 70,272 bytes a token, whatever the heads.
    latent = LatentAttention(
        heads=128, kv_lora_rank=512, nope_head_dim=128, rope_head_dim=64, v_head_dim=128
    )
    spec = model((latent, 61))
    cache = kv_cache(spec, BF16, batch_size=64, context=2048)
    assert cache.bytes_per_token == 70_272
    assert cache.logical_bytes == 64 * 2048 * 70_272 == 9_210_691_584
    on_eight = kv_cache(spec, BF16, batch_size=64, context=2048, sharding=Sharding(tensor=8))
    assert on_eight.logical_bytes == cache.logical_bytes  # one head cannot be divided


def test_windows_and_pages() -> None:
    # Gemma 3's pattern: 5 layers of window 1024 for one full layer; here 10 and 2 of them, with
    # 4 heads of 256: 2 x 4 x 256 x 2 = 4,096 bytes a token and layer.
    window = Attention(heads=8, kv_heads=4, head_dim=256, window=1024)
    full = Attention(heads=8, kv_heads=4, head_dim=256)
    spec = model((window, 10), (full, 2))
    at = {"batch_size": 1, "context": 5000}
    every = kv_cache(spec, BF16, **at)
    assert every.logical_bytes == 4096 * (10 * 1024 + 2 * 5000)
    assert every.allocated_bytes == 4096 * 12 * 5008  # 313 pages of 16
    own = kv_cache(spec, BF16, **at, policy=Policy(windowed="window"))
    assert own.allocated_bytes == 4096 * (10 * 65 * 16 + 2 * 5008)  # 64 pages and one begun
    large = kv_cache(spec, BF16, **at, policy=Policy(page=256, windowed="window"))
    assert large.allocated_bytes == 4096 * (10 * 5 * 256 + 2 * 20 * 256)
    assert [(p.name, p.layers, p.tokens) for p in every.parts] == [
        ("window 1024", 10, 1024),
        ("attention", 2, 5000),
    ]


def test_a_window_longer_than_the_context_is_none() -> None:
    window = Attention(heads=8, kv_heads=4, head_dim=256, window=4096)
    own = kv_cache(
        model((window, 3)), BF16, batch_size=2, context=100, policy=Policy(windowed="window")
    )
    assert own.logical_bytes == 3 * 2 * 4096 * 100
    assert own.allocated_bytes == 3 * 2 * 4096 * 112


def test_a_model_says_how_wide_its_state_is() -> None:
    # Qwen3.5-27B: 48 heads x 128 x 128, and 3 taps of 2 x 16 x 128 + 48 x 128 channels.
    rule = LinearAttention(
        key_heads=16, value_heads=48, key_dim=128, value_dim=128, state_format="fp32"
    )
    state, taps = 48 * 128 * 128, 3 * 10_240
    cache = kv_cache(model((rule, 48)), BF16, batch_size=2, context=10)
    assert cache.state_bytes == 2 * 48 * (4 * state + 2 * taps)
    asked = kv_cache(
        model((rule, 48)), Precisions.parse("bf16,state=bf16"), batch_size=2, context=10
    )
    assert asked.state_bytes == 2 * 48 * 2 * (state + taps)
    split = kv_cache(model((rule, 48)), BF16, batch_size=2, context=10, sharding=Sharding(tensor=4))
    assert split.state_bytes == cache.state_bytes / 4


def test_state_does_not_grow() -> None:
    # Mamba2-2.7b: 80 heads x 64 channels x 128 states + 3 taps of 5120 + 2 x 128 channels.
    scan = StateSpaceDual(heads=80, head_dim=64, state=128, groups=1, conv_kernel=4)
    spec = model((scan, 64))
    elements = 80 * 64 * 128 + 3 * (5120 + 256)
    short = kv_cache(spec, BF16, batch_size=4, context=1)
    assert short.logical_bytes == 4 * 64 * elements * 2
    assert kv_cache(spec, BF16, batch_size=4, context=100_000).logical_bytes == short.logical_bytes
    wide = kv_cache(spec, Precisions.parse("bf16,state=fp32"), batch_size=4, context=1)
    assert wide.allocated_bytes == 2 * short.allocated_bytes


def test_precision_of_the_cache() -> None:
    cache = kv_cache(LLAMA3_8B, Precisions.parse("w4a16,kv=fp8"), batch_size=1, context=16)
    assert cache.logical_bytes == 16 * 65_536
    assert cache.precision == "fp8"


def test_shards() -> None:
    at = {"batch_size": 1, "context": 160}
    whole = kv_cache(LLAMA3_8B, BF16, **at).logical_bytes
    eighth = kv_cache(LLAMA3_8B, BF16, **at, sharding=Sharding(tensor=8)).logical_bytes
    assert eighth == whole / 8
    # 16 devices, 8 heads: each holds one, two hold the same.
    assert kv_cache(LLAMA3_8B, BF16, **at, sharding=Sharding(tensor=16)).logical_bytes == eighth
    stage = kv_cache(LLAMA3_8B, BF16, **at, sharding=Sharding(pipeline=3)).logical_bytes
    assert stage == whole / 32 * 11  # the largest of 11, 11 and 10 layers
    part = kv_cache(LLAMA3_8B, BF16, **at, sharding=Sharding(context=4)).logical_bytes
    assert part == whole / 4


def test_cross_attention_keeps_the_encoder() -> None:
    # Whisper base: 8 heads of 64; the decoder's own tokens and the encoder's 1,500.
    own = Attention(heads=8, kv_heads=8, head_dim=64)
    layer = Layer(mixer=own, cross=own)
    spec = ModelSpec(
        name="w",
        family="whisper",
        hidden=512,
        vocab=51_865,
        layers=(LayerGroup(layer=layer, count=6),),
        encoders=(
            Encoder(name="encoder", hidden=512, layers=(), front=Frames(mels=80, positions=1500)),
        ),
    )
    cache = kv_cache(spec, BF16, batch_size=1, context=32)
    assert cache.logical_bytes == 6 * 2 * 8 * 64 * 2 * (32 + 1500)
    shorter = kv_cache(spec, BF16, batch_size=1, context=32, memory=100)
    assert shorter.logical_bytes == 6 * 2 * 8 * 64 * 2 * (32 + 100)


def test_what_fits() -> None:
    # A page of 16 tokens is 2 MiB; 8 GiB hold 4,096 of them: 65,536 tokens.
    found = room(LLAMA3_8B, BF16, free_bytes=8 * 2**30, batch_size=16, context=2048)
    assert found.sequence_bytes == 2048 * 131_072
    assert found.batch == 32
    assert found.context == 4096
    short = room(LLAMA3_8B, BF16, free_bytes=8 * 2**30, batch_size=1, context=2048)
    assert short.context == 8192  # the model's own limit
    none = room(LLAMA3_8B, BF16, free_bytes=2**20, batch_size=1, context=1)
    assert (none.batch, none.context) == (0, 0)
    below = room(LLAMA3_8B, BF16, free_bytes=-5.0, batch_size=1, context=1)
    assert (below.batch, below.context) == (0, 0)


def test_growth() -> None:
    found = growth(LLAMA3_8B, BF16, batches=(1, 4), contexts=(16, 100))
    assert found.logical_bytes == (
        (16 * 131_072, 100 * 131_072),
        (64 * 131_072, 400 * 131_072),
    )
    assert found.allocated_bytes[0][1] == 112 * 131_072


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"batch_size": 0, "context": 1}, r"batch_size=0: give a whole number of at least 1"),
        ({"batch_size": 1, "context": 1.5}, r"context=1.5: give a whole number"),
    ],
)
def test_refused(arguments: dict[str, int], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        kv_cache(LLAMA3_8B, BF16, **arguments)


def test_refused_policies() -> None:
    with pytest.raises(InputError, match=r"page=0: a page holds 1 to 1,048,576 tokens"):
        Policy(page=0)
    with pytest.raises(InputError, match=r"windowed='half': use 'full' or 'window'"):
        Policy(windowed="half")  # type: ignore[arg-type]


def reserved(context: int, reach: int | None, page: int) -> int:
    """Pages by going through the tokens: one is taken when a token has none, and given back when
    all its tokens have left the window. The most at any time."""
    held: set[int] = set()
    most = 0
    for position in range(context):
        held.add(position // page)
        if reach is not None:
            held = {p for p in held if (p + 1) * page > position + 1 - reach}
        most = max(most, len(held))
    return most * page


@given(
    context=st.integers(1, 300),
    reach=st.one_of(st.none(), st.integers(1, 80)),
    page=st.integers(1, 33),
)
def test_pages_by_a_loop_over_tokens(context: int, reach: int | None, page: int) -> None:
    policy = Policy(page=page, windowed="window")
    least = reserved(context, reach, page)
    # The formula reserves for any alignment of window and pages: never less, at most one page more.
    assert least <= policy.tokens(context, reach) <= least + page


@given(
    batch=st.integers(1, 50),
    context=st.integers(1, 5000),
    page=st.sampled_from([1, 16, 64, 128]),
    windowed=st.sampled_from(["full", "window"]),
)
def test_laws(batch: int, context: int, page: int, windowed: str) -> None:
    window = Attention(heads=8, kv_heads=2, head_dim=64, window=512)
    spec = model((FULL, 2), (window, 3))
    policy = Policy(page=page, windowed=windowed)  # type: ignore[arg-type]
    one = kv_cache(spec, BF16, batch_size=1, context=context, policy=policy)
    many = kv_cache(spec, BF16, batch_size=batch, context=context, policy=policy)
    longer = kv_cache(spec, BF16, batch_size=1, context=context + 1, policy=policy)
    assert many.allocated_bytes == batch * one.allocated_bytes
    assert one.logical_bytes <= one.allocated_bytes
    assert one.allocated_bytes <= longer.allocated_bytes
    assert one.logical_bytes <= longer.logical_bytes
