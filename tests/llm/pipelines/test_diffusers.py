"""Folders of diffusers pipelines: the same figures as the zoo, videos, refusals."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.result import Analysis
from gambrel.capture import pipelines
from gambrel.capture.resolve import Request, resolve_model
from gambrel.device.resolve import resolve_hardware
from gambrel.errors import CaptureError, FileFormatError, MissingExtraError, WorkloadError
from gambrel.llm.pipelines.catalog import PIPELINES

pytestmark = pytest.mark.torch

if find_spec("torch") is None or find_spec("diffusers") is None:
    pytest.skip("needs torch and diffusers", allow_module_level=True)

H100 = resolve_hardware("h100-sxm5-80gb")[0]

CLIP = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
CLIP |= {"num_attention_heads": 4, "max_position_embeddings": 77, "vocab_size": 100}
T5 = {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
VAE = {
    "_class_name": "AutoencoderKL",
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "block_out_channels": [32, 32, 32, 32],
    "latent_channels": 4,
}
UNET = {
    "_class_name": "UNet2DConditionModel",
    "sample_size": 16,
    "block_out_channels": [32, 64],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "cross_attention_dim": 32,
    "attention_head_dim": 4,
    "layers_per_block": 1,
}
WAN = {
    "_class_name": "WanTransformer3DModel",
    "num_attention_heads": 2,
    "attention_head_dim": 24,
    "text_dim": 32,
    "ffn_dim": 64,
    "num_layers": 2,
    "in_channels": 16,
    "out_channels": 16,
}


def folder(path: Path, classes: dict[str, tuple[str, str]], **configs: dict[str, Any]) -> Path:
    path.mkdir(exist_ok=True)
    index = {"_class_name": "P", **{k: list(v) for k, v in classes.items()}}
    index["scheduler"] = ["diffusers", "PNDMScheduler"]
    index["safety_checker"] = [None, None]
    (path / "model_index.json").write_text(json.dumps(index))
    for name, config in configs.items():
        (path / name).mkdir(exist_ok=True)
        (path / name / "config.json").write_text(json.dumps(config))
    return path


def diffusion(path: Path, **changes: dict[str, Any]) -> Path:
    classes = {
        "text_encoder": ("transformers", "CLIPTextModel"),
        "unet": ("diffusers", "UNet2DConditionModel"),
        "vae": ("diffusers", "AutoencoderKL"),
    }
    parts: dict[str, dict[str, Any]] = {"text_encoder": CLIP, "unet": UNET, "vae": VAE}
    return folder(path, classes, **(parts | changes))


def run(path: Path, **sizes: int) -> Analysis:
    workload = resolve_model(str(path), Request(sizes=sizes)).workload
    return analyze(workload, H100, Settings(sizes=sizes))


def by_part(found: Analysis) -> dict[str, int]:
    return {g.name: g.measures.matrix_flops for g in found.by_module}


@pytest.mark.slow
def test_stable_diffusion_is_that_of_the_zoo(tmp_path: Path) -> None:
    text = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}
    text |= {"num_attention_heads": 12, "max_position_embeddings": 77, "vocab_size": 49408}
    unet = {"_class_name": "UNet2DConditionModel", "sample_size": 64}
    unet |= {"cross_attention_dim": 768, "attention_head_dim": 8}
    vae = VAE | {"block_out_channels": [128, 256, 512, 512], "layers_per_block": 2}
    found = run(diffusion(tmp_path / "sd", text_encoder=text, unet=unet, vae=vae), steps=50)
    assert found.total.matrix_flops == PIPELINES["stable-diffusion-1.5"].flops
    stored = pipelines.load(PIPELINES["stable-diffusion-1.5"], {}, None)
    assert by_part(found) == by_part(analyze(stored, H100, Settings()))


def test_parts_and_sizes(tmp_path: Path) -> None:
    path = diffusion(tmp_path / "sd")
    found = run(path, steps=7)
    # The default side is that of the UNet's sample: 16 values of 8 pixels.
    assert found.model.symbols == {
        "batch": 1, "height": 128, "width": 128, "steps": 7, "guidance": 2,
    }  # fmt: skip
    assert found.coverage == 1.0
    parts = by_part(found)
    assert set(parts) == {"text_encoder", "unet", "vae"}
    longer = by_part(run(path, steps=14))
    assert longer == parts | {"unet": 2 * parts["unet"]}
    once = by_part(run(path, steps=7, guidance=1))
    assert once["unet"] * 2 == parts["unet"]
    assert once["text_encoder"] * 2 == parts["text_encoder"]
    assert once["vae"] == parts["vae"]
    batch = by_part(run(path, steps=7, batch=3))
    assert batch == {name: 3 * flops for name, flops in parts.items()}
    wide = run(path, steps=7, height=128, width=256)
    assert wide.model.symbols["width"] == 256
    square = run(path, steps=7, image=128)
    assert by_part(square) == parts


def test_the_index_file_stands_for_its_folder(tmp_path: Path) -> None:
    path = diffusion(tmp_path / "sd")
    assert by_part(run(path / "model_index.json")) == by_part(run(path))


def test_videos(tmp_path: Path) -> None:
    classes = {
        "text_encoder": ("transformers", "UMT5EncoderModel"),
        "transformer": ("diffusers", "WanTransformer3DModel"),
    }
    path = folder(tmp_path / "wan", classes, text_encoder=T5, transformer=WAN)
    found = run(path, steps=3, image=64, frames=5)
    assert found.model.symbols["frames"] == 5
    # 3 steps of 2 x 5 frames of 4 x 4 tokens; the network by itself says the same per step.
    more = run(path, steps=6, image=64, frames=5)
    assert by_part(more)["transformer"] == 2 * by_part(found)["transformer"]
    longer = run(path, steps=3, image=64, frames=10)
    assert by_part(longer)["transformer"] > 1.7 * by_part(found)["transformer"]


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        (
            {"unet": UNET | {"layers_per_block": 10**9}},
            FileFormatError,
            r"layers_per_block=1000000",
        ),
        (
            {"unet": UNET | {"sample_size": 10**12}},
            FileFormatError,
            r"sample_size=1000000000000 is",
        ),
        ({"vae": VAE | {"block_out_channels": "wide"}}, CaptureError, r"AutoencoderKL cannot be"),
        ({"unet": UNET | {"down_block_types": ["Nope"]}}, CaptureError, r"UNet2DConditionModel ca"),
    ],
)
def test_absurd_configurations(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence) as caught:
        run(diffusion(tmp_path / "sd", **changes))
    assert "\n" not in str(caught.value)


def test_other_refusals(tmp_path: Path) -> None:
    path = diffusion(tmp_path / "sd")
    with pytest.raises(CaptureError, match=r"this pipeline has no size 'seq'; it has batch, guid"):
        run(path, seq=5)
    with pytest.raises(WorkloadError, match=r"height=100: this model takes multiples of 16"):
        run(path, image=100)
    (path / "vae" / "config.json").unlink()
    with pytest.raises(FileFormatError, match=r"cannot read .*vae/config.json: No such file"):
        run(path)
    (path / "model_index.json").write_text("{")
    with pytest.raises(FileFormatError, match=r"model_index.json is no JSON"):
        run(path)
    (path / "model_index.json").write_text("[]")
    with pytest.raises(FileFormatError, match=r"holds no JSON object"):
        run(path)


def test_unknown_parts(tmp_path: Path) -> None:
    other = folder(tmp_path / "x", {"unet": ("diffusers", "UNet1DModel")}, unet={})
    with pytest.raises(CaptureError, match=r"the part unet is a UNet1DModel, which is not known"):
        run(other)
    code = folder(tmp_path / "y", {"unet": ("my_module", "os.system")}, unet={})
    with pytest.raises(CaptureError, match=r"the part unet is a os.system, which is not known"):
        run(code)
    none = folder(tmp_path / "z", {"vae": ("diffusers", "AutoencoderKL")}, vae=VAE)
    with pytest.raises(CaptureError, match=r"no unet and no transformer among its parts \(vae"):
        run(none)


def test_without_diffusers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is blocked is a package that is not installed."""
    from gambrel.capture.torch import diffusers as front

    path = diffusion(tmp_path / "sd")
    monkeypatch.setattr(
        front, "find_spec", lambda name: None if name == "diffusers" else sys.modules[__name__]
    )
    with pytest.raises(MissingExtraError, match=r"A diffusers pipeline needs diffusers, which is"):
        run(path)
