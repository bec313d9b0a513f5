"""Language models on NPUs: the arithmetic by hand, who answers, and what says nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import gambrel
from gambrel.analysis.estimate import packaged
from gambrel.analysis.estimate.adjust import applied
from gambrel.analysis.estimate.constants import Adjustment
from gambrel.analysis.measures import Limiter
from gambrel.device.catalog import load
from gambrel.runtimes import runtime

CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


def decode(config, device, precision="w8a8,embeddings=int8", **more):
    return gambrel.analyze(
        config, device, phase="decode", precision=precision, sizes={"context": 256}, **more
    )


def prefill(config, device, precision="w8a8,embeddings=int8", seq=128, **more):
    return gambrel.analyze(
        config, device, phase="prefill", precision=precision, sizes={"seq": seq}, **more
    )


def rates(name):
    return next(c for c in packaged().language if name in c.match)


def gemm(found):
    return next(op for op in found.ops if "down_proj" in op.name)


def test_a_step_reads_its_weights_at_the_rate_of_the_chip(config):
    chip, one = rates("rk3588-npu"), gemm(decode(config, "rk3588-npu"))
    # 1024 x 4096 weights of a byte; 4096 numbers in, 1024 out, 2 bytes each.
    moved = 1024 * 4096 + 2 * (4096 + 1024)
    by_hand = chip.start_s + moved / chip.byte_per_s
    assert float(one.measures.expected_time_s) / one.count == pytest.approx(by_hand, rel=1e-6)


def test_a_prompt_multiplies_at_the_rate_of_its_format_and_starts_later(config):
    chip, one = rates("rk3588-npu"), gemm(prefill(config, "rk3588-npu"))
    flops = 2 * 128 * 1024 * 4096
    by_hand = chip.start_s + chip.prompt_start_s + flops / chip.flop_per_s["int8"]
    assert float(one.measures.expected_time_s) / one.count == pytest.approx(by_hand, rel=1e-6)


def test_a_longer_prompt_than_any_measured_is_of_low_confidence(config):
    chip = rates("rk3588-npu")
    short, long = (gemm(prefill(config, "rk3588-npu", seq=n)) for n in (128, 129))
    ratio = [
        op.measures.expected_time_s.high / op.measures.expected_time_s.value for op in (short, long)
    ]
    assert ratio == pytest.approx([chip.prompts.high, chip.prompts.high * chip.beyond])
    assert long.measures.expected_time_s.confidence == "low"
    assert "128 tokens" in long.measures.expected_time_s.reason


def test_a_format_that_was_not_measured_has_no_time(config):
    assert decode(config, "rk3588-npu", "w4a16,embeddings=int4").expected_time_s is None
    assert decode(config, "rk3576", "w4a16,embeddings=int4").expected_time_s is not None
    assert prefill(config, "ax650n", "w4a16,embeddings=int4").expected_time_s is None


def test_a_chip_without_a_bandwidth_is_limited_by_memory_all_the_same(config):
    found = decode(config, "hailo-10h", "int4")
    assert not load("hailo-10h").memory[0].byte_per_s
    assert found.limited_by is Limiter.MEMORY
    assert prefill(config, "hailo-10h", "int4").expected_time_s is None  # no prompts were timed


def test_an_unmeasured_chip_has_the_shares_of_its_class(config):
    one, known = gemm(decode(config, "qcs8550", "w4a16,embeddings=int4")), rates("qcs8550")
    assert decode(config, "qcs6490", "w4a16,embeddings=int4").expected_time_s is None  # v68
    time = one.measures.expected_time_s
    # 1024 x 4096 weights of half a byte, a scale of two for 128 of them; 67.2 GB/s.
    moved = 1024 * 4096 // 2 + 1024 * 4096 // 128 * 2 + 2 * (4096 + 1024)
    by_hand = known.start_s + moved / (known.memory * 67.2e9)
    assert float(time) / one.count == pytest.approx(by_hand, rel=1e-3)
    assert time.confidence == "low"


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("rk3588-npu", "rkllm"),
        ("snapdragon-8-elite", "genie"),
        ("ax630c", "ax-llm"),
        ("hailo-10h", "hailo-genai"),
        ("ryzen-ai-300", "fastflowlm"),
    ],
)
def test_language_models_take_the_engine_made_for_them(device, name):
    found = gambrel.analyze("llama-3.2-1b", device, phase="decode", sizes={"context": 256})
    assert found.runtime == name
    assert "for language models" in found.runtime_reason
    assert found.expected_time_s >= found.sol_time_s


@pytest.mark.parametrize("device", ["rk3588-npu", "rk3576"])
@pytest.mark.parametrize(("phase", "size"), [("decode", "context"), ("prefill", "seq")])
def test_a_sweep_says_what_an_analysis_says(device, phase, size):
    asked = {"phase": phase, "precision": "int8"}
    values = (64, 128, 256)
    swept = gambrel.sweep("llama-3.2-1b", device, sizes={size: values}, **asked)
    alone = [
        float(gambrel.analyze("llama-3.2-1b", device, sizes={size: n}, **asked).expected_time_s)
        for n in values
    ]
    assert swept.expected_time_s.tolist() == pytest.approx(alone)


def test_a_users_own_runs_scale_the_rates_of_a_chip():
    factors = {"compute": 1.0, "memory": 2.0, "launch": 3.0}
    mine = Adjustment(runtime="rkllm", device="rk3588-npu", factors=factors, low=0.8, high=1.3)
    base = replace(packaged(), adjusted=(mine,))
    chip, one = rates("rk3588-npu"), applied(base, runtime("rkllm"), load("rk3588-npu"))[0]
    own = next(c for c in one.language if "rk3588-npu" in c.match)
    assert own.byte_per_s == pytest.approx(chip.byte_per_s / 2)
    assert own.flop_per_s == pytest.approx(chip.flop_per_s)
    assert own.start_s == pytest.approx(3 * chip.start_s)
    assert (own.decode.low, own.decode.high) == (0.8, 1.3)
    others = [c for c in one.language if c.match != own.match]
    assert others == [c for c in packaged().language if c.match != own.match]


@pytest.mark.parametrize("name", ["rknn", "axera", "hailort"])
def test_constants_of_convolutions_say_nothing_of_language_models(name):
    device = {"rknn": "rk3588-npu", "axera": "ax650n", "hailort": "hailo-10h"}[name]
    sizes = {"context": 256}
    found = gambrel.analyze("llama-3.2-1b", device, phase="decode", runtime=name, sizes=sizes)
    assert found.expected_time_s is None
    assert gambrel.analyze("resnet50", device, runtime=name).expected_time_s is not None


def test_constants_that_saw_no_language_model_are_of_low_confidence():
    device = "snapdragon-8-elite-gen-5"
    found = gambrel.analyze("llama-3.1-8b", device, phase="decode", runtime="qnn")
    assert found.total.expected_time_s.confidence == "low"
    assert "none of them was a language model" in found.total.expected_time_s.reason
    assert gambrel.analyze("resnet50", device).total.expected_time_s.confidence == "medium"


def test_a_published_figure_of_a_6b_model_is_met():
    """4.98 tokens/s of ChatGLM3-6B on an RK3588 (airockchip/rknn-llm @878f9361)."""
    shapes = Path(__file__).parents[3] / "benchmarks/data/npu_llm/configs/chatglm3-6b.json"
    found = gambrel.analyze(
        str(shapes), "rk3588-npu", phase="decode", precision="w8a8,embeddings=int8",
        sizes={"context": 160},
    )  # fmt: skip
    assert 1 / float(found.expected_time_s) == pytest.approx(4.98, rel=0.03)


def test_constants_are_fitted_to_the_ops_that_a_question_has(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "scripts"))
    from language_rows import asked

    bench = asked("qwen3-0.6b", "w8a8,embeddings=int8", "context", 160)
    found = gambrel.analyze(
        "qwen3-0.6b", "rk3588-npu", phase="decode", precision="w8a8,embeddings=int8",
        sizes={"context": 160},
    )  # fmt: skip
    assert sum(op.repeat for op in bench.workload.ops) == sum(op.count for op in found.ops)


@pytest.mark.parametrize("c", packaged().language, ids=lambda c: c.match[0])
def test_every_entry_is_complete(c):
    assert (c.byte_per_s is None) != (c.memory is None)
    for span in (c.decode, c.prompts):
        if span is not None:
            assert 0 < span.low <= 1 <= span.high
            assert span.confidence in ("medium", "low")
    assert 0 <= c.start_s < 1e-3
    assert c.why
    assert c.source
