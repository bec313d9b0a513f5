"""Single-shot detectors that Intel and AMD measure: SSD, YOLOv3 and its tiny version.

Small definitions after the published architectures; their parameters and operations were compared
with those that the Open Model Zoo prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from zoo.detectors import detector
from zoo.entry import Entry

#: Channels and strides of MobileNet's depthwise blocks after its first convolution.
_MOBILENET = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2),
    (1024, 1),
)  # fmt: skip


def entries() -> Iterator[Entry]:
    """One size each, any batch."""
    rows: tuple[tuple[str, str, Callable[[], Any], int, tuple[str, ...], str], ...] = (
        ("yolov3-tiny", "YOLOv3-tiny, 80 classes", _yolov3_tiny, 416, ("yolo-v3-tiny",),
         "torch YOLOv3-tiny, arXiv 1804.02767"),
        ("yolov3", "YOLOv3, Darknet-53, 80 classes", _yolov3, 416, ("yolo-v3",),
         "torch YOLOv3, arXiv 1804.02767"),
        ("ssd-mobilenet-v1", "SSD, MobileNetV1, 90 classes", _ssd_mobilenet, 300,
         ("ssd_mobilenet_v1_coco",), "torch SSD, arXiv 1512.02325 and 1704.04861"),
        ("ssd-resnet34", "SSD, ResNet-34, 80 classes (MLPerf)", _ssd_resnet34, 1200,
         ("ssd-resnet34-1200",), "torch SSD-ResNet34 of mlcommons/inference"),
    )  # fmt: skip
    return (detector(*row) for row in rows)


def _layer(cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU6(),
    )


def _leaky(cin: int, cout: int, kernel: int = 3, stride: int = 1) -> Any:
    from torch import nn

    plain = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(plain, nn.BatchNorm2d(cout), nn.LeakyReLU(0.1))


def _yolov3() -> Any:
    """Residual blocks of a narrow and a wide convolution; three scales of three anchors each."""
    import torch
    from torch import nn
    from torch.nn import functional as f

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.both = nn.Sequential(_leaky(width, width // 2, 1), _leaky(width // 2, width))

        def forward(self, x: Any) -> Any:
            return x + self.both(x)

    class Scale(nn.Module):
        def __init__(self, cin: int, width: int) -> None:
            super().__init__()
            half = width // 2
            self.body = nn.Sequential(
                _leaky(cin, half, 1), _leaky(half, width), _leaky(width, half, 1),
                _leaky(half, width), _leaky(width, half, 1),
            )  # fmt: skip
            self.head = nn.Sequential(_leaky(half, width), nn.Conv2d(width, 255, 1))
            self.up = _leaky(half, half // 2, 1) if width > 256 else None

        def forward(self, x: Any) -> Any:
            x = self.body(x)
            if self.up is None:
                return self.head(x), None
            return self.head(x), f.interpolate(self.up(x), scale_factor=2.0, mode="nearest")

    class Yolo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))
            self.stem = _leaky(3, 32)
            self.stages = nn.ModuleList(
                nn.Sequential(_leaky(w // 2, w, 3, 2), *(Block(w) for _ in range(n)))
                for w, n in widths
            )
            self.scales = nn.ModuleList((Scale(1024, 1024), Scale(768, 512), Scale(384, 256)))

        def forward(self, x: Any) -> Any:
            maps = [self.stem(x)]
            for stage in self.stages:
                maps.append(stage(maps[-1]))
            found, above = [], None
            for scale, kept in zip(self.scales, (maps[5], maps[4], maps[3]), strict=True):
                one, above = scale(kept if above is None else torch.cat([above, kept], 1))
                found.append(one)
            return tuple(found)

    return Yolo()


def _yolov3_tiny() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as f

    conv = _leaky

    class Tiny(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pairs = pairwise((3, 16, 32, 64, 128, 256))
            self.stem = nn.ModuleList(conv(a, b) for a, b in pairs)
            self.fifth, self.sixth = conv(256, 512), conv(512, 1024)
            self.narrow, self.side = conv(1024, 256, 1), conv(256, 128, 1)
            self.coarse = nn.Sequential(conv(256, 512), nn.Conv2d(512, 255, 1))
            self.fine = nn.Sequential(conv(384, 256), nn.Conv2d(256, 255, 1))

        def forward(self, x: Any) -> Any:
            for layer in self.stem[:-1]:
                x = f.max_pool2d(layer(x), 2)
            kept = self.stem[-1](x)
            x = self.fifth(f.max_pool2d(kept, 2))
            x = self.sixth(f.max_pool2d(f.pad(x, (0, 1, 0, 1)), 2, 1))
            x = self.narrow(x)
            up = f.interpolate(self.side(x), scale_factor=2.0, mode="nearest")
            return self.coarse(x), self.fine(torch.cat([up, kept], 1))

    return Tiny()


def _heads(features: tuple[tuple[int, int, int], ...], kernel: int, classes: int) -> Any:
    """Boxes and classes of each feature map: its channels, anchors and the stride of its heads."""
    from torch import nn

    return nn.ModuleList(
        nn.Conv2d(channels, anchors * size, kernel, stride, kernel // 2)
        for channels, anchors, stride in features
        for size in (4, classes)
    )


def _boxes(heads: Any, features: list[Any], sizes: tuple[int, int]) -> Any:
    import torch

    found = [h(features[i // 2]).permute(0, 2, 3, 1) for i, h in enumerate(heads)]
    flat = [v.reshape(v.shape[0], -1, sizes[i % 2]) for i, v in enumerate(found)]
    return torch.cat(flat[::2], 1), torch.cat(flat[1::2], 1)


def _ssd_mobilenet() -> Any:
    from torch import nn

    features = ((512, 3, 1), (1024, 6, 1), (512, 6, 1), (256, 6, 1), (256, 6, 1), (128, 6, 1))

    class Ssd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (32, *(c for c, _ in _MOBILENET))
            blocks = [
                nn.Sequential(_layer(a, a, 3, s, a), _layer(a, b, 1))
                for (a, b), (_, s) in zip(pairwise(widths), _MOBILENET, strict=True)
            ]
            self.stem = nn.Sequential(_layer(3, 32, 3, 2), *blocks[:11])
            self.deep = nn.Sequential(*blocks[11:])
            self.extra = nn.ModuleList(
                nn.Sequential(_layer(a, b, 1), _layer(b, c, 3, 2))
                for a, b, c in ((1024, 256, 512), (512, 128, 256), (256, 128, 256), (256, 64, 128))
            )
            self.heads = _heads(features, 1, 91)

        def forward(self, x: Any) -> Any:
            found = [self.stem(x)]
            found.append(self.deep(found[-1]))
            for layer in self.extra:
                found.append(layer(found[-1]))
            return _boxes(self.heads, found, (4, 91))

    return Ssd()


def _ssd_resnet34() -> Any:
    """The third stage keeps its side, the fourth is left out; strides of MLPerf's definition."""
    import torchvision
    from torch import nn

    features = ((256, 4, 3), (512, 6, 3), (512, 6, 2), (256, 6, 2), (256, 4, 2), (256, 4, 2))
    extra = ((256, 256, 512, 2), (512, 256, 512, 2), (512, 128, 256, 2), (256, 128, 256, 2),
             (256, 128, 256, 1))  # fmt: skip

    class Ssd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            whole = torchvision.models.resnet34(weights=None)
            first = whole.layer3[0]
            first.conv1.stride = first.downsample[0].stride = (1, 1)
            parts = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3")
            self.stem = nn.Sequential(*(getattr(whole, name) for name in parts))
            self.extra = nn.ModuleList(
                nn.Sequential(
                    nn.Conv2d(a, b, 1), nn.ReLU(), nn.Conv2d(b, c, 3, s, int(s > 1)), nn.ReLU()
                )
                for a, b, c, s in extra
            )
            self.heads = _heads(features, 3, 81)

        def forward(self, x: Any) -> Any:
            found = [self.stem(x)]
            for layer in self.extra:
                found.append(layer(found[-1]))
            return _boxes(self.heads, found, (4, 81))

    return Ssd()
