"""Networks from image to image: super-resolution, denoising, segmentation, depth.

Small definitions after the published architectures; their parameters and operations were compared
with those that the makers of NPUs print beside their latencies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject

#: Name, what it is, maker, input (channels, height, width), family, other names, source.
Row = tuple[str, str, Callable[[], Any], tuple[int, ...], str, tuple[str, ...], str]


def entries() -> Iterator[Entry]:
    """One size each, any batch."""
    for name, about, make, size, family, aliases, source in _table():
        yield Entry(
            name=name,
            family=family,
            about=f"{about}, {size[2]}x{size[1]}",
            build=partial(_subject, make, size),
            symbols=(batch(),),
            values={"batch": (1, 3)},
            held_out=({"batch": 2}, {"batch": 5}),
            aliases=aliases,
            source=source,
        )


def _table() -> tuple[Row, ...]:
    restoration, segmentation = "image restoration", "detection and segmentation"
    return (
        ("quicksrnet-medium", "QuickSRNet medium, 4x", partial(_quicksr, 32, 5), (3, 128, 128),
         restoration, (), "torch QuickSRNet, arXiv 2303.04336"),
        ("quicksrnet-large", "QuickSRNet large, 4x", partial(_quicksr, 64, 11), (3, 128, 128),
         restoration, ("quicksrnet",), "torch QuickSRNet, arXiv 2303.04336"),
        ("real-esrgan-general", "Real-ESRGAN general x4v3", _compact, (3, 128, 128),
         restoration, ("real_esrgan_general_x4v3",), "torch SRVGGNetCompact, arXiv 2107.10833"),
        ("real-esrgan-x4plus", "Real-ESRGAN x4plus (RRDB, 23 blocks)", partial(_rrdb, 4),
         (3, 128, 128), restoration, ("esrgan", "real-esrgan"), "torch RRDBNet, arXiv 1809.00219"),
        ("real-esrgan-x2", "Real-ESRGAN x2 (RRDB, 23 blocks)", partial(_rrdb, 2), (3, 512, 512),
         restoration, (), "torch RRDBNet, arXiv 1809.00219"),
        ("dncnn", "DnCNN, 20 layers, gray", _dncnn, (1, 321, 481), restoration, ("dncnn3",),
         "torch DnCNN, arXiv 1608.03981"),
        ("zero-dce", "Zero-DCE, low light", _zero_dce, (3, 400, 600), restoration, (),
         "torch Zero-DCE, arXiv 2001.06826"),
        ("unet", "U-Net, 64 to 1024 channels, 2 classes", _unet, (3, 640, 1280), segmentation,
         ("unet-segmentation",), "torch U-Net, arXiv 1505.04597"),
        ("unet-camvid", "U-Net, 64 to 1024 channels, 12 classes", partial(_unet, 12),
         (3, 368, 480), segmentation, ("unet-camvid-onnx-0001",), "torch U-Net, arXiv 1505.04597"),
        ("3d-unet", "3D U-Net of MLPerf (KiTS19), 3 classes", _unet3d, (1, 128, 128, 128),
         segmentation, ("unet3d", "unet-3d", "3d-unet-kits19"),
         "torch Unet3D of mlcommons/training, image_segmentation"),
        ("fcn-resnet50", "FCN, ResNet-50, 21 classes", partial(_torchvision, "fcn_resnet50"),
         (3, 513, 513), segmentation, ("fcn",), "torchvision fcn_resnet50"),
        ("deeplabv3-resnet50", "DeepLabV3, ResNet-50, 21 classes",
         partial(_torchvision, "deeplabv3_resnet50"), (3, 513, 513), segmentation,
         ("deeplabv3", "deeplab"), "torchvision deeplabv3_resnet50"),
        ("deeplabv3-mobilenet", "DeepLabV3, MobileNetV3 large, 21 classes",
         partial(_torchvision, "deeplabv3_mobilenet_v3_large"), (3, 513, 513), segmentation, (),
         "torchvision deeplabv3_mobilenet_v3_large"),
        ("lraspp-mobilenet", "LR-ASPP, MobileNetV3 large, 21 classes",
         partial(_torchvision, "lraspp_mobilenet_v3_large"), (3, 513, 513), segmentation, (),
         "torchvision lraspp_mobilenet_v3_large"),
        ("craft", "CRAFT text detector (EasyOCR)", _craft, (3, 608, 800), segmentation,
         ("easyocr", "easyocr-detector"), "torch CRAFT, arXiv 1904.01941"),
    )  # fmt: skip


def _subject(make: Callable[[], Any], size: tuple[int, ...]) -> Subject:
    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (empty(point["batch"], *size),), {}

    return module_subject(lean(make), inputs)


def _torchvision(builder: str) -> Any:
    import torchvision

    return torchvision.models.get_model(builder, weights=None, weights_backbone=None)


def _quicksr(width: int, depth: int) -> Any:
    from torch import nn

    inner = [m for _ in range(depth) for m in (nn.Conv2d(width, width, 3, padding=1), nn.ReLU())]
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(),
        *inner,
        nn.Conv2d(width, 48, 3, padding=1),
        nn.PixelShuffle(4),
    )


def _compact() -> Any:
    """32 convolutions of 64 channels with PReLU, the enlarged input added at the end."""
    from torch import nn
    from torch.nn import functional as f

    inner = [m for _ in range(32) for m in (nn.Conv2d(64, 64, 3, padding=1), nn.PReLU(64))]

    class Compact(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(3, 64, 3, padding=1),
                nn.PReLU(64),
                *inner,
                nn.Conv2d(64, 48, 3, padding=1),
                nn.PixelShuffle(4),
            )

        def forward(self, x: Any) -> Any:
            return self.body(x) + f.interpolate(x, scale_factor=4.0, mode="nearest")

    return Compact()


def _rrdb(scale: int) -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as f

    act = nn.LeakyReLU(0.2)

    def conv(cin: int, cout: int) -> Any:
        return nn.Conv2d(cin, cout, 3, padding=1)

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList(conv(64 + 32 * i, 32 if i < 4 else 64) for i in range(5))

        def forward(self, x: Any) -> Any:
            parts = [x]
            for layer in self.convs[:4]:
                parts.append(act(layer(torch.cat(parts, 1))))
            return x + 0.2 * self.convs[4](torch.cat(parts, 1))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Sequential(Dense(), Dense(), Dense())

        def forward(self, x: Any) -> Any:
            return x + 0.2 * self.dense(x)

    class Rrdb(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = conv(3 * (4 // scale) ** 2, 64)
            self.blocks = nn.Sequential(*(Block() for _ in range(23)))
            self.body = conv(64, 64)
            self.ups = nn.ModuleList([conv(64, 64), conv(64, 64)])
            self.last = nn.Sequential(conv(64, 64), act, conv(64, 3))

        def forward(self, x: Any) -> Any:
            x = self.first(x if scale == 4 else f.pixel_unshuffle(x, 2))
            x = x + self.body(self.blocks(x))
            for up in self.ups:
                x = act(up(f.interpolate(x, scale_factor=2.0, mode="nearest")))
            return self.last(x)

    return Rrdb()


def _dncnn() -> Any:
    from torch import nn

    inner = [m for _ in range(18) for m in (nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())]
    return nn.Sequential(
        nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), *inner, nn.Conv2d(64, 1, 3, padding=1)
    )


def _zero_dce() -> Any:
    """Seven convolutions with skips, eight rounds of a curve."""
    import torch
    from torch import nn

    class ZeroDce(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = ((3, 32), (32, 32), (32, 32), (32, 32), (64, 32), (64, 32), (64, 24))
            self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in widths)

        def forward(self, image: Any) -> Any:
            c = self.convs
            x1 = torch.relu(c[0](image))
            x2 = torch.relu(c[1](x1))
            x3 = torch.relu(c[2](x2))
            x4 = torch.relu(c[3](x3))
            x5 = torch.relu(c[4](torch.cat([x3, x4], 1)))
            x6 = torch.relu(c[5](torch.cat([x2, x5], 1)))
            curve = torch.tanh(c[6](torch.cat([x1, x6], 1)))
            for r in torch.split(curve, 3, 1):
                image = image + r * (image * image - image)
            return image

    return ZeroDce()


def _double(cin: int, cout: int, middle: int | None = None) -> Any:
    from torch import nn

    middle = middle or cout
    return nn.Sequential(
        nn.Conv2d(cin, middle, 3, padding=1, bias=False),
        nn.BatchNorm2d(middle),
        nn.ReLU(),
        nn.Conv2d(middle, cout, 3, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(),
    )


def _unet(classes: int = 2) -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as f

    widths = (64, 128, 256, 512, 1024)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pairs = list(pairwise(widths))
            self.first = _double(3, 64)
            self.down = nn.ModuleList(_double(a, b) for a, b in pairs)
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
            self.join = nn.ModuleList(_double(b, a) for a, b in reversed(pairs))
            self.last = nn.Conv2d(64, classes, 1)

        def forward(self, x: Any) -> Any:
            kept = [self.first(x)]
            for layer in self.down:
                kept.append(layer(f.max_pool2d(kept[-1], 2)))
            x = kept.pop()
            for up, join in zip(self.up, self.join, strict=True):
                x = join(torch.cat([kept.pop(), up(x)], 1))
            return self.last(x)

    return UNet()


def _unet3d() -> Any:
    """Five halvings of a volume by strided convolutions, instance norms, 32 to 320 channels."""
    import torch
    from torch import nn

    widths = (32, 64, 128, 256, 320, 320)

    def two(cin: int, cout: int, stride: int = 1) -> Any:
        return nn.Sequential(
            *_volume(cin, cout, stride),
            *_volume(cout, cout),
        )

    class Unet3D(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pairs = list(pairwise(widths))
            self.first = two(1, widths[0])
            self.down = nn.ModuleList(two(a, b, 2) for a, b in pairs)
            self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in reversed(pairs))
            self.join = nn.ModuleList(two(2 * a, a) for a, _ in reversed(pairs))
            self.last = nn.Conv3d(widths[0], 3, 1)

        def forward(self, x: Any) -> Any:
            kept = [self.first(x)]
            for layer in self.down:
                kept.append(layer(kept[-1]))
            x = kept.pop()
            for up, join in zip(self.up, self.join, strict=True):
                x = join(torch.cat([up(x), kept.pop()], 1))
            return self.last(x)

    return Unet3D()


def _volume(cin: int, cout: int, stride: int = 1) -> tuple[Any, ...]:
    from torch import nn

    return (
        nn.Conv3d(cin, cout, 3, stride, 1, bias=False),
        nn.InstanceNorm3d(cout, affine=True),
        nn.ReLU(),
    )


def _craft() -> Any:
    """VGG-16 with batch norm, four stages joined back to half the side, two score maps."""
    import torch
    import torchvision
    from torch import nn
    from torch.nn import functional as f

    def join(cin: int, middle: int, cout: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(cin, middle, 1),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, cout, 3, padding=1),
            nn.BatchNorm2d(cout),
            nn.ReLU(),
        )

    class Craft(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = torchvision.models.vgg16_bn(weights=None).features
            ends = (0, 12, 19, 29, 39)
            self.stages = nn.ModuleList(layers[a:b] for a, b in pairwise(ends))
            self.fifth = nn.Sequential(
                nn.MaxPool2d(3, 1, 1),
                nn.Conv2d(512, 1024, 3, padding=6, dilation=6),
                nn.Conv2d(1024, 1024, 1),
            )
            sizes = ((1536, 512, 256), (768, 256, 128), (384, 128, 64), (192, 64, 32))
            self.joins = nn.ModuleList(join(*s) for s in sizes)
            three = [m for _ in range(2) for m in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())]
            self.head = nn.Sequential(
                *three, nn.Conv2d(32, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 1),
                nn.ReLU(), nn.Conv2d(16, 2, 1),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            kept = []
            for stage in self.stages:
                x = stage(x)
                kept.append(x)
            x = self.joins[0](torch.cat([self.fifth(x), kept.pop()], 1))
            for layer in self.joins[1:]:
                skip = kept.pop()
                x = f.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=False)
                x = layer(torch.cat([x, skip], 1))
            return self.head(x)

    return Craft()
