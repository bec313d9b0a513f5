"""Sweeps under runtimes that fuse: kernels are formed at a few sizes, the rest is arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from gambrel.analysis.analyze import analyze
from gambrel.analysis.fusion.grouping import Formed
from gambrel.analysis.fusion.kernel import Kernel
from gambrel.analysis.fusion.spans import spans_of
from gambrel.analysis.settings import Settings
from gambrel.analysis.sweep import sweep
from gambrel.capture import zoo
from gambrel.device.lookup import find

BATCHES = tuple(range(1, 97))
LOOKED_AT = (1, 2, 9, 48, 96)


def formed_at(kind_from: int = 10**9, bump: int | None = None):
    """Kernels of 100 bytes and 7 more for each item; another kind from a size on."""

    def formed(n: int) -> Formed:
        kind = "late" if n >= kind_from else "early"
        read = 100 + 7 * n + (n == bump)
        return Formed(kernels=(Kernel(ops=(0,), kind=kind, op_read_bytes={0: read}),))

    return formed


def test_a_span_has_the_bytes_of_every_size():
    (span,) = spans_of("batch", range(1, 65), formed_at())
    assert (span.low, span.high) == (1, 64)
    (kernel,) = span.at(np.array([1.0, 10.0, 64.0])).kernels(None)
    assert list(kernel.op_read_bytes[0]) == [107, 170, 548]


def test_a_span_ends_where_kernels_are_formed_otherwise():
    spans = list(spans_of("batch", range(1, 65), formed_at(kind_from=33)))
    assert [(s.low, s.high) for s in spans] == [(1, 32), (33, 64)]


def test_the_first_size_may_be_a_case_of_its_own():
    (span,) = spans_of("batch", range(1, 65), formed_at(bump=1))
    assert (span.low, span.high) == (2, 64)


def test_few_sizes_are_asked_one_by_one():
    assert not list(spans_of("batch", range(1, 6), formed_at()))


@pytest.mark.parametrize(
    ("model", "device", "runtime", "precision"),
    [
        ("resnet50", "a100", "tensorrt", "fp16"),  # groups in the L2, an engine's kernels
        ("resnet18", "h100", "torch-compile", "fp32"),  # loops of a compiler, a host
        ("mobilenet-v2", "rk3588", "rknn", "int8"),  # weights ahead of the kernels
        ("resnet18", "l4", "onnxruntime", "fp16"),  # no expected time
    ],
)
def test_every_point_is_that_of_an_analysis(model, device, runtime, precision):
    workload, on = zoo.load(model), find(device).device
    settings = Settings(runtime=runtime)
    found = sweep(workload, [on], [precision], {"batch": BATCHES}, settings)
    for batch in LOOKED_AT:
        one = analyze(
            workload, on, Settings(runtime=runtime, precision=precision, sizes={"batch": batch})
        )
        at = batch - 1
        assert found.batch[at] == batch
        assert found.traffic_bytes[at] == one.traffic_bytes
        assert found.sol_time_s[at] == one.sol_time_s
        assert found.memory_bytes[at] == one.footprint.total_bytes
        assert found.roofline_time_s[at] == pytest.approx(one.roofline_time_s, rel=1e-14)
        assert found.bound[at] == ("" if one.bound is None else one.bound.value)
        if one.expected_time_s is None:
            assert np.isnan(found.expected_time_s[at])
        else:
            assert found.expected_time_s[at] == pytest.approx(one.expected_time_s.value, rel=1e-14)
