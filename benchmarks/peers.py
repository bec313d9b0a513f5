"""Eight models side by side: gambrel and the counters that install beside torch.

For each model the page has the multiply-accumulate work that every tool reports (FMA = 2), the
truth (worked out by hand, see exactness.py), parameters, memory, the time each tool takes, and why
they differ. A difference is explained by arithmetic where some groups of ops sum up to it exactly.

    pip install ".[test]" fvcore torchinfo calflops ptflops fasterbench thop
    python benchmarks/peers.py
"""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import logging
import re
import statistics
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import gambrel
from common import alternate, machine, timed, versions
from gambrel.capture.torch import ensure_torchvision
from gambrel.units import format_capacity

ensure_torchvision()
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

ROUNDS = 3
PAGE = Path(__file__).resolve().parent.parent / "docs" / "side-by-side.md"
PACKAGES = ("gambrel", "torch", "transformers", "fvcore", "torchinfo", "calflops", "ptflops")
PACKAGES += ("fasterbench", "thop")

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Count:
    """What a tool says of a model.

    Attributes:
        flops: Multiply-accumulate work, FMA = 2.
        parameters: Parameters, if it counts them.
        memory_bytes: Memory of an inference, if it says so.
        traffic_bytes: What an inference reads and writes, if it says so.
        extras: What else is in the count: kind of op → FLOP.
    """

    flops: float
    parameters: int | None = None
    memory_bytes: float | None = None
    traffic_bytes: float | None = None
    extras: dict[str, float] | None = None


def models() -> dict[str, tuple[torch.nn.Module, Inputs, float]]:
    """Model, inputs and true FLOP."""
    import torchvision.models as vision
    import transformers as hf

    image = (torch.randn(1, 3, 224, 224),)
    tokens = (torch.randint(0, 1000, (1, 128)),)
    llama = hf.LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
        num_key_value_heads=4, vocab_size=32000,
    )  # fmt: skip
    return {
        "ResNet-50": (vision.resnet50(), image, 8_178_368_512),
        "MobileNetV2": (vision.mobilenet_v2(), image, 601_548_544),
        "ViT-B/16": (vision.vit_b_16(), image, 35_127_656_448),
        "Swin-T": (vision.swin_t(), image, 8_981_133_312),
        "BERT-base, 128 tokens": (hf.BertModel(hf.BertConfig()), tokens, 22_348_431_360),
        "GPT-2, 128 tokens": (hf.GPT2LMHeadModel(hf.GPT2Config()), tokens, 32_228_179_968),
        "Llama, 8 layers, 128 tokens": (hf.LlamaForCausalLM(llama), tokens, 32_010_928_128),
        # 2 layers, 64 steps, 4 gates of 512 x (512 + 512), FMA = 2
        "LSTM, 64 steps": (
            torch.nn.LSTM(512, 512, 2), (torch.randn(64, 1, 512),), 2 * 64 * 2 * 4 * 512 * 1024,
        ),
    }  # fmt: skip


def analysis(model: torch.nn.Module, inputs: Inputs) -> gambrel.Analysis:
    return gambrel.analyze(model, "a100", inputs, causal="full", precision="fp32")


def by_gambrel(model: torch.nn.Module, inputs: Inputs) -> Count:
    result = analysis(model, inputs)
    return Count(
        flops=result.total.matrix_flops,
        parameters=sum(p.numel() for p in model.parameters()),
        memory_bytes=result.footprint.total_bytes,
        traffic_bytes=result.total.traffic_bytes,
    )


def by_torch(model: torch.nn.Module, inputs: Inputs) -> Count:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*inputs)
    return Count(flops=counter.get_total_flops())


def by_fvcore(model: torch.nn.Module, inputs: Inputs) -> Count:
    from fvcore.nn import FlopCountAnalysis, parameter_count

    counted = FlopCountAnalysis(model, inputs)
    counted.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    counted.tracer_warnings("none")
    products = ("conv", "linear", "addmm", "matmul", "bmm", "einsum", "mm")
    macs = counted.by_operator()
    extras = {op: 2 * n for op, n in macs.items() if op not in products and n}
    total = 2 * sum(macs.values())
    return Count(flops=total, parameters=parameter_count(model)[""], extras=extras)


def by_torchinfo(model: torch.nn.Module, inputs: Inputs) -> Count:
    import torchinfo

    summary = torchinfo.summary(model, input_data=list(inputs), verbose=0)
    held = summary.total_param_bytes + summary.total_output_bytes + summary.total_input
    return Count(
        flops=2 * summary.total_mult_adds, parameters=summary.total_params, memory_bytes=held
    )


def by_calflops(model: torch.nn.Module, inputs: Inputs) -> Count:
    from calflops import calculate_flops

    _, macs, parameters = calculate_flops(
        model, args=list(inputs), print_results=False, output_as_string=False
    )
    return Count(flops=2 * macs, parameters=parameters)


def by_ptflops(model: torch.nn.Module, inputs: Inputs) -> Count:
    from ptflops import get_model_complexity_info

    one = inputs[0]

    def build(_: Any) -> dict[str, torch.Tensor]:
        name = "input_ids" if one.dtype == torch.int64 else _first_name(model)
        return {name: one}

    macs, parameters = get_model_complexity_info(
        model, tuple(one.shape), input_constructor=build, as_strings=False,
        print_per_layer_stat=False, backend="pytorch", ost=io.StringIO(),
    )  # fmt: skip
    return Count(flops=2 * macs, parameters=parameters)


def by_fasterbench(model: torch.nn.Module, inputs: Inputs) -> Count:
    from fasterbench.compute import compute_compute

    return Count(flops=2e6 * compute_compute(copy.deepcopy(model), inputs[0]).macs_m)


def _first_name(model: torch.nn.Module) -> str:
    return model.forward.__code__.co_varnames[1]


TOOLS: dict[str, Callable[[torch.nn.Module, Inputs], Count]] = {
    "gambrel": by_gambrel,
    "FlopCounterMode": by_torch,
    "fvcore": by_fvcore,
    "torchinfo": by_torchinfo,
    "calflops": by_calflops,
    "ptflops": by_ptflops,
    "fasterbench": by_fasterbench,
}

#: What a tool puts on top of the products, or does to them, as its code says.
HABITS = {
    "torchinfo": "bias, normalization and the like (a product per output element)",
    "ptflops": "bias, normalization, activation and pooling",
    "fasterbench": "normalization and pooling (it counts by thop)",
}
#: A tool's way with a model where no group of ops sums up to the difference.
WAYS = {
    "torchinfo": "counts a linear layer once per sample, not once per token, what is no module not "
    "at all, and the Conv1D of GPT-2 as a convolution over its tokens",
}


def groups(result: gambrel.Analysis) -> dict[str, float]:
    """Kind of op and where it stands in a layer → FLOP of all of them."""
    out: dict[str, float] = {}
    for op in result.ops:
        work = op.measures.matrix_flops * op.count
        if work:
            place = re.sub(r"[\w.]*\.", "", re.sub(r"\.\d+$", "", op.module)) or "the model"
            kind = {"matmul": op.op.removeprefix("aten.")}.get(op.kind, op.kind)
            where = "" if kind in ("convolution", "attention", "recurrent") else f" of {place}"
            out[f"{kind}{where}"] = out.get(f"{kind}{where}", 0.0) + work
    return out


def explain(tool: str, count: Count, truth: float, parts: dict[str, float]) -> str:
    """Why a count is not the truth: what it leaves out, then what it puts on top."""
    extras = count.extras or {}
    missing = truth - (count.flops - sum(extras.values()))
    gone, rest = _left_out(missing, parts, truth, inexact=tool in HABITS)
    if gone is None or (gone and rest and tool in WAYS):
        return WAYS.get(tool, "the difference was not traced")
    said = []
    if gone:
        said.append("leaves out " + ", ".join(f"{name} ({parts[name]:,.0f})" for name in gone))
    if rest:
        extras = {HABITS[tool]: rest}
    if extras:
        said.append("adds " + ", ".join(f"{name} ({work:,.0f})" for name, work in extras.items()))
    return "; ".join(said) or "equal"


def _left_out(
    missing: float, parts: dict[str, float], truth: float, *, inexact: bool
) -> tuple[tuple[str, ...] | None, float]:
    """The groups of ops whose work is missing, and what is on top of the rest.

    Few groups with little on top are the better explanation.
    """
    names = sorted(parts, key=lambda name: name not in ("attention", "recurrent", "convolution"))
    best: tuple[tuple[str, ...] | None, float] = (None, 0.0)
    worst = 0.1 * truth
    for size in range(min(len(names), 6) + 1):
        for chosen in itertools.combinations(names, size):
            over = sum(parts[name] for name in chosen) - missing
            if abs(over) <= 0.5e-6 * truth:
                return chosen, 0.0
            # Groups that make nearly the whole model explain nothing.
            if inexact and 0 < over * 1.5**size < worst and (len(names) == 1 or size < len(names)):
                best, worst = (chosen, over), over * 1.5**size
    return best


def peak_bytes(model: torch.nn.Module, inputs: Inputs) -> float:
    """Bytes that torch holds at the peak of a run on the processor, with the parameters."""
    from tests.analysis.live_storages import peak_of

    with torch.no_grad():
        return float(peak_of(model, inputs)[0])


def rows_of(
    model: torch.nn.Module, inputs: Inputs, truth: float
) -> tuple[list[list[str]], list[str]]:
    """A row per tool, and the sentences that explain the differences."""
    parts = groups(analysis(model, inputs))
    counts: dict[str, Count | str] = {}
    for tool, run in TOOLS.items():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                counts[tool] = run(model, inputs)
            except Exception as error:
                counts[tool] = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
    able = {t: timed(lambda f=TOOLS[t]: _quiet(f, model, inputs)) for t in TOOLS
            if isinstance(counts[t], Count)}  # fmt: skip
    seconds = {t: statistics.median(s) for t, s in alternate(able, ROUNDS).items()}
    rows, why = [], []
    for tool, count in counts.items():
        if isinstance(count, str):
            rows.append([tool, "fails", "", "", "", "", ""])
            why.append(f"{tool} fails: {count}")
            continue
        rows.append(
            [
                tool,
                f"{count.flops:,.0f}",
                f"{count.flops / truth:.3f}",
                "" if count.parameters is None else f"{count.parameters:,}",
                "" if count.memory_bytes is None else format_capacity(count.memory_bytes),
                "" if count.traffic_bytes is None else format_capacity(count.traffic_bytes),
                f"{seconds[tool] * 1e3:.0f} ms",
            ]
        )
        why.append(f"{tool}: {explain(tool, count, truth, parts)}.")
    return rows, why


def _quiet(run: Callable[..., Count], model: torch.nn.Module, inputs: Inputs) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        run(model, inputs)


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    lines = [*_head()]
    for name, (model, inputs, truth) in models().items():
        model.eval()
        rows, why = rows_of(model, inputs, truth)
        true = sum(p.numel() for p in model.parameters())
        lines += [
            f"## {name}",
            "",
            "| tool | FLOP | counted / true | parameters | memory | traffic | time |",
        ]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        peak = format_capacity(peak_bytes(model, inputs))
        lines.append(f"| **true** | {truth:,.0f} | 1 | {true:,} | {peak} | | |")
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        lines += ["", *(f"- {line}" for line in why), ""]
        print("\n".join(lines[-20:]), flush=True)
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _head() -> list[str]:
    date = datetime.now(UTC).date().isoformat()
    return [
        "# Side by side with other counters",
        "",
        "The multiply-accumulate work of eight models as gambrel and six other tools count it, "
        "with FMA = 2 (MACs are doubled); fp32, batch 1, inference. *True* counts are "
        "worked out by hand; the memory is the most that torch holds during a run on a processor, "
        "parameters included. All pairs of causal attention are counted here, as the others do "
        '(`causal="full"`); gambrel\'s default counts the pairs that are needed.',
        "",
        "*Traffic* is what an inference in eager PyTorch reads and writes in DRAM; no other tool "
        "here counts it. *Time* is that of the tool, the median of "
        f"{ROUNDS} runs that take turns. gambrel's is a whole analysis: traffic, limits, expected "
        "times, memory over time and energy as well as counts. It runs no arithmetic; the others "
        "run the model.",
        "",
        "Tools with other questions (Nsight Compute, LLM-Viewer, aiconfigurator, Timeloop) are "
        "compared on the [first page](index.md). LLM-Viewer is not on a package index and is not "
        "run here.",
        "",
        f"Written by `python benchmarks/peers.py`, {date}; {machine()}; {versions(*PACKAGES)}.",
        "",
    ]


if __name__ == "__main__":
    main()
