"""Models exported to ONNX against the capture of the module: parameters and matrix FLOP.

Run ``python -m scripts.sweeps.onnx_exports [--dynamo] [name ...]``; ``benchmarks/formats.py
--exports`` writes the table. Each model is exported by
torch.onnx, read without its weights, and compared with `gambrel.capture.torch` of the same module.
Exporters fold batch norms into convolutions: two parameters a channel become one bias.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any, Final

from gambrel.capture.torch import capture, ensure_torchvision
from gambrel.workload.parameters import count_parameters

#: Model → why the exported one differs.
KNOWN: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("swin", "maxvit", "timm/levit", "timm/tiny_vit", "timm/gcvit", "timm/efficientformer"),
        "the exporter looks relative position biases up: a value per pair in place of the table",
    ),
    "timm/eva02": "the exporter stores rotary tables, and zero biases of keys beside the others",
    "timm/nfnet": "the exporter stores each standardized weight twice, once transposed",
}

_TORCHVISION: Final = """
    alexnet densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 mnasnet0_5
    mobilenet_v2 mobilenet_v3_small regnet_x_400mf regnet_y_400mf resnet18 resnet50
    resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_1 vgg11 wide_resnet50_2 convnext_tiny swin_t
    swin_v2_t vit_b_32 maxvit_t
"""
_SEGMENTATION: Final = "deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large fcn_resnet50"
_TIMM: Final = """
    cait_xxs24_224 coat_tiny convnextv2_atto deit_tiny_patch16_224 edgenext_xx_small
    efficientformer_l1 efficientvit_b0 eva02_tiny_patch14_224 fastvit_t8 gcvit_xxtiny ghostnet_100
    hgnetv2_b0 levit_128s mixer_s32_224 mobilenetv4_conv_small mobilevit_xxs nfnet_l0 pit_ti_224
    poolformer_s12 repvgg_a0 resnest14d res2net50_14w_8s tf_efficientnet_lite0 tiny_vit_5m_224
    vit_tiny_patch16_224 xcit_nano_12_p16_224
"""
_TRANSFORMERS: Final = """
    albert bert deberta-v2 distilbert electra gpt2 gpt_neox llama mistral mpnet opt phi qwen2
    qwen3 roberta vit dinov2 segformer
"""

#: What the older exporter refuses: it does not know an operator of their masks, or traces a flag.
NEWER: Final = frozenset(
    f"hf/{n}" for n in ["gpt2", "gpt_neox", "llama", "mistral", "opt", "phi", "qwen2", "qwen3"]
) | {"timm/eva02_tiny_patch14_224"}


def main(wanted: list[str]) -> int:
    """Compares the models, all by default; 1 where one differs."""
    ensure_torchvision()
    from scripts.sweeps.reference import Row, report

    dynamo = "--dynamo" in wanted
    names = [name for name in wanted if not name.startswith("-")]

    def rows() -> Iterator[Row]:
        for name, build in models():
            if names and name not in names:
                continue
            yield compared(name, build, dynamo=dynamo or name in NEWER)

    return report(rows())


def compared(name: str, build: Callable[[], tuple[Any, tuple[Any, ...]]], *, dynamo: bool) -> Any:
    """One row of the table."""
    import torch
    from scripts.sweeps.reference import Row

    import gambrel
    from gambrel.capture.onnx.reader import read_onnx

    torch.backends.mha.set_fastpath_enabled(False)  # an op that the exporter does not know
    try:
        torch.manual_seed(0)
        with warnings.catch_warnings(), _silent(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            model, args = build()
            distinct(model.eval())
            path = Path(folder) / "model.onnx"
            with torch.no_grad():
                torch.onnx.export(model, args, str(path), dynamo=dynamo)
            start = time.perf_counter()
            read = read_onnx(path)
            seconds = time.perf_counter() - start
            own = capture(model, args, {}, source=False)
            results = [gambrel.analyze(w, "h100", causal="full") for w in (read, own)]
    except Exception as error:
        return Row(name=name, error=f"{type(error).__name__}: {str(error)[:150]}")
    ours, reference = (int(r.total.matrix_flops) for r in results)
    return Row(
        name=name,
        parameters=(_read(read), _read(own) - _folded(read, own)),
        flops=(ours, reference),
        coverage=results[0].coverage,
        traffic=(float(results[0].traffic_bytes), float(results[1].traffic_bytes)),
        seconds=seconds,
        known=next((why for key, why in KNOWN.items() if name.startswith(key)), ""),
    )


def _read(workload: Any) -> int:
    """Parameters that some op reads: exporters leave the others out."""
    used = {workload.tensors[i].storage for op in workload.ops for i in op.inputs}
    kept = [t for t in workload.tensors if t.storage in used]
    return count_parameters(kept, lambda _, t: (int(t.offset), prod(map(int, t.shape))))


def _folded(read: Any, own: Any) -> int:
    """What folding saves: scale and shift of a norm go into the bias of the convolution before.

    That is one parameter less a channel, two where the convolution has a bias already.
    """
    maker = {i: op for op in own.ops for i in op.outputs}
    saved = 0
    for op in own.ops:
        if op.attrs.get("function") == "batch_norm":
            before = maker.get(op.inputs[0])
            biased = before is not None and bool(before.attrs.get("bias"))
            saved += int(op.sizes["groups"]) * (2 if biased else 1)
    norms = (op for op in read.ops if op.attrs.get("function") == "batch_norm")
    return saved - sum(int(op.sizes["groups"]) for op in norms)


def distinct(module: Any) -> None:
    """Gives every parameter values of its own: exporters join equal ones, as fresh norms have."""
    import torch

    with torch.no_grad():
        for tensor in module.parameters():
            tensor.copy_(torch.rand_like(tensor) + 0.5)
        for tensor in module.buffers():
            if tensor.is_floating_point() and bool((tensor == tensor.flatten()[:1]).all()):
                tensor.copy_(torch.rand_like(tensor) + 0.5)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def models() -> Iterator[tuple[str, Callable[[], tuple[Any, tuple[Any, ...]]]]]:
    for name in _TORCHVISION.split():
        yield name, lambda name=name: _torchvision(name)
    for name in _SEGMENTATION.split():
        yield name, lambda name=name: _segmentation(name)
    for name in _TIMM.split():
        yield f"timm/{name}", lambda name=name: _timm(name)
    for name in _TRANSFORMERS.split():
        yield f"hf/{name}", lambda name=name: _transformers(name)
    yield "yolo-like", _yolo
    yield "diffusion-unet", _unet
    yield "lstm", _lstm


def _torchvision(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    import torchvision

    extra = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    side = {"inception_v3": 299, "maxvit_t": 224}.get(name, 224)
    return torchvision.models.get_model(name, **extra), (torch.randn(1, 3, side, side),)


def _segmentation(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    import torchvision

    model = torchvision.models.get_model(name, weights_backbone=None)
    return _plain(model), (torch.randn(1, 3, 128, 128),)


def _plain(model: Any) -> Any:
    """The model with its tensors alone as results."""
    import torch

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any) -> Any:
            found = self.model(*args)
            values = found.values() if hasattr(found, "values") else found
            return tuple(v for v in values if isinstance(v, torch.Tensor))

    return Plain()


def _timm(name: str) -> tuple[Any, tuple[Any, ...]]:
    import timm
    import torch

    model = timm.create_model(name)
    return model, (torch.randn(1, *model.default_cfg["input_size"]),)


def _transformers(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import AutoConfig, AutoModel

    cut = {"num_hidden_layers": 2, "use_cache": False, "vocab_size": 1000, "pad_token_id": 0}
    if f"hf/{name}" in NEWER:
        cut |= {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16, "ffn_dim": 128}
        cut |= {"num_attention_heads": 4, "num_key_value_heads": 2, "word_embed_proj_dim": 64}
    config = AutoConfig.for_model(name)
    for key, value in cut.items():
        if hasattr(config, key):
            setattr(config, key, value)
    if hasattr(config, "num_channels"):
        side = getattr(config, "image_size", 224)
        return _plain(AutoModel.from_config(config)), (torch.randn(1, 3, side, side),)
    config.bos_token_id = config.eos_token_id = 1
    model = AutoModel.from_config(config)
    return _plain(model), (torch.randint(2, 100, (1, 48)),)


def _yolo() -> tuple[Any, tuple[Any, ...]]:
    """A detector's blocks: split bottlenecks, pyramid pooling, upsampling, three heads."""
    import torch
    from torch import nn

    def conv(a: int, b: int, k: int = 1, s: int = 1) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU()
        )

    class Split(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.one, self.two = conv(c, c), conv(c // 2, c // 2, 3)
            self.last = conv(c + c // 2, c)

        def forward(self, x: Any) -> Any:
            a, b = self.one(x).chunk(2, 1)
            return self.last(torch.cat((a, b, b + self.two(b)), 1))

    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), Split(32))
            self.mid = nn.Sequential(conv(32, 64, 3, 2), Split(64))
            self.deep = nn.Sequential(conv(64, 128, 3, 2), Split(128))
            self.pool = nn.MaxPool2d(5, 1, 2)
            self.mix, self.head = conv(256, 64), nn.Conv2d(64, 84, 1)
            self.join = conv(128, 64)

        def forward(self, x: Any) -> Any:
            middle = self.mid(self.stem(x))
            deep = self.deep(middle)
            mixed = self.mix(torch.cat((deep, self.pool(deep)), 1))
            wide = nn.functional.interpolate(mixed, scale_factor=2, mode="nearest")
            joined = self.join(torch.cat((wide, middle), 1))
            flat = [self.head(y).flatten(2) for y in (mixed, joined)]
            boxes, scores = torch.cat(flat, 2).split((4, 80), 1)
            return torch.cat((boxes.softmax(1), scores.sigmoid()), 1)

    return Detector(), (torch.randn(1, 3, 128, 128),)


def _unet() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64),
        layers_per_block=1,
        cross_attention_dim=32,
        attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
    return _plain(model), (torch.randn(1, 4, 16, 16), torch.tensor([3]), torch.randn(1, 7, 32))


def _lstm() -> tuple[Any, tuple[Any, ...]]:
    import torch

    model = torch.nn.LSTM(24, 32, 2, bidirectional=True, batch_first=True)
    return _plain(model), (torch.randn(2, 9, 24),)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
