"""Functions that are replaced while a model is captured, and put back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch import attention, scans
from gambrel.capture.torch.experts import grouped_experts
from gambrel.capture.torch.layers import recurrent_layers
from gambrel.capture.torch.semantic import muted

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

_MISSING: Final = object()


@contextmanager
def replacements(session: Session) -> Iterator[None]:
    """Puts semantic ops in place of what libraries spell out, and reads in place of copies."""
    with ExitStack() as stack:
        fast_path = torch.backends.mha.get_fastpath_enabled()
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        torch.backends.mha.set_fastpath_enabled(False)
        for name, make in _everywhere().items():
            _replace_everywhere(stack, name, make, session)
        grouped_experts(stack, session)
        recurrent_layers(stack, session)
        _one_suppression(stack)
        if not session.options.execute:
            for name, method in _reads(session).items():
                put(stack, torch.Tensor, name, method)
        yield


def _one_suppression(stack: ExitStack) -> None:
    """Makes torchvision suppress the boxes of all classes at once, with shifted coordinates.

    Above a number of boxes it loops over the classes that occur, which depends on data; both give
    the same boxes.
    """
    boxes = sys.modules.get("torchvision.ops.boxes")
    at_once = getattr(boxes, "_batched_nms_coordinate_trick", None)
    if at_once is not None and hasattr(boxes, "_batched_nms_vanilla"):
        put(stack, boxes, "_batched_nms_vanilla", at_once)


def put(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Sets an attribute for as long as ``stack`` is open."""
    before = owner.__dict__.get(name, _MISSING)
    stack.callback(_put_back, owner, name, before)
    setattr(owner, name, value)


def _put_back(owner: Any, name: str, before: Any) -> None:
    if before is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def _everywhere() -> dict[str, Callable[[Any, Session], Any]]:
    """Functions to be replaced under every name they were imported as: name → maker."""
    return {
        "scaled_dot_product_attention": attention.make,
        "mamba_selective_scan": scans.make_selective_scan,
        "mamba2_chunk_scan": scans.make_chunk_scan,
    }


def _replace_everywhere(
    stack: ExitStack, name: str, make: Callable[[Any, Session], Any], session: Session
) -> None:
    made: dict[int, Any] = {}
    for module in list(sys.modules.values()):
        held = getattr(module, "__dict__", {}).get(name)
        if held is None or not callable(held) or isinstance(held, type):
            continue
        if id(held) not in made:
            made[id(held)] = make(held, session)
        if made[id(held)] is not None:
            put(stack, module, name, made[id(held)])


def _reads(session: Session) -> dict[str, Callable[..., Any]]:
    """Methods of tensors that hand out values: they answer from the known ones."""
    twins = session.twins

    def reader(original: Any) -> Callable[..., Any]:
        def read(self: Any, *args: Any, **kwargs: Any) -> Any:
            with muted(session):
                value = twins.value(self.detach()) if self.is_meta else None
                return original(self if value is None else value, *args, **kwargs)

        return read

    return {n: reader(getattr(torch.Tensor, n)) for n in ("tolist", "numpy", "__array__")}
