"""The terms of the field, each in a few sentences; figures of a device come from the device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One entry.

    Attributes:
        name: As it is shown.
        text: What it means.
        also: Other words for it.
        see: A command that shows it; empty for none.
    """

    name: str
    text: str
    also: tuple[str, ...] = ()
    see: str = ""


_ANALYZE: Final = "gambrel analyze resnet50 --hardware a100"
_DECODE: Final = "gambrel analyze llama-3-8b --hardware h100 --phase decode"


def _term(name: str, also: str, text: str, see: str = "") -> Term:
    words = tuple(part.strip() for part in also.split(",") if part.strip())
    return Term(name=name, also=words, text=text, see=see)


_TERMS: Final = (
    _term("roofline", "roofline model, roofline analysis, roof line, roofs, roof",
          "A picture of what limits a computation. Across: arithmetic intensity, the FLOP done for each byte "
          "moved. Up: FLOP per second. The slanted roof is intensity times memory bandwidth, the flat one the "
          "peak of the engine; no kernel lies above the lower of the two. Left of the ridge point, where they "
          "meet, memory limits; right of it, arithmetic.", f"{_ANALYZE} --roofline"),
    _term("ridge point", "ridge, ridgepoint, machine balance, balance point, knee",
          "The arithmetic intensity at which the compute roof meets the memory roof: peak FLOP/s divided by "
          "bytes/s. A kernel with less FLOP per byte cannot use the full arithmetic rate however well it is "
          "written; one with more cannot be held back by that memory. It belongs to the device and the number "
          "format, not to the model: the same memory with twice the peak has twice the ridge point. Quoted "
          "ridge points are often twice too high because they use the peak with structured sparsity.",
          "gambrel hardware show h100"),
    _term("arithmetic intensity", "operational intensity, intensity, ai, flop per byte, flops per byte",
          "Work divided by traffic: FLOP per byte moved to and from memory. It rises with the batch, because "
          "weights are read once for more items, and when kernels are fused, because results in between stay on "
          "chip. It belongs to the computation as executed; against the ridge point of a device it tells what "
          "limits.", _ANALYZE),
    _term("memory-bound", "memory bound, bandwidth bound, bandwidth-bound, memory limited",
          "Moving the bytes takes longer than doing the arithmetic: the intensity is below the ridge point. "
          "Fewer bytes help (fusion, smaller formats, larger batches for weights); a faster engine does not.",
          _ANALYZE),
    _term("compute-bound", "compute bound, compute limited",
          "The arithmetic takes longer than moving the bytes: the intensity is above the ridge point. A faster "
          "number format, less work or a faster engine help; more bandwidth does not.", _ANALYZE),
    _term("overhead-bound", "overhead bound, launch bound, launch overhead, kernel launch, overhead",
          "Starting kernels takes more of the expected time than either arithmetic or memory. Usual for small "
          "models at batch 1 on large devices. Fusion, CUDA graphs and larger batches help.", _ANALYZE),
    _term("network-bound", "network bound, link bound", "A link to other devices or to the host is the busiest resource.", ""),
    _term("bound time", "bound, roofline bound, lower bound",
          "For each op the largest of work/peak over its resources, summed over ops. No run is faster, data that "
          "stayed in cache apart. It is a limit, not a forecast; that is the expected time.", _ANALYZE),
    _term("expected time", "expected, estimate, expected latency",
          "What a stopwatch should show: bound, attainable rates of real kernels and their start-up, from "
          "constants fitted to measured kernels. It comes with a range in which most measured times lie and a "
          "confidence: high when calibrated on that device, medium for its kin, low otherwise. The bound time is "
          "the least that physics allows, the expected time is what to plan with.", _ANALYZE),
    _term("latency", "response time", "The time of one run of the whole batch. At batch 1 it is the time of one item.",
          "gambrel check resnet18 --hardware h100 --latency 10ms"),
    _term("throughput", "fps, images per second, qps",
          "Items finished per second: batch divided by latency. It grows with the batch until a resource is full, "
          "while latency grows too.", "gambrel compare resnet50 --hardware a100 --batch 1,8,64"),
    _term("flop", "flops, flop count, gflops, gflop, tflops, tflop, macs, mac, fma",
          "FLOP counts floating-point operations; FLOP/s is a rate. A fused multiply-add counts as 2 FLOP, so one "
          "MAC is 2 FLOP. Papers that print 4.1 G for ResNet-50 count MACs.", "gambrel models list resnet50"),
    _term("traffic", "memory traffic, dram traffic, bytes moved, compulsory traffic",
          "Bytes moved to and from main memory. By default every kernel reads each distinct input once and writes "
          "each output once (eager); fused stacks move less, and 'ideal' moves weights, inputs and outputs only.",
          _ANALYZE),
    _term("bandwidth", "memory bandwidth, hbm bandwidth", "Bytes per second that a memory level delivers. The slope of the memory roof.",
          "gambrel hardware show a100"),
    _term("peak", "peak performance, peak flops, ceiling, compute roof, dense peak",
          "The highest rate of an engine in a number format. Dense figures are used unless sparsity is asked for.",
          "gambrel hardware show a100"),
    _term("attainable performance", "attainable",
          "The lower of the peak and intensity times bandwidth: the roofline at that intensity.", _ANALYZE),
    _term("roofline efficiency", "efficiency of roofline", "Achieved rate divided by the attainable one.", ""),
    _term("compute utilization", "utilization, utilisation, gpu utilization",
          "Share of the engine's peak in use; memory utilization is the share of the bandwidth. In a prediction "
          "they hold at the bound time. They are not the 'GPU utilization' of a monitor, which only says that some "
          "kernel was running.", _ANALYZE),
    _term("mfu", "model flops utilization, model flop utilization",
          "Model FLOPs utilization: FLOP that the model needs, divided by time times peak. Work that is done again, "
          "such as recomputed activations, does not count.", _ANALYZE),
    _term("batch", "batch size", "Items processed together. Weights are read once for all of them, so intensity and "
          "throughput grow; so do latency and memory.", f"{_ANALYZE} --batch 1,8,64"),
    _term("precision", "number format, data type, dtype, fp16, bf16, fp32, int8, fp8, tf32, int4",
          "The format of numbers. Fewer bits move fewer bytes and run on faster engines where the device has one; "
          "below 16 bits accuracy must be checked on your data.", f"{_ANALYZE} --precision int8"),
    _term("quantization", "quantisation, quantize, weight-only quantization",
          "Storing numbers in fewer bits. With weights only, the traffic of weights shrinks and arithmetic stays as "
          "it was: that helps decode. With activations as well, arithmetic gets faster too.",
          "gambrel what-if llama-3-8b --hardware a100 --phase decode --change weights=int4"),
    _term("structured sparsity", "sparsity, 2:4 sparsity, sparse peak, sparse",
          "Two of every four weights are zero, which some engines skip at up to twice the dense rate. The model must "
          "be pruned and retrained for it. Datasheets like to print the sparse peak; gambrel uses the dense one "
          "unless asked.", "gambrel analyze resnet50 --hardware h100 --sparse"),
    _term("fusion", "kernel fusion, operator fusion, fuse, fused, compiled, torch.compile",
          "Several ops in one kernel: results in between stay on chip and fewer kernels start. It helps memory-bound "
          "and overhead-bound models.", "gambrel what-if resnet50 --hardware a100 --change fuse"),
    _term("cuda graphs", "cuda graph", "A recorded sequence of kernels that is started at once: it removes most of the "
          "cost of starting kernels, not their traffic.", ""),
    _term("prefill", "prompt processing", "The pass of a language model over the whole prompt. Many tokens share each weight, so it "
          "is usually compute-bound. It sets the time to the first token.",
          "gambrel analyze llama-3-8b --hardware h100 --phase prefill"),
    _term("decode", "decoding, generation, token generation", "Writing one token per sequence and step. Every weight is read for a "
          "few tokens, so at small batches it is memory-bound: weights and KV cache divided by bandwidth set the "
          "time of a token.", _DECODE),
    _term("ttft", "time to first token", "Time to first token: the prefill, and in a server the queue before it.",
          "gambrel analyze llama-3-8b --hardware h100 --phase prefill"),
    _term("tpot", "time per output token, itl, inter-token latency", "Time per output token after the first: one decode step. Its inverse "
          "is the tokens per second that one user sees.", _DECODE),
    _term("kv cache", "key value cache, key/value cache, kv-cache, kv", "Keys and values of earlier tokens, kept so that a decode step does "
          "not compute them again. It grows with context and batch and is read in every step.", _DECODE),
    _term("context", "context length", "Tokens that a decode step attends to. The cache, and the bytes that a step reads, grow with it.",
          f"{_DECODE} --context 8192"),
    _term("mixture of experts", "moe, experts", "A layer of many feed-forward networks of which each token uses a few: work counts those "
          "used, memory holds all of them.", "gambrel analyze mixtral-8x7b --hardware h100"),
    _term("hbm", "dram, vram, gddr, main memory", "The main memory of a device; HBM is stacked beside the chip, GDDR and LPDDR sit on the "
          "board. Its bandwidth is the memory roof, its capacity what a model must fit into.", "gambrel hardware show h100"),
    _term("tensor core", "tensor cores, matrix engine, matrix core, mxu", "The engine for matrix products, far faster than the vector engine. Element-"
          "wise work, norms and softmax run on the vector engine and have a roof of their own.", "gambrel hardware show a100"),
    _term("tdp", "thermal design power", "The heat that cooling is built for, in practice the most that a device draws for long. "
          "An upper end for power, not a forecast.", "gambrel hardware show l4"),
    _term("coverage", "", "Share of ops whose cost is known. An op without a formula is reported, never counted as zero.", _ANALYZE),
    _term("confidence", "", "How well the constants of an expected time are founded: high when calibrated on that device, "
          "medium for its kin, low for other devices.", _ANALYZE),
    _term("headroom", "", "Share of a limit that stays free.", "gambrel check resnet18 --hardware h100 --latency 10ms"),
    _term("marginal", "pass, fail, unknown, verdict", "Verdicts: PASS when the whole range meets the limit with 10 % to spare, MARGINAL "
          "when the limit lies within the range or less stays free, FAIL when the whole range misses it, UNKNOWN when a "
          "needed figure is unknown.", "gambrel check resnet18 --hardware h100 --latency 10ms"),
    _term("pareto", "pareto front, pareto chart", "The options that no other beats in every metric shown; a star marks them in comparisons.",
          "gambrel compare yolov8n --hardware all --metric latency,power"),
)  # fmt: skip

#: Terms by name.
TERMS: Final[dict[str, Term]] = {term.name: term for term in _TERMS}


@lru_cache(maxsize=1)
def _spellings() -> tuple[tuple[re.Pattern[str], str], ...]:
    pairs = sorted(_pairs(), key=lambda p: -len(p[0]))
    return tuple(
        (re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])"), name) for text, name in pairs
    )


def _pairs() -> Iterator[tuple[str, str]]:
    for term in _TERMS:
        for text in (term.name, *term.also):
            yield text, term.name


def find_term(text: str) -> Term | None:
    """The term that a text names; of several the one with the longest spelling.

    Args:
        text: Lower case.
    """
    longest = next((name for pattern, name in _spellings() if pattern.search(text)), None)
    return TERMS[longest] if longest else None
