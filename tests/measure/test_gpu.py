"""What measures a GPU, run on the CPU behind the same seam: the figures are those of a clock."""

import pytest

torch = pytest.importorskip("torch")

from gambrel.device.lookup import find  # noqa: E402
from gambrel.measure import gpu  # noqa: E402
from gambrel.measure.convert import to_device  # noqa: E402
from gambrel.measure.text import compare  # noqa: E402


def bench(**changes):
    """Every call takes half a second by this clock."""
    ticks = iter(i * 0.5 for i in range(1_000_000))
    plain = {
        "device": "cpu",
        "timed": gpu.timed_by_clock(lambda: next(ticks)),
        "sides": (16, 32),
        "stream_bytes": 4096,
        "settle_s": 0.0,
        "sustained_s": 0.0,
    }
    return gpu.Bench(**(plain | changes))


EFFORT = {"steps": 3, "warmup": 1, "rounds": 2}


def test_rates_sizes_and_mixes():
    found, unknown = gpu.measure(bench(), EFFORT)
    rows = {(m.resource, m.mix, m.dtype): m for m in found}
    # 2 * 32^3 = 65536 FLOP in half a second.
    fp32 = rows["vector", "matmul", "fp32"]
    assert fp32.value == pytest.approx(131072.0)
    assert fp32.note == "square product of side 32"
    assert rows["vector", "matmul sustained", "fp32"].value == pytest.approx(131072.0)
    assert rows["matrix", "matmul", "tf32"].value == pytest.approx(131072.0)
    # A copy reads and writes: 2 * 4096 bytes in half a second; a triad moves three arrays.
    assert rows["DRAM", "read", ""].value == pytest.approx(8192.0)
    assert rows["DRAM", "copy", ""].value == pytest.approx(16384.0)
    assert rows["DRAM", "triad", ""].value == pytest.approx(24576.0)
    assert rows["host link", "to device", ""].value == pytest.approx(8192.0)
    assert all(text.startswith(("int8", "fp8", "fp16", "L2")) for text in unknown)


def test_precision_flags_are_restored_even_after_a_failure():
    torch.set_float32_matmul_precision("medium")
    try:
        gpu.measure(bench(), EFFORT)
        assert torch.get_float32_matmul_precision() == "medium"

        def broken(call, count):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            gpu.measure(bench(timed=broken), EFFORT)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_tf32_is_on_for_tf32_alone():
    seen = {}

    def timed(call, count):
        call()
        seen.setdefault(torch.get_float32_matmul_precision(), 0)
        return [1.0] * count

    tasks = [t for t in gpu._products(bench()) if t.dtype in {"fp32", "tf32"}]
    for task in tasks:
        before = dict(seen)
        list(gpu._run(bench(timed=timed), task, EFFORT))
        assert set(seen) - set(before) == {"high" if task.tf32 else "highest"}
    torch.set_float32_matmul_precision("highest")


def test_what_the_device_cannot_do_is_said_not_zero():
    def timed(call, count):
        raise RuntimeError("not supported\nmore")

    found, unknown = gpu.measure(bench(timed=timed), EFFORT)
    assert found == ()
    assert "fp8 matmul: not supported" in unknown
    assert "DRAM copy: not supported" in unknown


def test_a_size_that_does_not_fit_leaves_the_smaller_ones():
    def prepare(size):
        if size > 1:
            raise torch.cuda.OutOfMemoryError("out of memory")
        return (lambda: None), 10.0

    task = gpu._Task(resource="DRAM", mix="read", sizes=(1, 2), prepare=prepare, unit="B/s")
    (found,) = gpu._run(bench(), task, EFFORT)
    assert found.value == pytest.approx(20.0)


def test_the_l2_is_measured_where_its_size_is_known_and_kernels_can_be_repeated():
    made = []

    def repeated(call, count):
        made.append(count)
        return lambda: [call() for _ in range(count)]

    found, unknown = gpu.measure(bench(level2_bytes=4096, repeated=repeated), EFFORT)
    (row,) = [m for m in found if m.resource == "L2"]
    # A quarter of the L2, read and written 64 times in half a second.
    assert row.value == pytest.approx(2 * 1024 * 64 / 0.5)
    assert row.working_set_bytes == 1024
    assert made == [64, 64]
    assert not any("L2" in text for text in unknown)
    found, unknown = gpu.measure(bench(), EFFORT)
    assert not [m for m in found if m.resource == "L2"]
    assert any("L2 bandwidth" in text for text in unknown)


class Clocked:
    """A device whose events read a script: the layer between torch and the driver."""

    def __init__(self, milliseconds):
        self.script = list(milliseconds)
        self.now = 0.0
        self.synchronized = 0

    def event(self, enable_timing):
        assert enable_timing
        return Event(self)

    def synchronize(self, index):
        self.synchronized += 1


class Event:
    def __init__(self, device):
        self.device, self.at = device, None

    def record(self):
        self.at = self.device.now

    def elapsed_time(self, other):
        return other.at - self.at


def test_times_are_those_between_the_device_s_events(monkeypatch):
    device = Clocked([2.0, 4.0, 0.0])
    monkeypatch.setattr(torch.cuda, "Event", device.event)
    monkeypatch.setattr(torch.cuda, "synchronize", device.synchronize)
    script = iter(device.script)

    def call():
        device.now += next(script)

    # Milliseconds of the events are seconds here; an event that saw no time passes is no zero.
    times = gpu._timed_by_events(0)(call, 3)
    assert times == pytest.approx([2e-3, 4e-3, 1e-9])
    assert device.synchronized == 1


def test_a_whole_survey_of_a_scripted_device(monkeypatch):
    about = type(
        "About",
        (),
        {
            "name": "NVIDIA H100 80GB HBM3",
            "major": 9,
            "minor": 0,
            "L2_cache_size": 50 << 20,
            "total_memory": 80 << 30,
            "multi_processor_count": 132,
        },
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: about)
    monkeypatch.setattr(torch.cuda, "device", lambda index: __import__("contextlib").nullcontext())
    seen = []

    def measure(made, effort, progress):
        seen.append(made)
        return gpu_measure(bench(level2_bytes=4096, repeated=lambda c, n: c), effort, progress)

    gpu_measure = gpu.measure
    monkeypatch.setattr(gpu, "measure", measure)
    monkeypatch.setattr(gpu, "_timed_by_events", lambda index: gpu.timed_by_clock())
    found = gpu.survey(0, EFFORT)
    assert (found.device, found.vendor, found.category) == ("cuda:0", "NVIDIA", "gpu")
    assert found.capacities == {"DRAM": 80 << 30, "L2": 50 << 20}
    # Arrays of at least eight times the L2, 512 MiB at least.
    assert seen[0].stream_bytes == 512 << 20
    assert seen[0].fp64_engine == "matrix"
    device = to_device(found)
    assert device.ceiling("vector", "fp32").flop_per_s == pytest.approx(131072.0)
    assert device.level("DRAM").byte_per_s == pytest.approx(24576.0)
    assert device.level("L2") is not None
    published = find("h100").device
    rows = {r.ceiling: r for r in compare(device, published)}
    assert rows["vector fp32"].low
    assert rows["DRAM"].published == published.level("DRAM").byte_per_s
