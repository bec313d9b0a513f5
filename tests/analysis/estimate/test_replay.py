"""What replayed measurements find in the last cache, and what is told apart from the kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

import calibration_replay as replay
from calibration_rows import FORMS, load
from gambrel.analysis.estimate.constants import packaged

SAMPLE = Path(__file__).parents[3] / "benchmarks/data/kernels"
CACHE = 96e6
TWICE = {"replay_copies": 5.0, "replay_cached": 1.0}


def test_small_buffers_stay_and_large_ones_do_not() -> None:
    assert replay.kept(CACHE / 3, CACHE) == pytest.approx(1, abs=2e-3)
    assert replay.kept(CACHE, CACHE) == pytest.approx(0.5)
    assert replay.kept(3 * CACHE, CACHE) == pytest.approx(0, abs=2e-3)


def test_kept_bytes_come_as_many_times_faster() -> None:
    # All of a small buffer at twice the rate of memory; nothing of a large one.
    assert replay.as_read(TWICE, CACHE, 8e6, 1e6) == pytest.approx(4e6)
    assert replay.as_read(TWICE, CACHE, 8e9, 9e9) == pytest.approx(8e9)
    assert replay.as_read({}, CACHE, 8e6, 1e6) == 8e6


def test_the_host_is_a_floor_by_rows_and_sizes() -> None:
    host = {"replay_host_s": 1e-4, "replay_host_rows": 0.5, "replay_host_odd": 1.0}
    rows, columns, k = np.array([16, 64, 64]), np.array([128, 128, 96]), np.array([256, 256, 256])
    assert replay.hosted(host, rows, columns, k) == pytest.approx([1e-4, 1.5e-4, 3e-4])
    assert replay.hosted(TWICE, rows, columns, k) == 0.0


def test_constants_of_the_measurement_are_those_of_its_stack_and_device() -> None:
    assert replay.of_replay("vllm", "h100-sxm5-80gb", ("fp8_block",)) == tuple(replay.HOST)
    assert replay.of_replay("sglang", "l40s", ("fp8_block",)) == replay.CACHED
    assert not replay.of_replay("vllm", "h100-sxm5-80gb", ("fp8",))
    both = replay.of_replay("vllm", "l40s", ("fp8_block",))
    assert replay.model_constants(dict.fromkeys((*both, "launch"), 1.0)) == {"launch": 1.0}


def test_no_kernel_is_faster_within_a_model_than_replayed() -> None:
    scored = 0
    for form in (f for f in FORMS if f.replayed and (SAMPLE / f.file).exists()):
        rows = load(SAMPLE, form)
        rows = rows.take(rows["device"] == "l40s")
        for s in packaged().sets:
            if s.form != form.name or s.device != "l40s" or replay.CACHED[0] not in s.constants:
                continue
            formats = next(f for f in form.formats if f.names == s.formats)
            part = rows.take(formats.mask(rows))
            constants = {n: v for n, v in s.constants.items() if n not in replay.HOST}
            cold = form.cold(constants, "l40s", part)
            assert (cold >= form.predict(constants, "l40s", part) * (1 - 1e-12)).all()
            far = part["traffic"] > 3 * CACHE
            assert form.predict(constants, "l40s", part)[far] == pytest.approx(cold[far], rel=0.02)
            scored += len(part)
    assert scored > 1000
