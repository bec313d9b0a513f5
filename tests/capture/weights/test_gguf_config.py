"""Metadata of real models against their config.json: the same architecture from either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gambrel.capture.gguf import gguf_spec
from gambrel.capture.weights.gguf_config import FAMILIES
from gambrel.errors import FileFormatError
from gambrel.llm.config.read import read_config
from gambrel.llm.spec import ModelSpec
from tests.capture.weights.models import llama_metadata, llama_tensors, write_model
from tests.capture.weights.writer import I32, STRING, U32, Typed, Writer

Metadata = dict[str, Any]


def numbers(architecture: str, **values: Any) -> Metadata:
    """Keys behind the architecture's name; ``__`` stands for a dot."""
    found: Metadata = {"general.architecture": architecture}
    found |= {f"{architecture}.{k.replace('__', '.')}": v for k, v in values.items()}
    return found


def usual(architecture: str, sizes: tuple[int, ...], **more: Any) -> Metadata:
    """(layers, hidden, inner, heads, key heads, head, context)."""
    layers, hidden, inner, heads, kv_heads, head, context = sizes
    return numbers(
        architecture,
        block_count=layers,
        embedding_length=hidden,
        feed_forward_length=inner,
        attention__head_count=heads,
        attention__head_count_kv=kv_heads,
        attention__key_length=head,
        attention__value_length=head,
        context_length=context,
        **more,
    )


def config(model_type: str, sizes: tuple[int, ...], vocab: int, **more: Any) -> dict[str, Any]:
    layers, hidden, inner, heads, kv_heads, head, context = sizes
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head,
        "max_position_embeddings": context,
        "vocab_size": vocab,
        "torch_dtype": "float16",
        **more,
    }


LLAMA = (32, 4096, 14336, 32, 8, 128, 8192)
QWEN2 = (28, 3584, 18944, 28, 4, 128, 131072)
QWEN3 = (36, 4096, 12288, 32, 8, 128, 40960)
MOE = (48, 2048, 6144, 32, 4, 128, 40960)
GEMMA2 = (42, 3584, 14336, 16, 8, 256, 8192)
GEMMA3 = (34, 2560, 10240, 8, 4, 256, 131072)
PHI3 = (32, 3072, 8192, 32, 32, 96, 4096)
OSS = (24, 2880, 2880, 64, 8, 64, 131072)

#: Name → (metadata, vocabulary, whether the head is a tensor, other tensors, config.json).
MODELS: dict[str, tuple[Metadata, int, bool, list[str], dict[str, Any]]] = {
    "Llama-3-8B": (usual("llama", LLAMA), 128256, True, [], config("llama", LLAMA, 128256)),
    "Mixtral-8x7B": (
        usual("llama", LLAMA, expert_count=8, expert_used_count=2),
        32000,
        True,
        [],
        config("mixtral", LLAMA, 32000, num_local_experts=8, num_experts_per_tok=2),
    ),
    "Qwen2.5-7B": (usual("qwen2", QWEN2), 152064, True, [], config("qwen2", QWEN2, 152064)),
    "Qwen3-8B": (usual("qwen3", QWEN3), 151936, True, [], config("qwen3", QWEN3, 151936)),
    "Qwen3-30B-A3B": (
        usual(
            "qwen3moe", MOE, expert_count=128, expert_used_count=8, expert_feed_forward_length=768
        ),
        151936,
        True,
        [],
        config(
            "qwen3_moe",
            MOE,
            151936,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=768,
        ),
    ),
    "Gemma-2-9B": (
        usual("gemma2", GEMMA2, attention__sliding_window=4096),
        256000,
        False,
        [],
        config("gemma2", GEMMA2, 256000, sliding_window=4096, tie_word_embeddings=True),
    ),
    "Gemma-3-4B": (
        usual("gemma3", GEMMA3, attention__sliding_window=1024),
        262208,
        False,
        [],
        config("gemma3_text", GEMMA3, 262208, sliding_window=1024, tie_word_embeddings=True),
    ),
    "Phi-3-mini": (
        usual("phi3", PHI3, attention__sliding_window=2047),
        32064,
        True,
        [],
        config("phi3", PHI3, 32064, sliding_window=2047),
    ),
    "gpt-oss-20b": (
        usual(
            "gpt-oss",
            OSS,
            expert_count=32,
            expert_used_count=4,
            expert_feed_forward_length=2880,
            attention__sliding_window=128,
        ),
        201088,
        True,
        [],
        config(
            "gpt_oss",
            OSS,
            201088,
            num_local_experts=32,
            num_experts_per_tok=4,
            sliding_window=128,
        ),
    ),
    "DeepSeek-V3": (
        numbers(
            "deepseek2",
            block_count=61,
            embedding_length=7168,
            feed_forward_length=18432,
            context_length=163840,
            attention__head_count=128,
            attention__head_count_kv=1,
            attention__q_lora_rank=1536,
            attention__kv_lora_rank=512,
            attention__key_length=576,
            attention__value_length=512,
            attention__key_length_mla=192,
            attention__value_length_mla=128,
            rope__dimension_count=64,
            expert_count=256,
            expert_used_count=8,
            expert_shared_count=1,
            expert_feed_forward_length=2048,
            leading_dense_block_count=3,
        ),
        129280,
        True,
        ["blk.3.exp_probs_b.bias"],
        {
            "model_type": "deepseek_v3",
            "num_hidden_layers": 61,
            "hidden_size": 7168,
            "intermediate_size": 18432,
            "max_position_embeddings": 163840,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "n_shared_experts": 1,
            "moe_intermediate_size": 2048,
            "first_k_dense_replace": 3,
            "vocab_size": 129280,
            "num_nextn_predict_layers": 0,
            "torch_dtype": "float16",
        },
    ),
    "Mamba-2.8B": (
        numbers(
            "mamba",
            block_count=64,
            embedding_length=2560,
            context_length=1048576,
            ssm__conv_kernel=4,
            ssm__inner_size=5120,
            ssm__state_size=16,
            ssm__time_step_rank=160,
        ),
        50280,
        False,
        [],
        {
            "model_type": "mamba",
            "num_hidden_layers": 64,
            "hidden_size": 2560,
            "intermediate_size": 5120,
            "expand": 2,
            "state_size": 16,
            "conv_kernel": 4,
            "time_step_rank": 160,
            "vocab_size": 50280,
            "tie_word_embeddings": True,
            "torch_dtype": "float16",
        },
    ),
    "Mamba2-2.7B": (
        numbers(
            "mamba2",
            block_count=64,
            embedding_length=2560,
            context_length=1048576,
            ssm__conv_kernel=4,
            ssm__inner_size=5120,
            ssm__state_size=128,
            ssm__time_step_rank=80,
            ssm__group_count=1,
        ),
        50288,
        False,
        [],
        {
            "model_type": "mamba2",
            "num_hidden_layers": 64,
            "hidden_size": 2560,
            "num_heads": 80,
            "head_dim": 64,
            "expand": 2,
            "n_groups": 1,
            "state_size": 128,
            "conv_kernel": 4,
            "vocab_size": 50288,
            "tie_word_embeddings": True,
            "torch_dtype": "float16",
        },
    ),
    "gpt2": (
        numbers(
            "gpt2",
            block_count=12,
            context_length=1024,
            embedding_length=768,
            feed_forward_length=3072,
            attention__head_count=12,
        ),
        50257,
        False,
        [],
        {
            "model_type": "gpt2",
            "n_layer": 12,
            "n_positions": 1024,
            "n_embd": 768,
            "n_head": 12,
            "vocab_size": 50257,
            "tie_word_embeddings": True,
            "torch_dtype": "float16",
        },
    ),
}


def write(path: Path, metadata: Metadata, vocab: int, head: bool, others: list[str]) -> Path:
    tensors: list[tuple[str, tuple[int, ...], str]] = [("token_embd.weight", (vocab, 1), "f32")]
    if head:
        tensors.append(("output.weight", (vocab, 1), "f32"))
    tensors += [(name, (8,), "f32") for name in others]
    path.write_bytes(Writer().file(metadata, tensors))
    return path


def comparable(spec: ModelSpec) -> ModelSpec:
    """Without what only names and words decide, and a limit that some files leave out."""
    return msgspec.structs.replace(spec, name="", notes=(), max_context=None)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_architecture_as_from_its_config(tmp_path: Path, name: str) -> None:
    metadata, vocab, head, others, expected = MODELS[name]
    found, _ = gguf_spec(write(tmp_path / "m.gguf", metadata, vocab, head, others))
    expected = {"tie_word_embeddings": False, **expected}
    assert comparable(found) == comparable(read_config(expected))
    assert found.family == expected["model_type"]


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_has_a_reader(name: str) -> None:
    from gambrel.llm.config.read import known_types

    assert FAMILIES[name].model_type in known_types()


def test_name_and_vocabulary(tmp_path: Path) -> None:
    found, _ = gguf_spec(write_model(tmp_path / "m.gguf", llama_metadata(), llama_tensors()))
    assert (found.name, found.vocab, found.tied) == ("Tiny Llama", 1000, False)
    nameless = llama_metadata(**{"general.name": None})
    found, _ = gguf_spec(write_model(tmp_path / "n.gguf", nameless, llama_tensors(tied=True)))
    assert (found.name, found.tied) == ("n", True)


def test_a_number_given_for_each_layer(tmp_path: Path) -> None:
    equal = llama_metadata(**{"llama.attention.head_count_kv": Typed(9, (I32, [4, 4, 4, 4]))})
    found, _ = gguf_spec(write_model(tmp_path / "m.gguf", equal, llama_tensors()))
    assert found.layers[0].layer.mixer.kv_heads == 4  # type: ignore[union-attr]
    unequal = llama_metadata(**{"llama.attention.head_count_kv": Typed(9, (I32, [4, 4, 8, 4]))})
    with pytest.raises(FileFormatError, match=r"llama.attention.head_count_kv differs from layer"):
        gguf_spec(write_model(tmp_path / "m.gguf", unequal, llama_tensors()))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"general.architecture": None}, r"the metadata lacks 'general.architecture'"),
        (
            {"general.architecture": "warp"},
            r"the architecture 'warp' cannot be read .* known: comm",
        ),
        ({"general.type": "adapter"}, r"is a file of kind 'adapter'"),
        ({"llama.block_count": None}, r"num_hidden_layers"),
        ({"llama.block_count": 0}, r"num_hidden_layers"),
        ({"llama.attention.head_count": Typed(STRING, "many")}, r"num_attention_heads"),
        ({"llama.attention.head_count": 7}, r"num_(attention_heads|key_value_heads)"),
        ({"llama.embedding_length": Typed(U32, 4_000_000_000)}, r"hidden_size"),
        ({"llama.expert_count": 1_000_000_000, "llama.expert_used_count": 2}, r"experts"),
    ],
)
def test_refused_models(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    path = write_model(tmp_path / "m.gguf", llama_metadata(**changes), llama_tensors())
    with pytest.raises(FileFormatError, match=sentence) as caught:
        gguf_spec(path)
    assert str(caught.value).startswith(str(path))


def test_a_vocabulary_alone_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"is a file of kind 'vocabulary'"):
        gguf_spec(write_model(tmp_path / "v.gguf", llama_metadata(), []))
