"""Measured kernels: two runs, a model, what to change, the instruction roofline."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.analysis.measures import Bound
from gambrel.analysis.samples import (
    Known,
    MeasuredTraffic,
    MeasuredWork,
    Sample,
    Samples,
    place,
)
from gambrel.analysis.samples.diagnose import recommend
from gambrel.analysis.samples.instructions import peak_instructions, points
from gambrel.analysis.samples.join import join, kinds_of
from gambrel.analysis.samples.movement import compare
from gambrel.device.lookup import find, from_peaks
from gambrel.errors import UnknownNameError

DEVICE = from_peaks(1e12, 1e11)


def sample(name, flops=None, size=None, time=None, **more):
    work = () if flops is None else (MeasuredWork(work_class="vector", dtype="any", flops=flops),)
    traffic = () if size is None else (MeasuredTraffic(level="DRAM", traffic_bytes=size),)
    state = Known.MISSING if flops is None else Known.COUNTED
    return Sample(name=name, time_s=time, state=state, work=work, traffic=traffic, **more)


def standing(*launches, device=DEVICE, **more):
    return place(Samples(format="t", sources=("t",), launches=launches), device, **more)


class TestOrder:
    # 1e9 FLOP at 1 TFLOP/s: 1 ms of 3 ms. 1e9 byte at 0.1 TB/s: 10 ms of 11 ms.
    KERNELS = (sample("slack", 10**9, 10**6, 3e-3), sample("tight", 10**3, 10**9, 11e-3))

    def test_by_time_and_by_headroom(self):
        assert [k.sample.name for k in standing(*self.KERNELS).kernels] == ["tight", "slack"]
        found = standing(*self.KERNELS, order="headroom").kernels
        assert [k.sample.name for k in found] == ["slack", "tight"]
        assert [k.headroom_s for k in found] == pytest.approx([2e-3, 1e-3])

    def test_unknown_order(self):
        with pytest.raises(UnknownNameError, match="order"):
            standing(order="colour")


class TestMovement:
    def test_moves_by_size_with_new_and_gone(self):
        before = standing(sample("a", 100, 10, 4.0), sample("b", 1, 1, 1.0), sample("c", 1, 1, 2.0))
        after = standing(sample("a", 100, 10, 1.0), sample("b", 1, 1, 1.5), sample("d", 1, 1, 0.25))
        found = compare(before, after)
        moves = {m.name: (m.gained_s, m.speedup) for m in found.moves}
        assert (moves["a"], moves["b"]) == ((3.0, 4.0), (-0.5, 1 / 1.5))
        assert (moves["c"], moves["d"]) == ((2.0, None), (-0.25, None))
        assert [m.name for m in found.moves] == ["a", "c", "b", "d"]
        # 7 s before, 2.75 s after.
        assert (found.gained_s, found.speedup) == (4.25, 7 / 2.75)
        assert "2 kernels are in one of the runs only" in found.notes

    def test_other_shape_meets_by_name(self):
        found = compare(
            standing(sample("a", 100, 10, 4.0, grid="(1,1,1)")),
            standing(sample("a", 300, 10, 2.0, grid="(2,1,1)")),
        )
        (move,) = found.moves
        assert (move.speedup, move.work_changed) == (2.0, True)
        assert "other work" in found.notes[0]


class TestJoin:
    def test_times_of_a_model(self):
        analysis = gambrel.analyze("resnet18", "a100-sxm4-80gb", batch_size=2, precision="fp16")
        # Two runs of the model: 3x3 convolutions of the first layer, twice each, and the head.
        first = next(o for o in analysis.ops if o.name == "conv1")
        head = next(o for o in analysis.ops if o.name == "fc")
        found = join(
            standing(
                sample("cudnn_conv", 2 * first.measures.flops, 1, 8e-3, count=2),
                sample("gemm", 2 * head.measures.flops, 1, 2e-3, count=2),
                sample("bn_fw_tr", None, None, 4e-3, count=40),
                sample("mystery", None, None, 2e-3),
            ),
            analysis,
        )
        rows = {r.name: r for r in found.rows}
        assert found.runs == 2
        assert rows["conv1"].measured_time_s == pytest.approx(4e-3)
        assert rows["conv1"].how == rows["fc"].how == "work"
        assert rows["fc"].ratio == pytest.approx(1e-3 / rows["fc"].expected_time_s)
        assert rows["other normalization (20 ops)"].measured_time_s == pytest.approx(2e-3)
        assert found.left_kernels == {"mystery": pytest.approx(1e-3)}
        # 14 of 16 ms found an op, 10 of 16 by their work.
        assert found.coverage_time == pytest.approx(14 / 16)
        assert found.coverage_work == pytest.approx(10 / 16)
        assert 0 < found.coverage_ops < 1
        assert "layer1.0.conv1" in found.left_ops

    def test_padding_is_tolerated_other_work_is_not(self):
        analysis = gambrel.analyze("resnet18", "a100-sxm4-80gb", batch_size=2, precision="fp16")
        flops = next(o for o in analysis.ops if o.name == "conv1").measures.flops
        for factor, met in ((1.04, True), (1.5, False)):
            found = join(standing(sample("conv", round(flops * factor), 1, 1.0)), analysis)
            assert (found.rows[0].how == "work") is met

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("aten::addmm", "matmul"),
            ("ampere_fp16_s16816gemm_fp16_128x128", "matmul"),
            ("cudnn::implicit_gemm_fprop", "convolution"),
            ("void at::native::vectorized_elementwise_kernel<4, Add>", "elementwise"),
            ("flash_fwd_kernel", "attention"),
            ("ncclDevKernel_AllReduce", "collective"),
            ("triton_", None),
        ],
    )
    def test_kinds(self, name, kind):
        assert kinds_of(name)[:1] == ((kind,) if kind else ())


class TestRecommend:
    def test_at_the_roof_of_memory(self):
        # 1e9 byte at 0.1 TB/s take 10 ms.
        (found,) = recommend(standing(sample("copy", 10**3, 10**9, 10.5e-3)))
        assert "of DRAM" in found.cause
        assert "fuse" in found.change
        assert found.saves_s == pytest.approx(5.25e-3)

    def test_far_below_with_low_occupancy(self):
        (found,) = recommend(
            standing(sample("k", 10**9, 10**6, 10e-3, recorded={"occupancy": 0.1}))
        )
        assert "more warps" in found.change
        assert found.saves_s == pytest.approx(9e-3)

    def test_scattered_access(self):
        (found,) = recommend(
            standing(sample("k", 10**6, 10**8, 10e-3, ratios={"sectors per request": 32.0}))
        )
        assert "neighbouring" in found.change

    def test_idle_time_and_short_kernels(self):
        launches = tuple(sample(f"k{i}", None, None, 2e-6) for i in range(20))
        spans = {"compute": 40e-6, "idle": 60e-6}
        samples = Samples(format="t", sources=("t",), launches=launches, spans=spans)
        found = recommend(place(samples, DEVICE))
        assert [s.cause.split(":")[0] for s in found] == ["idle", found[1].cause]
        assert found[0].share == pytest.approx(0.6)
        assert "20 launches shorter than 5 us" in found[1].cause

    def test_nothing_to_say(self):
        assert recommend(standing()) == ()


class TestInstructions:
    def test_points(self):
        (found,) = points(standing(sample("k", 0, 3200, 2e-3, instructions=400)))
        # 400 instructions over 100 transactions of 32 bytes, in 2 ms.
        assert (found.level, found.per_transaction) == ("DRAM", 4.0)
        assert found.instruction_per_s == pytest.approx(2e5)

    def test_sums(self):
        kernels = standing(
            sample("k", 0, 32, 1.0, instructions=4), sample("k", 0, 32, 1.0, instructions=6)
        ).kernels
        assert kernels[0].sample.instructions == 10
        assert kernels[0].instruction_per_s == 5.0

    @pytest.mark.parametrize(
        ("device", "peak"),
        [
            # 108 multiprocessors x 4 x 1.41 GHz; 120 compute units x 1.502 GHz.
            ("a100-sxm4-80gb", 609.12e9),
            ("mi100", 180.24e9),
        ],
    )
    def test_peak(self, device, peak):
        assert peak_instructions(find(device).device) == pytest.approx(peak, rel=0.01)

    def test_no_peak(self):
        assert peak_instructions(DEVICE) is None
        assert peak_instructions(None) is None


def test_idle_tensor_pipe_is_a_warning():
    note = "the tensor pipe executed instructions but no tensor operations: constant moves"
    (kernel,) = standing(sample("k", 1, 1, 1.0, notes=(note,))).kernels
    assert note in kernel.warnings
    assert kernel.bound is Bound.MEMORY
