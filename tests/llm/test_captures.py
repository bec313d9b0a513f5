"""The closed form is what a capture of transformers' own architecture counts."""

from __future__ import annotations

from typing import Any

import pytest

from .captures import DECODERS, DIFFERENT, PREFILL_ONLY, compare, small
from .models import LLAMA3_8B, QWEN3_30B

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
]
_NEMOTRON_EXPERTS = {
    "layers_block_type": ["mamba", "moe", "mamba", "attention"],
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 48,
    "moe_shared_expert_intermediate_size": 80,
    "n_group": 1,
    "topk_group": 1,
}
PREFILL = {"batch": 3, "seq": 80}
DECODE = {"batch": 3, "context": 80}


@pytest.mark.parametrize("model_type", DECODERS)
def test_decoders_in_both_phases(model_type: str) -> None:
    config = small(model_type, DECODERS[model_type])
    for phase, sizes in (("prefill", PREFILL), ("decode", DECODE)):
        both = compare(config, phase, sizes)
        assert both.differences() == {}
        assert both.own_parameters == both.captured_parameters


@pytest.mark.parametrize("model_type", PREFILL_ONLY)
def test_state_space_models(model_type: str) -> None:
    both = compare(small(model_type, PREFILL_ONLY[model_type]), "prefill", PREFILL)
    # The convolution is padded on both sides there, and the scan's bookkeeping differs in bytes.
    kinds = both.differences().keys() - {"convolution", "selective_scan", "ssd_scan"}
    assert not kinds
    assert both.own_parameters == both.captured_parameters
    for kind in ("selective_scan", "ssd_scan"):
        assert both.own.get(kind, (0,))[0] == both.captured.get(kind, (0,))[0]


@pytest.mark.parametrize("latent", [None, 16])
def test_experts_of_nemotron_work_at_a_width_of_their_own(latent: int | None) -> None:
    fields = {**PREFILL_ONLY["nemotron_h"], **_NEMOTRON_EXPERTS, "moe_latent_size": latent}
    both = compare(small("nemotron_h", fields), "prefill", PREFILL)
    assert both.own_parameters == both.captured_parameters
    assert both.own["grouped_matmul"] == both.captured["grouped_matmul"]
    assert both.own["matmul"][0] == both.captured["matmul"][0]


@pytest.mark.parametrize("model_type", DIFFERENT)
def test_where_transformers_does_otherwise_parameters_agree(model_type: str) -> None:
    both = compare(small(model_type, DIFFERENT[model_type][0]), "prefill", PREFILL)
    assert both.differences()
    assert both.own_parameters == both.captured_parameters


@pytest.mark.parametrize("model_type", ["gptj", "bloom"])
def test_eager_attention_is_two_products_over_all_pairs(model_type: str) -> None:
    """Full attention S² in two products there; S(S+1)/2 in one op here."""
    fields = {**DIFFERENT[model_type][0], "attn_implementation": "eager"}
    both = compare(small(model_type, fields), "prefill", PREFILL)
    attention = both.own["attention"][0]
    assert attention == 4 * 3 * 8 * 4 * 8 * (80 * 81 // 2)
    assert both.captured["matmul"][0] - both.own["matmul"][0] == attention * 2 * 80 // 81


_HALF = {"torch_dtype": "bfloat16", "hidden_size": 64, "num_attention_heads": 4,
         "num_hidden_layers": 3, "intermediate_size": 112}  # fmt: skip
_IMAGE = {**_HALF, "image_size": 64, "patch_size": 16}
_TEXT = {**_HALF, "vocab_size": 160, "max_position_embeddings": 512, "type_vocab_size": 2}
ENCODERS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "bert": (_TEXT, PREFILL),
    "roberta": (_TEXT, PREFILL),
    "electra": ({**_TEXT, "embedding_size": 32, "architectures": ["ElectraModel"]}, PREFILL),
    "distilbert": (
        {"torch_dtype": "bfloat16", "dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 112,
         "vocab_size": 160, "architectures": ["DistilBertModel"]},
        PREFILL,
    ),
    "whisper": (
        {"torch_dtype": "float32", "d_model": 64, "encoder_layers": 3, "decoder_layers": 2,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 112,
         "decoder_ffn_dim": 112, "vocab_size": 160, "num_mel_bins": 20, "pad_token_id": 0,
         "max_source_positions": 50},
        {"batch": 3, "target": 24},
    ),
    "vit": (_IMAGE, {"batch": 3}),
    "deit": (_IMAGE, {"batch": 3}),
    "clip_vision_model": (_IMAGE, {"batch": 3}),
    "siglip_vision_model": ({**_IMAGE, "vision_use_head": False}, {"batch": 3}),
}  # fmt: skip


@pytest.mark.parametrize("model_type", ENCODERS)
def test_encoders(model_type: str) -> None:
    config, sizes = ENCODERS[model_type]
    both = compare({"model_type": model_type, **config}, None, sizes)
    assert both.differences() == {}
    assert both.own_parameters == both.captured_parameters


@pytest.mark.slow
@pytest.mark.parametrize("config", [LLAMA3_8B, QWEN3_30B], ids=["llama-3-8b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_full_size(config: dict[str, Any], phase: str) -> None:
    sizes = {"batch": 2, ("seq" if phase == "prefill" else "context"): 1024}
    both = compare(config, phase, sizes)
    assert both.differences() == {}
    assert both.own_parameters == both.captured_parameters
