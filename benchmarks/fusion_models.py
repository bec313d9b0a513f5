"""The models of the fusion benchmark: architectures of their libraries, built without weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

#: Number format of parameters, where it is not torch's default.
DTYPES = {"llama_8b_4_layers": torch.bfloat16}

#: A module, its positional and its keyword arguments.
Case = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


def _vision(name: str) -> Callable[[], Case]:
    def build() -> Case:
        import torchvision

        model = getattr(torchvision.models, name)().eval()
        return model, (torch.randn(1, 3, 224, 224),), {}

    return build


def _tokens(seq: int) -> torch.Tensor:
    return torch.zeros(1, seq, dtype=torch.int64)


def _bert() -> Case:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig()).eval(), (_tokens(512),), {}


def _gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config()).eval(), (_tokens(1024),), {"use_cache": False}


def _llama() -> Case:
    """Four layers of the shape of Llama-3-8B."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8,
        num_hidden_layers=4, vocab_size=128256, rms_norm_eps=1e-5,
    )  # fmt: skip
    return (
        LlamaForCausalLM(config).eval(),
        (_tokens(2048),),
        {"use_cache": False, "logits_to_keep": 1},
    )


def _t5() -> Case:
    from transformers import T5Config, T5Model

    config = T5Config(num_layers=6, d_model=512, d_ff=2048, num_heads=8)
    inputs = {"input_ids": _tokens(512), "decoder_input_ids": _tokens(128), "use_cache": False}
    return T5Model(config).eval(), (), inputs


def _whisper() -> Case:
    from transformers import WhisperConfig, WhisperModel

    model = WhisperModel(WhisperConfig(vocab_size=51865, d_model=512, encoder_layers=6,
        encoder_attention_heads=8, decoder_layers=6, decoder_attention_heads=8,
        encoder_ffn_dim=2048, decoder_ffn_dim=2048))  # fmt: skip
    inputs = {"decoder_input_ids": _tokens(64), "use_cache": False}
    return model.eval(), (torch.randn(1, 80, 3000),), inputs


def _sd_unet() -> Case:
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
    args = (torch.randn(1, 4, 64, 64), torch.tensor(1.0), torch.randn(1, 77, 768))
    return model.eval(), args, {"return_dict": False}


MODELS: dict[str, Callable[[], Case]] = {
    "resnet50": _vision("resnet50"),
    "mobilenet_v3_large": _vision("mobilenet_v3_large"),
    "vit_b_16": _vision("vit_b_16"),
    "swin_t": _vision("swin_t"),
    "convnext_tiny": _vision("convnext_tiny"),
    "bert_base": _bert,
    "gpt2": _gpt2,
    "llama_8b_4_layers": _llama,
    "t5_small": _t5,
    "sd15_unet": _sd_unet,
    # Added after the rules were written, and never used to change them.
    "densenet121": _vision("densenet121"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "whisper_base": _whisper,
}
