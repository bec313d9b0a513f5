"""Measured runs of MLPerf Tiny, from the collected table and from earlier rounds.

Left out: builds of HALE for one network alone (least memory, most speed), and chips of which
nothing is published (the sensing hub of a Snapdragon, cores in FPGAs).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gambrel.analysis.estimate.cycles import work_of
from gambrel.analysis.plan import plan_of
from gambrel.analysis.workbench import Workbench
from gambrel.capture.zoo import load
from gambrel.device.catalog import load as load_device
from gambrel.ops import Conventions
from gambrel.runtimes import runtime

EARLIER = Path(__file__).parents[1] / "benchmarks/data/tiny/earlier_rounds.csv"
MODELS = {
    "ic": "resnet8",
    "vww": "mobilenet-v1-0.25",
    "kws": "ds-cnn",
    "ad": "deep-autoencoder",
}
#: System of the table → device and runtime; ``_int8`` and ``_float`` follow HALE's.
BOARDS = {
    "CY8CPROTO_062_4343W": ("psoc62-cy8c624a", "hale"),
    "NUCLEO_G0B1RE": ("stm32g0b1", "hale"),
    "RENESAS_RH850_F1KMS4": ("rh850-f1km-s4", "hale"),
    "DISCO_F746NG": ("stm32f746", "hale"),
    "NUCLEO_L4R5ZI": ("stm32l4r5", "hale"),
    "NUCLEO_U575ZI": ("stm32u575", "hale"),
    "NUCLEO_H7A3ZI": ("stm32h7a3", "hale"),
    "EK-RA8D1": ("ra8d1", "cmsis-nn"),
    "syntiant_9120_0v9_30mhz": ("ndp120-0v9", "syntiant"),
    "syntiant_9120_1v1_98mhz": ("ndp120", "syntiant"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyRow:
    """A measured network.

    Attributes:
        device: Id.
        runtime: Id.
        dtype: Number format.
        model: Zoo's name.
        seconds: Of one inference.
        energy_j: Of one inference; None where it was not measured.
    """

    device: str
    runtime: str
    dtype: str
    model: str
    seconds: float
    energy_j: float | None = None

    @property
    def core(self) -> str:
        """Architecture of the device."""
        return load_device(self.device).architecture

    @property
    def cycles(self) -> float:
        """Of one inference."""
        clock = load_device(self.device).fact("boost_clock")
        assert clock is not None
        return self.seconds * clock.value

    @property
    def work(self) -> dict[str, float]:
        """Of the network, by kind."""
        return work_in(self.model, self.dtype)


def rows(folder: Path) -> Iterator[TinyRow]:
    """All rows that can be scored."""
    with (folder / "truth/mlperf_tiny.csv").open(encoding="utf-8") as stream:
        for r in csv.DictReader(stream):
            system, _, build = r["SystemDesc"].partition("_int8")
            system = system.partition("_float")[0]
            if system not in BOARDS or build:
                continue
            device, name = BOARDS[system]
            yield TinyRow(
                device=device,
                runtime=name,
                dtype="fp32" if "_float" in r["SystemDesc"] else "int8",
                model=MODELS[r["MlperfModel"]],
                seconds=1 / float(r["Result"]),
                energy_j=float(r["Power"]) * 1e-6 if r["HasPower"] == "True" else None,
            )
    with EARLIER.open(encoding="utf-8") as stream:
        for r in csv.DictReader(stream):
            seconds = 1 / float(r["inf_per_s"])
            yield TinyRow(
                device=r["board"],
                runtime=r["runtime"],
                dtype="int8",
                model=MODELS[r["model"]],
                seconds=seconds,
                energy_j=float(r["power_w"]) * seconds if r["power_w"] else None,
            )


@cache
def work_in(model: str, dtype: str) -> dict[str, float]:
    """Multiply-adds and elements of a network, by the field of `Cycles` that they take."""
    workload = load(model)
    bench = Workbench(workload, workload.resolve_symbols({}), Conventions())
    device = load_device("stm32l4r5")
    plan = plan_of(runtime("hale"), device, off_chip_only=False, on_chip_bytes=0)
    found: dict[str, float] = {}
    for item in bench.table(dtype, plan).items:
        for kind, n in work_of(item.view, item.cost).items():
            found[kind] = found.get(kind, 0.0) + float(n) * item.count
    return found
