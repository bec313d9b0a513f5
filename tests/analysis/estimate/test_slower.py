"""Narrow formats whose measured kernels are slower than those of a wider one."""

from __future__ import annotations

import pytest
from scripts.sweeps.narrow_formats import narrower

import gambrel
from gambrel.advise.check import check
from gambrel.advise.limits import Limit
from gambrel.analysis.estimate.constants import packaged

MIXTRAL = "mixtral-8x7b-decode"


def expected(device: str, precision: str) -> float:
    found = gambrel.analyze(MIXTRAL, device, precision=precision, runtime="vllm").expected_time_s
    assert found is not None
    return found.value


def test_slow_kernels_are_named_once() -> None:
    analysis = gambrel.analyze(
        "llama-3.1-8b",
        "l40s",
        phase="decode",
        batch_size=8,
        precision="fp8,block=128",
        runtime="tensorrt-llm",
    )
    said = [text for text in analysis.warnings if "GEMM kernels of TensorRT-LLM" in text]
    assert len(said) == 1
    assert "1.3 times as long as its bf16 ones" in said[0]
    told = check(analysis, [Limit(metric="latency", value=1.0)])
    assert [text for text in told.notes if text == said[0]] == said


def test_experts_in_fp8_under_vllm_are_those_with_scales_a_block() -> None:
    """Its measured kernels with one scale a tensor are slower than those in bf16."""
    for device in ("h100-sxm5-80gb", "h200-sxm-141gb"):
        assert expected(device, "fp8") < expected(device, "bf16")


def test_only_kernels_measured_on_the_same_shapes_are_called_slower() -> None:
    marked = {
        (s.describes, s.form, *s.formats, s.device) for s in packaged().sets if s.slower is not None
    }
    assert ("vllm", "grouped_matmul", "fp8", "h100-sxm5-80gb") in marked
    assert all(s.slower.by > 1 and s.slower.shapes >= 5 for s in packaged().sets if s.slower)


@pytest.mark.parametrize(
    ("model", "devices"),
    [
        (MIXTRAL, ("h100-sxm5-80gb",)),
        ("llama-3-8b-decode", ("b200-hgx-180gb", "h200-sxm-141gb")),
        ("mobilenet-v2", ("a100-sxm4-80gb",)),
        ("vit-b-16", ("b200-hgx-180gb",)),
    ],
)
def test_no_narrower_format_is_slower_without_a_word(model: str, devices: tuple[str, ...]) -> None:
    compared = list(narrower(model, devices))
    assert compared
    assert [text for text, estimate in compared if text and not estimate.caution] == []
