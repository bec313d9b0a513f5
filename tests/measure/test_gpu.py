"""What measures a GPU, run on the CPU behind the same seam: the figures are those of a clock."""

import pytest

torch = pytest.importorskip("torch")

from gambrel.measure import gpu  # noqa: E402


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
    assert all(text.startswith(("int8", "fp8", "fp16")) for text in unknown)


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
