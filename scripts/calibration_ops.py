"""Single fp32 ops of PyTorch on seven GPUs: rows, and the constants of each form that they fix."""

from __future__ import annotations

import csv
import dataclasses
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from calibration_solver import least_squares
from gambrel.analysis.estimate import features
from gambrel.analysis.estimate.features import Rule, Task
from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.estimate.torchlib import rules
from gambrel.device import catalog
from gambrel.device.roofs import resolve
from gambrel.ops import OpView, TensorView, cost
from gambrel.ops.base import Engine
from gambrel.roofline import maximum

#: Shortest kernel on a busy GPU of AMD's, s. vLLM's runs on MI300X tell 8,269 cycles, 3.9 us
#: (fit_rocm.py); ROCm's own reproducer 3.87 us a dispatch of a HIP graph on gfx1100
#: (ROCm/rocm-systems issue 10834).
HIP_BASE_S = 3.9e-6

#: As the files write it → as the catalog does.
GPUS = {
    "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "Tesla T4": "t4",
    "AMD Instinct MI100": "mi100",
    "AMD Instinct MI210": "mi210",
    "Tesla P100-PCIE-16GB": "p100-pcie-16gb",
    "Tesla P4": "p4-8gb",
}
#: What an op alone pays before its kernel starts and after it ends: the host's 16 µs for a launch
#: and 5 µs for a run, as the runtime `pytorch` states them.
ALONE_S = 21e-6
FOLDS = 5
UNARY = {"relu": "relu", "gelu": "gelu", "tanh": "tanh"}
UNARY |= {"addu": "add", "mulu": "mul", "divu": "div", "powu": "pow"}
#: File → form.
FORMS = {
    "elem": "torch_elementwise",
    "softmax": "torch_softmax",
    "ln": "torch_normalization",
    "linear": "torch_matmul",
    "bmm": "torch_matmul",
    "conv": "torch_convolution",
}
#: Constants that the rows of a file determine.
FITTED = {
    "elem": ("same",),
    "softmax": ("inner", "extra"),
    "ln": ("apply", "layer_extra", "start_s"),
    "linear": ("compute", "wave", "occupancy", "k_fill", "edge", "memory", "store", "start_s"),
    "bmm": ("compute", "wave", "occupancy", "k_fill", "memory", "store", "start_s"),
    "conv": (
        "direct",
        "edge",
        "fill",
        "winograd_2",
        "fill_2",
        "winograd_4",
        "fill_4",
        "operands",
        "transforms",
        "weights",
        "wave",
        "start_4_s",
        "start_s",
    ),
}
#: Shares that no kernel exceeds.
SHARES = {"same", "inner", "apply", "memory", "wave", "compute", "direct", "transforms", "store"}
#: What rows of products on some GPUs fix beyond that: memory channels of AMD's, the clock of cards
#: of 70 W.
ALSO = {
    "p100-pcie-16gb": ("reach", "drift"),
    "p4-8gb": ("settle_s", "reach", "drift"),
    "t4": ("energy_j", "settle_s"),
    "mi100": ("one_channel",),
    "mi210": ("one_channel",),
}
#: What the T4's 70 W sustain in long linear layers is the base clock of its data sheet.
HELD = {("linear", "t4"): ("energy_j",)}
#: Of the rows of convolutions, on cards of 70 W.
ALSO_CONV = {"p4-8gb": ("energy_j", "settle_s"), "t4": ("energy_j", "settle_s")}
PRODUCTS = ("linear", "bmm")
#: Files whose rows differ by sizes alone.
ALIKE = (*PRODUCTS, "conv")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured op."""

    file: str
    device: str
    rule: Rule
    task: Task
    roofline: float
    measured: float
    fold: int
    name: str
    sizes: dict[str, int]

    def seconds(self, machine: Chip, c: dict[str, float]) -> float:
        """Expected time of the op alone, as the product says it."""
        alone = float(maximum(self.rule.seconds(c, machine, self.task), c["base_s"]))
        return max(alone, self.roofline) + ALONE_S


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of one GPU that differ by sizes alone."""

    rule: Rule
    task: Task
    roofline: Any

    def seconds(self, machine: Chip, c: dict[str, float]) -> Any:
        """Expected times, as `Row.seconds`."""
        alone = maximum(self.rule.seconds(c, machine, self.task), c["base_s"])
        return maximum(alone, self.roofline) + ALONE_S


def _together(found: Sequence[Row]) -> Rows:
    """Many rows as one task, whose sizes are arrays."""
    sizes = {k: np.array([float(r.sizes[k]) for r in found]) for k in found[0].sizes}
    view = _view(found[0].file, "", sizes)
    priced = cost(view)
    assert priced is not None
    return Rows(
        rule=found[0].rule,
        task=msgspec.structs.replace(found[0].task, view=view, cost=priced),
        roofline=np.array([r.roofline for r in found]),
    )


@cache
def machine(device: str) -> Chip:
    """What the forms know of a GPU."""
    d = catalog.load(device)
    dram, cache = d.level("DRAM"), d.level("L2")
    units, clock = d.fact("num_units"), d.fact("boost_clock")
    vector = resolve(d, "vector", "fp32")
    assert dram is not None
    assert dram.byte_per_s
    assert units
    assert clock
    assert vector
    return Chip(
        units=units.value,
        clock_hz=clock.value,
        byte_per_s=dram.byte_per_s,
        cache_bytes=float(cache.capacity_bytes or 0) if cache else 0.0,
        vector_flop_per_s=vector.flop_per_s,
        tdp_w=d.tdp_w or 0.0,
    )


@cache
def matrix_peak(device: str) -> float:
    """FLOP/s of fp32 products."""
    roof = resolve(catalog.load(device), "matrix", "fp32")
    assert roof is not None
    return roof.flop_per_s


def rows(truth: Path, file: str) -> list[Row]:
    """All rows of a file."""
    with (truth / f"pytorch_fp32_{file}.csv").open(newline="") as stream:
        return [_row(file, r) for r in csv.DictReader(stream) if r["Device"] in GPUS]


def _row(file: str, r: dict[str, str]) -> Row:
    sizes = {k: int(float(r[k])) for k in _SHAPE if r.get(k)}
    view = _view(file, r["OPName"], sizes)
    found = cost(view)
    rule = rules.rule_of(view, wide_products=True)
    assert found is not None
    assert rule is not None
    device = GPUS[r["Device"]]
    known, peak = machine(device), matrix_peak(device)
    work = {e: sum(n for (e2, _), n in found.work.items() if e2 is e) for e in Engine}
    task = Task(view=view, cost=found, matrix_peak=peak, vector_peak=known.vector_flop_per_s)
    shape = "|".join(f"{k}={r[k]}" for k in _SHAPE if r.get(k))
    return Row(
        file=file,
        device=device,
        rule=rule,
        task=task,
        roofline=max(
            work[Engine.MATRIX] / peak,
            work[Engine.VECTOR] / known.vector_flop_per_s,
            (found.read_bytes + found.write_bytes) / known.byte_per_s,
        ),
        measured=float(r["Latency"]) / 1e3,
        fold=zlib.crc32(shape.encode()) % FOLDS,
        name=f"{r['OPName']} {shape}",
        sizes=sizes,
    )


_SHAPE = ("B", "H", "M", "N", "K", "Input_Channel", "Output_Channel", "Input_Size")


def _tensor(storage: int, *shape: int, role: str = "activation") -> TensorView:
    return TensorView(
        shape=shape, dtype="fp32", elements=math.prod(shape), storage=storage, role=role
    )


def _view(file: str, name: str, n: dict[str, Any]) -> OpView:
    """One op, or many whose sizes are arrays."""
    if file in ("linear", "bmm"):
        # The columns N and K are the inner size and the columns of the result: grids of all rows
        # that name a tile are ceil(K / tile) by ceil(M / tile).
        return _product(file, n["B"], n["M"], n["K"], n["N"])
    if file == "conv":
        b, i, o, side = n["B"], n["Input_Channel"], n["Output_Channel"], n["Input_Size"]
        return OpView(
            kind="convolution",
            inputs=(_tensor(0, b, i, side, side), _tensor(1, o, i, 3, 3, role="weight")),
            outputs=(_tensor(2, b, o, side, side),),
            sizes={
                "batch": b,
                "in_channels": i,
                "out_channels": o,
                "kernel": (3, 3),
                "spatial": (side, side),
            },
        )
    return _rowwise(file, name, n["B"], n["H"])


def _product(file: str, b: int, m: int, n: int, k: int) -> OpView:
    """A linear layer adds its bias in the product."""
    right = _tensor(1, n, k, role="weight") if file == "linear" else _tensor(1, b, k, n)
    return OpView(
        kind="matmul",
        inputs=(_tensor(0, b, m, k), right),
        outputs=(_tensor(2, b, m, n),),
        sizes={"b": b, "m": m, "n": n, "k": k},
    )


def _rowwise(file: str, name: str, b: int, h: int) -> OpView:
    x, y = _tensor(0, b, h), _tensor(9, b, h)
    if file == "softmax":
        sizes = {"elements": b * h, "rows": b}
        return OpView(kind="softmax", inputs=(x,), outputs=(y,), sizes=sizes)
    if file == "ln":
        return OpView(
            kind="normalization",
            inputs=(x, _tensor(1, h), _tensor(2, h)),
            outputs=(y,),
            sizes={"elements": b * h, "groups": b},
            attrs={"function": "layer_norm", "affine": True},
        )
    inputs = (x,) if name in UNARY else (x, _tensor(1, b, h))
    return OpView(
        kind="elementwise",
        inputs=inputs,
        outputs=(y,),
        sizes={"elements": b * h},
        attrs={"function": UNARY.get(name, name)},
    )


def fit(found: Sequence[Row], start: dict[str, float], file: str, device: str) -> dict[str, float]:
    """The constants of one form on one GPU, from rows of one file."""
    known = machine(device)
    names = [*FITTED[file], *(("pow_cycles",) if file == "elem" and _pow(device) else ())]
    if file in PRODUCTS:
        held = HELD.get((file, device), ())
        names += [n for n in ALSO.get(device, ()) if start[n] and n not in held]
    if file == "conv":
        names += ALSO_CONV.get(device, ())
    if file == "bmm" and not start["rows"]:
        names.append("edge")
    return _solve(found, known, start, names)


def fit_general(found: Sequence[Row], device: str, start: dict[str, float]) -> dict[str, float]:
    """Constants of the formula for products that serving engines use, from linear layers.

    The launch is the shortest kernel's; what rows of fp32 do not show stays as in ``start``. So
    does the share of the bandwidth: products in fp32 wait for their arithmetic (the MI210's rows
    are 14.9 % off with 0.41 of it, 15.0 % with 0.85).
    """
    known = machine(device)
    rule = features.RULES["matmul"]
    fixed = {k: v for k, v in start.items() if k != "launch"} | {"base_s": HIP_BASE_S}
    own = [dataclasses.replace(r, rule=rule) for r in found]
    names = ("compute", "k_fill", "wave", "operand")
    c = _solve(own, known, fixed, names)
    c.pop("base_s")
    return c | {"launch": round(HIP_BASE_S * known.clock_hz)}


def _pow(device: str) -> bool:
    """A power with a variable exponent computes for longer than it reads on AMD's."""
    return device.startswith("mi")


def _log(r: Row, known: Chip, c: dict[str, float]) -> float:
    return math.log(r.seconds(known, c) / r.measured)


def _solve(
    found: Sequence[Row], known: Chip, start: dict[str, float], names: Sequence[str]
) -> dict[str, float]:
    first = np.log([start[n] or 1e-6 for n in names])

    def constants(z: Any) -> dict[str, float]:
        values = {n: float(v) for n, v in zip(names, np.exp(z), strict=True)}
        return start | {
            n: float(f"{min(v, 1.0) if n in SHARES else v:.4g}") for n, v in values.items()
        }

    measured = np.array([r.measured for r in found])
    together = _together(found) if found[0].file in ALIKE else None

    def residual(z: Any) -> Any:
        c = constants(z)
        if together is None:
            errors = np.array([_log(r, known, c) for r in found])
        else:
            errors = np.log(together.seconds(known, c) / measured)
        return np.concatenate([errors * (100 / len(found)) ** 0.5, 0.1 * (z - first)])

    return constants(least_squares(residual, first))
