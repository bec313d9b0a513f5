"""Other FLOP counters on the same models in the same run: counts against truth, and time.

Compared are the counters that install beside torch: torch's FlopCounterMode, fvcore, calflops.
Counts are multiply-accumulate work with FMA = 2 (fvcore counts MACs and is doubled). All run on
the CPU; FlopCounterMode also on the meta device, where nothing is computed
(as gambrel does). Times alternate within one run.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import logging
import statistics
import warnings
from collections.abc import Callable

import torch

from common import alternate, report, timed
from gambrel.capture.torch import ensure_torchvision

ensure_torchvision()

ROUNDS = 7


def models() -> dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...], float]]:
    """Model, inputs and true FLOP (worked out by hand, see exactness.py)."""
    import torchvision
    from transformers import (
        BertConfig,
        BertModel,
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
    )

    image = torch.randn(1, 3, 224, 224)
    tokens = torch.randint(0, 1000, (1, 128))
    small_llama = LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
        num_key_value_heads=4, vocab_size=32000,
    )  # fmt: skip
    return {
        "ResNet-18": (torchvision.models.resnet18(), (image,), 3.6281e9),
        "ResNet-50": (torchvision.models.resnet50(), (image,), 8.1784e9),
        "ViT-B/16": (torchvision.models.vit_b_16(), (image,), 35.1277e9),
        "BERT-base, 128": (BertModel(BertConfig()), (tokens,), 22.3484e9),
        # Causal attention of 12 layers, 12 heads, 64 channels: 4 * 128 * 129 / 2 pairs in place of
        # 4 * 128 * 128; the truth below counts all pairs, as the other counters do.
        "GPT-2, 128": (GPT2LMHeadModel(GPT2Config()), (tokens,), 32.2282e9),
        "Llama small, 128": (LlamaForCausalLM(small_llama), (tokens,), 32.0109e9),
    }


def gambrel_count(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    import gambrel

    return gambrel.analyze(model, "a100", inputs, causal="full").total.matrix_flops


def gambrel_work(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    """Only what the other counters do: capture and count, no device."""
    from gambrel.analysis.evaluate import Evaluator
    from gambrel.capture.torch import capture
    from gambrel.ops import Conventions, Engine

    evaluator = Evaluator(capture(model, inputs), {}, {}, Conventions(causal="full"))
    return sum(
        flops
        for _, _, cost in evaluator.costs()
        if cost is not None
        for (engine, _), flops in cost.work.items()
        if engine is Engine.MATRIX
    )


def torch_count(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*inputs)
    return counter.get_total_flops()


def torch_meta_count(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    """The same on the meta device, its fastest way; the copy is not part of the time."""
    twin = _meta(model)
    return torch_count(twin, tuple(i.to("meta") for i in inputs))


@functools.cache
def _meta(model: torch.nn.Module) -> torch.nn.Module:
    return copy.deepcopy(model).to("meta")


def fvcore_count(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    from fvcore.nn import FlopCountAnalysis

    analysis = FlopCountAnalysis(model, inputs)
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    analysis.tracer_warnings("none")
    wanted = ("conv", "linear", "addmm", "matmul", "bmm", "einsum", "attention", "mm")
    counts = analysis.by_operator()
    return 2 * sum(n for op, n in counts.items() if any(w in op for w in wanted))


def calflops_count(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    from calflops import calculate_flops

    with contextlib.redirect_stdout(io.StringIO()):
        _, macs, _ = calculate_flops(
            model, args=list(inputs), print_results=False, output_as_string=False
        )
    return 2 * macs


COUNTERS: dict[str, Callable[..., float]] = {
    "gambrel, whole analysis": gambrel_count,
    "gambrel, count only": gambrel_work,
    "FlopCounterMode": torch_count,
    "FlopCounterMode on meta": torch_meta_count,
    "fvcore": fvcore_count,
    "calflops": calflops_count,
}


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    rows = []
    for name, (model, inputs, truth) in models().items():
        model.eval()
        counted: dict[str, float | None] = {}
        for tool, count in COUNTERS.items():
            try:
                counted[tool] = count(model, inputs)
            except Exception as error:
                counted[tool] = None
                print(f"{tool} on {name}: {type(error).__name__}: {error}")
        able = {t: f for t, f in COUNTERS.items() if counted[t] is not None}
        times = alternate(
            {t: timed(lambda f=f, m=model, i=inputs: f(m, i)) for t, f in able.items()}, ROUNDS
        )
        rows.append(
            [name, f"{truth:.6g}", *(cell(counted[t], truth, times.get(t)) for t in COUNTERS)]
        )
    report(
        "peers",
        "Other counters on the same models",
        ["model", "truth, FLOP", *COUNTERS],
        rows,
        notes=[
            "Each cell: counted / true, and the median time in ms. The whole analysis has traffic, "
            "bounds, expected times, memory levels, footprint and energy; the count alone is what "
            "the other counters do.",
            "All pairs of causal attention are counted here, as the others do (causal='full').",
        ],
        packages=("gambrel", "torch", "transformers", "fvcore", "calflops"),
    )


def cell(count: float | None, truth: float, times: list[float] | None) -> str:
    if count is None or times is None:
        return "failed"
    return f"{count / truth:.3f}, {statistics.median(times) * 1e3:.0f} ms"


if __name__ == "__main__":
    main()
