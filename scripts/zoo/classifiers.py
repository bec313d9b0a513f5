"""Image classifiers whose latencies the makers of NPUs publish, each at the side it is timed at."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from zoo.entry import Entry, Point, Subject, classifier, empty, lean, module_subject

#: Name, package, builder, what it is, side, other names.
TABLE: tuple[tuple[str, str, str, str, int, tuple[str, ...]], ...] = (
    ("googlenet", "torchvision", "googlenet", "GoogLeNet (Inception v1)", 224, ("inception-v1",)),
    ("inception-v3-224", "torchvision", "inception_v3", "Inception v3, 224x224", 224, ()),
    ("mnasnet-0.5", "torchvision", "mnasnet0_5", "MNASNet 0.5", 224, ()),
    ("mnasnet-1.0", "torchvision", "mnasnet1_0", "MNASNet 1.0", 224, ("mnasnet",)),
    ("squeezenet-1.0", "torchvision", "squeezenet1_0", "SqueezeNet 1.0", 227, ()),
    ("squeezenet-1.1", "torchvision", "squeezenet1_1", "SqueezeNet 1.1", 227, ("squeezenet",)),
    (
        "shufflenet-v2-1.0",
        "torchvision",
        "shufflenet_v2_x1_0",
        "ShuffleNetV2 1.0",
        224,
        ("shufflenet", "shufflenet-v2"),
    ),
    ("regnet-x-1.6gf", "torchvision", "regnet_x_1_6gf", "RegNetX-1.6GF", 224, ()),
    ("regnet-x-3.2gf", "torchvision", "regnet_x_3_2gf", "RegNetX-3.2GF", 224, ("regnet-x",)),
    ("resnext101", "torchvision", "resnext101_32x8d", "ResNeXt-101 32x8d", 224, ()),
    ("wide-resnet101", "torchvision", "wide_resnet101_2", "Wide ResNet-101-2", 224, ()),
    ("efficientnet-v2-s", "torchvision", "efficientnet_v2_s", "EfficientNetV2-S", 224,
     ("efficientnet-v2",)),
    ("convnext-small", "torchvision", "convnext_small", "ConvNeXt-S", 224, ("convnext-s",)),
    ("vgg19", "torchvision", "vgg19", "VGG-19", 224, ()),
    ("vit-b-32", "timm", "vit_base_patch32_224", "ViT-B/32", 224, ()),
    ("swin-s", "torchvision", "swin_s", "Swin-S", 224, ("swin-small",)),
    ("mobilenet-v1", "timm", "mobilenetv1_100", "MobileNetV1 1.0", 224, ()),
    ("mobilevit-s", "timm", "mobilevit_s", "MobileViT-S, 256x256", 256, ("mobilevit",)),
    ("efficientformer-l1", "timm", "efficientformer_l1", "EfficientFormer-L1", 224,
     ("efficientformer",)),
    ("dla102x", "timm", "dla102x", "DLA-102-X", 224, ()),
    ("nasnet-large", "timm", "nasnetalarge", "NASNet-A large", 224, ("nasnet",)),
    ("beit-base", "timm", "beit_base_patch16_224", "BEiT-B/16", 224, ("beit",)),
    ("deit-t", "timm", "deit_tiny_patch16_224", "DeiT-Ti/16", 224, ("deit-tiny", "vit-tiny")),
    ("davit-tiny", "timm", "davit_tiny", "DaViT-T", 224, ()),
    ("nextvit-small", "timm", "nextvit_small", "Next-ViT-S", 224, ("nextvit",)),
    ("nextvit-base", "timm", "nextvit_base", "Next-ViT-B", 224, ()),
    ("poolformer-s12", "timm", "poolformer_s12", "PoolFormer-S12", 224, ("poolformer",)),
    ("resmlp-12", "timm", "resmlp_12_224", "ResMLP-S12", 224, ("resmlp",)),
    ("repvgg-a1", "timm", "repvgg_a1", "RepVGG-A1, branches merged", 224, ()),
    ("repvgg-a2", "timm", "repvgg_a2", "RepVGG-A2, branches merged", 224, ("repvgg",)),
    ("efficientnet-lite0", "timm", "tf_efficientnet_lite0", "EfficientNet-Lite0", 224, ()),
    ("efficientnet-lite1", "timm", "tf_efficientnet_lite1", "EfficientNet-Lite1", 240, ()),
    ("efficientnet-lite2", "timm", "tf_efficientnet_lite2", "EfficientNet-Lite2", 260, ()),
    ("efficientnet-lite3", "timm", "tf_efficientnet_lite3", "EfficientNet-Lite3", 280, ()),
    ("efficientnet-lite4", "timm", "tf_efficientnet_lite4", "EfficientNet-Lite4", 300, ()),
    ("efficientnet-es", "timm", "efficientnet_es", "EfficientNet-EdgeTPU-S", 224, ()),
    ("efficientnet-em", "timm", "efficientnet_em", "EfficientNet-EdgeTPU-M", 240, ()),
    ("efficientnet-el", "timm", "efficientnet_el", "EfficientNet-EdgeTPU-L", 300, ()),
    ("efficientnet-v2-m", "torchvision", "efficientnet_v2_m", "EfficientNetV2-M", 480, ()),
    ("efficientnet-v2-l", "torchvision", "efficientnet_v2_l", "EfficientNetV2-L", 480, ()),
    ("convnextv2-tiny", "timm", "convnextv2_tiny", "ConvNeXt V2-T", 224,
     ("convnext-v2-t", "convnext-v2")),
    ("convnextv2-base", "timm", "convnextv2_base", "ConvNeXt V2-B", 224, ("convnext-v2-b",)),
    ("mobilenet-v4-conv-small", "timm", "mobilenetv4_conv_small", "MobileNetV4-Conv-S", 224,
     ("mobilenet-v4", "mobilenetv4-conv-small")),
    ("mobilenet-v4-conv-medium", "timm", "mobilenetv4_conv_medium", "MobileNetV4-Conv-M", 256,
     ("mobilenetv4-conv-medium",)),
    ("mobilenet-v4-hybrid-medium", "timm", "mobilenetv4_hybrid_medium", "MobileNetV4-Hybrid-M",
     256, ("mobilenetv4-hybrid-medium",)),
    ("dinov2-small", "timm", "vit_small_patch14_dinov2", "DINOv2 ViT-S/14, 518x518", 518,
     ("dinov2-s", "dinov2-vits14")),
    ("dinov2-base", "timm", "vit_base_patch14_dinov2", "DINOv2 ViT-B/14, 518x518", 518,
     ("dinov2", "dinov2-b", "dinov2-vitb14")),
    ("dinov2-large", "timm", "vit_large_patch14_dinov2", "DINOv2 ViT-L/14, 518x518", 518,
     ("dinov2-l", "dinov2-vitl14")),
    ("dinov3-base", "timm", "vit_base_patch16_dinov3", "DINOv3 ViT-B/16", 256,
     ("dinov3", "dinov3-vitb16")),
    ("inception-v4", "timm", "inception_v4", "Inception v4, 299x299", 299, ()),
)  # fmt: skip

#: Made for one side, or of another structure at others; so are sides that are no multiple of 32.
ONE_SIDE = frozenset(
    (
        *("inception-v3-224", "vgg19", "vit-b-32", "swin-s", "mobilevit-s", "efficientformer-l1"),
        *("beit-base", "deit-t", "davit-tiny", "resmlp-12"),
    )
)

#: Video classifiers of torchvision: 16 frames of 112x112.
VIDEO = (
    ("r3d-18", "r3d_18", "ResNet 3D-18", ("resnet-3d",)),
    ("mc3-18", "mc3_18", "ResNet mixed convolution 18", ("resnet-mixed",)),
    ("r2plus1d-18", "r2plus1d_18", "ResNet (2+1)D-18", ("resnet-2plus1d",)),
)


def entries() -> Iterator[Entry]:
    """Images, then videos."""
    for name, package, builder, about, side, aliases in TABLE:
        free = None if side % 32 or name in ONE_SIDE else side
        build = partial(_image, package, builder, side)
        yield classifier(name, about, build, aliases, f"{package} {builder}", side=free)
    for name, builder, about, aliases in VIDEO:
        what = f"{about}, 16 frames of 112x112"
        yield classifier(name, what, partial(_video, builder), aliases, f"torchvision {builder}")


def _image(package: str, builder: str, side: int) -> Subject:
    def make() -> Any:
        if package == "timm":
            return _timm(builder)
        import torchvision

        branches = builder in ("googlenet", "inception_v3")
        options = {"aux_logits": False, "init_weights": False} if branches else {}
        return torchvision.models.get_model(builder, weights=None, **options)

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        image = point.get("image", side)
        return (empty(point["batch"], 3, image, image),), {}

    return module_subject(lean(make), inputs)


def _timm(builder: str) -> Any:
    import timm

    model = timm.create_model(builder)
    if builder.startswith("repvgg"):  # it is deployed with its three branches merged
        from timm.utils import reparameterize_model

        return reparameterize_model(model.eval())
    return model


def _video(builder: str) -> Subject:
    def make() -> Any:
        import torchvision

        return torchvision.models.get_model(builder, weights=None)

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (empty(point["batch"], 3, 16, 112, 112),), {}

    return module_subject(lean(make), inputs)
