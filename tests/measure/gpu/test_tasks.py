"""What is tried, what is measured in full, and what a failure leaves."""

import pytest

torch = pytest.importorskip("torch")

from gambrel.errors import DeviceError  # noqa: E402
from gambrel.measure import gpu  # noqa: E402
from gambrel.measure.gpu.board import BoardState  # noqa: E402
from gambrel.measure.gpu.tasks import GpuTask, TaskVariant, run  # noqa: E402
from tests.measure.gpu.doubles import EFFORT, bench, flags  # noqa: E402


class Machine:
    """Each call says how long it takes; the machine notes which ran how often."""

    def __init__(self):
        self.ran = []
        self.held = 0

    def timed(self, call, count):
        return [call() or 1e-3 for _ in range(count)]

    def way(self, name, work, seconds, *, holds=0.0, error=None):
        def prepare():
            if error is not None:
                raise error

            def call():
                self.ran.append(name)
                return seconds

            return call

        return TaskVariant(note=name, work=work, holds_bytes=holds, prepare=prepare)


def task(*ways, **changes):
    plain = {"resource": "matrix", "mix": "matmul", "dtype": "bf16", "unit": "FLOP/s"}
    return GpuTask(ways=ways, **(plain | changes))


def test_the_best_ways_of_a_short_try_are_measured_in_full():
    m = Machine()
    ways = (m.way("small", 1e3, 0.01), m.way("good", 4e3, 0.01), m.way("best", 9e3, 0.01))
    (found,) = run(bench(timed=m.timed, round_s=0.4), task(*ways), EFFORT)
    assert found.note == "best"
    assert found.value == pytest.approx(9e5)
    # A try: one to load, one to see, two in 0.03 s... then only two go on: one to warm up and, in
    # each of two rounds, one to see and three.
    assert [m.ran.count(n) for n in ("small", "good", "best")] == [5, 5 + 9, 5 + 9]


def test_a_slow_device_is_not_kept_busy_with_what_would_take_minutes():
    m = Machine()
    ways = (m.way("small", 1.0, 0.2), m.way("large", 8.0, 1.6), m.way("huge", 64.0, 12.8))
    (found,) = run(bench(timed=m.timed, call_s=0.25, round_s=0.4), task(*ways), EFFORT)
    assert set(m.ran) == {"small"}
    assert found.samples == 3
    # However slow, one way is always tried.
    (found,) = run(bench(timed=m.timed, call_s=0.01), task(m.way("slow", 1.0, 2.0)), EFFORT)
    assert found.value == pytest.approx(0.5)


def test_sizes_that_do_not_fit_leave_the_others():
    m = Machine()
    full = torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 4 GiB")
    odd = RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED when calling cublasLtMatmul\nmore")
    ways = (m.way("fits", 1.0, 0.1), m.way("odd", 3.0, 0.1, error=odd))
    ways += (m.way("large", 3.0, 0.1, error=full), m.way("larger", 2.0, 0.1, holds=2e9))
    (found,) = run(bench(timed=m.timed, free_bytes=1_000_000_000), task(*ways), EFFORT)
    assert found.note == "fits"
    with pytest.raises(RuntimeError, match="CUBLAS_STATUS_NOT_SUPPORTED"):
        list(run(bench(timed=m.timed), task(ways[1], ways[2]), EFFORT))
    with pytest.raises(RuntimeError, match="too little memory is free"):
        list(run(bench(timed=m.timed, free_bytes=1), task(ways[3]), EFFORT))


def test_nothing_of_one_size_is_held_while_the_next_is_made():
    alive = []

    class Data:
        def __init__(self):
            alive.append(1)
            assert len(alive) == 1, "two sizes at once"

        def __del__(self):
            alive.pop()

    def prepare():
        data = Data()
        return lambda: data and None

    def timed(call, count):
        for _ in range(count):
            call()
        return [1.0] * count

    ways = [TaskVariant(note=str(i), work=1.0, holds_bytes=0, prepare=prepare) for i in range(4)]
    found = list(run(bench(timed=timed), task(*ways, sustained=True), EFFORT))
    assert len(found) == 2
    assert alive == []


def test_what_the_device_cannot_do_is_said_not_zero(monkeypatch):
    flags(monkeypatch)

    def refused(*_, **__):
        raise ValueError("scale_a must be float\nmore")

    monkeypatch.setattr(torch, "_scaled_mm", refused)
    monkeypatch.setattr(torch, "_int_mm", refused)
    found, unknown = gpu.measure(bench(), EFFORT)
    assert "fp8 matmul: scale_a must be float" in unknown
    assert "int8 matmul: scale_a must be float" in unknown
    assert {m.dtype for m in found} == {"", "fp64", "fp32", "tf32", "fp16", "bf16"}


def test_formats_without_an_engine_are_not_tried():
    engines = bench().engines | {"fp8": ("", "compute capability 8.0 has no instructions for it")}
    found, unknown = gpu.measure(bench(engines=engines), EFFORT)
    assert "fp8" not in {m.dtype for m in found}
    assert "fp8 matmul: compute capability 8.0 has no instructions for it" in unknown


def test_a_device_that_is_gone_is_an_error_and_not_a_list_of_unknowns():
    calls = []

    def timed(call, count):
        calls.append(count)
        if len(calls) > 20:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return [1.0] * count

    with pytest.raises(DeviceError, match=r"stopped working .*illegal memory access.* new one"):
        gpu.measure(bench(timed=timed), EFFORT)


def test_a_sustained_rate_carries_clock_and_power(monkeypatch):
    from gambrel.measure.gpu import telemetry

    monkeypatch.setattr(telemetry, "_EVERY_S", 0.001)
    m = Machine()

    def timed(call, count):
        import time

        time.sleep(0.02)
        return m.timed(call, count)

    reading = BoardState(clock_hz=1.755e9, power_w=689.6, celsius=61)
    made = bench(timed=timed, reading=lambda: reading, sustained_s=0.1)
    burst, kept = run(made, task(m.way("w", 10.0, 0.05), sustained=True), EFFORT)
    assert (burst.mix, burst.clock_hz) == ("matmul", None)
    assert (kept.mix, kept.clock_hz) == ("matmul sustained", 1.755e9)
    assert kept.note.endswith("readings: 1.755 GHz, 690 W, 61 °C")
