"""Fits products of four bits on AMD's CDNA 4 to the published times of AITER's kernels.

    python scripts/fit_aiter.py [--write]

The assembly kernels, which vLLM takes since August 2026 and AMD's own submissions before, tell the
shares of peak and bandwidth. Their times are those of single calls, so that the launch that is
fitted beside them is the timer's: a kernel of a step starts as those of vLLM on an MI300X do. What
the composable kernels of 2025 took bounds the range; errors are those of each source left out.
``--write`` replaces the set in src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import least_squares

import constants_file
from gambrel.analysis.estimate import forms
from gambrel.analysis.estimate.chip import chip_of
from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.estimate.kinship import kin_of
from gambrel.device.catalog import load
from gambrel.device.roofs import main_memory, resolve
from gambrel.dtypes import width_bytes

ROWS: Final = Path(__file__).parents[1] / "benchmarks/data/aiter/rows.csv"
DEVICE: Final = "mi355x"
LIKE: Final = "mi300x"
FORM: Final = "matmul"
FORMATS: Final = ("fp4", "mxfp4")
#: The kernels that are fitted; the others widen the range.
FITTED: Final = "asm"
FREE: Final = {"compute": 0.5, "memory": 0.7, "launch": 8000.0}
#: By how much steps of an engine differ from kernels timed one by one, beside the kernels' errors.
LOW: Final = 0.8

Row = dict[str, str]


def rows() -> list[Row]:
    """All of them."""
    with ROWS.open(newline="") as file:
        return list(csv.DictReader(file))


def like() -> dict[str, float]:
    """The constants of vLLM's fp8 products on an MI300X, which no kernel tells."""
    sets = constants_file.read()["sets"]
    found = next(s for s in sets if (s["device"], s["form"]) == (LIKE, FORM))
    return dict(found["constants"])


def machine(device_id: str) -> tuple[Chip, float]:
    """The device, and its peak."""
    device, calibration = load(device_id), packaged()
    kin, level = kin_of(device, calibration), main_memory(device)
    peak = resolve(device, "matrix", "fp4")
    assert kin is not None
    assert level is not None
    assert level.byte_per_s is not None
    assert peak is not None
    return chip_of(device, level.byte_per_s, kin)[0], peak.flop_per_s


def seconds(row: Row, constants: dict[str, float]) -> float:
    """A product with both operands in blocks of 32, its result in 16 bits."""
    chip, peak = machine(row["device"])
    m, n, k = (int(row[name]) for name in "mnk")
    traffic = (m + n) * k * width_bytes("mxfp4") + 2 * m * n
    work = forms.matmul(constants, chip, peak, m=m, n=n, k=k, traffic_bytes=traffic)
    return float(work) + forms.launch(constants, chip)


def ratios(data: Sequence[Row], constants: dict[str, float]) -> Any:
    """Measured over predicted."""
    return np.array([float(r["us"]) / 1e6 / seconds(r, constants) for r in data])


def fit(data: Sequence[Row]) -> dict[str, float]:
    """Least squares of the logarithms."""
    base = like()

    def constants(logs: Any) -> dict[str, float]:
        return base | dict(zip(FREE, np.exp(logs).tolist(), strict=True))

    found = least_squares(
        lambda logs: np.log(ratios(data, constants(logs))),
        np.log(list(FREE.values())),
        loss="soft_l1",
        f_scale=0.2,
        diff_step=1e-3,
    )
    return constants(found.x)


def found_set() -> dict[str, Any]:
    """As constants.json has it; prints the errors."""
    data = rows()
    fitted = [r for r in data if r["kernel"] == FITTED]
    own = fit(fitted)
    print(f"{len(fitted)} kernels, {np.abs(1 / ratios(fitted, own) - 1).mean():.1%} in-sample")
    ends = [1.0]
    for source in sorted({r["source"] for r in fitted}):
        left = [r for r in fitted if r["source"] == source]
        off = ratios(left, fit([r for r in fitted if r["source"] != source]))
        ends += off.tolist()
        print(f"  {source} left out: {np.abs(1 / off - 1).mean():.1%}")
    others = ratios([r for r in data if r["kernel"] != FITTED], own)
    high = float(np.quantile(others, 0.9))
    print(f"  others take {np.median(others):.2f} times as long, nine of ten up to {high:.2f}")
    constants = like() | {k: float(f"{own[k]:.4g}") for k in ("compute", "memory")}
    return {
        "framework": "vllm",
        "form": FORM,
        "formats": list(FORMATS),
        "device": DEVICE,
        "constants": constants,
        "points": 0,
        "low": [round(min(LOW, *ends), 2)] * 4,
        "high": [round(max(high, *ends), 2)] * 4,
        "confidence": "low",
        "describes": "vllm",
    }


def main() -> int:
    """Prints errors and the set."""
    own = found_set()
    print(own)
    if "--write" in sys.argv:
        content = constants_file.read()
        content["sets"] = [s for s in content["sets"] if s["device"] != DEVICE] + [own]
        for kin in content["kin"]:
            if kin["match"] == ["gfx95"]:
                kin["before"] = [DEVICE]
        constants_file.write(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
