"""Detection and segmentation: YOLOv8, SegFormer, Faster R-CNN, RetinaNet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from gambrel.workload import Symbol
from zoo.entry import Entry, Point, Subject, batch, empty, lean, module_subject


def side_of(default: int, minimum: int = 64) -> Symbol:
    """The side of an image, of which the network halves the length five times."""
    return Symbol(
        name="image", default=default, minimum=minimum, multiple_of=32, about="image side in pixels"
    )


def entries() -> Iterator[Entry]:
    """YOLOv8 at 640 pixels, SegFormer at 512, Faster R-CNN and RetinaNet at 800."""
    for size in ("n", "s", "m", "l", "x"):
        yield Entry(
            name=f"yolov8{size}",
            family="detection and segmentation",
            about=f"YOLOv8{size}, 80 classes, without non-maximum suppression",
            build=partial(_yolo, size),
            symbols=(batch(), side_of(640, 128)),
            values={"batch": (1, 3), "image": (128, 224, 320)},
            held_out=({"batch": 2, "image": 640}, {"batch": 5, "image": 160}),
            aliases=("yolov8", "yolo") if size == "n" else (),
            source=f"ultralytics yolov8{size}",
            assumptions=("Non-maximum suppression after the model is not included.",),
        )
    yield Entry(
        name="segformer-b0",
        family="detection and segmentation",
        about="SegFormer-B0, 150 classes (ADE20K)",
        build=_segformer,
        symbols=(batch(), side_of(512, 128)),
        values={"batch": (1, 3), "image": (128, 192, 256, 320, 384)},
        held_out=({"batch": 2, "image": 512}, {"batch": 5, "image": 160}),
        aliases=("segformer", "segformer-b0-finetuned-ade-512-512"),
        source="transformers SegformerForSemanticSegmentation",
    )
    yield Entry(
        name="fasterrcnn-resnet50",
        family="detection and segmentation",
        about="Faster R-CNN, ResNet-50 FPN, 91 classes, one image of 800x800",
        build=_faster_rcnn,
        # The part behind the backbone runs image by image: another batch is another structure.
        symbols=(),
        values={},
        held_out=({},),
        aliases=("faster-rcnn", "fasterrcnn_resnet50_fpn", "faster r-cnn"),
        source="torchvision fasterrcnn_resnet50_fpn",
        assumptions=("Batch norms of the backbone are plain ones, folded at inference.",),
    )
    yield Entry(
        name="retinanet-resnext50",
        family="detection and segmentation",
        about="RetinaNet, ResNeXt-50 32x4d FPN, 264 classes of OpenImages (MLPerf), 800x800",
        build=_retinanet,
        symbols=(batch(),),
        values={"batch": (1, 3)},
        held_out=({"batch": 2}, {"batch": 5}),
        aliases=("retinanet", "retinanet_resnext50_32x4d_fpn"),
        source="torchvision RetinaNet",
        assumptions=("Decoding of boxes and non-maximum suppression are not included.",),
    )


def _yolo(size: str) -> Subject:
    def make() -> Any:
        # ultralytics computes its strides with a small forward pass, so it is built for real.
        from gambrel.capture.torch import ensure_torchvision

        ensure_torchvision()
        from ultralytics.nn.tasks import DetectionModel

        return DetectionModel(f"yolov8{size}.yaml", verbose=False).eval()

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (empty(point["batch"], 3, point["image"], point["image"]),), {}

    return module_subject(make, inputs)


def _segformer() -> Subject:
    def make() -> Any:
        from transformers import SegformerConfig, SegformerForSemanticSegmentation

        return SegformerForSemanticSegmentation(SegformerConfig(num_labels=150))

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        side = point["image"]
        return (), {"pixel_values": empty(point["batch"], 3, side, side)}

    return module_subject(lean(make), inputs)


def _faster_rcnn() -> Subject:
    def make() -> Any:
        import torchvision

        return torchvision.models.get_model(
            "fasterrcnn_resnet50_fpn", weights=None, weights_backbone=None
        )

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        del point
        return ([empty(3, 800, 800)],), {}

    return module_subject(lean(make), inputs)


def _retinanet() -> Subject:
    """Backbone and heads: what MLPerf's engines run before boxes are decoded."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
            from torchvision.models.detection.retinanet import RetinaNetHead
            from torchvision.ops.feature_pyramid_network import LastLevelP6P7

            self.backbone = resnet_fpn_backbone(
                backbone_name="resnext50_32x4d",
                weights=None,
                returned_layers=[2, 3, 4],
                extra_blocks=LastLevelP6P7(256, 256),
                norm_layer=nn.BatchNorm2d,
            )
            # Nine anchors: three sizes by three ratios at each place.
            self.head = RetinaNetHead(256, 9, 264)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return self.head(list(self.backbone(x).values()))

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (empty(point["batch"], 3, 800, 800),), {}

    return module_subject(lean(Network), inputs)
