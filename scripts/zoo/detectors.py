"""Detectors that the makers of NPUs publish: YOLO families, YOLOX, DETR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from zoo.detection import side_of
from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject

#: Built by ultralytics from its own description of the network.
ULTRALYTICS = (
    ("yolo11n", "YOLO11n", ("yolo11", "yolov11n")),
    ("yolo11s", "YOLO11s", ("yolov11s",)),
    ("yolo11m", "YOLO11m", ("yolov11m",)),
    ("yolo11l", "YOLO11l", ("yolov11l",)),
    ("yolov10n", "YOLOv10n", ("yolov10",)),
    ("yolov10s", "YOLOv10s", ()),
    ("yolov10b", "YOLOv10b", ()),
    ("yolov9c", "YOLOv9c", ("yolov9",)),
    ("yolo12n", "YOLO12n", ("yolo12", "yolov12n")),
    ("yolo26n", "YOLO26n", ("yolo26",)),
    ("yolo26s", "YOLO26s", ()),
    ("yolo26m", "YOLO26m", ()),
    ("yolo26l", "YOLO26l", ()),
    ("yolo26x", "YOLO26x", ()),
    ("yolov8s-pose", "YOLOv8s-pose", ("yolov8-pose",)),
    ("yolov8n-seg", "YOLOv8n-seg", ("yolov8-seg",)),
    ("yolo11x", "YOLO11x", ("yolov11x",)),
    ("yolov10m", "YOLOv10m", ()),
    ("yolov10l", "YOLOv10l", ()),
    ("yolov10x", "YOLOv10x", ()),
    ("yolo12s", "YOLO12s", ("yolov12s",)),
    ("yolo12m", "YOLO12m", ("yolov12m",)),
    ("yolo12l", "YOLO12l", ("yolov12l",)),
    ("yolo12x", "YOLO12x", ("yolov12x",)),
    ("yolo11n-seg", "YOLO11n-seg", ("yolo11-seg", "yolov11n-seg")),
    ("yolo11n-pose", "YOLO11n-pose", ("yolo11-pose", "yolov11n-pose")),
    ("yolo11n-obb", "YOLO11n-obb", ("yolo11-obb", "yolov11n-obb")),
    ("yolov8n-pose", "YOLOv8n-pose", ()),
    ("rtdetr-l", "RT-DETR-L of Ultralytics, HGNetV2", ("rt-detr-l",)),
    ("rtdetr-x", "RT-DETR-X of Ultralytics, HGNetV2", ("rt-detr-x",)),
)
#: Families of which every size has these heads as well, but for those above.
_TASKS = ("seg", "pose", "obb")
_SIZES = {"yolo11": "smlx", "yolo12": "nsmlx"}
#: Of another structure at other sides.
ONE_SIDE: frozenset[str] = frozenset()
_SIDES = (128, 192, 256, 320, 384)
#: Depth and width.
YOLOV5 = {"n": (1 / 3, 0.25), "s": (1 / 3, 0.5), "m": (2 / 3, 0.75), "l": (1.0, 1.0)}
YOLOV5["x"] = (4 / 3, 1.25)
YOLOX = {"tiny": (1 / 3, 0.375), "s": (1 / 3, 0.5), "m": (2 / 3, 0.75), "l": (1.0, 1.0)}


def entries() -> Iterator[Entry]:
    """At 640 pixels, YOLOX-tiny at 416, DETR at 480 as on NPUs."""
    for name, about, aliases in ULTRALYTICS:
        yield detector(
            name, about, partial(_ultralytics, name), 640, aliases, f"ultralytics {name}"
        )
    for family, size, task in _with_other_heads():
        name, short = f"{family}{size}-{task}", family.removeprefix("yolo")
        general = (f"{family}-{task}",) if size == "n" else ()
        make = partial(_ultralytics, name)
        aliases = (f"yolov{short}{size}-{task}", *general)
        yield detector(name, f"YOLO{name[4:]}", make, 640, aliases, f"ultralytics {name}")
    for size, scale in YOLOV5.items():
        aliases = ("yolov5",) if size == "s" else ()
        make = partial(_yolov5, *scale)
        yield detector(
            f"yolov5{size}", f"YOLOv5{size}", make, 640, aliases, "ultralytics YOLOv5 6.1"
        )
    for size, scale in YOLOX.items():
        side = 416 if size == "tiny" else 640
        aliases = ("yolox",) if size == "s" else ()
        make = partial(_yolox, *scale)
        yield detector(f"yolox-{size}", f"YOLOX-{size}", make, side, aliases, "torch YOLOX")
    for layers, aliases in ((50, ("detr",)), (101, ())):
        make, source = partial(_detr, layers), "transformers DetrForObjectDetection"
        yield detector(f"detr-resnet{layers}", f"DETR, ResNet-{layers}", make, 480, aliases, source)


def _with_other_heads() -> Iterator[tuple[str, str, str]]:
    return ((f, size, t) for f, sizes in _SIZES.items() for size in sizes for t in _TASKS)


def detector(
    name: str,
    about: str,
    make: Callable[[], Any],
    side: int,
    aliases: tuple[str, ...],
    source: str,
) -> Entry:
    """An entry of a detector at any batch, and of any side where its structure stays the same."""
    free = not side % 32 and name not in ONE_SIDE
    symbols, values = (batch(),), {"batch": (1, 3)}
    held_out: tuple[Point, ...] = ({"batch": 2}, {"batch": 5})
    if free:  # attention over all places grows with the fourth power of the side
        symbols, values = (*symbols, side_of(side, 128)), {**values, "image": _SIDES}
        held_out = ({"batch": 2, "image": 512}, {"batch": 5, "image": 160})
    return Entry(
        name=name,
        family="detection and segmentation",
        about=f"{about}{'' if free else f', {side}x{side}'}, without non-maximum suppression",
        build=partial(_subject, make, side),
        symbols=symbols,
        values=values,
        held_out=held_out,
        aliases=aliases,
        source=source,
        assumptions=("Non-maximum suppression after the model is not included.",),
    )


def _subject(make: Callable[[], Any], side: int) -> Subject:
    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        image = point.get("image", side)
        return (empty(point["batch"], 3, image, image),), {}

    # ultralytics computes its strides with a small forward pass, so it is built for real.
    real = getattr(make, "func", None) is _ultralytics
    return module_subject(make if real else lean(make), inputs)


def _ultralytics(name: str) -> Any:
    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()
    from ultralytics.nn import tasks

    kinds = {"pose": "PoseModel", "seg": "SegmentationModel", "obb": "OBBModel"}
    named = (model for word, model in kinds.items() if word in name)
    plain = "RTDETRDetectionModel" if name.startswith("rtdetr") else "DetectionModel"
    kind = getattr(tasks, next(named, plain))
    # As it is deployed: branches merged, the heads that only training needs removed.
    return kind(f"{name}.yaml", verbose=False).eval().fuse(verbose=False)


def _yolov5(depth: float, width: float) -> Any:
    """Release 6.1: the stem is a 6x6 convolution, the head three 1x1 ones over 255 channels."""
    import torch
    from torch import nn
    from torch.nn import functional as f
    from ultralytics.nn.modules import C3, SPPF, Conv

    w = [int(c * width) for c in (64, 128, 256, 512, 1024)]

    def times(count: int) -> int:
        return max(1, round(count * depth))

    class Yolo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(
                Conv(3, w[0], 6, 2, 2), Conv(w[0], w[1], 3, 2), C3(w[1], w[1], times(3)),
                Conv(w[1], w[2], 3, 2), C3(w[2], w[2], times(6)),
            )  # fmt: skip
            self.p4 = nn.Sequential(Conv(w[2], w[3], 3, 2), C3(w[3], w[3], times(9)))
            self.p5 = nn.Sequential(
                Conv(w[3], w[4], 3, 2), C3(w[4], w[4], times(3)), SPPF(w[4], w[4])
            )
            self.up5, self.up4 = Conv(w[4], w[3]), Conv(w[3], w[2])
            self.join4 = C3(w[4], w[3], times(3), False)
            self.join3 = C3(w[3], w[2], times(3), False)
            self.down3, self.down4 = Conv(w[2], w[2], 3, 2), Conv(w[3], w[3], 3, 2)
            self.out4 = C3(w[3], w[3], times(3), False)
            self.out5 = C3(w[4], w[4], times(3), False)
            self.heads = nn.ModuleList(nn.Conv2d(c, 255, 1) for c in w[2:])

        def forward(self, x: Any) -> Any:
            p3 = self.stem(x)
            p4 = self.p4(p3)
            t5 = self.up5(self.p5(p4))
            t4 = self.up4(self.join4(torch.cat([f.interpolate(t5, scale_factor=2.0), p4], 1)))
            o3 = self.join3(torch.cat([f.interpolate(t4, scale_factor=2.0), p3], 1))
            o4 = self.out4(torch.cat([self.down3(o3), t4], 1))
            o5 = self.out5(torch.cat([self.down4(o4), t5], 1))
            return [torch.sigmoid(h(o)) for h, o in zip(self.heads, (o3, o4, o5), strict=True)]

    return Yolo()


def _yolox(depth: float, width: float) -> Any:
    """Slices of the image as stem, pyramid of CSP layers, a head of two towers per level."""
    import torch
    from torch import nn
    from torch.nn import functional as f
    from ultralytics.nn.modules import C3, SPP, Conv, Focus

    w = [int(c * width) for c in (64, 128, 256, 512, 1024)]
    hidden = w[2]

    def times(count: int) -> int:
        return max(1, round(count * depth))

    class Head(nn.Module):
        def __init__(self, cin: int) -> None:
            super().__init__()
            self.stem = Conv(cin, hidden)
            self.cls = nn.Sequential(Conv(hidden, hidden, 3), Conv(hidden, hidden, 3))
            self.reg = nn.Sequential(Conv(hidden, hidden, 3), Conv(hidden, hidden, 3))
            self.outs = nn.ModuleList(nn.Conv2d(hidden, n, 1) for n in (80, 4, 1))

        def forward(self, x: Any) -> Any:
            x = self.stem(x)
            classes, boxes = self.cls(x), self.reg(x)
            scores = [torch.sigmoid(self.outs[0](classes)), torch.sigmoid(self.outs[2](boxes))]
            return torch.cat([self.outs[1](boxes), *scores], 1)

    class Yolox(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(
                Focus(3, w[0], 3), Conv(w[0], w[1], 3, 2), C3(w[1], w[1], times(3)),
                Conv(w[1], w[2], 3, 2), C3(w[2], w[2], times(9)),
            )  # fmt: skip
            self.p4 = nn.Sequential(Conv(w[2], w[3], 3, 2), C3(w[3], w[3], times(9)))
            self.p5 = nn.Sequential(
                Conv(w[3], w[4], 3, 2), SPP(w[4], w[4]), C3(w[4], w[4], times(3), False)
            )
            self.up5, self.up4 = Conv(w[4], w[3]), Conv(w[3], w[2])
            self.join4 = C3(w[4], w[3], times(3), False)
            self.join3 = C3(w[3], w[2], times(3), False)
            self.down3, self.down4 = Conv(w[2], w[2], 3, 2), Conv(w[3], w[3], 3, 2)
            self.out4 = C3(w[3], w[3], times(3), False)
            self.out5 = C3(w[4], w[4], times(3), False)
            self.heads = nn.ModuleList(Head(c) for c in w[2:])

        def forward(self, x: Any) -> Any:
            p3 = self.stem(x)
            p4 = self.p4(p3)
            t5 = self.up5(self.p5(p4))
            t4 = self.up4(self.join4(torch.cat([f.interpolate(t5, scale_factor=2.0), p4], 1)))
            o3 = self.join3(torch.cat([f.interpolate(t4, scale_factor=2.0), p3], 1))
            o4 = self.out4(torch.cat([self.down3(o3), t4], 1))
            o5 = self.out5(torch.cat([self.down4(o4), t5], 1))
            levels = [h(o) for h, o in zip(self.heads, (o3, o4, o5), strict=True)]
            return torch.cat([level.flatten(2) for level in levels], 2)

    return Yolox()


def _detr(layers: int) -> Any:
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    depths = [3, 4, 6 if layers == 50 else 23, 3]
    backbone = ResNetConfig(depths=depths, out_features=["stage4"])
    config = DetrConfig(use_timm_backbone=False, backbone=None, backbone_config=backbone)
    return DetrForObjectDetection(config)
