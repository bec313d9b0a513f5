"""Engines and checkpoints of TensorRT-LLM: the model and the deployment that they describe."""

from __future__ import annotations

import copy
import json

import pytest

import gambrel
from gambrel.analysis.deployment import read_deployment
from gambrel.errors import CaptureError, GambrelError
from gambrel.llm.config import read_config

#: Llama 3 8B, as convert_checkpoint.py and trtllm-build write it.
INNER = {
    "architecture": "LlamaForCausalLM",
    "dtype": "bfloat16",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_size": 128,
    "intermediate_size": 14336,
    "hidden_act": "silu",
    "max_position_embeddings": 8192,
    "share_embedding_table": False,
    "moe": {"num_experts": 0, "top_k": 0},
    "moe_intermediate_size": 0,
    "mapping": {"world_size": 2, "tp_size": 2, "pp_size": 1, "moe_ep_size": 1},
    "quantization": {"quant_algo": "W4A16_AWQ", "kv_cache_quant_algo": "FP8", "group_size": 128},
}
ENGINE = {
    "version": "0.20.0",
    "pretrained_config": INNER,
    "build_config": {"max_seq_len": 8192, "max_batch_size": 64, "max_num_tokens": 4096},
}


@pytest.fixture
def engine(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(ENGINE))
    return path


def test_the_model_is_that_of_its_own_configuration(engine):
    found = gambrel.analyze(engine, "h100", phase="decode", context=1000)
    known = gambrel.analyze(
        "llama-3-8b", "h100", phase="decode", context=1000, precision="w4a16,block=128,kv=fp8"
    )
    assert found.model.parameters == known.model.parameters == 8_030_261_248
    assert found.total.flops == known.total.flops
    assert found.traffic_bytes == known.traffic_bytes
    assert any("built for 2 devices" in text for text in found.assumptions)


def test_a_checkpoint_is_the_inner_part():
    assert read_config(INNER).layers == read_config(ENGINE).layers


def test_the_deployment(engine):
    found = read_deployment(str(engine))
    assert found.runtime == "tensorrt-llm"
    assert found.given["model"] == str(engine)
    wanted = {"tensor": 2, "pipeline": 1, "expert": 1, "step_tokens": 4096}
    wanted |= {"max_requests": 64, "longest": 8192}
    assert {name: found.given[name] for name in wanted} == wanted
    assert found.unread == ()


@pytest.mark.parametrize(
    ("algorithm", "cache", "precision"),
    [
        (None, None, None),
        ("FP8", "FP8", "fp8,kv=fp8"),
        ("NVFP4", "FP8", "nvfp4,kv=fp8"),
        ("W8A16", None, "w8a16"),
        ("W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN", "INT8", "w8a8,kv=int8"),
        ("W4A16_GPTQ", None, "w4a16,block=128"),
        (None, "FP8", "bf16,kv=fp8"),
    ],
)
def test_formats(algorithm, cache, precision):
    given = {"quant_algo": algorithm, "kv_cache_quant_algo": cache, "group_size": 128}
    quantization = read_config({**INNER, "quantization": given}).quantization
    assert (quantization.precision if quantization else None) == precision


def test_mixtures_and_qwen():
    mixture = {**INNER, "moe": {"num_experts": 8, "top_k": 2}}
    feed = read_config(mixture).layers[0].layer.feed_forward
    assert (feed.experts, feed.top_k, feed.width) == (8, 2, 14336)
    qwen = {**INNER, "architecture": "Qwen2ForCausalLM", "qwen_type": "qwen3", "head_size": 64}
    mixer = read_config(qwen).layers[0].layer.mixer
    assert (mixer.qk_norm, mixer.head_dim) == ("head", 64)


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": "DeepseekV3ForCausalLM"},
        {"architecture": 3},
        {"qwen_type": "qwen9", "architecture": "QWenForCausalLM"},
        {"moe": {"num_experts": "many"}},
        {"num_hidden_layers": -1},
        {"quantization": []},
    ],
)
def test_refusals(tmp_path, change):
    config = copy.deepcopy(ENGINE)
    config["pretrained_config"] |= change
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with pytest.raises(GambrelError) as caught:
        gambrel.analyze(path, "h100")
    assert "\n" not in str(caught.value)
    if change.get("architecture") == "DeepseekV3ForCausalLM":
        assert caught.type is CaptureError
        assert "the model that it was built from" in str(caught.value)
