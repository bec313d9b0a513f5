"""Encoder-decoders in serving plans: what the encoder reads and what cross attention keeps."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.errors import InputError

T5 = {
    "model_type": "t5",
    "d_model": 1024,
    "d_kv": 64,
    "d_ff": 4096,
    "num_layers": 24,
    "num_decoder_layers": 24,
    "num_heads": 16,
    "vocab_size": 32128,
    "is_encoder_decoder": True,
    "feed_forward_proj": "relu",
}
WHISPER = {
    "model_type": "whisper",
    "d_model": 1280,
    "encoder_layers": 32,
    "decoder_layers": 32,
    "encoder_attention_heads": 20,
    "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "decoder_ffn_dim": 5120,
    "vocab_size": 51866,
    "num_mel_bins": 128,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}


def planned(model, **asked):
    return gambrel.serve_plan(model, "h100", max_devices=1, precision="bf16", **asked).best[0]


def test_the_cache_of_cross_attention_by_hand():
    # T5: 24 layers x 2 x 1,024 values of 2 bytes; 512 tokens of the encoder, and a first token
    # with 128 of the answer in pages of 16.
    best = planned(T5, input=512, output=128)
    assert best.point.memory.sequence_bytes == 24 * 2 * 1024 * 2 * (512 + 144)
    # Whisper: 1,500 frames, and 4 + 200 tokens in 13 pages.
    best = planned(WHISPER, input=4, output=200)
    assert best.point.memory.sequence_bytes == 32 * 2 * 1280 * 2 * (1500 + 208)


def test_the_encoder_runs_once_and_decode_reads_what_it_left():
    short, long = (planned(T5, input=n, output=128, concurrency=8) for n in (256, 1024))
    modules = {op.module.partition(".")[0] for op in short.prefill.ops}
    assert "encoder" in modules
    assert "encoder" not in {op.module.partition(".")[0] for op in short.decode.ops}
    assert long.prefill.flops > 3.9 * short.prefill.flops
    assert long.decode.traffic_bytes > short.decode.traffic_bytes
    assert long.point.ttft_s > short.point.ttft_s


def test_what_has_no_place_in_a_simulation():
    with pytest.raises(InputError, match="t5 reads an encoder's output"):
        gambrel.serve_sim(T5, "h100", rate="1/s", input=100, output=10)


def test_energy_of_a_closed_loop_is_about_that_of_the_plan():
    asked = {"model": "llama-3.1-8b", "hardware": "h100", "input": 1024, "output": 128}
    asked |= {"concurrency": 32, "tensor": 1}
    plan = gambrel.serve_plan(**asked, max_devices=1).best[0]
    run = gambrel.serve_sim(**asked, replicas=1)
    assert run.energy_j_per_token == pytest.approx(plan.energy_j_per_token, rel=0.1)
    assert run.outcome.input_tokens_per_s == pytest.approx(8 * run.outcome.tokens_per_s)
