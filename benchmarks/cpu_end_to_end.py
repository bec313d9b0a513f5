"""Whole models on this machine's processor: expected from measured ceilings and kernels, and run.

python benchmarks/cpu_end_to_end.py [THREADS] [--eager] [--uncalibrated] [--cpu-time] [--only NAME]

--cpu-time, for one thread on a busy machine, takes the thread's own clock on both sides.

First the ceilings and the kernels of this machine are measured, never a model, and at sizes that
none of these models has. Then each model is predicted and run in a process of its own.
"""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
import sys
import time
import warnings

import msgspec
import torch

from common import report
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.estimate import packaged
from gambrel.capture.torch import capture, ensure_torchvision
from gambrel.measure.calibrate import measure_kernels
from gambrel.measure.machine import load
from gambrel.measure.peaks import measure_peaks

#: Seconds that one model is run for, after warming up, and the fewest runs.
BUDGET_S, LEAST = 0.8, 3
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16}
TOKENS = 128
#: No case begins later than this.
LIMIT_S = 560


def models():
    """Name → builder, and input of a batch."""
    ensure_torchvision()
    import torchvision.models as vision
    import transformers as hf

    def image(batch, dtype):
        return torch.randn(batch, 3, 224, 224).to(dtype)

    def ids(batch, _dtype):
        return torch.randint(0, 1000, (batch, TOKENS))

    llama = hf.LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=8,
        num_attention_heads=8,
        vocab_size=32000,
        use_cache=False,
    )
    return {
        "ResNet-50": (vision.resnet50, image),
        "MobileNet-V2": (vision.mobilenet_v2, image),
        "BERT-base": (lambda: hf.BertModel(hf.BertConfig()), ids),
        "GPT-2": (lambda: hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False)), ids),
        "Llama, 8x512": (lambda: hf.LlamaForCausalLM(llama), ids),
    }


def measured(model, inputs) -> tuple[float, float]:
    """Median seconds of a forward pass, and the spread of the middle half around it."""
    clock = time.thread_time if "--cpu-time" in sys.argv else time.perf_counter
    with torch.no_grad():
        for _ in range(2):
            model(inputs)
        times = []
        while len(times) < LEAST or sum(times) < BUDGET_S:
            begun = clock()
            model(inputs)
            times.append(clock() - begun)
    times.sort()
    quarter = len(times) // 4
    return statistics.median(times), (times[-1 - quarter] - times[quarter]) / times[len(times) // 2]


#: How torch runs the model → the runtime that is predicted.
RUNTIMES = {"eager": "pytorch", "compiled": "torch-compile"}


def cases_of(stack, name, threads, device, calibration) -> list[list[object]]:
    """One row a case, with its error. In a process of its own: no other model shaped its memory."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    build, make = models()[name]
    rows = []
    for label, batch in itertools.product(FORMATS, (1, 8)):
        if batch == 1:
            torch._dynamo.reset()
            model = build().eval().to(FORMATS[label])
            running = torch.compile(model, dynamic=False) if stack == "compiled" else model
        inputs = make(batch, FORMATS[label])
        settings = Settings(runtime=RUNTIMES[stack], calibration=calibration, warm=True)
        found = analyze(capture(model, inputs), device, settings)
        seconds, spread = measured(running, inputs)
        expected = found.expected_time_s
        error = expected.value / seconds - 1
        row = [
            name,
            label,
            batch,
            stack,
            f"{seconds * 1e3:.2f}",
            f"{spread:.0%}",
            f"{expected.value * 1e3:.2f}",
            f"{error:+.0%}",
            "yes" if expected.low <= seconds <= expected.high else "no",
            f"{found.roofline_time_s * 1e3:.2f}",
        ]
        print(row, flush=True)
        rows.append([abs(error), *row])
    return rows


def main() -> None:
    warnings.simplefilter("ignore")
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    threads = numbers[0] if numbers else torch.get_num_threads()
    torch.set_num_threads(threads)
    stacks = ("eager",) if "--eager" in sys.argv else ("eager", "compiled")
    begun = time.perf_counter()
    device = measure_peaks("cpu", steps=5, warmup=1, rounds=1, refresh=True).to_device()
    calibration = packaged()
    if "--uncalibrated" not in sys.argv:
        clock = time.thread_time if "--cpu-time" in sys.argv else time.perf_counter
        kernels = measure_kernels(device, clock=clock)
        calibration = msgspec.structs.replace(calibration, probed=kernels)
    prepared = time.perf_counter() - begun
    rows, errors, late = [], {stack: [] for stack in stacks}, 0
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    chosen = [name for name in models() if only in name]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for stack, name in itertools.product(stacks, chosen):
            if time.perf_counter() - begun > LIMIT_S:
                late += 4
                continue
            known = (stack, name, threads, device, calibration)
            for error, *row in pool.apply(cases_of, known):
                errors[stack].append(error)
                rows.append(row)
    every = [e for found in errors.values() for e in found]
    many = "" if threads == 1 else f"_{threads}_threads"
    report(
        f"cpu_end_to_end{many}",
        f"Whole models on {threads} thread{'s' * (threads > 1)} of a CPU: expected and measured",
        [
            "model",
            "format",
            "batch",
            "stack",
            "measured ms",
            "middle half",
            "expected ms",
            "error",
            "in range",
            "bound ms",
        ],
        rows,
        notes=[
            *(
                f"{stack}: median error {statistics.median(e):.0%}, worst {max(e):.0%} "
                f"over {len(e)} cases (aim: 15 %, 35 %)."
                for stack, e in errors.items()
                if e
            ),
            *([f"{late} cases were left out: {LIMIT_S} s were over."] if late else []),
            *(["Times are those of the thread's own clock."] if "--cpu-time" in sys.argv else []),
            "Calibrated on a generic grid: no op of these models has the shape of a timed kernel.",
            f"all: median error {statistics.median(every):.0%}, worst {max(every):.0%}.",
            f"Threads: {threads}; {TOKENS} tokens, images of 224; load {load():.1f}; ceilings and "
            f"kernels measured in {prepared:.0f} s, the whole in "
            f"{time.perf_counter() - begun:.0f} s.",
        ],
        packages=("gambrel", "torch", "torchvision", "transformers"),
    )


if __name__ == "__main__":
    main()
