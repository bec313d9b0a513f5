"""What networks ask of processors, op by op, so that many constants are tried in a moment.

The terms are those of `gambrel.analysis.estimate.shares.parts`, read off it one at a time with the
others made negligible: the fit computes what the program computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gambrel.analysis.estimate.adjust import guess
from gambrel.analysis.estimate.constants import Shares, packaged
from gambrel.analysis.estimate.shares import parts, powered
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.device.catalog import load
from gambrel.device.cores import held_share
from gambrel.device.model import Cores, Device

Floats = NDArray[np.float64]
#: A share so large that what it divides takes no time.
NEVER: Final = 1e30
#: Runtime whose fit has the energy of a FLOP of processors, by process.
ENERGIES: Final = "openvino"
#: Processors that others timed and the catalog lacks, by Intel's specifications: like which device,
#: architecture, cores, FLOP per clock of each in fp32, base and highest clock of all, byte/s, W.
OUTSIDE: Final = {
    "core-i9-10900x": (
        "core-i9-10940x", "Cascade Lake-X (AVX-512)", 10, 64, 3.7e9, 4.5e9, 93.9e9, 165.0,
    ),
    "core-i5-5200u": ("core-i7-12700h", "Broadwell", 2, 32, 2.2e9, 2.5e9, 25.6e9, 15.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """A network's ops, one entry each.

    Attributes:
        count: Executions.
        launches: Kernels that one execution starts; within a fused kernel the first op starts it.
        moved: Seconds at the whole bandwidth.
        cached: Seconds where a byte passes for each FLOP of the vector peak.
        vector: Seconds at the whole peak that is held.
        matrix: The same of a matrix engine beside the vector units.
        unpack: Seconds to unpack weights.
        floor: Roofline time, s.
    """

    count: Floats
    launches: Floats
    moved: Floats
    cached: Floats
    vector: Floats
    matrix: Floats
    unpack: Floats
    floor: Floats

    def seconds(self, c: dict[str, float]) -> float:
        """Of the network under shares of these names."""
        slowest = np.maximum(self.moved / c["memory"], self.vector / c["compute"])
        slowest = np.maximum(slowest, self.matrix / c["matrix"])
        slowest = np.maximum(slowest, self.unpack)
        if "cached" in c:
            slowest = np.maximum(slowest, self.cached / c["cached"])
        return float(
            np.sum(self.count * np.maximum(c["start_s"] * self.launches + slowest, self.floor))
        )


def machine(name: str) -> Device:
    """A processor of the catalog, or one that others timed."""
    if name not in OUTSIDE:
        return load(name)
    like_id, architecture, count, rate, base, boost, byte_per_s, tdp_w = OUTSIDE[name]
    like = load(like_id)
    vector = like.ceiling("vector", "fp32")
    assert vector is not None
    cores = Cores(
        name="all", count=count, flop_per_clock=rate, base_clock_hz=base, boost_clock_hz=boost,
        source=vector.source,
    )  # fmt: skip
    units = like.fact("num_units")
    assert units is not None
    clocks = [f for f in like.facts if f.name in ("boost_clock", "base_clock")]
    values = {"boost_clock": boost, "base_clock": base}
    facts = (
        replace(units, value=count),
        *(replace(f, value=values[f.name]) for f in clocks),
    )
    return replace(
        like, id=name, name=name, architecture=architecture, cores=(cores,), tdp_w=tdp_w,
        ceilings=(replace(vector, flop_per_s=count * rate * boost),), facts=facts,
        memory=(replace(like.memory[0], byte_per_s=byte_per_s), *like.memory[1:]),
    )  # fmt: skip


def work_of(
    bench: Workbench, device: Device, runtime: str, precision: str, *, by_power: bool
) -> Work:
    """What a network asks of a processor under a runtime.

    Args:
        bench: The network.
        device: The processor.
        runtime: Id.
        precision: Number format.
        by_power: Whether the clock is the one that its power allows, as in `Shares.power`.
    """
    settings = Settings(precision=precision, runtime=runtime)
    machine_of = Machine(device, settings)
    chosen = machine_of.chosen(bench.workload, settings)
    table = bench.table(chosen.precision, machine_of.plan(chosen.runtime.runtime))
    roofs = machine_of.roofs
    none = {"memory": NEVER, "compute": NEVER, "compute_stored": NEVER, "matrix": NEVER}
    shares = replace(guess(runtime, "cpu"), **none, power=ENERGIES if by_power else "")
    shares = powered(shares, device, packaged()) if by_power else shares
    held = shares.clock or held_share(device)
    terms = {
        "moved": {"memory": 1.0, "unpack": 0.0},
        "cached": {"cached": 1.0, "unpack": 0.0},
        "vector": {"compute": 1.0, "compute_stored": 1.0, "unpack": 0.0},
        "matrix": {"matrix": 1.0, "unpack": 0.0},
        "unpack": {},
    }

    def term(changes: dict[str, float]) -> Floats:
        one: Shares = replace(shares, **changes)
        found = [parts(item.view, item.cost, roofs, one) for item in table.items]
        assert all(f is not None for f in found)
        return np.array(found, dtype=float)

    columns = {name: term(changes) for name, changes in terms.items()}
    peak = np.maximum(columns["vector"], columns["matrix"]) * held
    return Work(
        count=np.array([float(item.count) for item in table.items]),
        launches=np.array([float(item.launches) for item in table.items]),
        floor=np.maximum(columns["moved"], peak),
        **columns,
    )
