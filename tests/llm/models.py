"""Configurations of published models (their ``config.json``, without what no count depends on).

The parameter counts are those that the publishers state on the model pages (the total of the
safetensors header, or the paper), digit for digit; where a publication rounds, or counts a tied
matrix twice, the comment says so.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]


def _llama(
    hidden: int, inner: int, layers: int, heads: int, kv: int, vocab: int, **more: Any
) -> Config:
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "torch_dtype": "bfloat16",
        **more,
    }


def _like(kind: str, *sizes: int, **more: Any) -> Config:
    return {**_llama(*sizes), "model_type": kind, **more}


LLAMA2_7B = _llama(4096, 11008, 32, 32, 32, 32000, max_position_embeddings=4096)
LLAMA3_8B = _llama(4096, 14336, 32, 32, 8, 128256, max_position_embeddings=8192)
LLAMA3_70B = _llama(8192, 28672, 80, 64, 8, 128256, max_position_embeddings=8192)
LLAMA31_405B = _llama(16384, 53248, 126, 128, 8, 128256, max_position_embeddings=131072)
MIXTRAL = _like(
    "mixtral",
    4096,
    14336,
    32,
    32,
    8,
    32000,
    num_local_experts=8,
    num_experts_per_tok=2,
    max_position_embeddings=32768,
)
_MLA = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
DEEPSEEK_V3 = _like(
    "deepseek_v3",
    7168,
    18432,
    61,
    128,
    128,
    129280,
    q_lora_rank=1536,
    n_routed_experts=256,
    num_experts_per_tok=8,
    moe_intermediate_size=2048,
    n_shared_experts=1,
    first_k_dense_replace=3,
    num_nextn_predict_layers=1,
    max_position_embeddings=163840,
    **_MLA,
)
GPT_OSS_20B = _like(
    "gpt_oss",
    2880,
    2880,
    24,
    64,
    8,
    201088,
    head_dim=64,
    num_local_experts=32,
    num_experts_per_tok=4,
    sliding_window=128,
    max_position_embeddings=131072,
)
QWEN3_30B = _like(
    "qwen3_moe",
    2048,
    6144,
    48,
    32,
    4,
    151936,
    head_dim=128,
    num_experts=128,
    num_experts_per_tok=8,
    moe_intermediate_size=768,
)
GEMMA3_27B = {
    "model_type": "gemma3",
    "torch_dtype": "bfloat16",
    "mm_tokens_per_image": 256,
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_hidden_layers": 62,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "sliding_window": 1024,
    },
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "image_size": 896,
        "patch_size": 14,
    },
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}
MAMBA_130M = {
    "model_type": "mamba",
    "hidden_size": 768,
    "num_hidden_layers": 24,
    "state_size": 16,
    "time_step_rank": 48,
    "vocab_size": 50280,
    "expand": 2,
    "conv_kernel": 4,
}
MAMBA2_2B7 = {
    "model_type": "mamba2",
    "hidden_size": 2560,
    "num_hidden_layers": 64,
    "state_size": 128,
    "num_heads": 80,
    "head_dim": 64,
    "n_groups": 1,
    "vocab_size": 50288,
    "expand": 2,
    "tie_word_embeddings": True,
}
QWEN3_NEXT = _like(
    "qwen3_next",
    2048,
    5120,
    48,
    16,
    2,
    151936,
    head_dim=256,
    num_experts=512,
    num_experts_per_tok=10,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
)
JAMBA = _like(
    "jamba",
    4096,
    14336,
    32,
    32,
    8,
    65536,
    num_experts=16,
    num_experts_per_tok=2,
    mamba_d_state=16,
    mamba_dt_rank=256,
    mamba_expand=2,
    attn_layer_period=8,
    attn_layer_offset=4,
    expert_layer_period=2,
    expert_layer_offset=1,
)
WHISPER_SMALL = {
    "model_type": "whisper",
    "d_model": 768,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
    "vocab_size": 51865,
    "num_mel_bins": 80,
}
_BERT = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
VIT_B = {"model_type": "vit", **_BERT, "image_size": 224, "patch_size": 16}
T5_BASE = {
    "model_type": "t5",
    "d_model": 768,
    "d_ff": 3072,
    "d_kv": 64,
    "num_layers": 12,
    "num_decoder_layers": 12,
    "num_heads": 12,
    "vocab_size": 32128,
}
LLAMA4_SCOUT = {
    "model_type": "llama4_text",
    **{k: v for k, v in _llama(5120, 8192, 48, 40, 8, 202048).items() if k != "model_type"},
    "head_dim": 128,
    "intermediate_size_mlp": 16384,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
}

#: Name → (configuration, published parameters).
PUBLISHED: dict[str, tuple[Config, int]] = {
    "Llama-2-7B": (LLAMA2_7B, 6_738_415_616),
    "Llama-2-13B": (_llama(5120, 13824, 40, 40, 40, 32000), 13_015_864_320),
    "Llama-2-70B": (_llama(8192, 28672, 80, 64, 8, 32000), 68_976_648_192),
    "Llama-3-8B": (LLAMA3_8B, 8_030_261_248),
    "Llama-3-70B": (LLAMA3_70B, 70_553_706_496),
    "Llama-3.1-405B": (LLAMA31_405B, 405_853_388_800),
    "Llama-3.2-1B": (
        _llama(2048, 8192, 16, 32, 8, 128256, tie_word_embeddings=True, head_dim=64),
        1_235_814_400,
    ),
    "Llama-3.2-3B": (
        _llama(3072, 8192, 28, 24, 8, 128256, tie_word_embeddings=True, head_dim=128),
        3_212_749_824,
    ),
    "Mistral-7B": (_like("mistral", 4096, 14336, 32, 32, 8, 32000), 7_241_732_096),
    "Mixtral-8x7B": (MIXTRAL, 46_702_792_704),
    "Mixtral-8x22B": (
        _like("mixtral", 6144, 16384, 56, 48, 8, 32768, num_local_experts=8, num_experts_per_tok=2),
        140_630_071_296,
    ),
    "Qwen2.5-7B": (_like("qwen2", 3584, 18944, 28, 28, 4, 152064), 7_615_616_512),
    "Qwen2.5-72B": (_like("qwen2", 8192, 29568, 80, 64, 8, 152064), 72_706_203_648),
    "Qwen3-8B": (_like("qwen3", 4096, 12288, 36, 32, 8, 151936, head_dim=128), 8_190_735_360),
    "Qwen3-0.6B": (
        _like("qwen3", 1024, 3072, 28, 16, 8, 151936, head_dim=128, tie_word_embeddings=True),
        596_049_920,
    ),
    "Qwen3-30B-A3B": (QWEN3_30B, 30_532_122_624),
    "Qwen3-235B-A22B": (
        _like(
            "qwen3_moe",
            4096,
            12288,
            94,
            64,
            4,
            151936,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=1536,
        ),
        235_093_634_560,
    ),
    "Qwen1.5-MoE-A2.7B": (
        _like(
            "qwen2_moe",
            2048,
            5632,
            24,
            16,
            16,
            151936,
            num_experts=60,
            num_experts_per_tok=4,
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
        ),
        14_315_784_192,
    ),
    "Gemma-7B": (_like("gemma", 3072, 24576, 28, 16, 16, 256000, head_dim=256), 8_537_680_896),
    "Gemma-2-2B": (
        _like("gemma2", 2304, 9216, 26, 8, 4, 256000, head_dim=256, sliding_window=4096),
        2_614_341_888,
    ),
    "Gemma-2-9B": (_like("gemma2", 3584, 14336, 42, 16, 8, 256000, head_dim=256), 9_241_705_984),
    "Gemma-2-27B": (_like("gemma2", 4608, 36864, 46, 32, 16, 256000, head_dim=128), 27_227_128_320),
    "Gemma-3-1B": (
        _like("gemma3_text", 1152, 6912, 26, 4, 1, 262144, head_dim=256, sliding_window=512),
        999_885_952,
    ),
    "Gemma-3-27B": (GEMMA3_27B, 27_432_406_640),
    "Phi-3-mini": (_like("phi3", 3072, 8192, 32, 32, 32, 32064), 3_821_079_552),
    "Phi-4": (_like("phi3", 5120, 17920, 40, 40, 10, 100352), 14_659_507_200),
    "Phi-2": (_like("phi", 2560, 10240, 32, 32, 32, 51200), 2_779_683_840),
    "Phi-3.5-MoE": (
        _like(
            "phimoe",
            4096,
            6400,
            32,
            32,
            8,
            32064,
            num_local_experts=16,
            num_experts_per_tok=2,
            attention_bias=True,
            lm_head_bias=True,
        ),
        41_873_153_344,
    ),
    "GPT-2": (GPT2, 124_439_808),
    "GPT-2 XL": ({**GPT2, "n_embd": 1600, "n_layer": 48, "n_head": 25}, 1_557_611_200),
    "GPT-NeoX-20B": (_like("gpt_neox", 6144, 24576, 44, 64, 64, 50432), 20_554_567_680),
    "GPT-J-6B": (
        {
            "model_type": "gptj",
            "n_embd": 4096,
            "n_layer": 28,
            "n_head": 16,
            "rotary_dim": 64,
            "vocab_size": 50400,
        },
        6_050_882_784,
    ),
    "OPT-6.7B": (
        _like(
            "opt",
            4096,
            0,
            32,
            32,
            32,
            50272,
            ffn_dim=16384,
            intermediate_size=None,
            max_position_embeddings=2048,
            word_embed_proj_dim=4096,
        ),
        6_658_473_984,
    ),
    "BLOOM-176B": (
        {
            "model_type": "bloom",
            "hidden_size": 14336,
            "n_layer": 70,
            "n_head": 112,
            "vocab_size": 250880,
        },
        176_247_271_424,
    ),
    "gpt-oss-20b": (GPT_OSS_20B, 20_914_757_184),
    "gpt-oss-120b": (
        {**GPT_OSS_20B, "num_hidden_layers": 36, "num_local_experts": 128},
        116_829_156_672,
    ),
    # 671 B without the multi-token-prediction layer, as the paper counts.
    "DeepSeek-V3": (DEEPSEEK_V3, 671_026_404_352),
    "DeepSeek-V2": (
        _like(
            "deepseek_v2",
            5120,
            12288,
            60,
            128,
            128,
            102400,
            q_lora_rank=1536,
            n_routed_experts=160,
            num_experts_per_tok=6,
            moe_intermediate_size=1536,
            n_shared_experts=2,
            first_k_dense_replace=1,
            **_MLA,
        ),
        235_741_434_880,
    ),
    "DeepSeek-V2-Lite": (
        _like(
            "deepseek_v2",
            2048,
            10944,
            27,
            16,
            16,
            102400,
            q_lora_rank=None,
            n_routed_experts=64,
            num_experts_per_tok=6,
            moe_intermediate_size=1408,
            n_shared_experts=2,
            first_k_dense_replace=1,
            **_MLA,
        ),
        15_706_484_224,
    ),
    # Without the 60 x 384 terms that only pick experts, which no gradient trains.
    "Kimi-K2": (
        {
            **DEEPSEEK_V3,
            "num_attention_heads": 64,
            "vocab_size": 163840,
            "n_routed_experts": 384,
            "first_k_dense_replace": 1,
            "num_nextn_predict_layers": 0,
        },
        1_026_408_209_408,
    ),
    "Falcon-7B": (
        {
            "model_type": "falcon",
            "hidden_size": 4544,
            "num_hidden_layers": 32,
            "num_attention_heads": 71,
            "vocab_size": 65024,
            "multi_query": True,
            "bias": False,
        },
        6_921_720_704,
    ),
    "Falcon-40B": (
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "vocab_size": 65024,
            "new_decoder_architecture": True,
            "bias": False,
        },
        41_303_293_952,
    ),
    "Mamba-130M": (MAMBA_130M, 129_135_360),
    "Mamba-2.8B": (
        {**MAMBA_130M, "hidden_size": 2560, "num_hidden_layers": 64, "time_step_rank": 160},
        2_768_345_600,
    ),
    "Mamba2-2.7B": (MAMBA2_2B7, 2_702_599_680),
    "Falcon-Mamba-7B": (
        {
            "model_type": "falcon_mamba",
            "hidden_size": 4096,
            "intermediate_size": 8192,
            "num_hidden_layers": 64,
            "state_size": 16,
            "time_step_rank": 256,
            "vocab_size": 65024,
            "tie_word_embeddings": False,
        },
        7_272_665_088,
    ),
    "Jamba-v0.1": (JAMBA, 51_570_323_328),
    "OLMoE-1B-7B": (
        _like("olmoe", 2048, 1024, 16, 16, 16, 50304, num_experts=64, num_experts_per_tok=8),
        6_919_161_856,
    ),
    "OLMo-2-7B": (_like("olmo2", 4096, 11008, 32, 32, 32, 100352), 7_298_617_344),
    "Granite-3.0-8B": (
        _like("granite", 4096, 12800, 40, 32, 8, 49155, tie_word_embeddings=True),
        8_170_848_256,
    ),
    "StarCoder2-3B": (
        _like("starcoder2", 3072, 12288, 30, 24, 2, 49152, tie_word_embeddings=True),
        3_030_371_328,
    ),
    "StarCoder2-15B": (
        _like("starcoder2", 6144, 24576, 40, 48, 4, 49152, tie_word_embeddings=False),
        15_957_889_024,
    ),
    "Command-R": (_like("cohere", 8192, 22528, 40, 64, 64, 256000), 34_980_831_232),
    "Command-R7B": (_like("cohere2", 4096, 14336, 32, 32, 8, 256000), 8_028_033_024),
    "GLM-4-9B-0414": (
        _like("glm4", 4096, 13696, 40, 32, 2, 151552, head_dim=128, attention_bias=True),
        9_400_279_040,
    ),
    "Qwen3-Next-80B-A3B": (QWEN3_NEXT, 79_674_391_296),
    "MiniMax-M2": (
        _like(
            "minimax_m2",
            3072,
            1536,
            62,
            48,
            8,
            200064,
            head_dim=128,
            num_local_experts=256,
            num_experts_per_tok=8,
            rotary_dim=64,
        ),
        228_689_748_992,
    ),
    "T5-small": (
        {
            **T5_BASE,
            "d_model": 512,
            "d_ff": 2048,
            "num_layers": 6,
            "num_decoder_layers": 6,
            "num_heads": 8,
        },
        60_506_624,
    ),
    "T5-base": (T5_BASE, 222_903_552),
    "FLAN-T5-XXL": (
        {
            **T5_BASE,
            "d_model": 4096,
            "d_ff": 10240,
            "num_layers": 24,
            "num_decoder_layers": 24,
            "num_heads": 64,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
        },
        11_135_332_352,
    ),
    "Whisper-small": (WHISPER_SMALL, 241_734_912),
    "Whisper-large-v3": (
        {
            **WHISPER_SMALL,
            "d_model": 1280,
            "encoder_layers": 32,
            "decoder_layers": 32,
            "encoder_attention_heads": 20,
            "decoder_attention_heads": 20,
            "encoder_ffn_dim": 5120,
            "decoder_ffn_dim": 5120,
            "vocab_size": 51866,
            "num_mel_bins": 128,
        },
        1_543_490_560,
    ),
    "BERT-base": (
        {"model_type": "bert", **_BERT, "vocab_size": 30522, "type_vocab_size": 2},
        109_482_240,
    ),
    "BERT-large": (
        {
            "model_type": "bert",
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "vocab_size": 30522,
        },
        335_141_888,
    ),
    "RoBERTa-base": (
        {
            "model_type": "roberta",
            **_BERT,
            "vocab_size": 50265,
            "type_vocab_size": 1,
            "max_position_embeddings": 514,
        },
        124_645_632,
    ),
    "DistilBERT": (
        {
            "model_type": "distilbert",
            "dim": 768,
            "n_layers": 6,
            "n_heads": 12,
            "hidden_dim": 3072,
            "vocab_size": 30522,
        },
        66_362_880,
    ),
    "ViT-B/16": (
        {**VIT_B, "architectures": ["ViTForImageClassification"], "num_labels": 1000},
        86_567_656,
    ),
    # The text part alone; the published 109 B have the vision tower.
    "Llama-4-Scout": (LLAMA4_SCOUT, 107_769_861_120),
}

_CLIP = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 336,
    "patch_size": 14,
}
_QWEN_7B = _like("qwen2", 3584, 18944, 28, 28, 4, 152064)

#: With images: name → (configuration, published parameters).
WITH_IMAGES: dict[str, tuple[Config, int]] = {
    "LLaVA-1.5-7B": (
        {
            "model_type": "llava",
            "text_config": {"model_type": "llama", "vocab_size": 32064},
            "vision_config": _CLIP,
        },
        7_063_427_072,
    ),
    # These files keep the text's fields at the top.
    "Qwen2-VL-7B": (
        {
            **_QWEN_7B,
            "model_type": "qwen2_vl",
            "vision_config": {
                "depth": 32,
                "embed_dim": 1280,
                "mlp_ratio": 4,
                "num_heads": 16,
                "hidden_size": 3584,
                "spatial_patch_size": 14,
            },
        },
        8_291_375_616,
    ),
    "Qwen2.5-VL-7B": (
        {
            **_QWEN_7B,
            "model_type": "qwen2_5_vl",
            "vision_config": {
                "depth": 32,
                "hidden_size": 1280,
                "intermediate_size": 3420,
                "num_heads": 16,
                "out_hidden_size": 3584,
                "window_size": 112,
                "fullatt_block_indexes": [7, 15, 23, 31],
            },
        },
        8_292_166_656,
    ),
    "Mistral-Small-3.1-24B": (
        {
            "model_type": "mistral3",
            "text_config": {**_like("mistral", 5120, 32768, 40, 32, 8, 131072), "head_dim": 128},
            "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "image_size": 1540},
        },
        24_011_361_280,
    ),
    "Llama-4-Scout-109B": (
        {
            "model_type": "llama4",
            "text_config": LLAMA4_SCOUT,
            "vision_config": {
                "model_type": "llama4_vision_model",
                "hidden_size": 1408,
                "intermediate_size": 5632,
                "num_hidden_layers": 34,
                "num_attention_heads": 16,
                "image_size": 336,
                "patch_size": 14,
                "projector_input_dim": 4096,
                "projector_output_dim": 4096,
            },
        },
        108_641_793_536,
    ),
}
