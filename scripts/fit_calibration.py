"""Refits the constants of expected times from measured kernels, and prints held-out errors.

    python scripts/fit_calibration.py FOLDER [--truth FOLDER] [--only FORM ...] [--write]

FOLDER holds gemm.csv, attention_context.csv, attention_decode.csv, moe.csv and nccl.csv as
docs/estimates.md describes them. Shapes are split in two halves by a hash of their key, never row
by row; constants and ranges come from the first half, the printed errors from the second. Ranges
are those of each half of the first half under constants of the other, so that they hold for shapes
that were not fitted on. Sets for *any* framework have constants fitted to the kernels of all
(`Formats.pooled`) or of one (`Formats.reference`), and ranges and errors over the kernels of all.
--truth names the folder of PyTorch's times (kernelbench.csv, pytorch_fp32_*.csv), whose sets are
those of the framework ``torch``, fitted by calibration_torch_sets.py.
``--write`` replaces src/gambrel/analysis/calibration/constants.json; with ``--only`` sets of other
forms stay as they are.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import constants_file
from calibration_replay import HOST
from calibration_rows import DEVICES, FORMS, Form, Formats, Rows, load
from calibration_slower import mark
from calibration_table import machine
from gambrel.analysis.estimate.constants import WIDE
from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.shown import misses

ROOT = Path(__file__).parents[1]
TARGET = constants_file.TARGET
#: Edges of the bins of predicted time in which ranges are taken, s.
EDGES = (2e-5, 2e-4, 2e-3)
#: Points that a bin needs for a range of its own.
FEW = 40
#: Share of the measurements beyond either end of a range.
TAIL = 0.045
BINS = range(len(EDGES) + 1)
#: Devices whose libraries have kernels of their own: they share no constants with others.
APART = ("l40s", "b200-hgx-180gb")
#: What a product of many rows takes on a card that is not held at its power, over what it takes on
#: the measured one: an L40S that attained 200 TFLOP/s in bf16, where others attain 266
#: (benchmarks/data/gemm), and 360 in fp8, where prompts that NVIDIA published imply 530
#: (benchmarks/data/trtllm/prompts.csv). By the number of bits.
RELEASED = {"l40s": {16: 0.75, 8: 0.67}}
#: The first bin in which kernels are long enough for that.
LONG = 2
#: Held-out rows of a bin that say whether its range holds.
FEWEST = 10
#: A set with a larger held-out error on the kernels that it describes is not shipped: another
#: format or stack serves better.
POOREST = 0.35


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    names = [form.name for form in FORMS]
    parser.add_argument("--only", nargs="*", choices=names, default=names, metavar="FORM")
    parser.add_argument("--device", choices=DEVICES, help="fit and replace this one alone")
    parser.add_argument("--truth", type=Path)
    parser.add_argument(
        "--ops", nargs="+", metavar="FILE", help="refit these single ops of PyTorch alone"
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.ops:
        refit_ops(options.truth, options.ops, writes=options.write)
        return
    sets: list[dict[str, Any]] = []
    for form in (f for f in FORMS if f.name in options.only):
        rows = load(options.folder, form)
        if options.device:
            rows = rows.take(rows["device"] == options.device)
        fitted = fit_form(form, rows)
        sets += fitted
        for line in (*table(fitted), *transfer(form, rows, fitted)):
            print(line)
    if options.truth:
        from calibration_torch_sets import table as lines_of
        from calibration_torch_sets import torch_sets

        of_torch = torch_sets(options.truth)
        print("\n".join(lines_of(of_torch)))
        if options.write:
            write([s for s in of_torch if not s["points"] or own_error(s) <= POOREST])
    if options.write and sets:
        kept = [s for s in sets if own_error(s) <= POOREST]
        if "matmul" in options.only:
            kept += (cited() if not options.device else []) + streams(sets)
        write(kept)


def refit_ops(truth: Path, files: list[str], *, writes: bool) -> None:
    """Constants of single ops of PyTorch, beside what is written of KernelBench's."""
    from calibration_torch_sets import op_sets
    from calibration_torch_sets import table as lines_of
    from gambrel.analysis.estimate.constants import packaged

    h100 = {
        s.form: dict(s.constants)
        for s in packaged().sets
        if (s.framework, s.device) == ("torch", "h100-sxm5-80gb")
    }
    sets = op_sets(truth, h100, files)
    print("\n".join(lines_of(sets)))
    if writes:
        write([s for s in sets if own_error(s) <= POOREST])


def own_error(s: dict[str, Any]) -> float:
    """On the kernels that the constants describe."""
    found = s["held_out"]
    return float(found.get("by_framework", {}).get(s.get("describes"), found["mape"]))


def cited() -> list[dict[str, Any]]:
    """Products of which only three constants are known: efficiencies and the start.

    Least-squares fits of t0 + max(flops / (ec · peak), bytes / (em · bandwidth)) to the same
    database on devices whose rows are not at hand; they left 25 % on unseen shapes.
    Here em is divided by the share that `Chip.streaming` takes for bytes in flight.
    """
    found = []
    for device, name, stack, ec, em, t0 in (
        ("h200-sxm-141gb", "int4_weight", "trtllm", 0.76, 0.38, 11.1e-6),
    ):
        known = machine(device)[1]
        none = dict.fromkeys(("k_fill", "wave", "operand", "quantize", "row", "unaligned"), 0.0)
        constants = {
            **none,
            "launch": round(t0 * known.clock_hz),
            "compute": ec,
            "memory": float(f"{em / (known.streaming(1.0) / known.byte_per_s):.4g}"),
            "headroom": 10.0,
            "settle": 8e-3,
            "k_split": 1.0,
            "by_rows": 0.0,
            "thin": 1.0,  # few rows are computed as few: the fits knew no tiles
        }
        found.append(
            {
                "framework": "any",
                "form": "matmul",
                "formats": [name],
                "device": device,
                "constants": constants,
                "points": 0,
                "low": [0.6] * (len(EDGES) + 1),
                "high": [1.6] * (len(EDGES) + 1),
                "confidence": "medium",
                "describes": stack,
            }
        )
    return found


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
            alone = _fit_group(form, formats, rows.take(mask), [s["device"]], "any")[0]
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
    mark(form, rows, found)
    return found


def _fit_stack(form: Form, rows: Rows, stack: str) -> list[dict[str, Any]]:
    """One set a device and group of formats; library constants are shared where the form says."""
    found = []
    for formats in form.formats:
        mask = formats.mask(rows)
        devices = [d for d in DEVICES if (mask & (rows["device"] == d)).sum() >= form.least]
        together = form.shared and not formats.alone
        sharing = [d for d in devices if together and d not in APART]
        for group in filter(None, (sharing, *([d] for d in devices if d not in sharing))):
            fitted = _fit_group(form, formats, rows, group, stack)
            found += [{"framework": stack, **s} for s in fitted]
    return found


def _fit_group(
    form: Form, formats: Formats, rows: Rows, devices: list[str], stack: str
) -> list[dict[str, Any]]:
    mask = formats.mask(rows)
    parts = [rows.take(mask & (rows["device"] == d)) for d in devices]
    train = [p.take(p["half"] == 0) for p in parts]
    models = [_reference(form, formats, p, stack) for p in train]
    constants = _solve(form, formats, devices, models)
    crossed = [
        _solve(form, formats, devices, [(s, m.part(1 - fold)) for s, m in models])
        for fold in (0, 1)
    ]
    found = []
    for i, device in enumerate(devices):
        spread = Spread.of(form, device, train[i], [c[i] for c in crossed])
        test = parts[i].take(parts[i]["half"] == 1)
        entry = _entry(form, formats, device, constants[i], len(models[i][1]), spread, test)
        if set(HOST) & constants[i].keys():  # of short kernels only the host's time was measured
            entry["confidence"] = "medium"
        found.append({**entry, "describes": models[i][0]})
    return found


def _reference(form: Form, formats: Formats, rows: Rows, stack: str) -> tuple[str, Rows]:
    """Whose kernels the constants of a stack describe, and their rows."""
    if stack != "any" or (formats.pooled and len(rows.stacks()) > 1):
        return stack, rows
    count = {s: int((rows["stack"] == s).sum()) for s in rows.stacks()}
    name = formats.reference
    if count.get(name, 0) < form.least / 2:
        name = max(count, key=lambda s: count[s])
    return name, rows.take(rows["stack"] == name)


def _solve(
    form: Form, formats: Formats, devices: list[str], models: list[tuple[str, Rows]]
) -> list[dict[str, float]]:
    """The constants of each device that fit its rows best."""
    fixed = [
        {**form.fixed, **formats.fixed, **form.known(stack, d, formats)}
        for d, (stack, _) in zip(devices, models, strict=True)
    ]
    start = formats.start(form)
    names = [(None, n) for n in form.shared if n not in fixed[0]]
    for d, (stack, _), known in zip(devices, models, fixed, strict=True):
        names += [(d, n) for n in form.fitted(stack, d, formats) if n not in known]
    first = np.log([start[n] for _, n in names])

    def constants(z: Any, i: int) -> dict[str, float]:
        values = dict(fixed[i])
        for (d, n), v in zip(names, np.exp(z), strict=True):
            if d in (None, devices[i]):
                values[n] = float(f"{v:.4g}")
        return values

    def residual(z: Any) -> Any:
        errors = [
            form.error(form.predict(exact(z, i), d, p), p) * p.weight()
            for i, (d, (_, p)) in enumerate(zip(devices, models, strict=True))
        ]
        # A weak pull to the start keeps constants that the data do not determine where they are.
        return np.concatenate([*errors, 0.3 * (z - first)])

    def exact(z: Any, i: int) -> dict[str, float]:
        found = zip(names, np.exp(z), strict=True)
        return fixed[i] | {n: v for (d, n), v in found if d in (None, devices[i])}

    limits = [_limit(form, d, n) for d, n in names]
    highest = np.minimum(first + 3, limits)
    from scipy.optimize import least_squares  # only these fits need it

    solved = least_squares(
        residual,
        np.minimum(first, highest - 1e-3),
        loss="soft_l1",
        f_scale=0.1,
        diff_step=1e-3,
        max_nfev=200,
        bounds=(first - 3, highest),
    )
    return [constants(solved.x, i) for i in range(len(devices))]


def _limit(form: Form, device: str | None, name: str) -> float:
    """The largest logarithm that a constant may have: nothing is faster than its roof.

    Kernels that are slowed by arithmetic leave the bandwidth open; without this limit a fit may
    take one that a device with a faster memory would then not profit from.
    """
    if (form.name, name) == ("matmul", "compute"):
        return 0.0
    if name != "memory" or device is None:
        return float("inf")
    known = machine(device)[1]
    return float(np.log(known.byte_per_s / known.streaming(1.0)))


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Measured over predicted, of shapes that the prediction has not seen.

    Attributes:
        ratio: One a row.
        weight: Of each row: all stacks count alike.
        bins: Of predicted time.
    """

    ratio: Any
    weight: Any
    bins: Any

    @classmethod
    def of(cls, form: Form, device: str, rows: Rows, crossed: list[dict[str, float]]) -> Spread:
        """Each part of the rows under constants of the other."""
        ratio, weight, bins = [], [], []
        for fold, constants in enumerate(crossed):
            part = rows.part(fold)
            predicted = form.predict(constants, device, part)
            ratio.append(part["seconds"] / predicted)
            weight.append(part.weight() ** 2)
            bins.append(np.digitize(predicted, EDGES))
        return cls(
            ratio=np.concatenate(ratio),
            weight=np.concatenate(weight),
            bins=np.concatenate(bins),
        )

    def ends(self, i: int) -> tuple[float, float]:
        """The range of one bin; of all rows where it holds few."""
        near = self.bins == i if (self.bins == i).sum() >= FEW else np.full(len(self.bins), True)
        # A quantile of few points is itself uncertain.
        slack = 1 + 0.35 / near.sum() ** 0.5
        low, high = _quantiles(self.ratio[near], self.weight[near], TAIL)
        return min(1.0, low / slack), max(1.0, high * slack)


def _quantiles(values: Any, weights: Any, tail: float) -> tuple[float, float]:
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    low, high = np.searchsorted(share, [tail, 1 - tail])
    return float(values[order][low]), float(values[order][min(high, len(values) - 1)])


def _entry(
    form: Form,
    formats: Formats,
    device: str,
    constants: dict[str, float],
    points: int,
    spread: Spread,
    test: Rows,
) -> dict[str, Any]:
    ends = [spread.ends(i) for i in range(len(EDGES) + 1)]
    low, high = ([float(f"{e[side]:.3g}") for e in ends] for side in (0, 1))
    if form.name == "matmul" and device in RELEASED:
        least = RELEASED[device][16 if formats.names[0].endswith("16") else 8]
        low[LONG:] = [min(end, least) for end in low[LONG:]]
    return {
        "form": form.name,
        "formats": list(formats.names),
        "device": device,
        "constants": constants,
        "points": points,
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
    found: dict[str, Any] = {
        "points": len(test),
        "mape": round(float(error.mean()), 4),
        "median": round(float(np.median(error)), 4),
        "inside": round(float(((ratio >= lo) & (ratio <= hi)).mean()), 4),
        "width": round(float(np.median((hi / lo)[long])), 3) if long.any() else None,
        "by_framework": by_stack,
    }
    inside, narrow = (ratio >= lo) & (ratio <= hi), np.array(high) / np.array(low) <= np.array(WIDE)
    shares = tuple(_share_inside(inside, (bins == i) & narrow[i]) for i in BINS)
    held = HeldOut(**found, inside_by_bin=shares)
    return found | ({"inside_by_bin": list(shares)} if any(misses(held)) else {})


def _share_inside(inside: Any, near: Any) -> float | None:
    """Of the rows of one bin; None where they are too few to tell."""
    return round(float(inside[near].mean()), 2) if near.sum() >= FEWEST else None


def table(sets: list[dict[str, Any]]) -> list[str]:
    lines = []
    for s in sets:
        h = s["held_out"]
        stacks = " ".join(f"{k} {v:.1%}" for k, v in h.get("by_framework", {}).items())
        lines.append(
            f"{s['framework']:<7} {s.get('describes', 'any'):<7} {s['form']:<18} "
            f"{s['formats'][0]:<9} {s['device']:<16} "
            f"n={h['points']:>5} "
            f"MAPE {h['mape']:.1%} median {h['median']:.1%} inside {h['inside']:.0%} "
            f"width {h['width']} | {stacks}"
        )
        lines.append("     " + " ".join(f"{k}={v:g}" for k, v in s["constants"].items()))
    return lines


def write(sets: list[dict[str, Any]]) -> None:
    """Replaces the sets of the forms that ``sets`` hold, in the order of `FORMS`."""
    old = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    fresh = {_written_with(s) for s in sets}
    kept = [s for s in old.get("sets", []) if _written_with(s) not in fresh]
    order = [form.name for form in FORMS]
    rank = {name: i for i, name in enumerate(order)}
    both = kept + sets
    rank |= {s["form"]: len(order) for s in both if s["framework"] == "torch"}
    # Cited products and streams, of no rows, come last.
    old["sets"] = sorted(both, key=lambda s: _place(s, rank))
    constants_file.write(old, TARGET)
    print(f"wrote {TARGET}", file=sys.stderr)


def _written_with(s: dict[str, Any]) -> tuple[str, str, str]:
    """What one run replaces: a form on a device, of a class of PyTorch's rows or of the others."""
    of_torch = s["formats"][0] if s.get("describes") == "torch" else ""
    return s["form"], of_torch, s["device"]


def _place(s: dict[str, Any], rank: dict[str, int]) -> int:
    """Forms in their order; sets of no rows last."""
    return rank[s["form"]] if s["points"] or s["framework"] == "torch" else len(rank)


if __name__ == "__main__":
    main()
