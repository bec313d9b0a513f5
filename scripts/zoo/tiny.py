"""The four networks of MLPerf Tiny, which microcontrollers are measured with.

Small definitions after the reference models of the benchmark (arXiv 2106.07597): a ResNet with
eight layers on CIFAR-10, MobileNetV1 at a quarter of its width on 96x96 images, a depthwise
separable CNN on 49x10 spectral features, and an autoencoder of linear layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject

#: Output channels and stride of each pair of MobileNetV1, at the full width.
_MOBILENET = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    *((512, 1),) * 5, (1024, 2), (1024, 1),
)  # fmt: skip


def entries() -> Iterator[Entry]:
    """One size each, any batch."""
    table: tuple[tuple[str, str, Callable[[], Any], tuple[int, ...], tuple[str, ...]], ...] = (
        ("resnet8", "ResNet-8 on 32x32 images", _resnet, (3, 32, 32), ("mlperf-tiny-ic",)),
        ("mobilenet-v1-0.25", "MobileNetV1 0.25 on 96x96 images, 2 classes", _mobilenet,
         (3, 96, 96), ("mlperf-tiny-vww", "visual-wake-words")),
        ("ds-cnn", "DS-CNN on 49x10 features, 12 keywords", _ds_cnn, (1, 49, 10),
         ("mlperf-tiny-kws", "keyword-spotting")),
        ("deep-autoencoder", "autoencoder of linear layers, 640 features", _autoencoder, (640,),
         ("mlperf-tiny-ad", "anomaly-detection")),
    )  # fmt: skip
    for name, about, make, size, aliases in table:
        yield Entry(
            name=name,
            family="microcontrollers",
            about=f"MLPerf Tiny: {about}",
            build=partial(_subject, make, size),
            symbols=(batch("inputs at once"),),
            values={"batch": (1, 3)},
            held_out=({"batch": 2}, {"batch": 5}),
            aliases=aliases,
            source=f"torch {name}, arXiv 2106.07597",
        )


def _subject(make: Callable[[], Any], size: tuple[int, ...]) -> Subject:
    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (empty(point["batch"], *size),), {}

    return module_subject(lean(make), inputs)


def _convolution(cin: int, cout: int, kernel: Any, stride: Any = 1, groups: int = 1) -> Any:
    """Convolution, norm, activation; as large a result as the stride allows."""
    from torch import nn

    height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    padding = ((height - 1) // 2, (width - 1) // 2)
    return nn.Sequential(
        nn.Conv2d(cin, cout, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(),
    )


def _resnet() -> Any:
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, cin: int, cout: int) -> None:
            super().__init__()
            stride = 1 if cin == cout else 2
            self.first = _convolution(cin, cout, 3, stride)
            self.second = nn.Sequential(
                nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
            )
            self.skip = nn.Identity() if stride == 1 else nn.Conv2d(cin, cout, 1, stride)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.second(self.first(x)) + self.skip(x))

    return nn.Sequential(
        _convolution(3, 16, 3),
        *(Block(a, b) for a, b in ((16, 16), (16, 32), (32, 64))),
        nn.AvgPool2d(8),
        nn.Flatten(),
        nn.Linear(64, 10),
        nn.Softmax(-1),
    )


def _mobilenet() -> Any:
    from torch import nn

    layers, channels = [_convolution(3, 8, 3, 2)], 8
    for wide, stride in _MOBILENET:
        layers += [
            _convolution(channels, channels, 3, stride, channels),
            _convolution(channels, wide // 4, 1),
        ]
        channels = wide // 4
    head = (nn.AvgPool2d(3), nn.Flatten(), nn.Linear(channels, 2), nn.Softmax(-1))
    return nn.Sequential(*layers, *head)


def _ds_cnn() -> Any:
    from torch import nn

    pairs = [
        layer
        for _ in range(4)
        for layer in (_convolution(64, 64, 3, 1, 64), _convolution(64, 64, 1))
    ]
    return nn.Sequential(
        nn.ZeroPad2d((0, 0, 0, 1)),  # an even window: one row more below than above
        _convolution(1, 64, (10, 4), 2),
        *pairs,
        nn.AvgPool2d((25, 5)),
        nn.Flatten(),
        nn.Linear(64, 12),
        nn.Softmax(-1),
    )


def _autoencoder() -> Any:
    from torch import nn

    sizes = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)
    layers: list[Any] = []
    for given, wide in pairwise(sizes):
        layers += [nn.Linear(given, wide), nn.BatchNorm1d(wide), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640))
