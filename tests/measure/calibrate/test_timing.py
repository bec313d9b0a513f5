"""How kernels are timed: grids that hold no model's shape, layers, pools, fresh pages, loops."""

import itertools

import pytest

torch = pytest.importorskip("torch")

from gambrel.analysis.estimate import classes  # noqa: E402
from gambrel.analysis.roofs import roofs_of  # noqa: E402
from gambrel.device.lookup import from_peaks  # noqa: E402
from gambrel.measure.calibrate import cases, fit, fresh, loops, measure_kernels, timing  # noqa: E402
from gambrel.measure.calibrate.cases import Case  # noqa: E402
from gambrel.measure.calibrate.timing import Pool, PreparedKernel, time_kernels  # noqa: E402

DEVICE = from_peaks(1e12, 1e11, name="box")
#: Widths, tables and sides of images that published models have.
OF_MODELS = {512, 768, 1024, 2048, 2304, 3072, 4096, 1376, 1000, 30522, 32000, 50257}
SIDES_OF_MODELS = {7, 14, 28, 56, 112, 224}


def kernel(run, *inputs, bound=1e-6, weights=()):
    pool = Pool(torch.rand(1 << 16))
    case = Case(run=run, inputs=inputs, weights=weights)
    return PreparedKernel(
        case=case, sets=pool.sets(case), key="k", features=(1.0,), roofline_s=bound
    )


def test_the_grid_holds_no_shape_of_a_published_model():
    shapes = [(n, k) for n, k in cases._WEIGHTS] + [(n, k) for _, n, k in cases._HEADS]
    shapes += [(n, k) for _, n, k in cases._ODD]
    assert not OF_MODELS.intersection(itertools.chain.from_iterable(shapes))
    assert not SIDES_OF_MODELS.intersection(side for _, _, side, _, _ in cases._CONVOLUTIONS)
    assert not SIDES_OF_MODELS.intersection(side for _, side, _ in cases._DEPTHWISE)


def test_convolutions_are_timed_in_both_layouts():
    found = list(cases._convolution(torch.float32, 2, 8, 12, 6, 3, 1))
    assert [c.variant for c in found] == ["", classes.LAST]
    results = []
    for case in found:
        weight = torch.arange(12 * 8 * 9.0).view(case.weights[0])
        results.append(case.run(case.inputs[0], weight))
    assert results[0].is_contiguous()
    assert results[1].is_contiguous(memory_format=torch.channels_last)
    assert results[0].shape == results[1].shape == (2, 12, 6, 6)


def test_a_layer_runs_once_untimed_and_then_with_other_weights():
    seen = []

    def run(x, w):
        seen.append((x.shape[0], w.data_ptr()))
        return x

    kernels = [kernel(run, torch.rand(n), weights=((4, 4),)) for n in (1, 2, 3, 4)]
    drawings = timing._MOST
    ticks = itertools.count()
    time_kernels(kernels, lambda: next(ticks))
    for k in kernels:
        assert len(k.seen) == drawings * timing._REPEATS
        mine = [pointer for n, pointer in seen if n == k.case.inputs[0].shape[0]]
        assert len(mine) == drawings * (timing._REPEATS + 1)
        assert all(a != b for a, b in itertools.pairwise(mine[: timing._REPEATS + 1]))
    # Four kernels are one layer: no kernel follows itself within it.
    first = [n for n, _ in seen[: 4 * (timing._REPEATS + 1)]]
    assert sorted(first[:4]) == [1, 2, 3, 4]
    assert first == first[:4] * (timing._REPEATS + 1)


def test_layers_are_of_like_size():
    kernels = [kernel(torch.relu, torch.rand(1), bound=10.0**-n) for n in range(2, 10)]
    import random

    small, large = timing._layers(kernels, random.Random(0))
    assert max(k.roofline_s for k in small) < min(k.roofline_s for k in large)


def test_the_mean_of_the_middle_half_counts():
    one = kernel(torch.relu, torch.rand(1))
    one.seen.extend([1.0, 2.0, 4.0, 100.0])
    one.fresh.extend([0.0, 0.0, 0.0, 0.0])
    assert one.seconds(0.5) == 3.0  # of 2 and 4


def test_the_first_touch_of_pages_is_taken_off_run_by_run():
    one = kernel(torch.relu, torch.rand(1))
    one.seen.extend([3.0, 8.0, 3.0, 8.0])
    one.fresh.extend([0.0, 10.0, 0.0, 10.0])
    assert one.seconds(0.5) == 3.0  # ten bytes at half a second each
    assert one.seconds(0.0) == 5.5


def test_fresh_pages_of_a_run_are_counted():
    pages = 40 << 20  # above what any allocator of glibc keeps
    one = kernel(lambda x: torch.ones(pages, dtype=torch.uint8), torch.rand(1))
    ticks = itertools.count()
    time_kernels([one], lambda: next(ticks))
    assert len(one.fresh) == len(one.seen)
    assert max(one.fresh) >= 0.9 * pages


def test_a_pool_gives_pieces_that_do_not_overlap_until_it_is_used_up():
    pool = Pool(torch.arange(256.0))
    a, b = pool.take((10, 10)), pool.take((100,))
    assert a.flatten()[0] == 0
    assert b[0] == 128  # the next cache line after 100 numbers
    assert pool.take((100,))[0] == 0  # 28 are left


def test_fresh_pages_cost_what_filling_new_ones_takes_longer(monkeypatch):
    monkeypatch.setattr(fresh, "_maps_anew", lambda: True)
    # Filling old pages takes 1 s, new ones 3 s.
    durations = itertools.cycle([1.0, 3.0])
    ticks = itertools.chain.from_iterable((0.0, d) for d in durations)
    rows = fresh.fresh_rows(1e9, lambda: next(ticks))
    assert len(rows) == len(fresh._SIZES)
    assert {r[0] for r in rows} == {classes.FRESH_KEY}
    assert {r[3] for r in rows} == {2.0}
    assert rows[0][2] == fresh._SIZES[0] / 1e9


def test_an_allocator_that_keeps_memory_has_no_first_touch(monkeypatch):
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "1000000000")
    assert fresh.fresh_rows(1e9) == []
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1000000000")
    assert fresh.fresh_rows(1e9) == []


def test_where_nothing_compiles_no_loops_are_timed(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr(torch, "compile", broken)
    monkeypatch.setattr(fit, "fresh_rows", lambda *_: [])  # takes seconds, and is not asked here
    listed = [loops.Loop(run=torch.relu, make=lambda n: (torch.rand(n),))]
    assert list(loops.time_loops(listed)) == []
    with torch.no_grad():
        found = measure_kernels(DEVICE, ("fp32",), chosen=lambda d: (), written=lambda d: listed)
    assert not [p for p in found if "@compiled" in p.key]


def test_loops_are_compiled_and_become_classes_of_their_own():
    few = loops.Loop(run=torch.relu, make=lambda n: (torch.rand(n),))
    with torch.no_grad():
        if not list(loops.time_loops([])) and not _compiles():
            pytest.skip("torch cannot compile here")
        found = measure_kernels(DEVICE, ("fp32",), chosen=lambda d: (), written=lambda d: [few])
    (own,) = [p for p in found if "@compiled" in p.key]
    assert own.key == "elementwise.relu@compiled:fp32"
    assert own.points == len(loops._ELEMENTS)
    # A relu reads and writes four bytes an element, and is bound by the roof of memory alone.
    assert own.features[0][0] == pytest.approx(torch.tensor(loops._ELEMENTS[0] * 8.0).log2().item())
    assert own.rooflines_s[0] == loops._ELEMENTS[0] * 8 / roofs_of(DEVICE).memory_byte_per_s


def _compiles():
    try:
        torch.compile(lambda a: a + 1)(torch.rand(4))
    except Exception:  # of many classes
        return False
    return True


def test_every_loop_is_one_op():
    from gambrel.capture.torch import capture
    from gambrel.measure.calibrate.fit import _costs

    keys = set()
    for loop in loops.loops(torch.float32):
        ops = _costs(capture(loop.run, loop.make(5 << 13), source=False))
        assert len(ops) == 1
        keys.add(classes.key_of(ops[0][0], classes.WRITTEN))
    assert {"elementwise.add@compiled:fp32", "normalization.batch_norm@compiled:fp32"} <= keys
