"""PyTorch, ONNX Runtime and LiteRT on processors and boards, each model by the others.

The rows come with the project (benchmarks/data/cpu); no folder is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.accuracy import Run, Score

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import fit_cpu
from gambrel.analysis.estimate import packaged
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, answered

NAMES = {
    "pytorch": "eager PyTorch, one and two cores of a Xeon",
    "onnxruntime": "ONNX Runtime, one and two cores of a Xeon",
    "torch-compile": "torch.compile, i9-10940X and i7-12700H",
}
BOARDS = {
    "pytorch": "eager PyTorch, Raspberry Pi 4 and 5",
    "onnxruntime": "ONNX Runtime, Raspberry Pi 4 and 5",
    "litert": "LiteRT (XNNPACK), Raspberry Pi 4",
    "openvino": "OpenVINO, Raspberry Pi 5",
}
DESKTOPS = {
    "pytorch": "eager PyTorch, laptops and desktops",
    "onnxruntime": "ONNX Runtime, laptops and desktops",
}


def score(_: Path) -> Iterable[Score]:
    """By runtime."""
    for name, words in NAMES.items():
        how = "6 folds by model" if name == "torch-compile" else "leave one model out"
        yield _score(words, [fit_cpu.rows(name)], how)
    bought, published = fit_cpu.desktops(), fit_cpu.boards()
    for name, words in DESKTOPS.items():
        own = [r for r in bought if r.runtime == name]
        yield _score(words, [own], "leave one model out")
        yield from _by_device(words, own, "core-i")
    for name, words in BOARDS.items():
        own = [r for r in published if r.runtime == name]
        yield _score(words, fit_cpu.by_board(own), "leave one model out")
        yield from _by_device(words, own, "cortex-a")


def _by_device(words: str, own: Sequence[fit_cpu.Row], match: str) -> Iterable[Score]:
    devices = fit_cpu.by_board(own)
    if len(devices) > 1:
        every = [row for rows in devices for row in rows]
        ratios = fit_cpu.board_left_out(own)
        yield Score(what=words, runs=_runs(every, ratios, match), held_out="leave one device out")


def _score(words: str, parts: Iterable[Sequence[fit_cpu.Row]], how: str) -> Score:
    runs = [run for rows in parts for run in _runs(rows, fit_cpu.left_out(rows))]
    return Score(what=words, runs=runs, held_out=how)


def _runs(rows: Sequence[fit_cpu.Row], ratios: Iterable[float], match: str = "") -> list[Run]:
    return [_run(r, r.seconds / float(q), match) for r, q in zip(rows, ratios, strict=True)]


def _run(row: fit_cpu.Row, expected: float, match: str) -> Run:
    mine = [s for s in packaged().shares if s.runtime == row.runtime]
    here = match or ("xeon" if row.device.id == "cores" else row.device.id)
    shares = next(s for s in mine if any(pattern in here for pattern in s.match))
    settings = Settings(precision=row.precision, runtime=row.runtime)
    found = answered(row.bench, Machine(row.device, settings), settings)
    return Run(
        name=f"{row.model} {row.precision} on {row.device.id}",
        measured=row.seconds,
        expected=expected,
        low=expected * shares.low,
        high=expected * shares.high,
        roofline=found.held.time_s,
        sol=None if found.sol_time_s is None else float(found.sol_time_s),
    )
