"""Expected times against measured kernels on shapes that the constants were not fitted on.

python benchmarks/prediction.py            the sample in benchmarks/data/kernels
python benchmarks/prediction.py FOLDER     all held-out rows of a folder of measurements
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from calibration_replay import CACHED, COLD  # noqa: E402
from calibration_rows import FORMS, Form, Rows, load  # noqa: E402
from calibration_table import machine  # noqa: E402
from common import report  # noqa: E402
from gambrel.analysis.estimate import Set, packaged  # noqa: E402
from gambrel.analysis.estimate.constants import EDGES_S, WIDE  # noqa: E402
from gambrel.analysis.estimate.shown import level_of, misses  # noqa: E402

SAMPLE = ROOT / "benchmarks/data/kernels"
#: Form, first format → device ("": any other) → largest MAPE aimed at.
TARGETS = {
    ("matmul", "bf16"): {"h100-sxm5-80gb": 0.09, "a100-sxm4-80gb": 0.09, "": 0.12},
    ("matmul", "fp8"): {"": 0.12},
    ("matmul", "fp8_block"): {"": 0.12},
    ("matmul", "nvfp4"): {"": 0.15},
    ("attention", ""): {"": 0.13},
    ("decode_attention", ""): {"": 0.15},
    ("latent_decode", ""): {"": 0.18},
    ("grouped_matmul", ""): {"": 0.18},
    ("collective", ""): {"": 0.15},
}
COLUMNS = (
    "form",
    "format",
    "device",
    "constants",
    "n",
    "bound MAPE",
    "MAPE",
    "cold",
    "median",
    "aim",
    "met",
    "inside",
    "width > 20 µs",
    "high",
    "inside, high",
    "width, high",
)
#: Of each line: whether certain predictions held, and the width of their ranges above 20 µs.
CERTAIN: list[tuple[np.ndarray, np.ndarray]] = []
NOTES = (
    "Facts extracted from ai-dynamo/aiconfigurator (commit 095f58a5, 2026-08-21), Apache-2.0, "
    "Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES.",
    "constants: a name is that framework's constants on its own rows. `any` serves runtimes whose "
    "own kernels were not measured (PyTorch, ONNX Runtime; an engine, in a format that its rows "
    "lack), scored on the rows of all: fitted to the kernels of all, or the constants of the "
    "framework in brackets, with a range that covers the others. Language models on data-center "
    "GPUs take vLLM's unless another runtime is named.",
    "MAPE: of the measurement as it was made. On the L40S that is the kernel replayed over the "
    "same buffers, of which its L2 of 96 MB keeps some; short products of vLLM with a scale a "
    "block (H100, L40S) wait for the host. Both are told apart from the kernel "
    "(scripts/calibration_replay.py), whose time alone is what reports of a model state.",
    "cold: MAPE of that time on the L40S, over the rows whose replays touch more than 1.5 times "
    "its L2. How long smaller kernels take cold was not measured, nor short products of vLLM with "
    "a scale a block without their host.",
    "inside: share of the measured times within the range; width: median of high / low; the same "
    "under `high`, of the predictions that are called certain.",
    "Left out, because other kernels run there: attention by Triton or with heads wider than 256; "
    "decode of TensorRT-LLM with more than 32 query heads a key/value head; decode "
    "on A100 faster than its memory; 22 of 512 experts in SGLang.",
)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    lines: list[list[object]] = []
    for form in FORMS:
        if not (folder / form.file).exists():  # the sample leaves some forms out
            continue
        rows = load(folder, form)
        rows = rows.take(rows["half"] == 1)
        lines += collectives(form, rows) if form.name == "collective" else table(form, rows)
    sample = folder == SAMPLE
    report(
        "prediction" if sample else "prediction_all",
        "Expected time against measured kernels, shapes not fitted on",
        COLUMNS,
        lines,
        notes=[
            f"Rows: {'the sample in benchmarks/data/kernels' if sample else 'all'}.",
            certain(),
            *NOTES,
        ],
    )


def table(form: Form, rows: Rows) -> list[list[object]]:
    lines = []
    for s in packaged().sets:
        if s.form != form.name or not s.points:
            continue
        formats = next(f for f in form.formats if f.names == s.formats)
        part = rows.take(formats.mask(rows) & (rows["device"] == s.device))
        if s.framework != "any":
            part = part.take(part["stack"] == s.framework)
        if len(part):
            name = s.framework
            if s.describes != name:
                name += f" [{s.describes}]"
            lines.append(line(form, [(s, part)], s.formats[0], s.device, name))
    return lines


def collectives(form: Form, rows: Rows) -> list[list[object]]:
    """One line a kind and device, over 2, 4 and 8 participants."""
    lines = []
    for device in dict.fromkeys(rows["device"]):
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
            pairs = [
                (s, rows.take((rows["device"] == device) & (rows["label"] == s.formats[0])))
                for s in packaged().sets
                if s.form == "collective" and s.device == device and s.formats[0].startswith(kind)
            ]
            lines.append(line(form, pairs, kind, device, "NCCL"))
    return lines


def line(
    form: Form, pairs: list[tuple[Set, Rows]], label: str, device: str, stack: str
) -> list[object]:
    ratio, inside, width, plain, long, high, cold = [], [], [], [], [], [], []
    for s, part in pairs:
        predicted = form.predict(s.constants, s.device, part)
        bins = np.digitize(predicted, EDGES_S)
        low, top = np.array(s.low)[bins], np.array(s.high)[bins]
        times = part["seconds"] / predicted
        ratio.append(1 / times)
        inside.append((times >= low) & (times <= top))
        width.append(top / low)
        plain.append(part["bound"] / part["seconds"])
        cold.append(_cold_error(form, s, part))
        long.append(predicted > 2e-5)
        sure = (s.confidence or level_of(s.held_out)) == "high"
        shown = np.array([m is None for m in misses(s.held_out) or [None] * len(WIDE)])
        high.append((top / low <= np.array(WIDE)[bins]) & sure & shown[bins])
    error = np.abs(np.concatenate(ratio) - 1)
    bound = np.concatenate(plain)
    apart = np.concatenate(cold)
    within, widths, far, sure = (np.concatenate(x) for x in (inside, width, long, high))
    CERTAIN.append((within[sure], widths[sure & far]))
    aims = TARGETS.get((form.name, label)) or TARGETS.get((form.name, ""), {})
    aim = aims.get(device, aims.get(""))
    return [
        form.name,
        label,
        device,
        stack,
        len(error),
        f"{np.abs(bound - 1).mean():.1%}" if bound.any() else "",
        f"{error.mean():.1%}",
        f"{apart.mean():.1%}" if len(apart) else "",
        f"{np.median(error):.1%}",
        "" if aim is None else f"{aim:.0%}",
        "" if aim is None else ("yes" if error.mean() <= aim else "no"),
        f"{within.mean():.0%}",
        _median(widths[far]),
        f"{sure.mean():.0%}",
        f"{within[sure].mean():.0%}" if sure.any() else "",
        _median(widths[sure & far]),
    ]


def _cold_error(form: Form, s: Set, rows: Rows) -> np.ndarray:
    """Errors of the time within a model, of rows of which replays kept nothing."""
    if CACHED[-1] not in s.constants:
        return np.array([])
    rows = rows.take(rows["working"] > COLD * machine(s.device)[1].cache_bytes)
    return np.abs(form.cold(s.constants, s.device, rows) / rows["seconds"] - 1)


def _median(widths: np.ndarray) -> str:
    return f"{np.median(widths):.2f}" if len(widths) else ""


def certain() -> str:
    """What is called certain, over all lines."""
    within, widths = (np.concatenate(column) for column in zip(*CERTAIN, strict=True))
    return (
        f"All predictions of high confidence: {len(within):,}, {within.mean():.1%} of them inside "
        f"the range (aim 90 %), whose median width above 20 µs is {np.median(widths):.2f} "
        "(aim at most 1.50)."
    )


if __name__ == "__main__":
    main()
