"""On a machine with a GPU, in one command and under eight minutes: do ceilings, profiles and
expected times hold there?

    python benchmarks/gpu_checks.py                 # cuda:0
    python benchmarks/gpu_checks.py --device cuda:1

Needs torch for that GPU, nothing else. Writes ``results/gpu_<name>.md``. Without a GPU it says why
and ends with 2. Every function takes the device by name, so that the tests run all of them on a
processor.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"

#: Attained by gambrel / by the plain loop, at least; parts / end to end, at most so far from 1.
ENOUGH = 0.97
NEAR = 0.05

SIDES = (2048, 4096, 6144, 8192, 12288, 16384)
COPY_BYTES = (256 << 20, 512 << 20, 1 << 30, 2 << 30, 4 << 30)


@dataclass(frozen=True)
class Table:
    """A part of the result."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def text(self) -> str:
        lines = [
            f"## {self.title}",
            "",
            f"| {' | '.join(self.columns)} |",
            f"|{'---|' * len(self.columns)}",
            *(f"| {' | '.join(row)} |" for row in self.rows),
        ]
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])


# A plain tuned loop: what anybody would write who wants to know what the device gives.


def seconds_of(call: Callable[[], Any], device: str, count: int = 20) -> float:
    """Mean seconds of a call out of ``count`` in a row, after three."""
    for _ in range(3):
        call()
    if not device.startswith("cuda"):
        begun = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - begun) / count
    import torch

    with torch.cuda.device(device):  # events belong to the current device
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        first.record()
        for _ in range(count):
            call()
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last) * 1e-3 / count


def best_product(device: str, sides: Sequence[int] = (), count: int = 20) -> tuple[float, str]:
    """FLOP/s of the fastest bf16 product ``a @ b`` or ``a @ b.t()``, and which it was."""
    import torch

    found = []
    for side in sides or SIDES:
        try:
            a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
            out = torch.empty_like(a)
            for name, second in (("a @ b", b), ("a @ b.t()", b.t())):
                took = seconds_of(
                    lambda a=a, s=second, out=out: torch.mm(a, s, out=out), device, count
                )
                found.append((2 * side**3 / took, f"{name}, side {side}"))
        except torch.cuda.OutOfMemoryError:
            break
    return max(found)


def best_copy(device: str, sizes: Sequence[int] = (), count: int = 20) -> tuple[float, str]:
    """Bytes per second, read and written, of the fastest copy, and which it was."""
    import torch

    found = []
    for size in sizes or COPY_BYTES:
        try:
            a, b = (torch.rand(size // 4, device=device) for _ in range(2))
            ways = {
                "copy_": lambda a=a, b=b: a.copy_(b),
                "neg": lambda a=a, b=b: torch.neg(b, out=a),
            }
            for name, call in ways.items():
                found.append(
                    (2 * size / seconds_of(call, device, count), f"{name}, {size >> 20} MiB")
                )
            del a, b, ways, call
        except torch.cuda.OutOfMemoryError:
            break
    return max(found)


def ceilings(survey: Any, product: tuple[float, str], copy: tuple[float, str]) -> Table:
    """gambrel's ceilings beside those of the plain loop."""
    rows = []
    for name, resource, dtype, mix, loop, unit in (
        ("bf16 product", "matrix", "bf16", "matmul", product, 1e12),
        ("copy in memory", "DRAM", "", "copy", copy, 1e9),
    ):
        ours = survey.best(resource, dtype, mix=mix)
        shown = "TFLOP/s" if unit == 1e12 else "GB/s"
        ratio = ours.value / loop[0] if ours else 0.0
        rows.append(
            (
                name,
                f"{ours.value / unit:,.1f} {shown}" if ours else "unknown",
                ours.note if ours else "",
                f"{loop[0] / unit:,.1f} {shown}",
                loop[1],
                f"{ratio:.1%}",
                "yes" if ratio >= ENOUGH else "NO",
            )
        )
    return Table(
        title="Ceilings beside a plain tuned loop",
        columns=("", "gambrel", "by", "loop", "by", "gambrel / loop", f"≥ {ENOUGH:.0%}"),
        rows=rows,
        notes=["The loop ran before and after; its best counts. Both on random data."],
    )


def survey_table(survey: Any) -> Table:
    """Every figure."""
    from gambrel.units import format_si

    return Table(
        title="All ceilings",
        columns=("of", "mix", "best", "median", "spread", "note"),
        rows=[
            (
                f"{m.resource} {m.dtype}".strip(),
                m.mix,
                format_si(m.value, m.unit, 4),
                format_si(m.median, m.unit, 4),
                f"{m.spread:.1%}" if m.rounds > 1 else "",
                m.note,
            )
            for m in survey.measurements
        ],
        notes=[f"- not measured: {text}" for text in survey.unknown],
    )


# Models, defined here so that nothing need be installed.


def bottleneck(inside: int, width: int, stride: int) -> Any:
    """One block of a ResNet-50."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            out = 4 * width
            self.path = nn.Sequential(
                nn.Conv2d(inside, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, out, 1, bias=False),
                nn.BatchNorm2d(out),
            )
            same = stride == 1 and inside == out
            self.skip = (
                nn.Identity()
                if same
                else nn.Sequential(
                    nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out)
                )
            )
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            return self.relu(self.path(x) + self.skip(x))

    return Block()


def resnet50() -> Any:
    """ResNet-50: 25.6 million parameters, 4.09 GMAC at 224 x 224."""
    from torch import nn

    layers: list[Any] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inside = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def encoder(width: int = 1024, layers: int = 12, heads: int = 16) -> Any:
    """A transformer of the size of BERT-large's half."""
    from torch import nn

    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, batch_first=True, activation="gelu", norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


@dataclass(frozen=True)
class Case:
    """A model to profile."""

    name: str
    make: Callable[[], Any]
    shape: tuple[int, ...]
    dtype: str = "bfloat16"
    train: bool = False
    judged: bool = True


CASES = (
    Case("ResNet-50, batch 64", resnet50, (64, 3, 224, 224)),
    Case("ResNet-50, batch 64, fp32", resnet50, (64, 3, 224, 224), dtype="float32"),
    Case("encoder 12x1024, 16 x 512 tokens", encoder, (16, 512, 1024)),
    Case("encoder 12x1024, 16 x 512 tokens, training", encoder, (16, 512, 1024), train=True),
    # Bound by the host: the parts are less than the whole, and the gap says why.
    Case("ResNet-50, batch 1", resnet50, (1, 3, 224, 224), judged=False),
)


def profiled(case: Case, device: str, peaks: Any, steps: int) -> Any:
    """The analyzer after profiling a case."""
    import torch

    from gambrel import RooflineAnalyzer

    kind = getattr(torch, case.dtype)
    torch.manual_seed(0)
    model = case.make().eval().to(kind)
    analyzer = RooflineAnalyzer(model, torch.randn(*case.shape, dtype=kind), peaks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # points above the roof; counted below
        analyzer.profile(device, warmup=5, steps=steps, train=case.train)
    return analyzer


def row_of(case: Case, analyzer: Any) -> tuple[str, ...]:
    """One row of the table of profiles."""
    t, points = analyzer.totals, analyzer.results
    near = abs(t.explained - 1) <= NEAR
    return (
        case.name,
        f"{t.plain_s * 1e3:.2f}",
        f"{t.plain_spread:.0%}",
        f"{t.explained:.3f}",
        ("yes" if near else "NO") if case.judged else "(host)",
        f"{t.device_busy_s / t.plain_s:.3f}" if t.device_busy_s else "",
        f"{t.device_sum_s / t.device_busy_s:.3f}" if t.device_busy_s else "",
        f"{t.instrumented_s / t.plain_s:.3f}",
        f"{sum(p.time_s is None for p in points)}/{len(points)}",
        f"{t.unmatched_s / t.plain_s:.1%}",
        f"{sum((p.utilization or 0) > 1 for p in points)}",
        f"{(t.peak_bytes or 0) / 1e6:,.0f} / {(t.predicted_bytes or 0) / 1e6:,.0f}",
    )


PROFILE_COLUMNS = (
    "model",
    "end to end, ms",
    "spread",
    "parts / end to end",
    f"within {NEAR:.0%}",
    "device busy / end to end",
    "sum of kernels / busy",
    "profiled / plain",
    "ops without a call",
    "calls without an op",
    "above the roof",
    "memory, MB: measured / predicted",
)


def by_kind(analyzer: Any) -> list[tuple[str, ...]]:
    """Measured beside expected time for each kind of op, the longest first."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0])
    for p in analyzer.results:
        if p.time_s and p.expected_time_s and p.roofline_time_s:
            row = sums[f"{p.type}{'' if p.phase == 'forward' else f' ({p.phase})'}"]
            for i, value in enumerate((p.time_s, p.expected_time_s, p.roofline_time_s, 1)):
                row[i] += value
    order = sorted(sums.items(), key=lambda item: -item[1][0])
    if order:
        order.append(("all", [sum(row[i] for row in sums.values()) for i in range(4)]))
    return [
        (
            kind,
            str(count),
            f"{measured * 1e3:.3f}",
            f"{expected * 1e3:.3f}",
            f"{expected / measured:.2f}",
            f"{bound / measured:.0%}",
        )
        for kind, (measured, expected, bound, count) in order
    ]


def why_expected(analyzer: Any) -> str:
    """Whose kernels the expected times describe."""
    found = analyzer.analysis.total.expected_time_s
    return f"Expected: {found.confidence} confidence, {found.reason}." if found else ""


def model_tables(
    device: str, peaks: Any, cases: Sequence[Case] = (), steps: int = 20
) -> Iterator[Table]:
    """Profiles, then expected times by kind of op for each model."""
    rows, details = [], []
    for case in cases or CASES:
        try:
            analyzer = profiled(case, device, peaks, steps)
        except Exception as error:  # the other models are still worth their rows
            rows.append((case.name, f"failed: {error}", *[""] * (len(PROFILE_COLUMNS) - 2)))
            continue
        rows.append(row_of(case, analyzer))
        lost = "; ".join(f"{n} {t * 1e6:.0f} µs" for n, t in longest(analyzer.unmatched))
        details.append(
            Table(
                title=f"Expected and measured: {case.name}",
                columns=(
                    "kind",
                    "ops",
                    "measured, ms",
                    "expected, ms",
                    "expected / measured",
                    "bound / measured",
                ),
                rows=by_kind(analyzer),
                notes=[
                    why_expected(analyzer),
                    *([f"Calls without an op, the longest: {lost}."] if lost else []),
                ],
            )
        )
    yield Table(title="Profiles: parts against the whole", columns=PROFILE_COLUMNS, rows=rows)
    yield from details


def longest(calls: Sequence[tuple[str, float]], count: int = 5) -> list[tuple[str, float]]:
    """The names with most time."""
    sums: dict[str, float] = defaultdict(float)
    for name, seconds in calls:
        sums[name] += seconds
    return sorted(sums.items(), key=lambda item: -item[1])[:count]


def page(survey: Any, tables: Sequence[Table], took_s: float) -> str:
    """The result as Markdown."""
    versions = ", ".join(f"{name} {value}" for name, value in survey.versions.items())
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = [
        f"# GPU checks: {survey.name}",
        "",
        f"`python benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}`".replace(" `", "`")
        + f", {date}; {survey.device}, {survey.architecture}; {versions}; {took_s:.0f} s in all.",
    ]
    return "\n\n".join(["\n".join(head), *(t.text() for t in tables)]) + "\n"


def file_name(name: str) -> str:
    """``"NVIDIA H200"`` → ``"gpu_nvidia_h200.md"``."""
    return f"gpu_{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}.md"


def place_of(name: str) -> str:
    """The device, after it has done something."""
    from gambrel.measure.gpu import index_of

    return f"cuda:{index_of(name)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs everything; 0 done, 1 a check failed, 2 there is no GPU."""
    parser = argparse.ArgumentParser(description="What gambrel measures on this GPU.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=20, help="steps of each profile")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    chosen = parser.parse_args(arguments)

    from gambrel.errors import GambrelError
    from gambrel.measure.peaks import measure_peaks

    begun = time.perf_counter()
    try:
        device = place_of(chosen.device)
        loops = [(best_product(device), best_copy(device))]
        peaks = measure_peaks(device, cache=False)
        loops.append((best_product(device), best_copy(device)))
    except GambrelError as error:
        print(f"nothing was measured: {error}", file=sys.stderr)
        return 2
    product, copy = (max(found) for found in zip(*loops, strict=True))
    tables = [ceilings(peaks.survey, product, copy)]
    tables += model_tables(device, peaks, steps=chosen.steps)
    tables.append(survey_table(peaks.survey))
    text = page(peaks.survey, tables, time.perf_counter() - begun)
    print(text)
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / file_name(peaks.survey.name)
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}", file=sys.stderr)
    return 1 if "| NO |" in text else 0


if __name__ == "__main__":
    sys.exit(main())
