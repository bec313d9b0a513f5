"""What an overhead-bound run would save: against a second analysis and arithmetic by hand."""

from __future__ import annotations

import msgspec
import pytest

import gambrel
from gambrel.analysis.measures import Bound, Estimate


@pytest.fixture(scope="module")
def small() -> gambrel.Analysis:
    """Batch 1 on a large GPU: mostly starting kernels."""
    found = gambrel.analyze("mobilenet-v2", "a100-sxm4-80gb", batch_size=1, precision="fp16")
    assert found.expected_bound is Bound.OVERHEAD
    return found


def test_the_next_stack_is_what_an_analysis_of_it_says(small: gambrel.Analysis) -> None:
    saving = small.launch_saving()
    fused = gambrel.analyze(
        "mobilenet-v2", "a100-sxm4-80gb", batch_size=1, precision="fp16", stack="compiled"
    )
    assert saving is not None
    assert saving.stack == "compiled"
    assert saving.stack_time_s == fused.expected_time_s
    assert saving.stack_launches == fused.launches < small.launches == saving.launches
    assert saving.stack_gain is not None
    assert saving.stack_gain > 1


def test_host_limit_by_hand(small: gambrel.Analysis) -> None:
    # 100 µs in 20 kernels: a host that needs more than 5 µs for each is what limits.
    time = Estimate(
        value=100e-6, low=80e-6, high=120e-6, confidence="high", reason="", overhead_s=6e-5
    )
    total = msgspec.structs.replace(small.total, expected_time_s=time)
    saving = msgspec.structs.replace(small, total=total, launches=20, workload=None).launch_saving()
    assert saving is not None
    assert saving.host_limit_s == pytest.approx(5e-6)
    assert (saving.overhead_s, saving.graph) == (6e-5, "CUDA graph")
    assert (saving.stack, saving.stack_time_s) == ("", None)  # no workload to analyze again


def test_stacks_follow_each_other(small: gambrel.Analysis) -> None:
    compiled = small.with_change("fuse")
    saving = compiled.launch_saving()
    assert saving is not None
    assert saving.stack == "epilogue"


def test_nothing_where_starts_do_not_dominate() -> None:
    large = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=256, precision="fp16")
    assert large.expected_bound is not Bound.OVERHEAD
    assert large.launch_saving() is None


def test_shares_of_confidence_add_up(small: gambrel.Analysis) -> None:
    shares = small.confidence_shares
    assert list(shares) == [x for x in ("high", "medium", "low") if x in shares]
    assert sum(shares.values()) == pytest.approx(1)
    # Nothing of this kind was measured, so that most of it is no more than medium.
    assert shares["medium"] > 0.5
