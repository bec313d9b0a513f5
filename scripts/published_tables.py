"""Names in the published tables → names of gambrel; the form of a row; licences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published figure; the columns are described in published.py."""

    source: str
    model: str
    device: str
    precision: str
    quantity: str
    value: str
    batch: str = ""
    sizes: str = ""
    devices: str = ""
    note: str = ""


LICENCES = {
    "mlperf_inference": (
        "Facts from mlcommons/inference_results_v3.0 @1948f9b5b93c5b4dcafe15de0faa08cdf1439fca and "
        "mlcommons/inference_results_v4.1 @198fc467; Apache-2.0"
    ),
    "serving": (
        "Facts from ai-dynamo/aiconfigurator @095f58a5, silicon_sample.csv; Apache-2.0; "
        "Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES"
    ),
    "training": (
        "Facts from NVIDIA-NeMo/Megatron-Bridge @067f987df03b8355b03192d88d70f1709fedf51a "
        "(Apache-2.0), NVIDIA/Megatron-LM @d98e8a64ddf34856e74b24714e3bedb2f5a39553 "
        "(BSD-3-Clause), foundation-model-stack/fms-fsdp "
        "@0d319983c4b3b7f7b3b5e2c5e7f746746b6f73a9 (Apache-2.0), pytorch/torchtitan "
        "@31a17bfdb70bab6f62a13d21816a5339b911d6e3 (BSD-3-Clause)"
    ),
    "edge_aihub": (
        "Facts from quic/ai-hub-models @52c080d245d2d20c634459208ff2548ce10b3c9f, perf.yaml; "
        "BSD-3-Clause"
    ),
    "edge_hailo": (
        "Facts from hailo-ai/hailo_model_zoo @c83fc030e862de8daf05b783f503712d168ef620; MIT"
    ),
    "edge_rknn": (
        "Facts from airockchip/rknn_model_zoo @bad6c7334531becaf90a561988519b7bec34d0ab; Apache-2.0"
    ),
    "kernelbench": (
        "Facts from ScalingIntelligence/KernelBench @423217d9; MIT; problems and licence in "
        "kernelbench/"
    ),
    "pytorch_models": "Facts from sitar-lab/NeuSight @6945927d; MIT",
    "pytorch_kernels": "Facts from sitar-lab/NeuSight @6945927d; MIT",
}

_BERT = ("bert-large", "seq=384", True, 0, "inputs of up to 384 tokens, of varying length")
_LLAMA = ("configs/llama-2-70b.json", "context=64", True, 290, "output tokens; prompts not counted")
_GPTJ = ("configs/gpt-j-6b.json", "context=64", True, 30, "at least 30 output tokens per sample")
_SDXL = ("stable-diffusion-xl", "steps=20", True, 0, "")

#: Benchmark → model, sizes, whether 8-bit formats are used, output tokens per sample where the
#: source reports samples (OpenOrca: 290 to 294; Mixtral's mix: 144 to 146; CNN-DailyMail: a
#: generation has at least 30, https://github.com/mlcommons/inference/tree/master/language/gpt-j).
MLPERF_MODELS = {
    "resnet50": ("resnet50", "", True, 0, ""),
    "bert-99": _BERT,
    "bert-99.9": _BERT,
    "llama2-70b-99": _LLAMA,
    "llama2-70b-99.9": _LLAMA,
    "mixtral-8x7b": ("mixtral-8x7b-decode", "context=64", True, 144, _LLAMA[4]),
    "gptj-99": _GPTJ,
    "gptj-99.9": _GPTJ,
    "stable-diffusion-xl": _SDXL,
}

MLPERF_DEVICES = {
    "AMD Instinct MI300X-NPS1-SPX-192GB-750W": "mi300x",
    "NVIDIA A100-PCIe-80GB": "a100-pcie-80gb",
    "NVIDIA A100-SXM-80C": "a100-sxm4-80gb",
    "NVIDIA A100-SXM-80GB": "a100-sxm4-80gb",
    "NVIDIA A100-SXM-80GB CTS": "a100-sxm4-80gb",
    "NVIDIA A30": "a30",
    "NVIDIA A40": "a40",
    "NVIDIA GH200 Grace Hopper Superchip 96GB": "gh200-96gb",
    "NVIDIA H100-80C": "h100-pcie-80gb",
    "NVIDIA H100-NVL-94GB": "h100-nvl-94gb",
    "NVIDIA H100-PCIe-80GB": "h100-pcie-80gb",
    "NVIDIA H100-SXM-80GB": "h100-sxm5-80gb",
    "NVIDIA H200-SXM-141GB": "h200-sxm-141gb",
    "NVIDIA H200-SXM-141GB-CTS": "h200-sxm-141gb",
    "NVIDIA L4": "l4",
    "NVIDIA L40": "l40",
    "NVIDIA L40S": "l40s",
    "NVIDIA T4": "t4",
    "Intel(R) Xeon(R) Platinum 8480+": "xeon-8480+",
    "INTEL(R) XEON(R) 6980P": "xeon-6980p",
}

SERVED = {
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
}
SERVED_DEVICES = {
    "b200_sxm": "b200-hgx-180gb",
    "h100_sxm": "h100-sxm5-80gb",
    "h200_sxm": "h200-sxm-141gb",
}

_DGX = {
    "DGX-H100": "h100-sxm5-80gb",
    "DGX-B200": "b200-hgx-180gb",
    "DGX-B300": "b300-hgx-270gb",
    "DGX-GB200": "gb200-186gb",
    "DGX-GB300": "gb300-279gb",
}
_TRAINED = {
    "DeepSeekV3": "deepseek-v3",
    "GPT OSS 120B": "gpt-oss-120b",
    "LLAMA3.1_405B": "llama-3.1-405b",
    "LLAMA3_70B": "llama-3.1-70b",
    "LLAMA3_8B": "llama-3.1-8b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
}
#: (Model, GPU) of the training tables → model, device. torchtitan's "H100 96GB HBM2e" is another
#: card than those of the catalog.
MEGATRON = {
    **{(m, g): (name, device) for m, name in _TRAINED.items() for g, device in _DGX.items()},
    ("LLAMA3-8B", "H100"): ("llama-3.1-8b", "h100-sxm5-80gb"),
    ("llama2-70b", "A100-80GB"): ("configs/llama-2-70b.json", "a100-sxm4-80gb"),
    ("llama3.1-8b", "H200"): ("llama-3.1-8b", "h200-sxm-141gb"),
}

#: (Model, component or "" for any) → model, sizes; efficientnet_b4 and efficientnet_v2_s were timed
#: at 224 pixels, fcn_resnet50 at 513 (from their times; the table says otherwise).
AIHUB = {
    ("bert_base_uncased_hf", ""): ("bert-base", "seq=384"),
    ("controlnet_canny", "text_encoder"): ("clip-l-text", ""),
    ("controlnet_canny", "vae"): ("sd15-vae-decoder", ""),
    ("convnext_base", ""): ("convnext-base", ""),
    ("convnext_tiny", ""): ("convnext-tiny", ""),
    ("densenet121", ""): ("densenet121", ""),
    ("efficientnet_b0", ""): ("efficientnet-b0", ""),
    ("efficientnet_b4", ""): ("efficientnet-b4", "image=224"),
    ("efficientnet_v2_s", ""): ("torchvision:efficientnet_v2_s", "image=224"),
    ("fcn_resnet50", ""): ("torchvision:segmentation.fcn_resnet50", "image=513"),
    ("googlenet", ""): ("torchvision:googlenet", "image=224"),
    ("inception_v3", ""): ("torchvision:inception_v3", "image=224"),
    ("mnasnet05", ""): ("torchvision:mnasnet0_5", "image=224"),
    ("regnet", ""): ("torchvision:regnet_x_3_2gf", "image=224"),
    ("resnet101", ""): ("resnet101", ""),
    ("resnet18", ""): ("resnet18", ""),
    ("resnet50", ""): ("resnet50", ""),
    ("resnext101", ""): ("torchvision:resnext101_32x8d", "image=224"),
    ("resnext50", ""): ("resnext50", ""),
    ("vit", ""): ("vit-b-16", ""),
    ("wideresnet50", ""): ("wide-resnet50", ""),
}

HAILO = {
    "deit_base": "deit-b",
    "deit_small": "deit-s",
    "resnext50_32x4d": "resnext50",
    "swin_tiny": "swin-t",
    "vit_base": "vit-b-16",
    "yolov8l": "yolov8l",
    "yolov8x": "yolov8x",
}

NEUSIGHT_DEVICES = {
    "AMD Instinct MI100": "mi100",
    "AMD Instinct MI210": "mi210",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "Tesla T4": "t4",
    "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
}
NEUSIGHT_MODELS = {"bert_large": "bert-large", "gpt2_large": "configs/gpt2-large.json"}
