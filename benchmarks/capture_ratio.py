"""Capture and analysis of live models against torch's FlopCounterMode, in one process.

python benchmarks/capture_ratio.py [MODEL ...]
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch.utils.flop_counter import FlopCounterMode

import gambrel
from capture_speed import Block
from common import report, spread
from gambrel.capture.torch import ensure_torchvision

ROUNDS, ROUNDS_OF_LONG = 5, 2


def vision(name: str, size: int = 224) -> tuple[torch.nn.Module, torch.Tensor]:
    ensure_torchvision()
    from torchvision import models

    return getattr(models, name)(), torch.empty(1, 3, size, size)


def language(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    import transformers as hf

    made = {"bert": (hf.BertModel, hf.BertConfig), "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config)}
    model, config = made[name]
    return model(config()), torch.zeros(1, 128, dtype=torch.long)


def lstm() -> tuple[torch.nn.Module, torch.Tensor]:
    return torch.nn.LSTM(512, 512, 2), torch.empty(64, 1, 512)


def chain(blocks: int) -> tuple[torch.nn.Module, torch.Tensor]:
    return torch.nn.Sequential(*(Block() for _ in range(blocks))), torch.empty(8, 64)


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, torch.Tensor]]] = {
    "ResNet-50": partial(vision, "resnet50"),
    "EfficientNet-B3": partial(vision, "efficientnet_b3", 300),
    "DenseNet-201": partial(vision, "densenet201"),
    "Swin-S": partial(vision, "swin_s"),
    "ConvNeXt-T": partial(vision, "convnext_tiny"),
    "BERT-base, 128 tokens": partial(language, "bert"),
    "GPT-2, 128 tokens": partial(language, "gpt2"),
    "LSTM, 64 steps": lstm,
    "chain of 2,000 blocks": partial(chain, 2000),
}


def row(name: str) -> list[object]:
    """Both in turn, after a first round that is not counted."""
    with torch.device("meta"):
        model, example = MODELS[name]()
    model.eval()

    def count() -> None:
        with FlopCounterMode(display=False), torch.no_grad():
            model(example)

    def analyze() -> gambrel.Analysis:
        return gambrel.analyze(model, "a100", (example,), precision="fp16")

    ops = len(analyze().ops)
    count()
    own, other = [], []
    for _ in range(ROUNDS if ops < 5_000 else ROUNDS_OF_LONG):
        own.append(cpu_seconds(analyze))
        other.append(cpu_seconds(count))
    return [name, ops, spread(own), spread(other), f"{min(own) / min(other):.2f}"]


def cpu_seconds(action: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    action()
    return time.process_time() - start


def main() -> None:
    torch.set_num_threads(1)
    report(
        "capture_ratio",
        "Capture and analysis of live models against FlopCounterMode",
        ["model, on meta", "ops", "gambrel, CPU ms", "FlopCounterMode, CPU ms", "ratio"],
        [row(name) for name in sys.argv[1:] or MODELS],
        notes=[
            f"Minimum / median / maximum of {ROUNDS} rounds ({ROUNDS_OF_LONG} of the chain), "
            "imports not counted; the ratio is that of the minima. gambrel: capture, cost table, "
            "times, memory, traffic at every cache level. FlopCounterMode: the FLOP count alone.",
            "Target: at most 1.",
        ],
        packages=("gambrel", "torch", "torchvision", "transformers"),
    )


if __name__ == "__main__":
    main()
