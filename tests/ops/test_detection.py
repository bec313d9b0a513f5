"""Boxes: suppression and region pooling."""

from __future__ import annotations

import pytest

from tests.ops.builders import costed, counts, op, tensor, vector
from tests.ops.oracle import Number, Tally, least, most

Box = tuple[Number, Number, Number, Number]


def overlaps(a: Box, b: Box, areas: tuple[Number, Number]) -> Number:
    width = most(least(a[2], b[2]) - most(a[0], b[0]), 0.0)
    height = most(least(a[3], b[3]) - most(a[1], b[1]), 0.0)
    shared = width * height
    return shared / (areas[0] + areas[1] - shared) > 0.5


@pytest.mark.parametrize(("boxes", "sort"), [(1, 0), (2, 2), (8, 24), (16, 64)])
def test_nms_compares_every_pair(boxes, sort):
    tally = Tally()
    corners = [tuple(tally.numbers(4, i)) for i in range(boxes)]
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in corners]
    for i in range(boxes):
        for j in range(i):
            overlaps(corners[i], corners[j], (areas[i], areas[j]))
    assert vector(op("nms", {"boxes": boxes})) == tally.vector + sort


def test_no_boxes():
    assert counts(op("nms", {"boxes": 0})) == (0, 0, 0)


def test_roi_align():
    features, boxes = tensor(1, 256, 50, 50), tensor(10, 5)
    sizes = {"outputs": 10 * 256 * 49, "samples": 4}
    view = op("roi_align", sizes, inputs=(features, boxes), outputs=(tensor(10, 256, 7, 7),))
    # 4 blends of 9, 3 additions, 1 division
    assert counts(view) == (0, 125_440 * 40, 0)
    assert (
        costed(view).read_bytes == 256 * 2500 * 4 + 200
    )  # all features: fewer than 4 * 4 * outputs
    few = op("roi_align", {"outputs": 256, "samples": 1}, inputs=(features, tensor(1, 5)))
    assert costed(few).read_bytes == 4 * 256 * 4 + 20
    assert counts(op("roi_align", sizes)) == counts(view)
