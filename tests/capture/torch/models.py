"""Small versions of real architectures: name → (library, module, args, kwargs)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from gambrel.capture.torch.hf_inputs import CACHES

_SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(3, 90, (batch, length))


def resnet(lib: Any) -> Any:
    return lib.models.resnet18(), (torch.randn(2, 3, 64, 64),), {}


def mobilenet(lib: Any) -> Any:
    return lib.models.mobilenet_v3_small(), (torch.randn(2, 3, 64, 64),), {}


def swin(lib: Any) -> Any:
    model = lib.models.swin_transformer.SwinTransformer(
        patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4]
    )
    return model, (torch.randn(1, 3, 64, 64),), {}


def vit(lib: Any) -> Any:
    model = lib.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64
    )
    return model, (torch.randn(1, 3, 32, 32),), {}


def bert(lib: Any) -> Any:
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[0, 10:] = 0  # padding: the mask's values decide which branch the library takes
    kwargs = {"input_ids": _tokens(2, 16), "attention_mask": mask}
    return lib.BertModel(lib.BertConfig(**_SMALL)), (), kwargs


def gpt2(lib: Any) -> Any:
    model = lib.GPT2LMHeadModel(lib.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4))
    return model, (), {"input_ids": _tokens(2, 16)}


def t5(lib: Any) -> Any:
    config = lib.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    kwargs = {"input_ids": _tokens(2, 16), "decoder_input_ids": _tokens(2, 8)}
    return lib.T5ForConditionalGeneration(config), (), kwargs


def clip(lib: Any) -> Any:
    image = {**_SMALL, "image_size": 32, "patch_size": 8}
    del image["vocab_size"]
    text = {**_SMALL, "max_position_embeddings": 20, "eos_token_id": 98, "bos_token_id": 97}
    config = lib.CLIPConfig(text_config=text, vision_config=image)
    kwargs = {"input_ids": _tokens(2, 12), "pixel_values": torch.randn(2, 3, 32, 32)}
    return lib.CLIPModel(config), (), kwargs


def whisper(lib: Any) -> Any:
    config = lib.WhisperConfig(
        vocab_size=99,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=32,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    kwargs = {"input_features": torch.randn(1, 8, 64), "decoder_input_ids": _tokens(1, 6)}
    return lib.WhisperForConditionalGeneration(config), (), kwargs


def cached(model: Any, cache: Any) -> dict[str, Any]:
    """The cache under the name that the model gives it."""
    taken = inspect.signature(type(model).forward).parameters
    return {next(name for name in CACHES if name in taken): cache}


def llama_prefill(lib: Any) -> Any:
    model = lib.LlamaForCausalLM(lib.LlamaConfig(**_SMALL, num_key_value_heads=2))
    return model, (), {"input_ids": _tokens(2, 16), "logits_to_keep": 1}


def llama_decode(lib: Any) -> Any:
    model = lib.LlamaForCausalLM(lib.LlamaConfig(**_SMALL, num_key_value_heads=2)).eval()
    cache = lib.StaticCache(config=model.config, max_cache_len=32)
    with torch.no_grad():
        model(_tokens(2, 16), **cached(model, cache))
    return model, (), {"input_ids": _tokens(2, 1), **cached(model, cache)}


def mamba(lib: Any) -> Any:
    config = lib.MambaConfig(vocab_size=99, hidden_size=32, state_size=4, num_hidden_layers=2)
    return lib.MambaForCausalLM(config), (), {"input_ids": _tokens(2, 16)}


def mamba2(lib: Any) -> Any:
    config = lib.Mamba2Config(
        vocab_size=99,
        hidden_size=32,
        state_size=8,
        num_hidden_layers=2,
        num_heads=4,
        head_dim=16,
        n_groups=2,
        chunk_size=8,
    )
    return lib.Mamba2ForCausalLM(config), (), {"input_ids": _tokens(2, 20)}


def mixtral(lib: Any) -> Any:
    config = lib.MixtralConfig(**_SMALL, num_key_value_heads=2, num_local_experts=4)
    return lib.MixtralForCausalLM(config), (), {"input_ids": _tokens(2, 16), "logits_to_keep": 1}


Build = Callable[[Any], Any]
TORCHVISION: tuple[Build, ...] = (resnet, mobilenet, swin, vit)
TRANSFORMERS: tuple[Build, ...] = (
    bert,
    gpt2,
    t5,
    clip,
    whisper,
    llama_prefill,
    llama_decode,
    mamba,
    mamba2,
)
