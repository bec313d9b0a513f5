"""Laws that hold for every kind of op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gambrel.ops import Cost, OpView, TensorView, kinds
from tests.ops.builders import costed, matrix, op
from tests.ops.samples import SAMPLES

DOCS = Path(__file__).parents[2] / "docs" / "ops.md"

every_sample = pytest.mark.parametrize(
    "sample", SAMPLES, ids=[f"{i}-{s.kind}" for i, s in enumerate(SAMPLES)]
)


def test_every_kind_has_a_sample():
    assert {s.kind for s in SAMPLES} == kinds().keys()


def test_every_kind_is_documented():
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    documented = {row.split("`")[1] for row in rows}
    assert kinds().keys() <= documented


def swept(sample: OpView, *, tensors: bool = True) -> OpView:
    """The op at two equal points of a sweep: float64 arrays instead of ints."""

    def array(size: Any) -> Any:
        if isinstance(size, tuple):
            return tuple(map(array, size))
        return np.array([size, size], dtype=np.float64)

    def view(t: TensorView) -> TensorView:
        if not tensors:
            return t
        return replace(t, shape=array(t.shape), elements=array(t.elements), offset=array(t.offset))

    return replace(
        sample,
        sizes={name: array(size) for name, size in sample.sizes.items()},
        inputs=tuple(map(view, sample.inputs)),
        outputs=tuple(map(view, sample.outputs)),
    )


def numbers(found: Cost) -> dict[object, Any]:
    traffic = {"read": found.read_bytes, "write": found.write_bytes, "link": found.link_bytes}
    return {**found.work, **traffic}


@every_sample
def test_ints_give_exact_ints(sample):
    found = numbers(costed(sample))
    assert all(type(amount) is int and amount >= 0 for amount in found.values()), found


@every_sample
@pytest.mark.parametrize("tensors", [True, False])
def test_a_sweep_gives_what_each_point_gives(sample, tensors):
    single, both = numbers(costed(sample)), numbers(costed(swept(sample, tensors=tensors)))
    assert both.keys() == single.keys()
    for key, amount in both.items():
        assert np.broadcast_to(amount, 2).tolist() == [single[key]] * 2, key


@every_sample
def test_cost_depends_on_nothing_else(sample):
    assert costed(sample) == costed(replace(sample, phase="backward"))


#: Kinds whose work grows in proportion to one size, by that size.
LINEAR = {
    "matmul": "b",
    "attention": "batch",
    "attention_backward": "batch",
    "attention_scores": "batch",
    "attention_scores_backward": "batch",
    "elementwise": "elements",
    "elementwise_backward": "elements",
    "pooling": "outputs",
    "cdist": "batch",
    "selective_scan": "batch",
    "selective_scan_backward": "batch",
    "ssd_scan": "batch",
    "ssd_scan_backward": "batch",
    "recurrent": "batch",
    "recurrent_backward": "batch",
    "linalg": "batch",
    "optimizer": "elements",
    "roi_align": "outputs",
}


@given(st.integers(1, 1000))
@pytest.mark.parametrize("kind", sorted(LINEAR))
def test_linear_in_batch(kind, factor):
    size, samples = LINEAR[kind], [s for s in SAMPLES if s.kind == kind]
    assert samples
    for sample in samples:
        larger = replace(sample, sizes={**sample.sizes, size: factor * sample.sizes.get(size, 1)})
        once, many = costed(sample).work, costed(larger).work
        assert many == {key: factor * amount for key, amount in once.items()}


@given(st.integers(1, 12), st.integers(1, 10**4))
def test_powers_of_two_transform_linearly(power, transforms):
    one = op("fft", {"length": 2**power, "transforms": 1})
    many = op("fft", {"length": 2**power, "transforms": transforms})
    assert sum(costed(many).work.values()) == transforms * sum(costed(one).work.values())


def test_matrix_work_is_only_on_multiply_accumulate_kinds():
    with_matrix = {s.kind for s in SAMPLES if matrix(s)}
    assert with_matrix == {
        "matmul",
        "grouped_matmul",
        "convolution",
        "convolution_backward",
        "attention",
        "attention_backward",
        "attention_scores",
        "attention_scores_backward",
        "cdist",
        "kernel",
        "selective_scan",
        "selective_scan_backward",
        "ssd_scan",
        "ssd_scan_backward",
        "delta_scan",
        "delta_scan_backward",
        "wkv7_scan",
        "recurrent",
        "recurrent_backward",
        "linalg",
    }
