"""What scripts/fit_shares.py fits is what an analysis under llama.cpp asks."""

import importlib
from pathlib import Path

import pytest

import gambrel
from gambrel.analysis.estimate import packaged

ROOT = Path(__file__).parents[3]
NAMES = ("memory", "compute", "compute_stored", "unpack", "start_s", "attention", "unpack_few")


@pytest.mark.parametrize(
    ("match", "device", "precision", "phase", "size"),
    [
        ("sm_61", "p40-24gb", "q4_0", "decode", {"context": 64}),
        ("gfx120", "rx-9070-xt", "q4_0", "prefill", {"seq": 512}),
        ("alchemist", "arc-a770-16gb", "q6_k", "decode", {"context": 64}),
    ],
)
def test_a_fitted_run_has_the_expected_time(monkeypatch, match, device, precision, phase, size):
    pytest.importorskip("scipy")
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    fit = importlib.import_module("fit_shares")
    model = "configs/llama-2-7b.json"
    (name, value), *_ = size.items()
    run = fit._asked(model, precision, name, value, fit.load(device), False)
    found = gambrel.analyze(
        str(fit.PUBLISHED / model), device, runtime="llama-cpp", phase=phase, precision=precision,
        sizes=size,
    )  # fmt: skip
    known = [s for s in packaged().shares if s.runtime == "llama-cpp"]
    one = next(s for s in known if match in s.match)
    constants = [getattr(one, n) for n in NAMES]
    constants[5] = constants[5] or one.memory
    constants[6] = constants[6] or one.unpack
    assert run.predicted(constants) == pytest.approx(found.expected_time_s.value, rel=1e-3)
