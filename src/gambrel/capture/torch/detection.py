"""The parts of torchvision's detectors whose course depends on what was detected."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from gambrel.capture.torch.patching import put
from gambrel.capture.torch.semantic import Node

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


def detection(stack: ExitStack, session: Session) -> None:
    """Replaces loops over detections, as long as ``stack`` is open."""
    boxes = sys.modules.get("torchvision.ops.boxes")
    at_once = getattr(boxes, "_batched_nms_coordinate_trick", None)
    if at_once is not None and hasattr(boxes, "_batched_nms_vanilla"):
        # Above a number of boxes torchvision loops over the classes that occur; suppressing the
        # boxes of all classes at once, with shifted coordinates, gives the same.
        put(stack, boxes, "_batched_nms_vanilla", at_once)
    for module, name, make in (
        ("torchvision.models.detection.transform", "paste_masks_in_image", _paste),
        ("torchvision.models.detection.roi_heads", "heatmaps_to_keypoints", _keypoints),
    ):
        owner = sys.modules.get(module)
        if owner is not None and hasattr(owner, name) and not session.options.execute:
            put(stack, owner, name, make(session))


def _unmodelled(
    session: Session, name: str, empty: Callable[..., tuple[Any, ...]], operands: tuple[Any, ...]
) -> tuple[Any, ...]:
    """One op without a formula for a loop over detections: it shows as unmodelled."""
    node = Node(
        session=session,
        name=f"torchvision.{name}",
        kind=f"torchvision.{name}",
        sizes={},
        attrs={},
        empty=empty,
        compute=empty,
    )
    return node(operands)


def _paste(session: Session) -> Callable[..., Any]:
    def paste_masks_in_image(masks: Any, boxes: Any, img_shape: Any, padding: int = 1) -> Any:  # noqa: ARG001  # the name of the original
        def empty(masks: Any, _: Any) -> tuple[Any, ...]:
            return (masks.new_empty((masks.shape[0], 1, *img_shape)),)

        return _unmodelled(session, "paste_masks_in_image", empty, (masks, boxes))[0]

    return paste_masks_in_image


def _keypoints(session: Session) -> Callable[..., Any]:
    def heatmaps_to_keypoints(maps: Any, rois: Any) -> Any:
        def empty(maps: Any, _: Any) -> tuple[Any, ...]:
            count, kinds = maps.shape[:2]
            # x, y and visibility of each keypoint, and its score
            return (
                torch.empty((count, kinds, 3), dtype=torch.float32, device=maps.device),
                torch.empty((count, kinds), dtype=torch.float32, device=maps.device),
            )

        return _unmodelled(session, "heatmaps_to_keypoints", empty, (maps, rois))

    return heatmaps_to_keypoints
