"""Image classifiers of torchvision and timm."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from zoo.entry import Entry, Point, Subject, classifier, empty, lean, module_subject

#: Convolutional networks take any side that is a multiple of their total stride: name, torchvision
#: builder, what it is, other names. The side of the published accuracy is 224 unless given.
CONVOLUTIONAL = (
    ("resnet18", "resnet18", "ResNet-18", ()),
    ("resnet34", "resnet34", "ResNet-34", ()),
    ("resnet50", "resnet50", "ResNet-50 v1.5 (stride on the 3x3)", ("resnet50 v1.5",)),
    ("resnet101", "resnet101", "ResNet-101", ()),
    ("resnet152", "resnet152", "ResNet-152", ()),
    ("resnext50", "resnext50_32x4d", "ResNeXt-50 32x4d", ("resnext50_32x4d",)),
    ("wide-resnet50", "wide_resnet50_2", "Wide ResNet-50-2", ("wide_resnet50_2", "wrn50-2")),
    ("mobilenet-v2", "mobilenet_v2", "MobileNetV2 1.0", ()),
    (
        "mobilenet-v3-large",
        "mobilenet_v3_large",
        "MobileNetV3 large 1.0",
        ("mobilenet-v3",),
    ),
    ("mobilenet-v3-small", "mobilenet_v3_small", "MobileNetV3 small 1.0", ()),
    ("efficientnet-b0", "efficientnet_b0", "EfficientNet-B0", ("efficientnet",)),
    ("efficientnet-b1", "efficientnet_b1", "EfficientNet-B1", ()),
    ("efficientnet-b2", "efficientnet_b2", "EfficientNet-B2", ()),
    ("efficientnet-b3", "efficientnet_b3", "EfficientNet-B3", ()),
    ("efficientnet-b4", "efficientnet_b4", "EfficientNet-B4", ()),
    ("convnext-tiny", "convnext_tiny", "ConvNeXt-T", ("convnext-t", "convnext")),
    ("convnext-base", "convnext_base", "ConvNeXt-B", ("convnext-b",)),
    ("regnet-y-400mf", "regnet_y_400mf", "RegNetY-400MF", ()),
    ("regnet-y-8gf", "regnet_y_8gf", "RegNetY-8GF", ("regnet-y", "regnet")),
    ("densenet121", "densenet121", "DenseNet-121", ("densenet",)),
    ("densenet161", "densenet161", "DenseNet-161", ()),
    ("densenet169", "densenet169", "DenseNet-169", ()),
    ("densenet201", "densenet201", "DenseNet-201", ()),
)

#: The side at which each was published, where not 224; the nearest multiple of 32.
SIDES = {
    "efficientnet-b1": 256,
    "efficientnet-b2": 288,
    "efficientnet-b3": 320,
    "efficientnet-b4": 384,
}

#: Models made for one side: name, package, builder, what it is, other names. (VGG and AlexNet pool
#: to a fixed size in windows that follow no polynomial in the side.)
ONE_SIDE = (
    ("vgg11", "torchvision", "vgg11", "VGG-11", ()),
    ("vgg16", "torchvision", "vgg16", "VGG-16", ()),
    ("alexnet", "torchvision", "alexnet", "AlexNet", ()),
    (
        "vit-b-16",
        "timm",
        "vit_base_patch16_224",
        "ViT-B/16",
        ("vit-base", "vit-b", "vit", "vit-base-patch16-224"),
    ),
    (
        "vit-l-16",
        "timm",
        "vit_large_patch16_224",
        "ViT-L/16",
        ("vit-large", "vit-l", "vit-large-patch16-224"),
    ),
    ("vit-h-14", "timm", "vit_huge_patch14_224", "ViT-H/14", ("vit-huge", "vit-h")),
    ("swin-t", "torchvision", "swin_t", "Swin-T", ("swin-tiny", "swin")),
    ("swin-b", "torchvision", "swin_b", "Swin-B", ("swin-base",)),
    (
        "deit-s",
        "timm",
        "deit_small_patch16_224",
        "DeiT-S/16",
        ("deit-small", "deit_small_patch16_224"),
    ),
    (
        "deit-b",
        "timm",
        "deit_base_patch16_224",
        "DeiT-B/16",
        ("deit-base", "deit_base_patch16_224", "deit"),
    ),
    ("inception-v3", "torchvision", "inception_v3", "Inception v3, 299x299", ("inception",)),
)


def entries() -> Iterator[Entry]:
    """Convolutional networks with a free side, then models with the side they were made for."""
    for name, builder, about, aliases in CONVOLUTIONAL:
        side = SIDES.get(name, 224)
        yield classifier(
            name,
            about,
            partial(_subject, "torchvision", builder),
            aliases,
            f"torchvision {builder}",
            side=side,
            assumptions=_off_grid(name, side),
        )
    for name, package, builder, about, aliases in ONE_SIDE:
        build = partial(_subject, package, builder)
        yield classifier(name, about, build, aliases, f"{package} {builder}")


def _off_grid(name: str, side: int) -> tuple[str, ...]:
    published = {"efficientnet-b1": 240, "efficientnet-b2": 260, "efficientnet-b3": 300}
    published["efficientnet-b4"] = 380
    if name not in published:
        return ()
    return (f"The default side is {side}: the published {published[name]} is no multiple of 32.",)


def _subject(package: str, builder: str) -> Subject:
    side = 299 if builder == "inception_v3" else 224

    def make() -> Any:
        if package == "timm":
            import timm

            return timm.create_model(builder)
        import torchvision

        options = {"aux_logits": False, "init_weights": False} if side == 299 else {}
        return torchvision.models.get_model(builder, weights=None, **options)

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        length = point.get("image", side)
        return (empty(point["batch"], 3, length, length),), {}

    return module_subject(lean(make), inputs)
