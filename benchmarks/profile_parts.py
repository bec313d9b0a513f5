"""Do the parts of a profile add up to the whole? Sum of per-op times against the plain forward."""

from __future__ import annotations

import sys
import warnings

import torch

from common import report
from gambrel import RooflineAnalyzer
from gambrel.capture.torch import ensure_torchvision
from gambrel.measure.machine import load
from gambrel.measure.peaks import measure_peaks


def models():
    ensure_torchvision()
    import torchvision

    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
    resnet = torchvision.models.resnet50().eval()
    for batch in (1, 8):
        yield f"resnet50, batch {batch}", resnet, torch.randn(batch, 3, 224, 224)
        yield f"encoder 6x512, 128 tokens, batch {batch}", encoder, torch.randn(batch, 128, 512)


def main() -> None:
    warnings.simplefilter("ignore")
    steps, threads = [*map(int, sys.argv[1:]), *(20, torch.get_num_threads())[len(sys.argv) - 1 :]]
    torch.set_num_threads(threads)
    peaks = measure_peaks("cpu")
    rows = []
    for name, model, sample in models():
        analyzer = RooflineAnalyzer(model, sample, peaks)
        analyzer.profile("cpu", warmup=2, steps=steps)
        t = analyzer.totals
        missing = sum(p.time_s is None for p in analyzer.results)
        rows.append(
            [
                name,
                f"{t.plain_s * 1e3:.1f}",
                f"{t.plain_spread:.0%}",
                f"{(t.ops_s + t.unmatched_s) / t.plain_s:.3f}",
                f"{t.covered:.3f}",
                f"{t.instrumented_s / t.plain_s:.3f}",
                f"{missing}/{len(analyzer.results)}",
                f"{sum(p.utilization is not None and p.utilization > 1 for p in analyzer.results)}",
            ]
        )
    report(
        "profile_parts",
        "Parts of a profile against the whole",
        [
            "model",
            "plain ms",
            "spread",
            "parts / plain",
            "parts / profiled step",
            "profiled / plain",
            "ops not found",
            "above the roof",
        ],
        rows,
        notes=[
            f"CPU, threads: {threads}, middle half of the steps; load {load():.1f}.",
            "Target: parts / plain within 5 % at batch 8 and 10 % at batch 1.",
        ],
        packages=("gambrel", "torch"),
    )


if __name__ == "__main__":
    main()
