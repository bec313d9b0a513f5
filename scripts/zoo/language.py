"""Language models and other transformers, from their published configurations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

from gambrel.workload import Symbol
from zoo.entry import Entry, Point, Subject, batch, count_parameters

Config = dict[str, Any]


def _llama(hidden: int, ffn: int, layers: int, heads: tuple[int, int], **more: Any) -> Config:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "rope_theta": 500000.0,
        "torch_dtype": "bfloat16",
        **more,
    }


_MIXTRAL: Config = _llama(4096, 14336, 32, (32, 8)) | {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
}
_QWEN3: Config = _llama(4096, 12288, 36, (32, 8)) | {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
}
_PHI4: Config = _llama(5120, 17920, 40, (40, 10)) | {
    "model_type": "phi3",
    "architectures": ["Phi3ForCausalLM"],
    "vocab_size": 100352,
    "max_position_embeddings": 16384,
    "rope_theta": 250000.0,
    "sliding_window": None,
    "pad_token_id": None,
}
_GPT2: Config = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
    "torch_dtype": "bfloat16",
}
_DEEPSEEK_V3: Config = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "n_group": 8,
    "topk_group": 4,
    "torch_dtype": "bfloat16",
}

#: name, what it is, configuration, longest sequence (`max_position_embeddings`, the largest of the
#: names: Llama 3 has 8,192 and Llama 3.1 131,072), other names, phases.
DECODERS: tuple[tuple[str, str, Config, int | None, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "llama-3-8b",
        "Llama 3 8B",
        _llama(4096, 14336, 32, (32, 8)),
        131072,
        (
            "llama3-8b",
            "llama-3",
            "Meta-Llama-3-8B",
            "Meta-Llama-3-8B-Instruct",
            "Llama-3.1-8B",
            "Llama-3.1-8B-Instruct",
            "llama-8b",
        ),
        ("prefill", "decode"),
    ),
    (
        "llama-3-70b",
        "Llama 3 70B",
        _llama(8192, 28672, 80, (64, 8)),
        131072,
        ("Meta-Llama-3-70B", "Llama-3.1-70B", "Llama-3.3-70B-Instruct", "llama-70b"),
        ("prefill", "decode"),
    ),
    (
        "llama-3.1-405b",
        "Llama 3.1 405B",
        _llama(16384, 53248, 126, (128, 8), max_position_embeddings=131072),
        131072,
        ("Llama-3-405B", "Meta-Llama-3.1-405B", "llama-405b"),
        ("prefill", "decode"),
    ),
    (
        "llama-3.2-1b",
        "Llama 3.2 1B",
        _llama(2048, 8192, 16, (32, 8), head_dim=64, tie_word_embeddings=True),
        131072,
        ("llama-1b", "Llama-3.2-1B-Instruct"),
        ("prefill", "decode"),
    ),
    (
        "mixtral-8x7b",
        "Mixtral 8x7B, 2 of 8 experts",
        _MIXTRAL,
        32768,
        ("mixtral", "Mixtral-8x7B-v0.1", "Mixtral-8x7B-Instruct-v0.1"),
        ("prefill", "decode"),
    ),
    ("qwen3-8b", "Qwen3 8B", _QWEN3, 40960, ("qwen3",), ("prefill", "decode")),
    ("phi-4", "Phi-4 14B", _PHI4, 16384, ("phi4",), ("prefill", "decode")),
    ("gpt2", "GPT-2 small", _GPT2, 1024, ("gpt-2", "gpt2-small"), ("prefill", "decode")),
    (
        "deepseek-v3",
        "DeepSeek-V3, 8 of 256 experts and a shared one",
        _DEEPSEEK_V3,
        163840,
        ("deepseek-r1",),
        ("prefill",),
    ),
)


def _bert(hidden: int, layers: int, heads: int) -> Config:
    return {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
    }


def _t5(width: int, ffn: int, layers: int, heads: int) -> Config:
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": width,
        "d_kv": 64,
        "d_ff": ffn,
        "num_layers": layers,
        "num_heads": heads,
        "vocab_size": 32128,
    }


def entries() -> Iterator[Entry]:
    """Decoder-only models in their phases, BERT, T5 and CLIP."""
    for name, about, config, longest, aliases, phases in DECODERS:
        for phase in phases:
            yield _decoder(name, about, config, longest, aliases, phase)
    for name, sizes, alias in (
        ("bert-base", (768, 12, 12), ("bert", "bert-base-uncased", "bert-base-cased")),
        ("bert-large", (1024, 24, 16), ("bert-large-uncased", "bert-large-cased")),
    ):
        yield Entry(
            name=name,
            family="language",
            about=f"{name.replace('bert', 'BERT')}, encoder with pooler",
            build=partial(subject, _key(_bert(*sizes)), None),
            symbols=(batch("sequences at once"), _tokens("seq", 512, 512, 128)),
            values={"batch": (1, 3), "seq": (16, 128, 300)},
            held_out=({"batch": 2, "seq": 512}, {"batch": 5, "seq": 77}),
            aliases=alias,
            source="transformers BertModel",
        )
    for name, sizes in (("t5-small", (512, 2048, 6, 8)), ("t5-base", (768, 3072, 12, 12))):
        yield Entry(
            name=name,
            family="language",
            about=f"{name.upper()[:2]}{name[2:]}, encoder and decoder in one pass",
            build=partial(subject, _key(_t5(*sizes)), None),
            symbols=(
                batch("sequences at once"),
                _tokens("seq", 512, None, 512),
                _tokens("target", 128, None, 128),
            ),
            values={"batch": (1, 3), "seq": (16, 130, 300), "target": (16, 70, 90)},
            held_out=(
                {"batch": 2, "seq": 512, "target": 33},
                {"batch": 5, "seq": 77, "target": 80},
            ),
            aliases=("t5", "google-t5-small") if name == "t5-small" else (),
            source="transformers T5ForConditionalGeneration",
        )


def _decoder(
    name: str, about: str, config: Config, longest: int | None, aliases: tuple[str, ...], phase: str
) -> Entry:
    if phase == "prefill":
        symbols = (batch("sequences at once"), _tokens("seq", 2048, longest, 16))
        values = {"batch": (1, 3), "seq": (16, 160, 350)}
        held_out = ({"batch": 2, "seq": 1000}, {"batch": 5, "seq": 77})
        note = "reading the prompt, head on the last token"
    else:
        about_context = "tokens that the new one attends to, itself included"
        default = min(2048, longest or 2048)
        symbols = (
            batch("sequences at once"),
            Symbol(
                name="context", default=default, minimum=16, maximum=longest, about=about_context
            ),
        )
        values = {"batch": (1, 3), "context": (16, 160)}
        held_out = ({"batch": 2, "context": 1000}, {"batch": 5, "context": 77})
        note = "one new token a sequence"
    return Entry(
        name=f"{name}-{phase}",
        family="language",
        about=f"{about}: {phase}, {note}",
        build=partial(subject, _key(config), phase),
        symbols=symbols,
        values=values,
        held_out=held_out,
        aliases=aliases,
        source=f"transformers {config['architectures'][0]}",
    )


def _tokens(name: str, default: int, maximum: int | None, minimum_seen: int) -> Symbol:
    side = "of the decoder" if name == "target" else "a sequence"
    del minimum_seen
    return Symbol(
        name=name,
        default=min(default, maximum or default),
        minimum=16,
        maximum=maximum,
        about=f"tokens {side}",
    )


def _key(config: Config) -> str:
    import json

    return json.dumps(config, sort_keys=True)


@lru_cache(maxsize=1)
def _model(config: str) -> Any:
    import json

    from gambrel.capture.torch.huggingface import HuggingFaceModel

    return HuggingFaceModel(json.loads(config))


def subject(config: str, phase: str | None) -> Subject:
    """A transformers model in one of its phases. Both phases of a model share the model."""
    model = _model(config)

    def at(point: Point) -> Any:
        return model.capture(phase, point, source=False)

    return Subject(capture=at, parameters=count_parameters(model.module))
