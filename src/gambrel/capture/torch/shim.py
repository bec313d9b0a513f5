"""Makes torchvision importable where its compiled operators cannot load.

A torchvision wheel built for CUDA beside a CPU build of torch (or installed with ``--no-deps``)
cannot load its extension; ``import torchvision`` then dies with ``operator torchvision::nms does
not exist``, and so does every library that imports it (timm, ultralytics, and transformers as soon
as torchvision is installed). For capturing a model only the operators' names and the shapes of
their results are needed. Those are declared here; torchvision brings its own shape functions.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, Final

_ROI: Final = "Tensor input, Tensor rois, float spatial_scale, SymInt height, SymInt width"

#: The operators that torchvision's Python code calls: name → signature. Parameter names and types
#: follow the callers in torchvision.ops (which pass everything by position).
_SCHEMAS: Final[dict[str, str]] = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": f"({_ROI}, int sampling_ratio, bool aligned) -> Tensor",
    "ps_roi_align": f"({_ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    "roi_pool": f"({_ROI}) -> (Tensor, Tensor)",
    "ps_roi_pool": f"({_ROI}) -> (Tensor, Tensor)",
    "deform_conv2d": (
        "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
        "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
        "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor"
    ),
    "_cuda_version": "() -> int",
}

#: Operators whose shape function torchvision leaves unregistered when its extension is missing.
_META: Final = ("roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool", "deform_conv2d")

#: Keeps the registrations alive: torch drops them with the library object.
_LIBRARIES: Final[list[Any]] = []


def ensure_torchvision() -> bool:
    """Makes ``import torchvision`` work, if torchvision is installed at all.

    Call it before importing torchvision, transformers, timm, diffusers or ultralytics. It changes
    nothing where torchvision imports by itself, and calling it again is free.

    Returns:
        Whether torchvision can be imported now.
    """
    if "torchvision" in sys.modules:
        return True
    if find_spec("torchvision") is None or find_spec("torch") is None:
        return False
    try:
        import torchvision  # noqa: F401
    except (RuntimeError, AttributeError):
        _forget_half_import()
        return _import_with_declared_operators()
    except ImportError:
        _forget_half_import()
        return False
    return True


def _import_with_declared_operators() -> bool:
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    _LIBRARIES.append(library)
    for name, signature in _SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            library.define(name + signature)
    try:
        import torchvision._meta_registrations as shapes
    except (RuntimeError, AttributeError, ImportError):
        _forget_half_import()
        return False
    kernels = torch.library.Library("torchvision", "IMPL", "Meta")
    _LIBRARIES.append(kernels)
    for name in _META:
        function = getattr(shapes, f"meta_{name}", None)
        if function is not None:
            kernels.impl(name, function)
    _declare_present()
    return True


def _declare_present() -> None:
    # torchvision.ops asks this before each call; the operators do exist now, as shapes.
    import torchvision.extension as extension

    extension._has_ops = lambda: True


def _forget_half_import() -> None:
    """Removes the modules that the failed import left behind, so that it can be tried again."""
    for name in [m for m in sys.modules if m == "torchvision" or m.startswith("torchvision.")]:
        del sys.modules[name]
