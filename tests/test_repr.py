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
        repr(gambrel.sweep("resnet50", "a100", batch_size="1:5000")),
        repr(gambrel.compare("resnet50", ["a100", "l4"])),
        repr(gambrel.check("resnet50", "a100", latency="5ms")),
        repr(gambrel.train_plan("llama-3.1-8b", "h100", seq=4096)),
        repr(gambrel.kv_cache("llama-3.1-8b", context=4096)),
        repr(_simulated()),
    ]
    for text in shown:
        assert len(text) < 250
        assert "\n" not in text
    assert shown[0].startswith(
        "<Analysis: resnet50, batch 8, image 224, fp16 on NVIDIA A100 SXM4 80GB, pytorch: "
    )
    assert "peak 90.96 MiB at layer1.0.downsample.1" in shown[2]
    assert "nothing meets the target" in shown[6]
    assert shown[7] == "<Sweep: resnet50: 5,000 points, 5,000 kept>"
    assert shown[8].startswith("<Comparison: resnet50: 2 rows, best latency first: Best latency: ")
    assert shown[9] == "<Check: resnet50 on a100-sxm4-80gb, fp16, batch 1, image 224: PASS>"


def _simulated() -> gambrel.Simulation:
    return gambrel.serve_sim(
        "llama-3.1-8b", "h100", rate="2/s", input="1k", output=100, requests=20
    )


def test_printing_an_analysis_is_its_report() -> None:
    from gambrel.report import render

    analysis = gambrel.analyze("resnet50", "a100-sxm4-80gb", precision="fp16")
    assert str(analysis) == render(analysis, "table")


def test_an_estimate_says_its_range() -> None:
    time = gambrel.Estimate(value=1.5e-3, low=1e-3, high=2e-3, confidence="high", reason="measured")
    assert str(time) == "1.5 ms (1 ms to 2 ms), high confidence"
    assert f"{time}" == str(time)
    assert f"{time:.1e}" == "1.5e-03"
