"""What a run limited by launches or the host would save: against a second analysis, by hand."""

from __future__ import annotations

import msgspec
import pytest

import gambrel
from gambrel.analysis.measures import Estimate, Limiter


@pytest.fixture(scope="module")
def small() -> gambrel.Analysis:
    """Batch 1 on a large GPU: the host launches more slowly than the kernels run."""
    found = gambrel.analyze("mobilenet-v2", "a100-sxm4-80gb", batch_size=1, precision="fp16")
    assert found.limited_by is Limiter.HOST
    return found


def test_the_next_runtime_is_what_an_analysis_of_it_says(small: gambrel.Analysis) -> None:
    saving = small.launch_saving()
    fused = gambrel.analyze(
        "mobilenet-v2",
        "a100-sxm4-80gb",
        batch_size=1,
        precision="fp16",
        runtime="torch-compile-graph",
    )
    assert saving is not None
    assert saving.runtime == "torch.compile with CUDA graphs"
    assert saving.runtime_time_s == fused.expected_time_s
    assert saving.runtime_launches == fused.launches < small.launches == saving.launches
    assert saving.runtime_gain is not None
    assert saving.runtime_gain > 1


def test_what_is_lost_by_hand(small: gambrel.Analysis) -> None:
    # Of 100 µs, 20 kernels take 6 µs to launch, and the device waits 54 µs for the host.
    time = Estimate(
        value=100e-6, low=80e-6, high=120e-6, confidence="high", reason="", launches_s=6e-6,
        host_s=54e-6,
    )  # fmt: skip
    total = msgspec.structs.replace(small.total, expected_time_s=time)
    saving = msgspec.structs.replace(small, total=total, launches=20, workload=None).launch_saving()
    assert saving is not None
    assert saving.lost_s == pytest.approx(60e-6)
    assert (saving.runtime, saving.runtime_time_s) == ("", None)  # no workload to analyze again


def test_a_compiled_model_can_still_be_recorded(small: gambrel.Analysis) -> None:
    compiled = small.with_change("fuse")
    saving = compiled.launch_saving()
    assert saving is not None
    assert saving.runtime == "torch.compile with CUDA graphs"


def test_nothing_where_neither_launches_nor_host_dominate() -> None:
    large = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=256, precision="fp16")
    assert large.limited_by is Limiter.MEMORY
    assert large.launch_saving() is None


def test_shares_of_confidence_add_up(small: gambrel.Analysis) -> None:
    shares = small.confidence_shares
    assert list(shares) == [x for x in ("high", "medium", "low") if x in shares]
    assert sum(shares.values()) == pytest.approx(1)
    # Nothing of this kind was measured, so that most of it is no more than medium.
    assert shares["medium"] > 0.5
