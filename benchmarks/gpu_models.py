"""Whole models in PyTorch on this GPU: eager, replayed as a CUDA graph, compiled; and their ops.

    python benchmarks/gpu_models.py --out FOLDER [--seconds 240] [--only REGEX] [--compile]

Every case is built with random weights on the GPU and timed three ways: launched one by one, as
one graph, and (``--compile``) after ``torch.compile``. One more step runs under PyTorch's profiler
and gives the device time of each op by input shapes. Energy is what NVML counts over the timed
steps; memory is the peak of what tensors hold. ``models.csv`` has a row per case and ``ops.csv`` a
row per op and shapes. No figure of it is in the repository yet: nobody has run it on a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.gpu_model_cases import FORMATS, Case, built, cases, compiled_cases

#: Least seconds and steps of the timed loop.
LEAST_S, LEAST_STEPS = 0.35, 5
SGD = "tv:"  # trained with momentum; everything else with AdamW


@dataclass
class Found:
    """What was measured of a case; seconds are per step."""

    eager_s: float | None = None
    graph_s: float | None = None
    compiled_s: float | None = None
    busy_s: float | None = None
    launches: int | None = None
    energy_j: float | None = None
    clock_mhz: float | None = None
    peak_bytes: int | None = None
    note: str = ""


# Measuring


class Meter:
    """Energy, clock and peak memory of the GPU."""

    def __init__(self) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
            self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception:  # no NVML, or no GPU
            self.nvml = None

    def energy_j(self) -> float | None:
        """Since the driver was loaded."""
        try:
            return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)) * 1e-3
        except Exception:  # no NVML, or a GPU that does not count
            return None

    def clock_mhz(self) -> float | None:
        """Of the multiprocessors, now."""
        if self.nvml is None:
            return None
        return float(self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM))


def step_of(case: Case, module: Any, inputs: dict[str, Any]) -> Callable[[], Any]:
    """One step: a forward pass, or with backward and optimizer."""
    import torch

    where = next(module.parameters()).device.type
    kind = getattr(torch, FORMATS[case.format])

    def amp() -> Any:
        return torch.autocast(where, dtype=kind) if case.amp else contextlib.nullcontext()

    if case.model.startswith("decode:"):
        return decode_step(case, module, inputs)
    if case.phase != "training":

        def forward() -> Any:
            with torch.inference_mode(), amp():
                return module(**inputs)

        return forward
    if case.model.startswith(SGD):
        optimizer: Any = torch.optim.SGD(module.parameters(), lr=1e-6, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-6)

    def train() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with amp():
            out = module(**inputs)
            out = next(iter(out.values())) if isinstance(out, dict) else out
            loss = out.float().sum()
        loss.backward()
        optimizer.step()

    return train


def decode_step(case: Case, module: Any, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A token more with keys and values kept; the cache grows by one a step."""
    import torch
    from transformers import DynamicCache

    where = inputs["input_ids"].device
    prompt = torch.randint(0, 1000, (case.batch, case.size - 1), device=where)
    with torch.inference_mode():
        cache = module(input_ids=prompt, past_key_values=DynamicCache(), use_cache=True)
    held = [cache.past_key_values]

    def step() -> Any:
        with torch.inference_mode():
            out = module(input_ids=inputs["input_ids"], past_key_values=held[0], use_cache=True)
            held[0] = out.past_key_values

    return step


def wait() -> None:
    """Until the GPU is done."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(call: Callable[[], Any], least_s: float = LEAST_S) -> float:
    """Seconds per call by the clock, many in a row."""

    def loop(count: int) -> float:
        begun = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        return (time.perf_counter() - begun) / count

    for _ in range(3):
        call()
    wait()
    return loop(max(LEAST_STEPS, int(least_s / max(loop(1), 1e-6))))


def graph_of(call: Callable[[], Any]) -> Any:
    """The step as a CUDA graph."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def measured(case: Case, meter: Meter, device: str = "cuda") -> tuple[Found, list[tuple[Any, ...]]]:
    """A case, and its ops."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = case.format == "tf32"
    torch.manual_seed(0)
    found = Found()
    with torch.device(device):
        module, inputs = built(case)
    call = step_of(case, module, inputs)
    call()
    if device == "cuda":
        wait()
        torch.cuda.reset_peak_memory_stats()
        call()
        found.peak_bytes = torch.cuda.max_memory_allocated()
    before, begun = meter.energy_j(), time.perf_counter()
    found.eager_s = timed(call)
    found.clock_mhz = meter.clock_mhz()
    after = meter.energy_j()
    if before is not None and after is not None:
        found.energy_j = (after - before) / (time.perf_counter() - begun) * found.eager_s
    if device != "cuda":
        return found, []
    ops = list(profiled(call, found))
    if case.phase == "inference" and not case.model.startswith("decode:"):
        try:
            found.graph_s = timed(graph_of(call).replay, LEAST_S / 2)
        except Exception as error:
            found.note = f"no graph: {str(error).splitlines()[0][:80]}"
    return found, ops


def profiled(call: Callable[[], Any], found: Found) -> Iterator[tuple[Any, ...]]:
    """Device time per op and shapes over one step."""
    from torch.profiler import ProfilerActivity, profile

    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True
    ) as recorded:
        call()
        wait()
    sums: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, 0.0, set()])
    busy, launches = 0.0, 0
    for event in recorded.events():
        kernels = getattr(event, "kernels", ())
        if not kernels:
            continue
        entry = sums[event.name, json.dumps(event.input_shapes, separators=(",", ":"))]
        entry[0] += 1
        for kernel in kernels:
            entry[1] += kernel.duration
            entry[2].add(kernel.name)
            busy += kernel.duration
            launches += 1
    found.busy_s, found.launches = busy * 1e-6, launches
    for (name, shapes), (count, micros, kernels) in sums.items():
        yield name, shapes, count, round(micros, 2), " | ".join(sorted(k[:100] for k in kernels))


def run_compiled(case: Case, gate: Path, ready: Path) -> float:
    """Seconds of a compiled step; compiles, says so, and waits for the gate before it times."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = case.format == "tf32"
    with torch.device("cuda"):
        module, inputs = built(case)
    compiled = torch.compile(module, dynamic=False)

    def call() -> Any:
        with torch.inference_mode():
            return compiled(**inputs)

    call()
    call()
    wait()
    ready.touch()
    while not gate.exists():
        time.sleep(0.02)
    return timed(call)


def compile_all(chosen: list[Case], out: Path, until: float, workers: int) -> None:
    """Compiles several at once, then times one after the other."""
    out.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(chosen), workers):
        if time.monotonic() > until:
            return
        batch = list(enumerate(chosen[start : start + workers], start))
        own = [str(Path(__file__)), "--out", str(out), "--one"]
        environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "2"}
        running = [
            (i, c, subprocess.Popen(
                [sys.executable, *own, f"{i}"], env=environment, stdout=subprocess.PIPE, text=True
            ))
            for i, c in batch
        ]  # fmt: skip
        while time.monotonic() < until and not all(
            (out / f"ready{i}").exists() or process.poll() is not None for i, _, process in running
        ):
            time.sleep(0.1)
        for i, case, process in running:
            if time.monotonic() > until and not (out / f"ready{i}").exists():
                process.kill()
                continue
            (out / f"gate{i}").touch()
            try:
                text = process.communicate(timeout=20)[0].strip()
                write(out, case, Found(compiled_s=float(text)), [])
            except (ValueError, subprocess.TimeoutExpired):
                process.kill()
                print(f"failed compiled: {case}", flush=True)


def write(out: Path, case: Case, found: Found, ops: list[tuple[Any, ...]]) -> None:
    """A row of models.csv, rows of ops.csv."""
    import torch

    head = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__}
    row = head | asdict(case) | {k: _short(v) for k, v in asdict(found).items()}
    _append(out / "models.csv", list(row), [list(row.values())])
    keys = [f.name for f in fields(Case)]
    columns = [*keys, "op", "shapes", "count", "us", "kernels"]
    _append(out / "ops.csv", columns, [[*(getattr(case, k) for k in keys), *op] for op in ops])


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _append(path: Path, columns: list[str], rows: list[list[Any]]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(columns)
        writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--only", default="", help="cases that a regular expression finds")
    parser.add_argument("--start", type=int, default=0, help="leave out so many cases")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--one", type=int, help="of the compiled cases, by number")
    chosen = parser.parse_args()
    if chosen.one is not None:
        case = list(compiled_cases())[chosen.one]
        i = chosen.one
        print(run_compiled(case, chosen.out / f"gate{i}", chosen.out / f"ready{i}"))
        return 0
    until = time.monotonic() + chosen.seconds
    if chosen.compile:
        compile_all(list(compiled_cases()), chosen.out, until, chosen.workers)
        return 0
    import torch

    chosen.out.mkdir(parents=True, exist_ok=True)
    meter = Meter()
    for case in list(cases())[chosen.start :]:
        if time.monotonic() > until:
            print("out of time", flush=True)
            break
        if chosen.only and not re.search(chosen.only, f"{case}"):
            continue
        try:
            found, ops = measured(case, meter)
        except Exception as error:
            print(f"failed: {case}: {str(error)[:200]}", flush=True)
            found, ops = Found(note=f"failed: {type(error).__name__}"), []
        write(chosen.out, case, found, ops)
        eager, graph = (1e3 * (s or 0) for s in (found.eager_s, found.graph_s))
        print(f"{case.model} {case.batch} {case.format} {case.layout} {case.phase}: "
              f"{eager:.2f} {graph:.2f} {found.note}", flush=True)  # fmt: skip
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
