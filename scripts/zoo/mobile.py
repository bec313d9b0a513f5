"""Image classifiers made for phones, of timm: their authors publish times on iPhones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from zoo.entry import Entry, Point, Subject, classifier, empty, lean, module_subject

#: Of one structure at any side: name, builder, what it is, side, other names.
ANY_SIDE: tuple[tuple[str, str, str, int, tuple[str, ...]], ...] = (
    ("mobilenet-v2-0.5", "mobilenetv2_050", "MobileNetV2 0.5", 224, ()),
    ("mobilenet-v2-1.4", "mobilenetv2_140", "MobileNetV2 1.4", 224, ()),
    ("mobilenet-v3-large-0.75", "mobilenetv3_large_075", "MobileNetV3 large 0.75", 224, ()),
    ("mobileone-s0", "mobileone_s0", "MobileOne-S0, branches merged", 224, ("mobileone",)),
    ("mobileone-s1", "mobileone_s1", "MobileOne-S1, branches merged", 224, ()),
    ("mobileone-s2", "mobileone_s2", "MobileOne-S2, branches merged", 224, ()),
    ("mobileone-s3", "mobileone_s3", "MobileOne-S3, branches merged", 224, ()),
    ("mobileone-s4", "mobileone_s4", "MobileOne-S4, branches merged", 224, ()),
    ("repvit-m0.9", "repvit_m0_9", "RepViT-M0.9, branches merged", 224, ("repvit",)),
    ("repvit-m1.0", "repvit_m1_0", "RepViT-M1.0, branches merged", 224, ()),
    ("repvit-m1.1", "repvit_m1_1", "RepViT-M1.1, branches merged", 224, ()),
    ("repvit-m1.5", "repvit_m1_5", "RepViT-M1.5, branches merged", 224, ()),
    ("repvit-m2.3", "repvit_m2_3", "RepViT-M2.3, branches merged", 224, ()),
    ("fastvit-t8", "fastvit_t8", "FastViT-T8, branches merged", 256, ("fastvit",)),
    ("fastvit-t12", "fastvit_t12", "FastViT-T12, branches merged", 256, ()),
    ("fastvit-s12", "fastvit_s12", "FastViT-S12, branches merged", 256, ()),
    ("poolformer-s24", "poolformer_s24", "PoolFormer-S24", 224, ()),
    ("poolformer-s36", "poolformer_s36", "PoolFormer-S36", 224, ()),
    ("mobilenet-v4-conv-large", "mobilenetv4_conv_large", "MobileNetV4-Conv-L", 384,
     ("mobilenetv4-conv-large",)),
    ("mobilenet-v4-hybrid-large", "mobilenetv4_hybrid_large", "MobileNetV4-Hybrid-L",
     384, ("mobilenetv4-hybrid-large",)),
    ("fastvit-sa12", "fastvit_sa12", "FastViT-SA12, branches merged", 256, ()),
    ("fastvit-sa24", "fastvit_sa24", "FastViT-SA24, branches merged", 256, ()),
    ("fastvit-sa36", "fastvit_sa36", "FastViT-SA36, branches merged", 256, ()),
    ("fastvit-ma36", "fastvit_ma36", "FastViT-MA36, branches merged", 256, ()),
    ("mobileclip-s0", "fastvit_mci0", "MobileCLIP-S0, image tower", 256, ("fastvit-mci0",)),
    ("mobileclip-s1", "fastvit_mci1", "MobileCLIP-S1, image tower", 256, ("fastvit-mci1",)),
    ("mobileclip-s2", "fastvit_mci2", "MobileCLIP-S2, image tower", 256, ("fastvit-mci2",)),
    ("efficientvit-b1", "efficientvit_b1", "EfficientViT-B1", 288, ("efficientvit",)),
    ("mnasnet-a1", "semnasnet_100", "MnasNet-A1, with squeeze and excitation", 224,
     ("semnasnet-1.0",)),
    ("regnet-x-200mf", "regnetx_002", "RegNetX-200MF", 224, ()),
    ("efficientnet-v2-b0", "tf_efficientnetv2_b0", "EfficientNetV2-B0", 224, ()),
    ("swiftformer-xs", "swiftformer_xs", "SwiftFormer-XS", 224, ("swiftformer",)),
    ("swiftformer-s", "swiftformer_s", "SwiftFormer-S", 224, ()),
    ("swiftformer-l1", "swiftformer_l1", "SwiftFormer-L1", 224, ()),
    ("swiftformer-l3", "swiftformer_l3", "SwiftFormer-L3", 224, ()),
)  # fmt: skip
#: Made for one side, or of another structure at others: the same.
ONE_SIDE: tuple[tuple[str, str, str, int, tuple[str, ...]], ...] = (
    ("efficientnet-v2-b1", "tf_efficientnetv2_b1", "EfficientNetV2-B1, 240x240", 240, ()),
    ("mobileclip-b", "vit_base_mci_224", "MobileCLIP-B, image tower", 224, ()),
    ("efficientformer-l3", "efficientformer_l3", "EfficientFormer-L3", 224, ()),
    ("efficientformer-l7", "efficientformer_l7", "EfficientFormer-L7", 224, ()),
    ("efficientformer-v2-s1", "efficientformerv2_s1", "EfficientFormerV2-S1", 224,
     ("efficientformerv2", "efficientformer-v2")),
    ("efficientformer-v2-s2", "efficientformerv2_s2", "EfficientFormerV2-S2", 224, ()),
    ("efficientformer-v2-l", "efficientformerv2_l", "EfficientFormerV2-L", 224, ()),
    ("efficientvit-b2", "efficientvit_b2", "EfficientViT-B2", 224, ()),
    ("efficientvit-l2", "efficientvit_l2", "EfficientViT-L2", 224, ()),
    ("levit-128s", "levit_128s", "LeViT-128S", 224, ("levit",)),
    ("mobilevit-xs", "mobilevit_xs", "MobileViT-XS, 256x256", 256, ()),
    ("mobilevit-v2-1.0", "mobilevitv2_100", "MobileViTv2 1.0, 256x256", 256,
     ("mobilevit-v2", "mobilevitv2")),
    ("mobilevit-v2-1.5", "mobilevitv2_150", "MobileViTv2 1.5, 256x256", 256, ()),
    ("mobilevit-v2-2.0", "mobilevitv2_200", "MobileViTv2 2.0, 256x256", 256, ()),
)  # fmt: skip
#: They train with branches that are merged into one convolution for use.
_MERGED = ("mobileone", "repvit", "fastvit")


def entries() -> Iterator[Entry]:
    """Those with a free side, then the others."""
    for table, free in ((ANY_SIDE, True), (ONE_SIDE, False)):
        for name, builder, about, side, aliases in table:
            build = partial(_subject, builder, side)
            source = f"timm {builder}"
            yield classifier(name, about, build, aliases, source, side=side if free else None)


def _subject(builder: str, side: int) -> Subject:
    def make() -> Any:
        import timm
        from timm.utils import reparameterize_model

        # Padding as large as the window asks for: convolutions of TensorFlow pad in themselves.
        padding = {"pad_type": ""} if builder.startswith("tf_") else {}
        model = timm.create_model(builder, **padding).eval()
        if builder.startswith(_MERGED):
            model = reparameterize_model(model)
        if hasattr(model, "distilled_training"):
            model.distilled_training = False
        return model

    def inputs(_: Any, point: Point) -> tuple[tuple[Any, ...], dict[str, Any]]:
        image = point.get("image", side)
        return (empty(point["batch"], 3, image, image),), {}

    return module_subject(lean(make), inputs)
