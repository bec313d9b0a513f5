"""What a notebook or prompt shows of an answer: one line; the figures are in the reports."""

from __future__ import annotations

import gambrel


def test_answers_are_one_line() -> None:
    analysis = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=8, precision="fp16")
    shown = [
        repr(analysis),
        repr(analysis.workload),
        repr(analysis.memory_timeline()),
        repr(gambrel.what_if("resnet50", "a100", ["fuse"])),
        repr(gambrel.select("resnet50", latency="10ms")),
        repr(gambrel.serve_plan("llama-3.1-8b", "h200", input="1k", output="256")),
        repr(gambrel.serve_plan("llama-3.1-8b", "h200", input="1k", output="256", tpot="1us")),
    ]
    for text in shown:
        assert len(text) < 250
        assert "\n" not in text
    assert shown[0].startswith(
        "<Analysis: resnet50, batch 8, image 224, fp16 on NVIDIA A100 SXM4 80GB, pytorch: "
    )
    assert "peak 90.96 MiB at layer1.0.downsample.1" in shown[2]
    assert "nothing meets the target" in shown[6]


def test_printing_an_analysis_is_its_report() -> None:
    from gambrel.report import render

    analysis = gambrel.analyze("resnet50", "a100-sxm4-80gb", precision="fp16")
    assert str(analysis) == render(analysis, "table")


def test_an_estimate_says_its_range() -> None:
    time = gambrel.Estimate(value=1.5e-3, low=1e-3, high=2e-3, confidence="high", reason="measured")
    assert str(time) == "1.5 ms (1 ms to 2 ms), high confidence"
    assert f"{time}" == str(time)
    assert f"{time:.1e}" == "1.5e-03"
