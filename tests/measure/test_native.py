"""The compiled loops do the work that they claim: checked against numpy on real memory."""

import ctypes

import numpy as np
import pytest

from gambrel.errors import DeviceError
from gambrel.measure import cpu, ir, loops, native
from gambrel.measure.arena import arena
from gambrel.measure.probes import Probe

pytest.importorskip("llvmlite")


TILE = Probe(
    resource="matrix",
    mix="tile",
    dtype="bf16",
    kernel=ir.tile("tile_bf16", "tdpbf16ps", 16384),
    threads=1,
)


@pytest.fixture(scope="module")
def tools():
    return native.compiler()


def view(address, count, dtype=np.float32):
    kind = np.ctypeslib.as_ctypes_type(dtype)
    return np.ctypeslib.as_array((kind * count).from_address(address))


def run(tools, kernel, address, size, passes=1, count=1, **chunks):
    job = native.Job(kernel=kernel, places=(address,), size=size, passes=passes, **chunks)
    return native.run_slices(tools, job, [0], count)


def test_copy_copies_the_second_array_to_the_first(tools):
    with arena(1 << 21) as memory:
        data = view(memory.address, 4096)
        expected = data[1024:2048].copy()
        run(tools, loops.memory("copy", tools.width, register=tools.register), memory.address, 4096)
        np.testing.assert_array_equal(data[:1024], expected)
        np.testing.assert_array_equal(data[1024:2048], expected)


def test_triad_adds_a_multiple_of_the_third_array_to_the_second(tools):
    with arena(1 << 21) as memory:
        data = view(memory.address, 4096)
        expected = data[1024:2048] + np.float32(2.0**-20) * data[2048:3072]
        run(tools, loops.memory("triad", tools.width), memory.address, 4096)
        np.testing.assert_allclose(data[:1024], expected, rtol=1e-6)


@pytest.mark.parametrize("mix", loops.STREAMS)
@pytest.mark.parametrize("nontemporal", [False, True])
def test_every_variant_does_the_same_to_memory(tools, mix, nontemporal):
    """However long its turns, whatever it asks for ahead, in however many parts it walks."""
    if nontemporal and (mix in {"read", "update"} or not tools.is_x86):
        pytest.skip("no such loop")

    def result(variant):
        with arena(1 << 21, seed=3) as memory:
            kernel = loops.memory(
                mix, tools.width, variant, nontemporal=nontemporal, register=tools.register
            )
            run(tools, kernel, memory.address, 3 * loops.TURN_BYTES, passes=3)
            return view(memory.address, 1 << 15).copy()

    variants = [
        loops.Variant(unroll=unroll, ahead=ahead, parts=parts)
        for unroll, ahead, parts in [(8, 0, 1), (32, 512, 2), (16, 2048, 4), (8, 0, 8)]
    ]
    expected = result(loops.Variant())
    for variant in variants:
        if loops.possible(mix, variant):
            np.testing.assert_array_equal(result(variant), expected)


@pytest.mark.parametrize(
    ("mix", "parts", "fits"),
    [("read", 8, True), ("copy", 4, True), ("copy", 8, False), ("triad", 4, True)],
)
def test_a_loop_holds_at_most_twelve_pointers(mix, parts, fits):
    assert loops.possible(mix, loops.Variant(parts=parts)) == fits


@pytest.mark.parametrize(("mix", "parts"), [("read", 8), ("copy", 4), ("triad", 4), ("update", 8)])
def test_no_variant_keeps_its_pointers_in_memory(tools, mix, parts):
    if not tools.is_x86:
        pytest.skip("other instructions")
    from llvmlite import binding

    kernel = loops.memory(mix, tools.width, loops.Variant(parts=parts), register=tools.register)
    text = ir.kernel_module(kernel, tools.triple)
    code = tools._machine().emit_assembly(binding.parse_assembly(text))
    loop = code[code.index("\tvmov", code.index("#NO_APP")) :].partition("\n\tj")[0]
    assert "rsp" not in loop


def test_a_variant_says_what_it_is():
    assert str(loops.Variant()) == "16 vectors a turn"
    assert str(loops.Variant(unroll=8, ahead=512, parts=2)) == (
        "8 vectors a turn, prefetch 512 B ahead, 2 parts side by side"
    )


def test_update_changes_every_sign_once_a_pass(tools):
    with arena(1 << 21) as memory:
        data = view(memory.address, 2048)
        before = data.copy()
        run(tools, loops.memory("update", tools.width), memory.address, 4096, passes=3)
        np.testing.assert_array_equal(data[:1024], -before[:1024])
        np.testing.assert_array_equal(data[1024:], before[1024:])


@pytest.mark.parametrize("nontemporal", [False, True])
def test_write_fills_the_array_and_nothing_beyond(tools, nontemporal):
    if nontemporal and not tools.is_x86:
        pytest.skip("x86 only")
    with arena(1 << 21) as memory:
        data = view(memory.address, 2048)
        before = data.copy()
        kernel = loops.memory("write", tools.width, nontemporal=nontemporal)
        run(tools, kernel, memory.address, 4096)
        lanes = tools.width // 4
        np.testing.assert_array_equal(data[:1024], np.tile(before[:lanes], 1024 // lanes))
        np.testing.assert_array_equal(data[1024:], before[1024:])


def test_read_changes_nothing(tools):
    with arena(1 << 21) as memory:
        data = view(memory.address, 4096)
        before = data.copy()
        run(tools, loops.memory("read", tools.width, register=tools.register), memory.address, 8192)
        np.testing.assert_array_equal(data, before)


def test_read_touches_every_page(tools):
    """A fault per fresh page shows that no load was left out."""
    import mmap
    import resource

    pages = 256
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    block = mmap.mmap(-1, pages * mmap.PAGESIZE, flags=flags)
    if not hasattr(mmap, "MADV_NOHUGEPAGE"):
        pytest.skip("pages may be of any size")
    block.madvise(mmap.MADV_NOHUGEPAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(block))
    kernel = loops.memory("read", tools.width, register=tools.register)
    tools.address(kernel)  # compiling touches pages of its own
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    run(tools, kernel, address, pages * mmap.PAGESIZE)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before >= pages
    block.close()


@pytest.mark.parametrize("width", [16, 32, 64])
def test_read_loads_every_vector_once_and_keeps_none_in_memory(tools, width):
    from llvmlite import binding

    if not tools.is_x86 or width > tools.width:
        pytest.skip("other instructions")
    text = ir.kernel_module(loops.memory("read", width, register="x"), tools.triple)
    code = tools._machine().emit_assembly(binding.parse_assembly(text))
    loop = code[code.index("\tvmov", code.index("#NO_APP")) :].partition("\n\tj")[0]
    loads = [line for line in loop.splitlines() if line.startswith("\tvmov")]
    offsets = {line.split()[1].partition("(")[0] or "0" for line in loads}
    assert len(loads) == len(offsets) == loops.Variant().unroll
    assert "rsp" not in loop


def test_slices_walk_over_the_chunks(tools):
    with arena(1 << 21) as memory:
        data = view(memory.address, 4096)
        before = data.copy()
        kernel = loops.memory("update", tools.width)
        # Five slices over four chunks: the first is done twice and so is as it was.
        run(tools, kernel, memory.address, 4096, count=5, chunk=4096, chunks=4)
        np.testing.assert_array_equal(data[:1024], before[:1024])
        np.testing.assert_array_equal(data[1024:], -before[1024:])


@pytest.mark.parametrize(("dtype", "kind"), [("fp32", np.float32), ("fp64", np.float64)])
def test_chains_of_fused_multiply_adds_converge(tools, dtype, kind):
    # a = a·x + y over and over tends to y / (1 - x).
    with arena(1 << 21) as memory:
        data = view(memory.address, 4096, kind)
        data[:] = np.random.default_rng(0).random(4096) * 0.5 + 0.3
        lanes = tools.width // data.itemsize
        x, y = data[:lanes].copy(), data[lanes : 2 * lanes].copy()
        run(tools, ir.fma(dtype, tools.width), memory.address, 0, passes=20)
        np.testing.assert_allclose(data[2 * lanes : 3 * lanes], y / (1 - x), rtol=1e-4)


def test_work_of_a_pass_is_counted_by_hand():
    # 64-byte vectors of fp32: 16 lanes, 24 chains, 64 turns, 2 FLOP each.
    assert ir.fma("fp32", 64).flops == 16 * 24 * 64 * 2
    # Half of the chains add only: 12 chains of 2 and 12 of 1 FLOP.
    assert ir.fma("fp32", 64, adds=True).flops == 16 * 64 * (12 * 2 + 12)
    # 16-byte vectors of fp64: 2 lanes, 12 chains.
    assert ir.fma("fp64", 16).flops == 2 * 12 * 64 * 2
    # Two 16 x 32 bf16 tiles: 16 * 16 results of 32 multiply-adds; 64 of them a pass.
    assert ir.tile("t", "tdpbf16ps", 16384).flops == 64 * 16384


def test_two_threads_start_each_slice_together(tools):
    import os

    cpus = sorted(os.sched_getaffinity(0))[:2] if hasattr(os, "sched_getaffinity") else [0]
    if len(cpus) < 2:
        pytest.skip("one processor")
    with arena(1 << 21) as memory:
        places = (memory.address, memory.address + (1 << 20))
        job = native.Job(kernel=loops.memory("update", tools.width), places=places, size=4096)
        times = native.run_slices(tools, job, cpus, 7)
    assert times.shape == (7,)
    assert (times > 0).all()
    assert native.one_way_s(tools, (cpus[0], cpus[1]), 100) > 0


def test_the_callers_affinity_stays(tools):
    import os

    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("Linux only")
    before = os.sched_getaffinity(0)
    with arena(1 << 21) as memory:
        run(tools, loops.memory("update", tools.width), memory.address, 4096)
    assert os.sched_getaffinity(0) == before


def test_a_system_without_the_clock_is_refused(monkeypatch):
    native.compiler.cache_clear()
    monkeypatch.setattr(native.sys, "platform", "win32")
    with pytest.raises(DeviceError, match="cannot be measured on win32 yet"):
        native.compiler()
    native.compiler.cache_clear()


def test_memory_is_private_random_and_aligned():
    with arena(3 << 20, seed=1) as one, arena(3 << 20, seed=2) as two:
        assert one.address % (2 << 20) == 0
        assert one.size == 4 << 20
        first, second = (view(a.address, one.size // 4) for a in (one, two))
        assert 0.3 <= first.min() < first.max() < 0.8001
        assert not np.array_equal(first, second)
        ctypes.memset(one.address, 0, one.size)
        assert second.min() >= 0.3


def test_an_interruption_waits_for_the_threads(tools):
    import threading
    import time

    done = []

    def work(index):
        time.sleep(0.05)
        done.append(index)

    class Once(threading.Thread):
        interrupted = False

        def join(self, timeout=None):
            if not Once.interrupted:
                Once.interrupted = True
                raise KeyboardInterrupt
            super().join(timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native.threading, "Thread", Once)
        with pytest.raises(KeyboardInterrupt):
            native._together(work, 2)
    assert sorted(done) == [0, 1]


@pytest.mark.parametrize("beside", ["nothing", "vectors", "tdpbf16ps"])
def test_the_chain_of_the_clock_multiplies_as_often_as_it_says(tools, beside):
    if not tools.is_x86:
        pytest.skip("x86 only")
    if beside.startswith("tdp") and not ("amx-bf16" in tools.features and cpu._ask_for_tiles()):
        pytest.skip("no tiles")
    kernel = {"nothing": ir.chain(), "vectors": ir.chain(tools.width)}.get(
        beside, ir.chain(tile=beside)
    )
    with arena(1 << 21) as memory:
        cpu._operands(TILE, memory.address)
        number = view(memory.address + (1 << 20), 1, np.uint64)
        number[0] = 3
        run(tools, kernel, memory.address, 1 << 20, passes=2)
        # 3 times 3, 2 * 1024 times, in 64 bits.
        assert int(number[0]) == pow(3, 1 + 2 * kernel.instructions, 2**64)
