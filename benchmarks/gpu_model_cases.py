"""The cases of gpu_models.py: which models, in which formats, layouts and batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

FORMATS = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}


@dataclass(frozen=True)
class Case:
    """A model as it is run. ``amp`` is automatic mixed precision in ``format``, weights in fp32."""

    model: str
    batch: int
    format: str = "fp32"
    layout: str = "nchw"
    size: int = 224
    phase: str = "inference"
    amp: bool = False


# Models: each gives a module and the keyword arguments of its call.


def vision(case: Case) -> tuple[Any, dict[str, Any]]:
    """A network of torchvision ("tv:") or timm, by its name there."""
    import torch

    name = case.model.removeprefix("tv:")
    if name != case.model:
        import torchvision

        keywords = {"weights": None}
        if name.startswith(("fcn", "deeplab", "lraspp")):
            keywords["weights_backbone"] = None
        if name.startswith(("inception", "googlenet")):
            keywords |= {"init_weights": False, "aux_logits": False}
        module = torchvision.models.get_model(name, **keywords)
    else:
        import timm

        module = timm.create_model(name)
    return module, {"x": torch.randn(case.batch, 3, case.size, case.size)}


def text(case: Case) -> tuple[Any, dict[str, Any]]:
    """An encoder or decoder of transformers, ``size`` tokens at once."""
    import torch
    import transformers as hf

    sdpa = {"attn_implementation": "sdpa"}
    widths = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
    make: dict[str, Callable[[], Any]] = {
        "bert-base": lambda: hf.BertModel(hf.BertConfig(**sdpa)),
        "bert-large": lambda: hf.BertModel(hf.BertConfig(**widths, intermediate_size=4096, **sdpa)),
        "distilbert": lambda: hf.DistilBertModel(hf.DistilBertConfig(**sdpa)),
        "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False, **sdpa)),
        "gpt2-medium": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(n_embd=1024, n_layer=24, n_head=16, use_cache=False, **sdpa)
        ),
        "qwen2.5-1.5b": lambda: hf.Qwen2ForCausalLM(qwen()),
        "llama-3.1-8b": lambda: hf.LlamaForCausalLM(llama()),
    }
    module = make[case.model]()
    ids = torch.randint(0, 1000, (case.batch, case.size))
    return module, {"input_ids": ids}


def qwen() -> Any:
    """Qwen 2.5 1.5B."""
    import transformers as hf

    return hf.Qwen2Config(
        hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12,
        num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True, use_cache=False,
        attn_implementation="sdpa",
    )  # fmt: skip


def llama() -> Any:
    """Llama 3.1 8B."""
    import transformers as hf

    return hf.LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256, use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip


def decoder(case: Case) -> tuple[Any, dict[str, Any]]:
    """One token more after ``size`` tokens in the cache ("decode:")."""
    import torch

    inner = replace(case, model=case.model.removeprefix("decode:"), size=1)
    module, inputs = text(inner)
    module.config.use_cache = True
    return module, inputs | {"position_ids": torch.full((case.batch, 1), case.size)}


def diffusion(case: Case) -> tuple[Any, dict[str, Any]]:
    """A denoiser of diffusers; ``size`` is the picture's side."""
    import diffusers
    import torch

    side = case.size // 8
    if case.model == "sd15-unet":
        module = diffusers.UNet2DConditionModel(
            sample_size=64, cross_attention_dim=768, attention_head_dim=8
        )
        states, extra = torch.randn(case.batch, 77, 768), {}
    else:
        module = diffusers.UNet2DConditionModel(
            sample_size=128, cross_attention_dim=2048, attention_head_dim=[5, 10, 20],
            block_out_channels=(320, 640, 1280), transformer_layers_per_block=[1, 2, 10],
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            addition_embed_type="text_time", addition_time_embed_dim=256,
            projection_class_embeddings_input_dim=2816, use_linear_projection=True,
        )  # fmt: skip
        states = torch.randn(case.batch, 77, 2048)
        pooled, ids = torch.randn(case.batch, 1280), torch.randn(case.batch, 6)
        extra = {"added_cond_kwargs": {"text_embeds": pooled, "time_ids": ids}}
    sample = torch.randn(case.batch, 4, side, side)
    when = torch.full((case.batch,), 500)
    return module, {
        "sample": sample, "timestep": when, "encoder_hidden_states": states, "return_dict": False,
        **extra,
    }  # fmt: skip


def recurrent(case: Case) -> tuple[Any, dict[str, Any]]:
    """Layers of ``torch.nn`` over ``size`` steps."""
    import torch
    from torch import nn

    x = torch.randn(case.size, case.batch, 512)
    if case.model == "mlp":
        layers = [m for _ in range(8) for m in (nn.Linear(512, 512), nn.ReLU())]
        return nn.Sequential(*layers), {"input": x}
    kind = {"lstm": nn.LSTM, "gru": nn.GRU}[case.model]
    return kind(512, 512, num_layers=3), {"input": x}


def audio(case: Case) -> tuple[Any, dict[str, Any]]:
    """The encoder of Whisper small over 30 s."""
    import torch
    import transformers as hf

    config = hf.WhisperConfig(
        d_model=768, encoder_layers=12, encoder_attention_heads=12, encoder_ffn_dim=3072,
        attn_implementation="sdpa",
    )  # fmt: skip
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return WhisperEncoder(config), {"input_features": torch.randn(case.batch, 80, 3000)}


FAMILIES: tuple[tuple[str, Callable[[Case], tuple[Any, dict[str, Any]]]], ...] = (
    ("decode:", decoder),
    (r"bert|distilbert|gpt2|qwen|llama", text),
    (r"sd", diffusion),
    (r"lstm|gru|mlp", recurrent),
    (r"whisper", audio),
    (r"", vision),
)


def built(case: Case) -> tuple[Any, dict[str, Any]]:
    """The module in the case's format and layout, on torch's current default device."""
    import torch

    make = next(f for pattern, f in FAMILIES if re.match(pattern, case.model))
    kind = getattr(torch, FORMATS[case.format])
    module, inputs = make(case)
    module.train(case.phase == "training")
    if not case.amp:
        module = module.to(kind)
        inputs = {k: _cast(v, kind) for k, v in inputs.items()}
    if case.layout == "nhwc":
        module = module.to(memory_format=torch.channels_last)
        inputs = {
            k: v.to(memory_format=torch.channels_last) if getattr(v, "ndim", 0) == 4 else v
            for k, v in inputs.items()
        }
    return module, inputs


def _cast(value: Any, kind: Any) -> Any:
    if isinstance(value, dict):
        return {k: _cast(v, kind) for k, v in value.items()}
    return value.to(kind) if getattr(value, "is_floating_point", bool)() else value


# Cases


CNNS = (
    "tv:resnet50", "tv:mobilenet_v2", "tv:efficientnet_b0", "tv:densenet121", "tv:vgg16",
    "tv:convnext_tiny", "tv:regnet_y_8gf", "tv:resnext50_32x4d", "tv:mobilenet_v3_large",
    "tv:shufflenet_v2_x1_0", "tv:resnet18", "tv:efficientnet_b4", "tv:inception_v3",
)  # fmt: skip
VITS = ("tv:vit_b_16", "tv:swin_t", "deit_small_patch16_224", "mixer_b16_224")


def cases() -> Iterator[Case]:
    """Everything, what matters most first."""
    first = CNNS[:8]
    for batch, format, layout in ((64, "fp16", "nhwc"), (64, "fp32", "nchw"), (1, "fp16", "nchw")):
        for name in (*first, *VITS):
            yield Case(name, batch, format, layout if name in first else "nchw")
    for size in (128, 512):
        yield from (Case(m, 16, "bf16", size=size) for m in ("bert-base", "bert-large", "gpt2"))
    for name in ("sd15-unet", "sdxl-unet"):
        yield Case(name, 2, "fp16", size=512 if name == "sd15-unet" else 1024)
    yield from (Case(name, 32, "fp32", size=100) for name in ("lstm", "gru", "mlp"))
    yield Case("llama-3.1-8b", 1, "bf16", size=1024)
    yield from (Case("decode:llama-3.1-8b", b, "bf16", size=1024) for b in (1, 16))
    yield from (Case("decode:qwen2.5-1.5b", b, "bf16", size=1024) for b in (1, 16))
    for name in (*first[:6], "tv:vit_b_16", "tv:swin_t"):
        layout = "nhwc" if name in first else "nchw"
        yield Case(name, 64, "bf16", layout, phase="training", amp=True)
        yield Case(name, 64, "fp32", phase="training")
    for name in ("bert-base", "gpt2"):
        yield Case(name, 16, "bf16", size=512, phase="training", amp=True)
        yield Case(name, 16, "fp32", size=128, phase="training")
    yield from more_cases()


def more_cases() -> Iterator[Case]:
    """Other batches, layouts and networks."""
    first = CNNS[:8]
    for name in (*first, *VITS[:2]):
        yield Case(name, 64, "fp16", "nchw" if name in first else "nhwc")
        yield Case(name, 256, "fp16", "nhwc" if name in first else "nchw")
    for name in CNNS[8:]:
        yield from (Case(name, b, "fp16", to) for b, to in ((64, "nhwc"), (1, "nchw")))
        yield Case(name, 64, "fp32")
    for name in ("tv:fcn_resnet50", "tv:deeplabv3_resnet50"):
        yield Case(name, 8, "fp16", "nhwc", size=520)
        yield Case(name, 8, "fp32", size=520)
    yield from (Case("whisper-small", b, "fp16") for b in (1, 16))
    for name in ("tv:resnet50", "tv:vit_b_16", "tv:efficientnet_b0", "bert-base"):
        size = 128 if name == "bert-base" else 224
        yield from (Case(name, b, "tf32", size=size) for b in (1, 64))
        yield from (Case(name, b, "fp16", size=size) for b in (8, 16))
    yield Case("gpt2-medium", 8, "bf16", size=1024)
    yield Case("qwen2.5-1.5b", 4, "bf16", size=2048)
    yield from (Case("distilbert", b, "fp32", size=128) for b in (1, 32))


def compiled_cases() -> Iterator[Case]:
    """Those that torch.compile runs as well."""
    for name in ("tv:resnet50", "tv:vit_b_16", "tv:efficientnet_b0", "tv:convnext_tiny",
                 "tv:mobilenet_v2", "tv:swin_t"):  # fmt: skip
        layout = "nhwc" if name in CNNS else "nchw"
        yield from (Case(name, b, "fp16", layout) for b in (64, 1))
    yield from (Case(m, 16, "bf16", size=512) for m in ("bert-base", "gpt2"))
    yield Case("bert-base", 1, "bf16", size=128)
    yield Case("tv:resnet50", 64, "fp32")
    yield Case("sd15-unet", 2, "fp16", size=512)
