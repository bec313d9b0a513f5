"""Image classifiers of which microcontrollers with an NPU run the narrow versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from zoo.entry import Entry, Point, Subject, classifier, empty, lean, module_subject

#: Output channels and stride of each pair, at the full width.
_MOBILENET = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    *((512, 1),) * 5, (1024, 2), (1024, 1),
)  # fmt: skip
_FAST = (
    (64, 2), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 4, (1024, 1),
)  # fmt: skip
#: Of MobileNetV1 (arXiv 1704.04861): the one at a quarter of its width is MLPerf Tiny's elsewhere.
_WIDTHS = {
    "mobilenet-v1-0.25-224": 0.25,
    "mobilenet-v1-0.5": 0.5,
    "mobilenet-v1-0.75": 0.75,
}
_FAST_WIDTHS = {"fd-mobilenet-0.25": 0.25, "fd-mobilenet-0.5": 0.5, "fd-mobilenet-0.75": 0.75}
_V2_WIDTHS = {"mobilenet-v2-0.25": 0.25, "mobilenet-v2-0.35": 0.35, "mobilenet-v2-0.75": 0.75}


def entries() -> Iterator[Entry]:
    """Of any side."""
    made: list[tuple[str, str, Callable[[], Any], str]] = [
        (name, f"MobileNetV1 {width}", partial(_pairs, _MOBILENET, width), "arXiv 1704.04861")
        for name, width in _WIDTHS.items()
    ]
    made += [
        (name, f"FD-MobileNet {width}", partial(_pairs, _FAST, width), "arXiv 1802.03750")
        for name, width in _FAST_WIDTHS.items()
    ]
    for name, about, make, paper in made:
        yield classifier(
            name, about, partial(_subject, make), (), f"torch {name}, {paper}", side=224
        )
    for name, width in _V2_WIDTHS.items():
        source = f"torchvision mobilenet_v2 width_mult={width}"
        build = partial(_subject, partial(_v2, width))
        yield classifier(name, f"MobileNetV2 {width}", build, (), source, side=224)
    build = partial(_subject, _shuffle)
    source = "torchvision shufflenet_v2_x0_5"
    yield classifier("shufflenet-v2-0.5", "ShuffleNetV2 0.5", build, (), source, side=224)


def _subject(make: Callable[[], Any]) -> Subject:
    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        image = point.get("image", 224)
        return (empty(point["batch"], 3, image, image),), {}

    return module_subject(lean(make), inputs)


def _pairs(table: tuple[tuple[int, int], ...], width: float) -> Any:
    """A convolution, pairs of a depthwise one and one of single taps, a classifier."""
    from torch import nn

    channels = round(32 * width)
    layers = [_convolution(3, channels, 3, 2)]
    for full, stride in table:
        wide = round(full * width)
        layers += [
            _convolution(channels, channels, 3, stride, channels),
            _convolution(channels, wide, 1),
        ]
        channels = wide
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))
    return nn.Sequential(*layers, *head)


def _convolution(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
    """Convolution, norm, activation."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU6(inplace=True),
    )


def _v2(width: float) -> Any:
    from torchvision.models import mobilenet_v2

    return mobilenet_v2(width_mult=width).eval()


def _shuffle() -> Any:
    from torchvision.models import shufflenet_v2_x0_5

    return shufflenet_v2_x0_5().eval()
