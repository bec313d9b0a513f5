"""Sixty architectures of transformers, two layers each: parameters and matrix FLOP.

The configurations are the library's defaults, cut to two layers; weights stay on the meta device.
Run ``python -m scripts.sweeps.transformers_configs [model_type ...]``. It takes a few minutes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gambrel.capture.torch import ensure_torchvision, lean_init

_TEXT: Final = """
    albert bamba bart bert big_bird bigbird_pegasus bloom codegen cohere convbert deberta
    deberta-v2 deepseek_v3 distilbert electra ernie falcon falcon_h1 falcon_mamba fnet funnel
    gemma gemma2 gpt2 gpt_neo gpt_neox gpt_oss gptj granite granitemoe jamba jetmoe led llama
    longformer m2m_100 mamba mamba2 mbart mistral mixtral modernbert mpnet mpt nllb-moe
    nystromformer olmo2 olmoe opt pegasus phi phi3 qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next
    rembert roberta roformer rwkv stablelm starcoder2 t5 xglm xlm-roberta xlnet zamba2
"""
_IMAGES: Final = """
    beit convnext convnextv2 cvt data2vec-vision deit detr dinov2 dpt efficientnet focalnet glpn
    levit mobilenet_v2 mobilevit poolformer pvt regnet resnet segformer swin swinv2 vit vit_mae
    vit_msn vitdet yolos
"""
_SOUND: Final = """
    audio-spectrogram-transformer hubert sew unispeech wav2vec2 whisper
"""

#: Model type → why ours is right where it differs from torch's counter.
KNOWN: Final[dict[str, str]] = {
    "falcon_mamba": "the scan is one op here, and a Python loop of vector work there",
    "mamba": "the scan is one op here, and a Python loop of vector work there",
    "mamba2": "the scan is one op here, and its fallback pads every chunk there",
    "zamba2": "the scan is one op here, with all its products",
    "bamba": "the scan is one op here, with all its products",
    "falcon_h1": "the scan is one op here, with all its products",
    "jamba": "the scan is one op here, and a Python loop of vector work there",
    "qwen3_next": "the delta rule is one op here, and a torch fallback there",
    "deepseek_v3": "torch's counter does not know grouped products",
    "mixtral": "torch's counter does not know grouped products",
    "olmoe": "torch's counter does not know grouped products",
    "qwen2_moe": "torch's counter does not know grouped products",
    "qwen3_moe": "torch's counter does not know grouped products",
    "gpt_oss": "torch's counter does not know grouped products",
    "granitemoe": "torch's counter does not know grouped products",
}

_DEPTHS: Final = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
)


def main(wanted: list[str]) -> int:
    """Compares the types, all by default; 1 where one differs."""
    ensure_torchvision()
    import transformers
    from scripts.sweeps.reference import Row, compare, report

    transformers.logging.set_verbosity_error()

    def rows() -> Iterator[Row]:
        for name in wanted or f"{_TEXT} {_IMAGES} {_SOUND}".split():
            yield compare(name, lambda name=name: _build(name), _known(name))

    return report(rows())


def _known(name: str) -> Mapping[str, str]:
    return {name: KNOWN[name]} if name in KNOWN else {}


def _build(model_type: str) -> tuple[Any, Mapping[str, Any]]:
    import transformers

    cut = dict.fromkeys(_DEPTHS, 2)
    plain = transformers.AutoConfig.for_model(model_type)
    kept = {d: n for d, n in cut.items() if isinstance(getattr(plain, d, None), int)}
    if any(hasattr(plain, name) for name in ("depths", "block_sizes")):
        kept = {}  # stages, whose widths belong to their number
    try:
        config = transformers.AutoConfig.for_model(model_type, **kept)
        with lean_init():
            model = _made(config)
    except Exception:
        config = plain  # a pattern of layers that two do not satisfy
        with lean_init():
            model = _made(config)
    found = dict(_inputs(model, config))
    if "use_cache" in inspect.signature(model.forward).parameters:
        found["use_cache"] = False
    return model, found


def _made(config: Any) -> Any:
    """The plain model of a configuration; of a type with several the first."""
    import transformers

    known = transformers.MODEL_MAPPING[type(config)]
    return (known[0] if isinstance(known, (list, tuple)) else known)(config)


def _inputs(model: Any, config: Any) -> Mapping[str, Any]:
    import torch

    kind = model.main_input_name
    ids = torch.full((1, 64), 5, dtype=torch.long)
    if kind == "pixel_values":
        side = getattr(config, "image_size", None) or 224
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        channels = getattr(config, "num_channels", 3)
        return {kind: torch.empty((1, channels, height, width), device="meta")}
    if kind == "input_values" and hasattr(config, "num_mel_bins"):
        return {kind: torch.empty((1, config.max_length, config.num_mel_bins), device="meta")}
    if kind == "input_values":
        return {kind: torch.empty((1, 16_000), device="meta")}
    if kind == "input_features":
        frames = 2 * config.max_source_positions
        features = torch.empty((1, config.num_mel_bins, frames), device="meta")
        return {kind: features, "decoder_input_ids": ids}
    found = {"input_ids": ids}
    if config.is_encoder_decoder:
        found["decoder_input_ids"] = ids[:, :32]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
