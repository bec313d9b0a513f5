"""A model of timm by name: the architecture of the installed library, without weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from gambrel.capture.closed_form import SYMBOLS
from gambrel.capture.torch import capture, ensure_torchvision, lean_init
from gambrel.capture.torch.hf_inputs import check_sizes
from gambrel.capture.torch.hf_sizes import capture_open
from gambrel.capture.torch.torchvision_models import side_of
from gambrel.closest import closest
from gambrel.errors import CaptureError, InputError, UnknownNameError, require
from gambrel.workload import Symbol, Workload

PREFIX: Final = "timm/"  # as on the hub
#: They train with branches that are merged into one convolution for use.
MERGED: Final = ("mobileone", "repvit", "fastvit", "repvgg")


def workload_from_timm(
    name: str,
    *,
    sizes: Mapping[str, int | None] | None = None,
    train: bool = False,
    autocast: str | None = None,
    classes: int | None = None,
    like: Workload | None = None,
) -> Workload:
    """One forward pass, or one training step, of a model of timm.

    Args:
        name: ``timm/convnext_base``, also with the tag of its weights behind a dot: their image
            size is the default then.
        sizes: ``batch`` (1) and ``image`` in pixels.
        train: Include backward and optimizer.
        autocast: The format of ``torch.autocast`` around it.
        classes: Outputs of its head; None for as many as its weights have.
        like: The same as it is built in: its side is the default, its branches are merged.

    Raises:
        MissingExtraError: timm is not installed.
        UnknownNameError: timm has no such model; carries the closest names.
        InputError: A size that the model does not have.
        CaptureError: It cannot be built or captured at this size.
    """
    require("torch", "timm", name)
    require("timm", "timm", name)
    ensure_torchvision()
    import timm

    model = name.removeprefix(PREFIX)
    if not timm.is_model(model.partition(".")[0]):
        known = timm.list_models()
        near = closest(model.partition(".")[0], known, 3, 40)
        raise UnknownNameError("model of timm", model, near, f"It has {len(known)}.")
    given = {k: v for k, v in (sizes or {}).items() if v is not None}
    channels, own = _input_of(model)
    side = own if like is None else side_of(like)
    symbols = (
        SYMBOLS["batch"],
        Symbol(name="image", default=side, about="side of the image in pixels"),
    )
    check_sizes(symbols, given)
    given.setdefault("image", side)
    more = {} if given["image"] == side else {"img_size": given["image"]}
    module = _built(model, {} if classes is None else {"num_classes": classes}, more)
    module = module if like is None or train else _deployed(module, model)

    def at(sizes: Mapping[str, int]) -> Workload:
        import torch

        image = torch.empty((sizes["batch"], channels, *[sizes["image"]] * 2), device="meta")
        return capture(module, (image,), {}, train=train, autocast=autocast)

    found = capture_open(at, symbols, given)
    return replace(
        found, name=name, origin=f"timm {timm.__version__} {type(module).__name__}, {model}"
    )


def _deployed(module: Any, model: str) -> Any:
    """The module with branches merged that only training needs."""
    if not model.startswith(MERGED):
        return module
    from timm.utils import reparameterize_model

    with lean_init():
        return reparameterize_model(module)


def _input_of(model: str) -> tuple[int, int]:
    """Channels and side of the image that a model was made for."""
    from timm.models import get_pretrained_cfg

    try:
        config = get_pretrained_cfg(model)
    except RuntimeError as error:  # timm's word for a tag that it does not know
        raise InputError(f"{PREFIX}{model}: {error}") from None
    channels, height, width = (3, 224, 224) if config is None else config.input_size
    if height != width:
        raise CaptureError(f"{PREFIX}{model} takes images of {height} x {width}; give it as code.")
    return channels, height


def _built(model: str, given: Mapping[str, int], image: Mapping[str, int]) -> Any:
    """The module; those with positions for each patch are told the side of the image."""
    import timm

    for more in (image, {}):
        try:
            with lean_init():
                return timm.create_model(model, pretrained=False, **given, **more).eval()
        except TypeError:  # a convolutional network, which takes no img_size
            continue
        except Exception as error:
            text = " ".join(str(error).split()).rstrip(".")[:300]
            raise CaptureError(f"{PREFIX}{model} cannot be built: {text}.") from error
    raise CaptureError(f"{PREFIX}{model} cannot be built by this version of timm.")
