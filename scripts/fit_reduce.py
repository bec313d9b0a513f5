"""Fits the all-reduces that serving engines bring for short messages.

    python scripts/fit_reduce.py FOLDER/measured [--write]

Of each device and number of devices the shortest message (``short_s``), of each engine the share of
the rate of NCCL's long messages that its kernel attains. A kernel is used where it is shorter than
the vendor's library. Engines leave messages of 32 MiB and more to the library: where devices stand
behind switches, its ``share`` and ``middle`` are refitted to those rows beside NCCL's own, whose
start stays as fit_calibration.py wrote it; run that first. Rows replayed as graphs count, as steps
without prompts are. Errors are those with the shares of the other devices. ``--write`` replaces the
constants in src/gambrel/analysis/calibration/constants.json; the shares of engines stand in
src/gambrel/runtimes (``reduce_share``) and are printed.

custom_allreduce.csv: ai-dynamo/aiconfigurator, Apache-2.0, Copyright (c) 2025-2026 NVIDIA
CORPORATION & AFFILIATES.
"""

from __future__ import annotations

import csv
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import constants_file
from gambrel.analysis.estimate import forms
from gambrel.device.catalog import load
from gambrel.device.roofs import peer_link

DEVICES = {
    "a100_sxm": "a100-sxm4-80gb",
    "b200_sxm": "b200-hgx-180gb",
    "h100_sxm": "h100-sxm5-80gb",
    "l40s": "l40s",
}
#: Devices whose links reach all others: the shares are theirs.
SWITCHED = ("a100-sxm4-80gb", "b200-hgx-180gb", "h100-sxm5-80gb")
ENGINES = {"trtllm": "tensorrt-llm", "sglang": "sglang", "vllm": "vllm"}
#: Bytes from which engines leave an all-reduce to the library.
LONG = 1 << 25
STARTS = [1e-6 * 1.05**i for i in range(60)]
SHARES = [0.02 * i for i in range(10, 51)]


class Row(NamedTuple):
    """One measured all-reduce."""

    device: str
    engine: str
    devices: int
    payload: float
    seconds: float


Library = Mapping[tuple[str, int], Mapping[str, float]]
Starts = Mapping[tuple[str, int], float]


def rows(folder: Path) -> list[Row]:
    """Those replayed as graphs."""
    found = []
    with (folder / "custom_allreduce.csv").open(newline="") as file:
        for r in csv.DictReader(file):
            if not r["backend"].endswith("eager"):
                size = 2.0 * int(r["message_size"])
                engine = ENGINES[r["framework"].partition("/")[0]]
                count, seconds = int(r["num_gpus"]), float(r["us"]) * 1e-6
                found.append(Row(DEVICES[r["gpu"]], engine, count, size, seconds))
    return found


def predicted(row: Row, library: Library, start: float, share: float) -> float:
    """The shorter of the library's and the engine's own."""
    c = {**library[row.device, row.devices], "short_s": start}
    rate = _rate(row.device)
    n, payload = row.devices, row.payload
    ring = forms.collective(c, rate, link_bytes=2 * payload * (n - 1) / n, devices=n)
    own = forms.custom_all_reduce(c, rate, payload=payload, devices=n, share=share)
    return float(min(ring, own))


def error(
    data: Sequence[Row], library: Library, starts: Starts, shares: Mapping[str, float]
) -> float:
    """Mean absolute logarithm."""
    return statistics.fmean(
        abs(
            math.log(
                predicted(r, library, starts[r.device, r.devices], shares[r.engine]) / r.seconds
            )
        )
        for r in data
    )


def fit_library(data: Sequence[Row], nccl: Sequence[Row], library: Library) -> dict[str, float]:
    """Share and middle of one device and number of devices: the best of a grid."""
    long = [r for r in data if r.payload >= LONG]
    together = [*nccl, *long]
    c, link = library[together[0].device, together[0].devices], _rate(together[0].device)
    n = together[0].devices
    moved = np.array([2 * r.payload * (n - 1) / n for r in together]) / link
    seconds = np.array([r.seconds for r in together])
    best = (math.inf, 0.0, 0.0)
    for share in np.arange(0.4, 1.001, 0.01):
        for middle in np.arange(0.0, 3.0, 0.05):
            time = c["base_s"] + moved / share + middle * np.sqrt(c["base_s"] * moved / share)
            off = float(np.abs(np.log(time / seconds)).mean())
            best = min(best, (off, round(float(share), 2), round(float(middle), 2)))
    return {"share": best[1], "middle": best[2]}


def held_out(data: Sequence[Row], nccl: Sequence[Row], library: Library) -> list[float]:
    """Measured over predicted of the library's rows, each half by the other."""
    ranked = sorted(nccl, key=lambda r: (r.payload, r.seconds))
    long = sorted((r for r in data if r.payload >= LONG), key=lambda r: (r.payload, r.seconds))
    ratios = []
    for half in (0, 1):
        fitted = fit_library(long[1 - half :: 2], ranked[1 - half :: 2], library)
        for r in ranked[half::2]:
            own = {**library[r.device, r.devices], **fitted}
            sent = 2 * r.payload * (r.devices - 1) / r.devices
            time = forms.collective(own, _rate(r.device), link_bytes=sent, devices=r.devices)
            ratios.append(r.seconds / float(time))
    return ratios


def _rate(device: str) -> float:
    link = peer_link(load(device))
    assert link is not None
    rate = link.byte_per_s_per_direction
    assert rate is not None
    return rate


def of_library(folder: Path) -> list[Row]:
    """All-reduces of NCCL."""
    found = []
    for name in ("nccl.csv", "nccl_b200.csv"):
        with (folder / name).open(newline="") as file:
            for r in csv.DictReader(file):
                if r["op_name"] == "all_reduce":
                    wide = 1.0 if "8" in r["nccl_dtype"] else 2.0
                    device = DEVICES[r.get("gpu") or "b200_sxm"]
                    size, seconds = wide * int(r["message_size"]), float(r["us"]) * 1e-6
                    found.append(Row(device, "nccl", int(r["num_gpus"]), size, seconds))
    return found


def fit_starts(data: Sequence[Row], library: Library, shares: Mapping[str, float]) -> Starts:
    """Of each device and number of devices, by its own rows."""
    found = {}
    for key in {(r.device, r.devices) for r in data}:
        own = [r for r in data if (r.device, r.devices) == key]
        found[key] = min(STARTS, key=lambda s, o=own, k=key: error(o, library, {k: s}, shares))
    return found


def fit(data: Sequence[Row], library: Library) -> tuple[Starts, dict[str, float]]:
    """Starts and shares in turn, until neither moves."""
    shares = dict.fromkeys(ENGINES.values(), 0.6)
    while True:
        starts = fit_starts(data, library, shares)
        new = {}
        for engine in shares:
            own = [r for r in data if r.engine == engine]
            new[engine] = min(
                SHARES, key=lambda s, e=engine, o=own: error(o, library, starts, {e: s})
            )
        if new == shares:
            return starts, shares
        shares = new


def main() -> int:
    """Prints the table."""
    folder, write = Path(sys.argv[1]), "--write" in sys.argv
    constants = constants_file.read()
    found = {
        (s["device"], int(s["formats"][0].rpartition("-")[2])): s
        for s in constants["sets"]
        if s["form"] == "collective" and s["formats"][0].startswith("all_reduce")
    }
    sets = {key: s["constants"] for key, s in found.items()}
    data = rows(folder)
    switched = [r for r in data if r.device in SWITCHED]
    nccl = of_library(folder)
    for key in sorted({(r.device, r.devices) for r in switched}):
        own, theirs = ([r for r in x if (r.device, r.devices) == key] for x in (data, nccl))
        tested = held_out(own, theirs, sets)
        sets[key].update(fit_library(own, theirs, sets))
        low, high = found[key]["low"][0], found[key]["high"][0]
        inside = statistics.fmean(low <= ratio <= high for ratio in tested)
        off = [abs(1 / ratio - 1) for ratio in tested]
        mean, median = statistics.fmean(off), statistics.median(off)
        found[key]["held_out"].update(
            points=len(off),
            mape=round(mean, 4),
            median=round(median, 4),
            inside=round(inside, 4),
            by_framework={"nccl": round(mean, 4)},
        )
        print(
            f"library, {key[1]} x {key[0]}: {sets[key]['share']}, {sets[key]['middle']}; "
            f"halves left out {mean:.1%}, {inside:.0%} inside"
        )
    _, shares = fit(switched, sets)
    starts = fit_starts(data, sets, shares)
    print("shares", {k: round(v, 2) for k, v in shares.items()})
    for device in DEVICES.values():
        own = [r for r in data if r.device == device]
        others = [r for r in switched if r.device != device]
        held = fit(others, sets)[1]
        print(
            f"{device}: {error(own, sets, starts, shares):.1%}, shares of other devices "
            f"{error(own, sets, fit_starts(own, sets, held), held):.1%}, NCCL alone "
            f"{error(own, sets, dict.fromkeys(starts, 1.0), shares):.1%}; short_s "
            + ", ".join(f"{n}: {starts[device, n] * 1e6:.2f} us" for n in (2, 4, 8))
        )
    if write:
        for key, start in starts.items():
            sets[key]["short_s"] = float(f"{start:.4g}")
        constants_file.write(constants)
    return 0


if __name__ == "__main__":
    sys.exit(main())
