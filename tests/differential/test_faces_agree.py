"""One question, one answer: analyze, sweep and the fleet behind compare and select agree.

Every zoo model x devices of every class x {plain, calibrated, sparse, every runtime that runs
there}. A fixed pairwise subset runs by default, everything with ``--all-differential``.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import msgspec
import pytest

from gambrel.advise.fleet import Fleet
from gambrel.analysis.analyze import analyze
from gambrel.analysis.estimate import packaged
from gambrel.analysis.estimate.constants import Set
from gambrel.analysis.settings import Settings, is_language_model
from gambrel.analysis.sweep import sweep
from gambrel.capture.zoo import list_models
from gambrel.capture.zoo import load as load_workload
from gambrel.device.lookup import find, from_peaks
from gambrel.device.model import Ceiling, CeilingKind, Device, MemoryLevel, Source
from gambrel.runtimes import on_device, takes
from gambrel.runtimes import runtime as runtime_of

USER = Source(title="given by the test", confidence="user")
MEASURED = Device(
    id="measured",
    name="a measured machine",
    category="cpu",
    ceilings=(
        Ceiling(
            engine="any", dtype="fp32", flop_per_s=1.2e11, source=USER, kind=CeilingKind.MEASURED
        ),
    ),
    memory=(MemoryLevel(name="DRAM", byte_per_s=2.1e10, kind=CeilingKind.MEASURED),),
)
NO_MEMORY = Device(
    id="no-memory",
    name="a device of unknown memory",
    category="npu",
    ceilings=(Ceiling(engine="npu", dtype="int8", flop_per_s=2e13, source=USER),),
)
DEVICES = {
    "a100": lambda: find("a100-sxm4-80gb").device,
    "orin-nano": lambda: find("jetson-orin-nano-8gb").device,
    "coral": lambda: find("coral-edge-tpu").device,
    "groq": lambda: find("groq-lpu").device,
    "tpu-v5e": lambda: find("tpu-v5e").device,
    "epyc": lambda: find("epyc-9654").device,
    "measured": lambda: MEASURED,
    "peaks": lambda: from_peaks(9.89e14, 3.35e12),
    "no-memory": lambda: NO_MEMORY,
}
#: What a user's own calibration of a device does: one set in front of those that come along.
OWN = Set(
    framework="own",
    form="stream",
    formats=("any",),
    device="a100-sxm4-80gb",
    constants={"launch": 9000.0, "memory": 0.5, "vector": 0.5},
    points=20,
    low=(0.8,) * 4,
    high=(1.3,) * 4,
)
VARIANTS = ("plain", "calibrated", "sparse", "runtimes")


def _settings(variant: str, machine: Device) -> Settings:
    if variant == "calibrated":
        base = packaged()
        return Settings(calibration=msgspec.structs.replace(base, sets=(OWN, *base.sets)))
    sparse = not machine.ceilings or any(c.sparse_flop_per_s for c in machine.ceilings)
    return Settings(sparsity=variant == "sparse" and sparse)


def _cases() -> list[tuple[str, str, str]]:
    names = [model.name for model in list_models()]
    return list(itertools.product(names, DEVICES, VARIANTS))


def _pairwise() -> list[tuple[str, str, str]]:
    """Every model once; every pair of a device and a variant, several times."""
    ways = list(itertools.product(VARIANTS, DEVICES))
    models = (model.name for model in list_models())
    return [(m, d, v) for m, (v, d) in zip(models, itertools.cycle(ways), strict=False)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = metafunc.config.getoption("--all-differential")
    cases = _cases() if everything else _pairwise()
    metafunc.parametrize(("model", "device", "variant"), cases)


@functools.cache
def _device(name: str) -> Device:
    return DEVICES[name]()


@functools.cache
def _workload(name: str):
    return load_workload(name)


def _close(a: float | None, b: float | None) -> bool:
    missing = [value is None or math.isnan(value) for value in (a, b)]
    if any(missing):
        return all(missing)
    return math.isclose(a, b, rel_tol=1e-9)


def test_one_question_has_one_answer(model: str, device: str, variant: str) -> None:
    workload, machine = _workload(model), _device(device)
    base = _settings(variant, machine)
    runtimes: list[str | None] = [None]
    if variant == "runtimes":
        language = is_language_model(workload)
        runtimes = [r.id for r in on_device(machine, language=language)]
    batches = [n for s in workload.symbols if s.name == "batch" for n in (s.default, s.default * 3)]
    for runtime, batch in itertools.product(runtimes, batches or [None]):
        sizes = {} if batch is None else {"batch": batch}
        settings = dataclasses.replace(base, runtime=runtime, sizes=sizes)
        one = analyze(workload, machine, settings)
        fleet = Fleet(workload, settings)
        point, best = fleet.on(machine), fleet.best_case(machine)
        many = sweep(
            workload,
            [machine],
            [one.model.precision],
            {k: [v] for k, v in sizes.items()},
            dataclasses.replace(base, runtime=one.runtime, sizes=None),
        )
        said = f"{model} on {device}, {variant}, {runtime}, {sizes}"
        assert one.sol_time_s == point.facts.sol_s, said
        assert _close(one.sol_time_s, best.facts.sol_s), said
        assert bool(one.on_host) is bool(best.facts.on_host), said
        assert _close(one.sol_time_s, float(many.sol_time_s[0])), said
        assert one.roofline_time_s == point.facts.roofline_s, said
        assert _close(one.roofline_time_s, float(many.roofline_time_s[0])), said
        expected = one.expected_time_s and one.expected_time_s.value
        assert one.expected_time_s == point.facts.expected, said
        assert _close(expected, float(many.expected_time_s[0])), said
        assert one.footprint.fits == point.fits, said
        assert one.bound == point.bound, said
        assert (one.bound.value if one.bound else "") == str(many.bound[0]), said
        assert one.runtime == point.runtime == str(many.runtime[0]), said
        assert takes(runtime_of(one.runtime), one.model.precision), said
        if one.sol_time_s is not None and one.roofline_time_s is not None:
            assert one.sol_time_s <= one.roofline_time_s * (1 + 1e-9), said
