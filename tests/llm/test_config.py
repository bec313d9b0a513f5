"""Configurations: what they mean, and what is said of broken ones."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.errors import CaptureError, GambrelError
from gambrel.llm.build import build
from gambrel.llm.config import is_known, known_types, read_config
from gambrel.llm.config.families import family
from gambrel.llm.spec import Attention, LatentAttention, Mixture, StateSpaceDual
from gambrel.llm.step import prefill

from .models import (
    DEEPSEEK_V3,
    GEMMA3_27B,
    GPT_OSS_20B,
    LLAMA3_8B,
    MIXTRAL,
    PUBLISHED,
    QWEN3_NEXT,
)
from .test_published import parameters

#: As state-spaces/mamba2-2.7b has it: no model_type, no sizes of the state.
MAMBA2_ORIGINAL: dict[str, Any] = {
    "d_model": 2560,
    "d_intermediate": 0,
    "n_layer": 64,
    "vocab_size": 50277,
    "ssm_cfg": {"layer": "Mamba2"},
    "attn_layer_idx": [],
    "pad_vocab_size_multiple": 16,
    "tie_embeddings": True,
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_size": None}, "this llama model lacks 'hidden_size'"),
        ({"hidden_size": "big"}, "hidden_size='big'; it takes a whole number from 1 to 1,000,000"),
        ({"hidden_size": -4096}, "hidden_size=-4096; it takes a number from 1"),
        ({"hidden_size": 4096.0}, r"hidden_size=4096\.0; it takes a whole number"),
        ({"hidden_size": True}, "hidden_size=True; it takes a whole number"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0; it takes a number from 1 to 2,000"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers=1000000000"),
        ({"vocab_size": 10**12}, "vocab_size=1000000000000; it takes a number from 1"),
        ({"num_attention_heads": 33}, "hidden_size=4096, which num_attention_heads=33 does not"),
        (
            {"num_attention_heads": 24, "hidden_size": 100, "num_key_value_heads": 8},
            "hidden_size=100, which num_attention_heads=24 does not divide; give a multiple of 24",
        ),
        ({"num_key_value_heads": 5}, "num_key_value_heads=5, which does not divide"),
        ({"hidden_act": "magic"}, "hidden_act='magic'; it takes one of silu"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings='yes'; it takes true or false"),
        ({"torch_dtype": "float31"}, "dtype='float31'; it takes a floating format"),
        ({"torch_dtype": "int32"}, "dtype='int32'; it takes a floating format"),
        ({"model_type": None}, "has no 'model_type'"),
        ({"model_type": 7}, "model_type=7; it takes a name such as 'llama'"),
        ({"model_type": "lama"}, "'lama' has no closed form here; closest: llama"),
        ({"quantization_config": "fp8"}, "quantization_config='fp8'; it takes an object"),
        ({"hidden_size": "x" * 1000}, r"hidden_size='x{56}\.\.\.; it takes"),
    ],
)
def test_a_broken_field_is_named(changes: dict[str, Any], says: str) -> None:
    config = {k: v for k, v in {**LLAMA3_8B, **changes}.items() if v is not None}
    with pytest.raises(CaptureError, match=says) as caught:
        read_config(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "changes", "says"),
    [
        (MIXTRAL, {"num_local_experts": 10**9}, "num_local_experts=1000000000; it takes a number"),
        (MIXTRAL, {"num_experts_per_tok": 9}, "num_experts_per_tok=9; it takes at most the number"),
        (MIXTRAL, {"num_local_experts": None}, "this mixtral model lacks 'num_local_experts'"),
        (DEEPSEEK_V3, {"kv_lora_rank": None}, "lacks 'kv_lora_rank'"),
        (DEEPSEEK_V3, {"first_k_dense_replace": 62}, "first_k_dense_replace=62; it takes a number"),
        (GPT_OSS_20B, {"layer_types": ["full_attention"]}, "has 1 layer_types for 24 layers"),
        (GPT_OSS_20B, {"layer_types": "all"}, "layer_types='all'; it takes a list of names"),
        (
            PUBLISHED["Mamba2-2.7B"][0],
            {"num_heads": 81},
            r"num_heads \* head_dim = 5184 and expand \* hidden_size = 5120; they are equal",
        ),
        (GPT_OSS_20B, {"layer_types": ["odd"] * 24}, "layer_types='odd'; it takes full_attention"),
        (QWEN3_NEXT, {"linear_num_value_heads": 31}, "linear_num_value_heads=31; it takes a mult"),
        (QWEN3_NEXT, {"layer_types": ["odd"] * 48}, "layer_types='odd'; it takes full_attention"),
        (
            DEEPSEEK_V3,
            {"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 128]}},
            r"weight_block_size=\[0, 128\]; it takes positive sizes",
        ),
        (MAMBA2_ORIGINAL, {"d_intermediate": 8}, "d_intermediate=8; it takes 0"),
        (MAMBA2_ORIGINAL, {"attn_layer_idx": [9]}, r"attn_layer_idx=\[9\]; it takes an empty"),
        (MAMBA2_ORIGINAL, {"d_model": "big"}, "hidden_size='big'; it takes"),
        (MAMBA2_ORIGINAL, {"ssm_cfg": {"layer": "Mamba3"}}, "layer='Mamba3'; it takes Mamba1"),
        (
            MAMBA2_ORIGINAL,
            {"ssm_cfg": {"layer": "Mamba2", "headdim": 96}},
            r"expand \* d_model = 5120, which headdim=96 does not divide",
        ),
        (GEMMA3_27B, {"vision_config": None}, "this gemma3 model lacks 'vision_config'"),
        (
            GEMMA3_27B,
            {"text_config": {"model_type": "nosuch"}},
            "text model 'nosuch' of this gemma3 configuration has no closed form",
        ),
        (PUBLISHED["ViT-B/16"][0], {"patch_size": 500}, "patch_size=500 and image_size=224"),
        (
            PUBLISHED["T5-base"][0],
            {"feed_forward_proj": "odd"},
            "feed_forward_proj='odd'; it takes relu, gated-gelu",
        ),
    ],
)
def test_contradictions(config: dict[str, Any], changes: dict[str, Any], says: str) -> None:
    broken = {k: v for k, v in {**config, **changes}.items() if v is not None}
    with pytest.raises(CaptureError, match=says):
        read_config(broken)


_ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@given(st.sampled_from(sorted(PUBLISHED)), st.data())
def test_whatever_a_field_holds_the_answer_is_a_model_or_a_sentence(name: str, data: Any) -> None:
    config = dict(PUBLISHED[name][0])
    field = data.draw(st.sampled_from(sorted(config)))
    config[field] = data.draw(_ODD)
    with contextlib.suppress(GambrelError):
        spec = read_config(config)
        build(spec, prefill(1, 4, encode=True))


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_empty_configuration_lacks_something(name: str) -> None:
    kind = PUBLISHED[name][0]["model_type"]
    with pytest.raises(CaptureError, match="lacks"):
        read_config({"model_type": kind})


def test_files_of_the_authors_of_mamba() -> None:
    """2.7 and 2.8 billion parameters as published; vocabularies padded to 50,288 and 50,280."""
    second = read_config(MAMBA2_ORIGINAL)
    assert is_known(MAMBA2_ORIGINAL)
    assert (second.family, second.vocab) == ("mamba2", 50288)
    assert parameters(build(second, prefill(1, 8))) == 2_702_599_680
    first = read_config({**MAMBA2_ORIGINAL, "ssm_cfg": {}, "pad_vocab_size_multiple": 8})
    assert parameters(build(first, prefill(1, 8))) == 2_768_345_600


def test_known_types() -> None:
    assert is_known({"model_type": "llama"})
    assert not is_known({"model_type": "nosuch"})
    assert not is_known({})
    assert len(known_types()) >= 70
    with pytest.raises(ValueError, match="'llama' is registered twice"):
        family("llama")(lambda f: read_config({}))


def test_fields_become_records() -> None:
    spec = read_config(LLAMA3_8B, "Llama 3")
    (group,) = spec.layers
    assert spec.name == "Llama 3"
    assert group.count == 32
    assert group.layer.mixer == Attention(heads=32, kv_heads=8, head_dim=128)
    assert spec.kv_elements_per_token == 32 * 8 * 2 * 128
    deep = read_config(DEEPSEEK_V3)
    assert [(g.name, g.count) for g in deep.layers] == [("dense_layers", 3), ("moe_layers", 58)]
    assert isinstance(deep.layers[0].layer.mixer, LatentAttention)
    assert deep.kv_elements_per_token * 2 == 70_272
    assert deep.mixtures == (
        Mixture(experts=256, top_k=8, width=2048, shared_width=2048, correction_bias=True),
    )
    mamba = read_config(PUBLISHED["Mamba2-2.7B"][0])
    mixer = mamba.layers[0].layer.mixer
    assert isinstance(mixer, StateSpaceDual)
    assert mixer.channels == 5120
    assert mixer.conv_channels == 5120 + 2 * 128


def test_a_head_size_may_be_given_or_follow() -> None:
    given_size = read_config({**LLAMA3_8B, "head_dim": 96})
    assert given_size.layers[0].layer.mixer.head_dim == 96  # type: ignore[union-attr]
    odd = {**LLAMA3_8B, "hidden_size": 4100, "head_dim": 128}
    assert read_config(odd).layers[0].layer.mixer.head_dim == 128  # type: ignore[union-attr]


def test_an_unnamed_dtype_is_no_choice() -> None:
    config = {k: v for k, v in LLAMA3_8B.items() if k != "torch_dtype"}
    assert not read_config(config).dtype_given
    assert read_config(LLAMA3_8B).dtype_given
    assert read_config({**config, "dtype": "float16"}).dtype == "fp16"


@pytest.mark.parametrize(
    ("quantization", "precision"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block,block=128"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 64}, "w4a16,block=64"),
        ({"quant_method": "awq", "bits": 4, "group_size": -1}, "w4a16"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "w8a16,block=128"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "w4a16,block=64"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "w8a16"),
        ({"quant_method": "mxfp4"}, "bf16,experts=mxfp4"),
        ({"group_size": 64, "bits": 4}, "w4a16,block=32,embeddings=int4,head=int4"),
        ({"group_size": 32, "bits": 8}, "w8a16,block=16,embeddings=int8,head=int8"),
        (
            {"group_size": 32, "bits": 4, "mode": "mxfp4"},
            "mxfp4,compute=bf16,embeddings=mxfp4,head=mxfp4",
        ),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "w8a16"),
        (
            {
                "quant_method": "torchao",
                "quant_type": "int4_weight_only",
                "quant_type_kwargs": {"group_size": 32},
            },
            "w4a16,block=32",
        ),
        (
            {
                "quant_method": "torchao",
                "quant_type": {
                    "default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 64}}
                },
            },
            "w4a16,block=64",
        ),
        (
            {
                "quant_method": "torchao",
                "quant_type": {"default": {"_type": "Int8DynamicActivationInt8WeightConfig"}},
            },
            "w8a8",
        ),
        (
            {
                "quant_method": "hqq",
                "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}},
            },
            "w4a16,block=64",
        ),
        ({"quant_method": "quanto", "weights": "int8", "activations": None}, "w8a16"),
        ({"quant_method": "eetq"}, "w8a16"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 8, "type": "float"},
                        "input_activations": {"num_bits": 8, "type": "float"},
                    }
                },
            },
            "fp8",
        ),
        ({"quant_method": "unheard"}, "bf16"),
    ],
)
def test_quantization_of_the_checkpoint(quantization: dict[str, Any], precision: str) -> None:
    spec = read_config({**LLAMA3_8B, "quantization_config": quantization})
    assert spec.quantization is not None
    assert spec.quantization.precision == precision
    build(spec, prefill(1, 4))
    if precision == "bf16":
        assert any("'unheard' is not known" in note for note in spec.notes)


def test_weights_pruned_two_of_four_are_named() -> None:
    quantization = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 8}, "input_activations": {}}},
        "sparsity_config": {"format": "sparse-24-bitmask", "sparsity_structure": "2:4"},
    }
    spec = read_config({**LLAMA3_8B, "quantization_config": quantization})
    assert spec.quantization is not None
    assert spec.quantization.precision == "w8a8"
    assert any("2:4" in note and "--sparse" in note for note in spec.notes)


def test_mxfp4_experts_of_gpt_oss_in_memory() -> None:
    """63.1 GB of weights in mxfp4, the rest bf16: the 120B checkpoint has 65.2 GB on disk."""
    config = {
        **PUBLISHED["gpt-oss-120b"][0],
        "quantization_config": {"quant_method": "mxfp4"},
    }
    from gambrel.analysis.analyze import analyze
    from gambrel.device.lookup import find

    found = analyze(build(read_config(config), prefill(1, 4)), find("h100").device)
    # 36 layers, 128 experts, 3·2880·2880 values of 4.25 bits; the others 2 bytes.
    experts = 36 * 128 * 3 * 2880 * 2880
    rest = 116_829_156_672 - experts
    assert found.footprint.weights_bytes == pytest.approx(experts * 4.25 / 8 + rest * 2, rel=1e-6)
    assert found.footprint.weights_bytes / 1e9 == pytest.approx(65.2, rel=0.005)


def test_an_embedding_model_has_no_head() -> None:
    """Qwen3-Embedding-0.6B: the 0.6B model without a head of its own (it is tied)."""
    config, _ = PUBLISHED["Qwen3-0.6B"]
    embedding = read_config({**config, "architectures": ["Qwen3Model"]})
    assert embedding.head == "none"
    workload = build(embedding, prefill(1, 64))
    assert not any(op.module == "lm_head" for op in workload.ops)
    assert sum(t.role == "weight" and t.name == "embedding.weight" for t in workload.tensors) == 1
    assert read_config({**config, "architectures": ["Qwen3ForCausalLM"]}).head == "lm"
    judge = read_config({**config, "architectures": ["Qwen3ForSequenceClassification"]})
    assert (judge.head, judge.labels) == ("classifier", 2)


def test_mlx_calls_its_quantization_by_another_name() -> None:
    spec = read_config({**LLAMA3_8B, "quantization": {"group_size": 64, "bits": 4}})
    assert spec.quantization is not None
    assert spec.quantization.method == "mlx"
    assert read_config({**LLAMA3_8B, "quantization": "q4"}).quantization is None
    with pytest.raises(CaptureError, match="bits"):
        read_config({**LLAMA3_8B, "quantization": {"group_size": 64, "bits": 16}})
