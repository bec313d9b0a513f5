"""Measured rows against the judge: a valid row may never be called impossible.

``python -m benchmarks.judge_rows FOLDER`` reads kernelbench.csv, kernelbench/*.py and
pytorch_fp32_*.csv in FOLDER, judges every row, and prints how many were called impossible. One of
the problems needs the package einops. Of a training step its forward pass is judged.
"""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.pytorch import MODELS, _model, ops

import gambrel
from gambrel.advise.judge.limits import light_of
from gambrel.advise.judge.ruling import CLOCK
from gambrel.analysis.question import ask
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.api.analyze import settings_of
from gambrel.api.problems import rows_of
from gambrel.capture.named_op import named_op
from gambrel.device.model import Device
from gambrel.device.resolve import resolve_hardware
from gambrel.errors import GambrelError

#: KernelBench's names of machines → ids of the catalog.
H100 = {"H100_Modal": "h100-sxm5-80gb", "H100_PCIe_LambdaLabs": "h100-pcie-80gb"}


def device_of(name: str) -> Device:
    """A device of the catalog."""
    return resolve_hardware(ops.GPUS.get(name.replace("_", " "), name))[0]


def op_of(row: dict[str, str]) -> str | None:
    """The named op of a row; None where it is none."""
    kind = row["OPName"]
    if kind in {"linear", "bmm"}:
        batch = f",b={row['B']}" if kind == "bmm" else ""
        sizes = ",".join(f"{n.lower()}={int(float(row[n]))}" for n in "MNK")
        return f"matmul:{sizes}{batch},fp32"
    if kind == "conv":
        side, taps = int(float(row["Input_Size"])), int(float(row["Kernel_Szie"]))
        channels = f"n={row['B']},c={row['Input_Channel']},k={row['Output_Channel']}"
        more = f"stride={row['Stride']},pad={row['Padding']}"
        return f"conv:{channels},h={side},w={side},kernel={taps},{more},fp32"
    rows, cols = row.get("B"), row.get("H")
    if not rows or not cols:
        return None
    rows, cols = int(float(rows)), int(float(cols))
    if kind in {"softmax", "ln"}:
        return f"{ {'softmax': 'softmax', 'ln': 'layer_norm'}[kind] }:rows={rows},cols={cols},fp32"
    name = kind.removesuffix("u")
    n = rows * cols
    # One operand is a number where the name ends in u.
    return f"{'relu' if kind.endswith('u') else name}:n={n},fp32"


def kernels(folder: Path) -> Iterator[tuple[str, str, str, float]]:
    """File, device, op and seconds of each row."""
    for path in sorted(folder.glob("pytorch_fp32_*.csv")):
        if path.stem.endswith("models"):
            continue
        with path.open(encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                op = op_of(row)
                if op is not None:
                    yield path.stem, row["Device"], op, float(row["Latency"]) / 1e3


def main() -> None:
    """Judges all rows."""
    folder = Path(sys.argv[1])
    start, counts, wrong = time.perf_counter(), Counter(), []
    question = ask("limits", {"model": "resnet50", "hardware": "a100"})
    machines: dict[str, Machine] = {}

    def machine(name: str) -> Machine:
        if name not in machines:
            machines[name] = Machine(device_of(name), settings_of(question))
        return machines[name]

    for file, device, op, seconds in kernels(folder):
        try:
            machine(device)
        except GambrelError:
            counts[f"{file}: no such device in the catalog"] += 1
            continue
        workload = named_op(op)
        bench = Workbench(workload, {}, question_conventions)
        light = light_of(bench, machine(device))["sol_time_s"]
        counts[file] += 1
        if light is not None and seconds * CLOCK < light:
            judged = gambrel.judge(op, seconds, machine(device).device)
            counts[f"{file}: {judged.ruling.value} where less work may do"] += 1
            if judged.ruling.value == "impossible":
                wrong.append((file, device, op, seconds, light))
    wrong += list(models(folder, machine, counts))
    wrong += list(kernelbench(folder, machine, counts))
    for name, count in sorted(counts.items()):
        print(f"{count:7,}  {name}")
    print(f"{len(wrong)} impossible, {time.perf_counter() - start:.0f} s")
    for row in wrong[:20]:
        print(row)


def models(folder: Path, machine, counts: Counter) -> Iterator[tuple]:
    """Whole models whose forward pass takes less than the limit."""
    with (folder / "pytorch_fp32_models.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            name, _, seq, batch = row["run"].removesuffix("-fusion").split("-")
            if name not in MODELS:
                counts[f"pytorch_fp32_models: {name} is not described"] += 1
                continue
            seconds = float(row["fw_latency"]) / 1e3
            bench = _model(name, int(seq), int(batch))
            light = light_of(bench, machine(row["gpu"]))["sol_time_s"]
            counts["pytorch_fp32_models"] += 1
            if light is not None and seconds * CLOCK < light:
                yield "models", row["gpu"], row["run"], seconds, light


def kernelbench(folder: Path, machine, counts: Counter) -> Iterator[tuple]:
    """Rows of problems whose time is below the limit."""
    wanted: dict[str, list[tuple[str, float]]] = {}
    with (folder / "kernelbench.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            name = f"{row['level']}_{row['problem']}"
            wanted.setdefault(name, []).append((H100[row["gpu"]], float(row["mean"]) / 1e3))
    for name, rows in wanted.items():
        path = folder / "kernelbench" / name
        limits = {r.hardware: r for r in rows_of(path, [machine(d) for d in H100.values()])}
        for device, seconds in rows:
            light = limits[device].sol_time_s
            counts["kernelbench" if light is not None else "kernelbench: not captured"] += 1
            if light is not None and seconds * CLOCK < light:
                yield "kernelbench", device, name, seconds, light


if __name__ == "__main__":
    from gambrel.ops import Conventions

    question_conventions = Conventions()
    try:
        main()
    except GambrelError as error:
        sys.exit(str(error))
