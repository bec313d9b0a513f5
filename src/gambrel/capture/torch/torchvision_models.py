"""A classifier of torchvision by name: the architecture of the installed library, no weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from gambrel.capture.closed_form import SYMBOLS
from gambrel.capture.torch import capture, ensure_torchvision, lean_init
from gambrel.capture.torch.hf_inputs import check_sizes
from gambrel.capture.torch.hf_sizes import capture_open
from gambrel.errors import CaptureError, require
from gambrel.workload import Role, Symbol, Workload

_TRAINS: Final = (
    "training takes more than images: give code of PyTorch (file.py:function) that computes its "
    "loss, or train one that classifies, e.g. resnet50"
)
_TAKES: Final = "for another image size give an .onnx export at that size, or file.py:function"


def workload_from_torchvision(
    model: str,
    like: Workload,
    *,
    built: Mapping[str, str] | None = None,
    sizes: Mapping[str, int | None] | None = None,
    train: bool = False,
    autocast: str | None = None,
) -> Workload:
    """One forward pass, or one training step, of a classifier of images.

    Args:
        model: As torchvision calls it, e.g. ``resnet50``.
        like: The same as it is built in: its name and sizes.
        built: Numbers that it is built with, e.g. ``{"width_mult": "0.25"}``.
        sizes: ``batch`` and ``image`` in pixels.
        train: Include backward and optimizer.
        autocast: The format of ``torch.autocast`` around it.

    Raises:
        MissingExtraError: torchvision is not installed.
        InputError: A size that the model does not have.
        CaptureError: It takes no images alone in training, or not of this size.
    """
    what = f"a training step of {like.name}" if train else f"{like.name} at another image size"
    for package in ("torch", "torchvision"):
        require(package, "timm", what)  # timm brings torchvision
    ensure_torchvision()
    import torch
    from torchvision import models

    classifies = model in models.list_models(module=models)
    if not classifies and (train or model not in models.list_models(module=models.segmentation)):
        raise CaptureError(
            f"{like.name} is no classifier of images; {_TRAINS if train else _TAKES}."
        )
    side = side_of(like)
    symbols = (
        SYMBOLS["batch"],
        Symbol(name="image", default=side, about="side of the image in pixels"),
    )
    given = {k: v for k, v in (sizes or {}).items() if v is not None}
    check_sizes(symbols, given)
    given.setdefault("image", side)
    with lean_init(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of how weights are initialized
        backbone = {} if classifies else {"weights_backbone": None}
        given_as = {name: float(text) for name, text in (built or {}).items()}
        module = models.get_model(model, weights=None, **backbone, **given_as).train(train)

    def at(sizes: Mapping[str, int]) -> Workload:
        image = torch.empty((sizes["batch"], 3, *[sizes["image"]] * 2), device="meta")
        return capture(module, (image,), {}, train=train, autocast=autocast)

    return replace(capture_open(at, symbols, given), name=like.name, origin=like.origin)


def side_of(like: Workload) -> int:
    """Pixels along an image, as the built-in model has them."""
    for symbol in like.symbols:
        if symbol.name == "image":
            return symbol.default
    image = next(t for t in like.tensors if t.role is Role.INPUT)
    return int(image.shape[-1])
