"""Host time per launch of eager PyTorch, by host, beside V100, T4 and GPUs of the A100's years.

    python benchmarks/hosts.py

A host is one server of one publication. It counts where kernels take less than two thirds of the
measured time: there a run takes as long as the host needs for its launches. What is expected beside
a GPU that nobody measured is the median of the hosts of its years.

The rows of NVIDIA DeepLearningExamples time the script around the network as well: after the
launches of the network it computes loss and accuracy, waits for three figures, logs, and fetches
the next batch. That is work of the host too, so that it is fitted as a number of launches that each
step takes more, together with the time per launch of the two servers; errors are those of a network
left out.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy import networks
from benchmarks.common import report

import gambrel
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, MachineTimes, Workbench, answered
from gambrel.device import catalog
from gambrel.ops import Conventions

DATA = Path(__file__).parent / "data"
#: Largest share of the time that kernels take where the host is the limit.
BOUND = 2 / 3
OLDER, NEWER = "V100, T4", "A100, A10"
#: Hidden size, layers, heads, intermediate size; attention in several kernels, as then.
BERTS = {"bert-base": (768, 12, 12, 3072), "minilm-l6": (384, 6, 12, 1536)}
#: Hidden size, layers, heads, key/value heads, intermediate size.
DECODERS = {"llama-13b": (5120, 40, 40, 40, 13824), "mistral-7b": (4096, 32, 32, 8, 14336)}
#: Of publications that name no server.
NAMES = {"aitemplate": "A100 of AITemplate"}
#: The same of data/diffusion.
DIFFUSION = {
    "diffusers torch2.0": "A100 of diffusers' docs",
    "fal": "A100 of fal",
    "onnxruntime": "A100 of ONNX Runtime's docs",
}


class Timed(NamedTuple):
    """One run that waits for the host."""

    years: str
    host: str
    model: str
    launches: float
    measured_s: float


def main() -> None:
    """Prints and stores the time per launch of each host, and their medians."""
    known = list(published())
    scripted = [one for one in known if one.host in networks.SERVER_S]
    extra, times = fit(scripted)
    each: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in (*known, *others(), *images()):
        more = extra if one.host in times else 0
        each[one.years, NAMES.get(one.host, one.host)].append(
            one.measured_s / (one.launches + more) * 1e6
        )
    hosts: dict[str, list[float]] = defaultdict(list)
    rows = []
    for (years, host), us in sorted(each.items()):
        hosts[years].append(statistics.median(us))
        low, middle, high = min(us), statistics.median(us), max(us)
        rows.append([years, host, len(us), f"{middle:.1f}", f"{low:.0f} to {high:.0f}"])
    for years, us in hosts.items():
        low, middle, high = min(us), statistics.median(us), max(us)
        rows.append(
            [years, "median of hosts", len(us), f"{middle:.1f}", f"{low:.0f} to {high:.0f}"]
        )
    report(
        "hosts",
        "Host time per launch of eager PyTorch, µs",
        ("GPUs", "host", "rows or hosts", "median", "range"),
        rows,
        notes=notes(scripted, extra, times),
    )


def notes(scripted: Sequence[Timed], extra: int, times: dict[str, float]) -> list[str]:
    """What the fit says of DeepLearningExamples."""
    servers = ", ".join(f"{t * 1e6:.1f} µs per launch on the {h}" for h, t in times.items())
    share = held_out(scripted, fit)
    without = held_out(scripted, lambda rows: (0, per_launch(rows, 0)))
    return [
        f"DeepLearningExamples: {len(scripted)} rows, {servers}; the script takes as long as "
        f"{extra} launches a step. Error with the network left out: {share:.1%}, "
        f"without the script {without:.1%}.",
    ]


# --- DeepLearningExamples ---------------------------------------------------------------------


def fit(rows: Sequence[Timed]) -> tuple[int, dict[str, float]]:
    """Launches that the script takes, and seconds per launch by host."""
    extra = min(range(201), key=lambda n: errors(rows, n, per_launch(rows, n)))
    return extra, per_launch(rows, extra)


def per_launch(rows: Sequence[Timed], extra: int) -> dict[str, float]:
    """Seconds by host."""
    hosts = sorted({r.host for r in rows})
    return {
        host: statistics.median(r.measured_s / (r.launches + extra) for r in rows if r.host == host)
        for host in hosts
    }


def errors(rows: Sequence[Timed], extra: int, times: dict[str, float]) -> float:
    """Mean absolute error."""
    return statistics.fmean(
        abs(times[r.host] * (r.launches + extra) / r.measured_s - 1) for r in rows
    )


def held_out(
    rows: Sequence[Timed], fitted: Callable[[Sequence[Timed]], tuple[int, dict[str, float]]]
) -> float:
    """Mean absolute error of networks that were left out."""
    found = []
    for model in sorted({r.model for r in rows}):
        extra, times = fitted([r for r in rows if r.model != model])
        own = [r for r in rows if r.model == model and r.host in times]
        found += [errors([r], extra, times) for r in own]
    return statistics.fmean(found)


# --- rows -------------------------------------------------------------------------------------


def published() -> Iterator[Timed]:
    """Forward passes of data/networks."""
    for row in _rows("networks/rows.csv"):
        if row["phase"] == "inference" and _years(row["device"]):
            seconds = int(row["batch"]) / float(row["per_s"])
            found = networks.answer_of(row)
            yield from _bound(row | {"host": networks.host_of(row)}, found, seconds)


def others() -> Iterator[Timed]:
    """Rows of data/hosts; transformers are captured as they were written in their years."""
    for row in _rows("hosts/rows.csv"):
        model, seq = row["model"], row["seq"]
        if model in BERTS:
            workload = encoder(model, int(seq))
        else:
            workload = decoder(model) if model in DECODERS else gambrel.load_model(model)
        precision = None if model in BERTS | DECODERS else row["precision"]
        found = _answer(workload, row["device"], precision, {})
        yield from _bound(row, found, float(row["ms"]) * 1e-3)


def images() -> Iterator[Timed]:
    """Stable Diffusion on A100s."""
    for row in _rows("diffusion/rows.csv"):
        host = DIFFUSION.get(row["source"])
        if host and row["runtime"] == "pytorch" and _years(row["device"]) == NEWER:
            parts = (part.split("=") for part in row["sizes"].split())
            sizes = {name: int(size) for name, size in parts}
            workload = gambrel.load_model(row["model"])
            found = _answer(workload, row["device"], row["precision"], sizes)
            yield from _bound(row | {"host": host}, found, float(row["seconds"]))


def _answer(
    workload: Any, device: str, precision: str | None, sizes: dict[str, int]
) -> MachineTimes:
    settings = Settings(precision=precision, runtime="pytorch")
    bench = Workbench(workload, workload.resolve_symbols(sizes), Conventions())
    return answered(bench, Machine(catalog.load(device), settings), settings)


def _bound(row: dict[str, str], found: MachineTimes, seconds: float) -> Iterator[Timed]:
    """The row, if the host is the limit."""
    whole = found.expected.total
    if whole is not None and whole.value - whole.host_s < BOUND * seconds:
        launches = sum(n * times for times, handed in found.table.queue for _, n in handed)
        yield Timed(_years(row["device"]), row["host"], row["model"], launches, seconds)


def _years(device: str) -> str:
    """Of the servers around a GPU; empty where it is of others."""
    if device.startswith(("v100-", "t4")):
        return OLDER
    return NEWER if device.startswith(("a100-", "a10")) else ""


@cache
def encoder(model: str, length: int) -> Any:
    """One sequence in fp32."""
    import torch

    from gambrel.capture.torch import capture, ensure_torchvision

    ensure_torchvision()
    import transformers

    hidden, layers, heads, inner = BERTS[model]
    config = transformers.BertConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        attn_implementation="eager",
    )
    with torch.device("meta"):
        module = transformers.BertForSequenceClassification(config).eval()
        ids = torch.zeros(1, length, dtype=torch.long)
        inputs = {"input_ids": ids, "attention_mask": ids, "token_type_ids": ids}
        return capture(module, kwargs=inputs)


@cache
def decoder(model: str, cached: int = 64) -> Any:
    """One token of one sequence in fp16; quantized weights take as many launches."""
    import torch

    from gambrel.capture.torch import capture, ensure_torchvision

    ensure_torchvision()
    import transformers

    hidden, layers, heads, kv_heads, inner = DECODERS[model]
    config = transformers.LlamaConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=inner,
        vocab_size=32000,
        attn_implementation="eager",
    )
    with torch.device("meta"):
        module = transformers.LlamaForCausalLM(config).half().eval()
        past = transformers.DynamicCache(config=config)
        for layer in range(layers):
            kv = torch.empty(1, kv_heads, cached, hidden // heads, dtype=torch.half)
            past.update(kv, kv.clone(), layer)
        ids = torch.zeros(1, 1, dtype=torch.long)
        return capture(module, kwargs={"input_ids": ids, "past_key_values": past})


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


if __name__ == "__main__":
    main()
