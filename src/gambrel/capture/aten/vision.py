"""Ops of torchvision."""

from __future__ import annotations

from gambrel.capture.aten.call import Call, Described
from gambrel.capture.aten.registry import rule
from gambrel.workload import Attributes


@rule("torchvision.nms")
def nms(call: Call) -> Described:
    """dets, scores, iou_threshold."""
    return call.described("nms", {"boxes": call.tensor(0, "dets").shape[0]})


@rule("torchvision.roi_align")
def roi_align(call: Call) -> Described:
    """input, rois, scale, pooled_height, pooled_width, sampling_ratio, aligned.

    Every result is the mean of sampling_ratio² bilinear samples. An adaptive ratio (≤ 0) depends
    on the boxes' values and stays unmodelled.
    """
    ratio = call.arg(5, "sampling_ratio")
    if ratio <= 0:
        raise ValueError("the number of samples depends on the boxes")
    return call.described("roi_align", {"outputs": call.out.numel, "samples": ratio**2})


@rule("torchvision._roi_align_backward")
def roi_align_backward(call: Call) -> Described:
    """grad, rois, scale, pooled_height, pooled_width, four sizes, sampling_ratio, aligned."""
    ratio = call.arg(9, "sampling_ratio")
    if ratio <= 0:
        raise ValueError("the number of samples depends on the boxes")
    attrs: Attributes = {"mode": "bilinear", "antialias": False}
    outputs = call.tensor(0, "grad").numel * ratio**2
    return call.described("interpolation_backward", {"outputs": outputs}, attrs)
