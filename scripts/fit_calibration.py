"""Refits the constants of expected times from measured kernels, and prints held-out errors.

    python scripts/fit_calibration.py FOLDER [--write]

FOLDER holds gemm.csv, attention_context.csv, attention_decode.csv, moe.csv and nccl.csv as
docs/estimates.md describes them. Shapes are split in two halves by a hash of their key, never row
by row; constants and ranges come from the first half, the printed errors from the second.
``--write`` replaces src/gambrel/analysis/calibration/constants.json and the sample in
benchmarks/data.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from calibration_rows import DEVICES, FORMS, Form, Rows, load

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "src/gambrel/analysis/calibration/constants.json"
#: Edges of the bins of predicted time in which ranges are taken, s.
EDGES = (2e-5, 2e-4, 2e-3)
#: A set with a larger held-out error is not shipped: another format or stack serves better.
POOREST = 0.35


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    sets: list[dict[str, Any]] = []
    for form in FORMS:
        rows = load(options.folder, form)
        fitted = fit_form(form, rows)
        sets += fitted
        for line in (*table(fitted), *transfer(form, rows, fitted)):
            print(line)
    if options.write:
        write([s for s in sets if s["held_out"]["mape"] <= POOREST] + streams(sets))


def streams(sets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Memory-bound kernels that were not measured: launch and bandwidth of bf16 products."""
    found = []
    for s in sets:
        if (s["framework"], s["form"]) == ("any", "matmul") and "bf16" in s["formats"]:
            constants = {
                "launch": s["constants"]["launch"],
                "memory": float(f"{s['constants']['memory'] * 0.95:.4g}"),
                "vector": 0.5,
            }
            found.append(
                {
                    "framework": "any",
                    "form": "stream",
                    "formats": ["any"],
                    "device": s["device"],
                    "constants": constants,
                    "points": 0,
                    "low": [0.8] * (len(EDGES) + 1),
                    "high": [1.5] * (len(EDGES) + 1),
                    "confidence": "medium",
                }
            )
    return found


def transfer(form: Form, rows: Rows, sets: list[dict[str, Any]]) -> list[str]:
    """Errors when constants of the H100 alone predict the other devices."""
    lines = []
    for s in sets:
        if s["device"] != "h100-sxm5-80gb" or s["framework"] != "any" or form.name == "collective":
            continue
        formats = next(f for f in form.formats if list(f.names) == s["formats"])
        alone = s
        if form.shared:
            mask = formats.mask(rows) & (rows["device"] == s["device"])
            alone = _fit_group(form, formats, rows.take(mask), [s["device"]])[0]
        for device in DEVICES:
            part = rows.take(formats.mask(rows) & (rows["device"] == device) & (rows["half"] == 1))
            if device == s["device"] or len(part) < 40:
                continue
            if form.name == "matmul":
                part = part.take((part["n"] >= 1024) & (part["k"] >= 1024))
            ratio = part["seconds"] / form.predict(alone["constants"], device, part)
            low, middle, high = np.quantile(ratio, [0.05, 0.5, 0.95])
            error = np.abs(1 / ratio - 1).mean()
            lines.append(
                f"    H100 -> {device}: {form.name} {s['formats'][0]} n={len(part)} "
                f"MAPE {error:.1%}, measured / predicted {low:.2f} {middle:.2f} {high:.2f}"
            )
    return lines


def fit_form(form: Form, rows: Rows) -> list[dict[str, Any]]:
    """Sets for any stack, and for each stack alone where the form is measured in several."""
    found = _fit_stack(form, rows, "any")
    for stack in rows.stacks() if len(rows.stacks()) > 1 else ():
        found += _fit_stack(form, rows.take(rows["stack"] == stack), stack)
    return found


def _fit_stack(form: Form, rows: Rows, stack: str) -> list[dict[str, Any]]:
    """One set a device and group of formats; library constants are shared where the form says."""
    found = []
    for formats in form.formats:
        mask = formats.mask(rows)
        devices = [d for d in DEVICES if (mask & (rows["device"] == d)).sum() >= form.least]
        groups = [devices] if form.shared else [[d] for d in devices]
        for group in filter(None, groups):
            found += [{"framework": stack, **s} for s in _fit_group(form, formats, rows, group)]
    return found


def _fit_group(form: Form, formats: Any, rows: Rows, devices: list[str]) -> list[dict[str, Any]]:
    mask = formats.mask(rows)
    parts = [rows.take(mask & (rows["device"] == d)) for d in devices]
    train = [p.take(p["half"] == 0) for p in parts]
    test = [p.take(p["half"] == 1) for p in parts]
    fixed = {**form.fixed, **formats.fixed}
    own = [n for n in form.own if n not in fixed]
    shared = form.shared
    start = formats.start(form)
    names = [(None, n) for n in shared] + [(d, n) for d in devices for n in own]
    first = np.log([start[n] for _, n in names])

    def constants(z: Any, device: str) -> dict[str, float]:
        values = dict(fixed)
        for (d, n), v in zip(names, np.exp(z), strict=True):
            if d in (None, device):
                values[n] = float(v)
        return values

    def residual(z: Any) -> Any:
        errors = [
            np.log(form.predict(constants(z, d), d, p) / p["seconds"]) * p.weight()
            for d, p in zip(devices, train, strict=True)
        ]
        # A weak pull to the start keeps constants that the data do not determine where they are.
        return np.concatenate([*errors, 0.3 * (z - first)])

    solved = least_squares(
        residual,
        first,
        loss="soft_l1",
        f_scale=0.1,
        diff_step=1e-3,
        max_nfev=200,
        bounds=(first - 3, first + 3),
    )
    return [
        _entry(form, formats, d, constants(solved.x, d), a, b)
        for d, a, b in zip(devices, train, test, strict=True)
    ]


def _entry(
    form: Form, formats: Any, device: str, constants: dict[str, float], train: Rows, test: Rows
) -> dict[str, Any]:
    constants = {k: float(f"{v:.4g}") for k, v in constants.items()}
    predicted = form.predict(constants, device, train)
    ratio = train["seconds"] / predicted
    bins = np.digitize(predicted, EDGES)
    low, high = [], []
    for i in range(len(EDGES) + 1):
        near = ratio[bins == i] if (bins == i).sum() >= 40 else ratio
        # A quantile of few points is itself uncertain, and new shapes do worse than fitted ones.
        slack = 1 + 0.35 / len(near) ** 0.5
        low.append(min(1.0, float(f"{np.quantile(near, 0.045) / slack:.3g}")))
        high.append(max(1.0, float(f"{np.quantile(near, 0.955) * slack:.3g}")))
    return {
        "form": form.name,
        "formats": list(formats.names),
        "device": device,
        "constants": constants,
        "points": len(train),
        "low": low,
        "high": high,
        "held_out": scores(form, constants, device, test, low, high),
    }


def scores(
    form: Form, constants: dict[str, float], device: str, test: Rows, low: Any, high: Any
) -> dict[str, Any]:
    predicted = form.predict(constants, device, test)
    error = np.abs(predicted / test["seconds"] - 1)
    ratio = test["seconds"] / predicted
    bins = np.digitize(predicted, EDGES)
    lo, hi = np.array(low)[bins], np.array(high)[bins]
    by_stack = {s: round(float(error[test["stack"] == s].mean()), 4) for s in test.stacks()}
    long = predicted > 2e-5
    return {
        "points": len(test),
        "mape": round(float(error.mean()), 4),
        "median": round(float(np.median(error)), 4),
        "inside": round(float(((ratio >= lo) & (ratio <= hi)).mean()), 4),
        "width": round(float(np.median((hi / lo)[long])), 3) if long.any() else None,
        "by_framework": by_stack,
    }


def table(sets: list[dict[str, Any]]) -> list[str]:
    lines = []
    for s in sets:
        h = s["held_out"]
        stacks = " ".join(f"{k} {v:.1%}" for k, v in h["by_framework"].items())
        lines.append(
            f"{s['framework']:<7} {s['form']:<18} {s['formats'][0]:<9} {s['device']:<16} "
            f"n={h['points']:>5} "
            f"MAPE {h['mape']:.1%} median {h['median']:.1%} inside {h['inside']:.0%} "
            f"width {h['width']} | {stacks}"
        )
        lines.append("     " + " ".join(f"{k}={v:g}" for k, v in s["constants"].items()))
    return lines


def write(sets: list[dict[str, Any]]) -> None:
    old = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    old["sets"] = sets
    TARGET.write_text(json.dumps(old, indent=1) + "\n")
    print(f"wrote {TARGET}", file=sys.stderr)


if __name__ == "__main__":
    main()
