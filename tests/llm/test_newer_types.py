"""Model types of 2025 and 2026: parameters as transformers builds them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from gambrel.analysis.analyze import analyze  # noqa: E402
from gambrel.capture.closed_form import workload_of_config  # noqa: E402
from gambrel.capture.torch import ensure_torchvision, lean_init  # noqa: E402
from gambrel.device.resolve import resolve_hardware  # noqa: E402
from gambrel.errors import CaptureError  # noqa: E402
from gambrel.llm.config.read import read_config  # noqa: E402
from gambrel.llm.kv import kv_cache  # noqa: E402
from gambrel.llm.precision import Precisions  # noqa: E402

pytestmark = pytest.mark.torch

_LATENT = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_shared_experts": 1,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "n_group": 1,
    "topk_group": 1,
}
_KIMI = {
    "model_type": "kimi_k25",
    "tie_word_embeddings": False,
    "text_config": {"model_type": "kimi_k2", "tie_word_embeddings": False, **_LATENT},
    "vision_config": {
        "model_type": "kimi_k25_vision",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "pos_emb_height": 8,
        "pos_emb_width": 8,
    },
    "projection_hidden_size": 32,
}
_QWEN = {
    "model_type": "qwen3_5_moe",
    "text_config": {
        "model_type": "qwen3_5_moe_text",
        "vocab_size": 96,
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32,
    },
    "vision_config": {
        "model_type": "qwen3_5_moe_vision",
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 4,
        "patch_size": 16,
        "out_hidden_size": 64,
        "num_position_embeddings": 64,
    },
}
_GLM = {"model_type": "glm_moe_dsa", "index_topk": 64, "index_n_heads": 4, "index_head_dim": 16}
_GLM |= _LATENT


def _built(config: dict[str, Any], auto: str) -> int:
    ensure_torchvision()
    import transformers

    kept = {k: v for k, v in config.items() if k != "model_type"}
    made = transformers.AutoConfig.for_model(config["model_type"], **kept)
    with lean_init():
        model = getattr(transformers, auto).from_config(made)
    return sum(p.numel() for p in model.parameters())


def _read(config: dict[str, Any]) -> tuple[int, tuple[str, ...]]:
    workload = workload_of_config(config, phase="prefill")
    device, _ = resolve_hardware("h100")
    return analyze(workload, device).model.parameters, workload.assumptions


@pytest.mark.parametrize("config", [_KIMI, _QWEN], ids=lambda c: c["model_type"])
def test_parameters_are_those_of_the_library(config: dict[str, Any]) -> None:
    assert _read(config)[0] == _built(config, "AutoModelForImageTextToText")


_CHOSEN = {"index_topk": 64, "index_n_heads": 4, "index_head_dim": 16}
_SHARING = _GLM | {"indexer_types": ["full", "shared", "full"]}
_DEEPSEEK = _LATENT | _CHOSEN | {"model_type": "deepseek_v32"}
_DENSE = {k: v for k, v in _QWEN["text_config"].items() if "expert" not in k} | {
    "model_type": "qwen3_5_text",
    "intermediate_size": 96,
}


@pytest.mark.parametrize("config", [_GLM, _SHARING, _DEEPSEEK, _DENSE])
def test_parameters_of_text_models_are_those_of_the_library(config: dict[str, Any]) -> None:
    assert _read(config)[0] == _built(config, "AutoModelForCausalLM")


def _ops(config: dict[str, Any], **sizes: int) -> list[Any]:
    phase = "prefill" if "seq" in sizes else "decode"
    return list(workload_of_config(config, phase=phase, sizes=sizes).ops)


def test_an_indexer_scores_all_positions_and_attention_sees_the_chosen() -> None:
    ops = _ops(_DEEPSEEK, batch=2, context=1000)
    scores = [op.sizes for op in ops if op.kind == "attention_scores"]
    assert {(s["heads"], s["head_dim"], s["q_len"], s["kv_len"]) for s in scores} == {
        (4, 16, 1, 1000)
    }
    assert {op.sizes["k"] for op in ops if op.name == "topk" and op.kind == "sort"} == {2, 64}
    device, _ = resolve_hardware("h100")
    near, far = (
        analyze(workload_of_config(_DEEPSEEK, phase="decode", sizes=sizes), device)
        for sizes in ({"batch": 2, "context": 500}, {"batch": 2, "context": 1000})
    )
    # Per token and layer: scores of 4 heads of 16; attention itself does not grow
    assert far.total.matrix_flops - near.total.matrix_flops == 3 * 2 * 500 * 2 * 4 * 16


def test_where_all_positions_are_chosen_nothing_is_scored() -> None:
    for ops in (_ops(_DEEPSEEK, batch=2, context=64), _ops(_DEEPSEEK, batch=1, seq=64)):
        assert not [op for op in ops if op.kind == "attention_scores"]


def test_layers_that_share_a_choice_do_not_score() -> None:
    repeats = [
        op.repeat for op in _ops(_SHARING, batch=1, seq=256) if op.kind == "attention_scores"
    ]
    assert sum(repeats) == 2


def test_the_cache_of_indexer_keys_has_eight_bits() -> None:
    spec = read_config(_DEEPSEEK)
    cache = kv_cache(spec, Precisions.parse("bf16", "bf16"), batch_size=2, context=160)
    assert {p.name: (p.layers, p.bytes_per_token) for p in cache.parts} == {
        "latent": (3, (16 + 8) * 2),
        "indexer": (3, 16),
    }


@pytest.mark.parametrize(
    ("model_type", "sizes"),
    [
        ("granitemoehybrid", {"layer_types": ["linear_attention", "full_attention"]}),
        ("nemotron_h", {"layers_block_type": ["linear_attention", "moe", "full_attention"]}),
    ],
)
def test_layers_as_transformers_saves_them(model_type: str, sizes: dict[str, Any]) -> None:
    """Version 5 writes other names of layers than the models' own files."""
    ensure_torchvision()
    import transformers

    ((name, kinds),) = sizes.items()
    made = transformers.AutoConfig.for_model(model_type, num_hidden_layers=len(kinds), **sizes)
    config = made.to_dict()
    assert config[name] == kinds
    with lean_init():
        model = transformers.AutoModelForCausalLM.from_config(made)
    assert _read(config)[0] == sum(p.numel() for p in model.parameters())


def test_a_kind_of_layer_that_a_family_does_not_have_is_refused() -> None:
    config = {"model_type": "granitemoehybrid", "layer_types": ["conv"], "num_hidden_layers": 1}
    config |= {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 32}
    config |= {"shared_intermediate_size": 32, "vocab_size": 96}
    with pytest.raises(CaptureError, match=r"'conv'.*mamba and attention"):
        _read(config)
