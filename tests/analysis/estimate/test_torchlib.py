"""Kernels of PyTorch: hand arithmetic of every form, and laws that all of them keep."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

import gambrel
from gambrel.analysis.estimate import Estimator
from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.engine_forms import EngineMachine, kernel_times
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.estimate.torchlib import (
    attention,
    convolutions,
    products,
    recurrence,
    rows,
    streams,
    windows,
)
from gambrel.analysis.roofs import of_one_die, roofs_of
from gambrel.analysis.scopes import bound_op
from gambrel.device import catalog
from gambrel.ops import OpView, cost
from gambrel.ops.attention import split_scores
from tests.analysis.estimate import views

#: 100 units; 1 TB/s; 20 TFLOP/s, that is 10e12 lane cycles per second; 100 W.
TOY = Chip(units=100, clock_hz=1e9, byte_per_s=1e12, vector_flop_per_s=20e12, tdp_w=100)
DEVICES = ("h100-sxm5-80gb", "a100-sxm4-80gb", "t4", "l4", "v100-sxm2-32gb", "mi210", "mi300x")


def task(view, matrix_peak=20e12, compiled=False):
    return Task(
        view=view,
        cost=cost(view),
        matrix_peak=matrix_peak,
        vector_peak=20e12,
        compiled=compiled,
    )


def fp32(*shape, storage=0, role="activation"):
    return views.tensor(*shape, dtype="fp32", storage=storage, role=role)


def unary(function, *shape):
    return OpView(
        kind="elementwise",
        inputs=(fp32(*shape, storage=1),),
        outputs=(fp32(*shape, storage=2),),
        sizes={"elements": math.prod(shape)},
        attrs={"function": function},
    )


def convolved(
    batch, channels, outputs, side, kernel, *, out_side=None, groups=1, bias=False, dims=2, t=False
):
    after = out_side or side
    k = (kernel,) * dims
    return OpView(
        kind="convolution",
        inputs=(
            fp32(batch, channels, *(side,) * dims, storage=1),
            fp32(outputs, channels // groups, *k, storage=2, role="weight"),
        ),
        outputs=(fp32(batch, outputs, *(after,) * dims, storage=3),),
        sizes={
            "batch": batch,
            "in_channels": channels,
            "out_channels": outputs,
            "groups": groups,
            "kernel": k,
            "spatial": (side if t else after,) * dims,
        },
        attrs={"bias": bias, "transposed": t},
    )


def gradient(view, of):
    """Of a convolution: its gradients of the input, the weights, or both."""
    wanted = {f"grad_{name}": of in (name, "both") for name in ("input", "weight")}
    inputs, outputs = (*view.outputs, *view.inputs), view.inputs
    attrs = view.attrs | wanted
    return replace(view, kind="convolution_backward", inputs=inputs, outputs=outputs, attrs=attrs)


STREAM = {"same": 0.8, "broadcast": 0.5, "compiled": 0.4, "pow_cycles": 0.0}


class TestStreams:
    def test_element_wise_reads_and_writes_once(self):
        # 10^6 values of 4 bytes in and out: 8 MB at 0.8 TB/s are 10 µs.
        assert streams.elementwise(STREAM, TOY, task(unary("relu", 1000, 1000))) == pytest.approx(
            10e-6
        )

    def test_an_operand_that_is_broadcast_takes_the_other_share(self):
        view = OpView(
            kind="elementwise",
            inputs=(fp32(1000, 1000, storage=1), fp32(1000, storage=2)),
            outputs=(fp32(1000, 1000, storage=3),),
            sizes={"elements": 10**6},
            attrs={"function": "add"},
        )
        # 8.004 MB at 0.5 TB/s.
        assert streams.elementwise(STREAM, TOY, task(view)) == pytest.approx(16.008e-6)

    def test_a_power_may_compute_for_longer_than_it_reads(self):
        c = STREAM | {"pow_cycles": 190.0}
        # 190 cycles for each of 10^6 values on 10^13 lane cycles per second: 19 µs.
        assert streams.elementwise(c, TOY, task(unary("pow", 1000, 1000))) == pytest.approx(19e-6)
        assert streams.elementwise(c, TOY, task(unary("relu", 1000, 1000))) == pytest.approx(10e-6)

    @pytest.mark.parametrize(
        ("function", "expected"),
        [
            ("sum", 4.004e-6 / 0.8),  # 4 MB in, 4 kB out
            ("argmin", 4.008e-6 / 0.5),  # indices of 8 bytes
            ("logsumexp", 24e-6 / 0.8),  # six passes of 4 MB
        ],
    )
    def test_reductions(self, function, expected):
        indexed = function == "argmin"
        view = OpView(
            kind="reduction",
            inputs=(fp32(1000, 1000, storage=1),),
            outputs=(views.tensor(1000, dtype="int64" if indexed else "fp32", storage=2),),
            sizes={"elements": 10**6, "outputs": 1000},
            attrs={"function": function},
        )
        c = {"plain": 0.8, "indexed": 0.5, "compiled": 0.9}
        assert streams.reduction(c, TOY, task(view)) == pytest.approx(expected, rel=1e-6)


NORM = {
    "apply": 0.8,
    "batch": 0.8,
    "statistics": 0.5,
    "block_byte_per_s": 10e9,
    "layer_extra": 0.0,
    "round_trip_s": 0.5e-6,
    "row_s": 0.0,
    "start_s": 0.0,
    "compiled": 0.9,
}


class TestRows:
    def norm(self, function, groups, *shape, **attrs):
        return OpView(
            kind="normalization",
            inputs=(fp32(*shape, storage=1),),
            outputs=(fp32(*shape, storage=2),),
            sizes={"elements": math.prod(shape), "groups": groups},
            attrs={"function": function, "statistics": True, **attrs},
        )

    def test_few_long_rows_wait_for_memory(self):
        view = self.norm("layer_norm", 16, 16, 4_194_304)
        # 2 walks of 4,194,304 / 512 = 8,192 round trips of 0.5 µs.
        assert rows.normalization(NORM, TOY, task(view)) == pytest.approx(8.192e-3)

    def test_a_batch_norm_finds_its_statistics_first(self):
        view = self.norm("batch_norm", 1000, 1, 1000, 1000)
        # 4 MB at 0.5 TB/s, then 8 MB at 0.8 TB/s; a channel's 4 kB take a block 0.4 µs.
        assert rows.normalization(NORM, TOY, task(view)) == pytest.approx(8e-6 + 10e-6)
        few = self.norm("batch_norm", 2, 1, 2, 500_000)
        # A block reads its 2 MB channel at 10 GB/s.
        assert rows.normalization(NORM, TOY, task(few)) == pytest.approx(200e-6 + 10e-6)

    def test_stored_statistics_only_apply(self):
        view = self.norm("batch_norm", 1000, 1, 1000, 1000, statistics=False)
        assert rows.normalization(NORM, TOY, task(view)) == pytest.approx(10e-6, rel=0.01)

    def test_a_compiler_applies_stored_statistics_element_by_element(self):
        view = self.norm("batch_norm", 2, 1, 2, 500_000, statistics=False)
        compiled = task(view, compiled=True)
        assert rows.normalization(NORM, TOY, compiled) == pytest.approx(10e-6, rel=0.01)

    def test_gradients_of_scale_and_shift_take_a_pass_of_their_own(self):
        batch = self.norm("batch_norm", 1000, 1, 1000, 1000)
        layer = self.norm("layer_norm", 1000, 1000, 1000)
        # Input and gradient: 8 MB at 0.5 or 0.8 TB/s, before 8 MB at 0.8 TB/s as the cost says.
        again = rows.normalization_backward(NORM, TOY, task(batch))
        assert again == pytest.approx(16e-6 + 10e-6, rel=0.01)
        again = rows.normalization_backward(NORM, TOY, task(layer))
        assert again == pytest.approx(10e-6 + 10e-6, rel=0.01)

    @pytest.mark.parametrize(
        ("shape", "expected"),
        [
            ((1000, 1000), 8e6 / 0.8e12),
            ((500, 2000), (8e6 + 0.5 * 4e6) / 0.8e12),  # beyond a warp's registers
            ((10, 100_000), (8e6 + 2 * 4e6) / 0.8e12),  # 400 kB do not stay on chip
        ],
    )
    def test_softmax_reads_long_rows_again(self, shape, expected):
        c = {"inner": 0.8, "outer": 0.5, "extra": 0.5, "kept_row_bytes": 200e3, "compiled": 0.9}
        view = OpView(
            kind="softmax",
            inputs=(fp32(*shape, storage=1),),
            outputs=(fp32(*shape, storage=2),),
            sizes={"elements": math.prod(shape), "rows": shape[0]},
        )
        assert rows.softmax(c, TOY, task(view)) == pytest.approx(expected)


def test_pooling_counts_taps():
    c = {"tap": 40.0, "start": 40.0, "memory": 0.8, "compiled_tap": 14.0, "compiled_start": 10.0}
    view = OpView(
        kind="pooling",
        inputs=(fp32(1, 1, 2000, 2000, storage=1),),
        outputs=(fp32(1, 1, 1000, 1000, storage=2),),
        sizes={"outputs": 10**6, "window": 4},
        attrs={"function": "max"},
    )
    # 10^6 outputs of 40 + 4 · 40 lane cycles; compiled of 10 + 4 · 14, less than its 20 MB take.
    assert windows.pooling(c, TOY, task(view)) == pytest.approx(200e6 / 10e12, rel=0.3)
    assert windows.pooling(c, TOY, task(view, compiled=True)) == pytest.approx(20e6 / 0.8e12)


CONV = {
    "start_cycles": 0.0,
    "tile": 0.0,
    "gather_bytes": 0.0,
    "step_cycles": 0.0,
    "base_s": 0.0,
    "engine": 0.5,
    "engine_3d": 0.1,
    "transposed": 0.5,
    "grouped": 0.05,
    "grouped_lanes": 0.25,
    "few_lanes": 0.5,
    "few_half": 64.0,
    "memory": 1.0,
    "pointwise": 0.5,
    "relay": 0.8,
    "bias": 0.8,
    "tap": 30.0,
    "start": 40.0,
}


class TestConvolutions:
    PEAK = 200e12

    def seconds(self, view, peak=PEAK, compiled=False, **constants):
        return convolutions.convolution(CONV | constants, TOY, task(view, peak, compiled))

    def test_layout_passes_around_the_matrix_engine(self):
        view = convolved(8, 64, 64, 100, 3)
        # 2 · 8 · 64 · 64 · 9 · 10^4 FLOP at half of 200 TFLOP/s; 20.48 MB each of input and output
        # pass twice more at 0.8 TB/s.
        engine, passes = 5.89824e9 / 100e12, 2 * 40.96e6 / 0.8e12
        assert self.seconds(view) == pytest.approx(engine + passes)

    def test_in_16_bits_a_group_fills_its_own_instructions(self):
        half = {"half": 0.5, "half_grouped": 0.25, "few": 0.1, "energy_j": 0.0}
        # Eight groups of 8 channels fill half of the 16 columns of an instruction.
        view = convolved(8, 64, 64, 100, 3, groups=8)
        products = 2 * 5_120_000 * 8 * 9 / (0.25 * 0.5 * 200e12)
        streams = 40.96e6 / 0.8e12
        whole = (products**3 + streams**3) ** (1 / 3) + 2 * streams
        assert self.seconds(view, memory=0.8, **half) == pytest.approx(whole)
        # Three input channels: 27 of 64 steps of depth.
        few = convolved(8, 3, 64, 100, 3)
        products = 2 * 5_120_000 * 3 * 9 / (0.1 * 27 / 64 * 200e12)
        streams = (0.96e6 + 20.48e6) / 0.8e12
        whole = (products**3 + streams**3) ** (1 / 3) + 2 * streams
        assert self.seconds(few, memory=0.8, **half) == pytest.approx(whole)

    def test_in_16_bits_one_by_one_streams_slower_with_channels_first(self):
        half = {"half": 0.5, "half_grouped": 0.25, "few": 0.1, "energy_j": 0.0, "first": 0.5}
        view = convolved(8, 64, 64, 100, 1)
        products = 2 * 5_120_000 * 64 / 100e12
        for compiled, share in ((False, 0.25), (True, 0.5)):
            streams = 40.96e6 / (share * 1e12)
            whole = (products**3 + streams**3) ** (1 / 3)
            assert self.seconds(view, compiled=compiled, **half) == pytest.approx(whole)

    def test_the_gradient_of_weights_of_groups_takes_longer(self):
        view = convolved(8, 64, 64, 100, 3, groups=64)
        wanted = ("input", "weight", "both")
        alone = {w: self.seconds(gradient(view, w), tile=0.5) for w in wanted}
        assert alone["weight"] == pytest.approx(3 * alone["input"])
        assert alone["both"] == pytest.approx(4 * alone["input"])
        amd = {w: self.seconds(gradient(view, w)) for w in wanted}  # none was measured there
        assert amd["weight"] == amd["input"] == alone["input"]

    def test_in_16_bits_the_cooling_limits_it(self):
        # 100 W, 22 % of it not for the cores: 78 W sustain 10 TFLOP/s at 7.8 pJ.
        half = {"half": 0.5, "half_grouped": 0.25, "few": 0.1, "energy_j": 7.8e-12}
        products, streams = 5.89824e9 / 10e12, 40.96e6 / 0.8e12
        whole = (products**3 + streams**3) ** (1 / 3) + 2 * streams
        found = self.seconds(convolved(8, 64, 64, 100, 3), memory=0.8, **half)
        assert found == pytest.approx(whole)

    def test_compilers_keep_channels_last(self):
        view = convolved(8, 64, 64, 100, 3)
        assert self.seconds(view, compiled=True) == pytest.approx(5.89824e9 / 100e12)

    def test_a_bias_is_a_pass_of_its_own_in_eager_mode(self):
        plain, biased = (convolved(8, 64, 64, 100, 3, bias=b) for b in (False, True))
        more = self.seconds(biased) - self.seconds(plain)
        assert more == pytest.approx(2 * 20.48e6 / 0.8e12)

    def test_one_by_one_needs_no_other_layout(self):
        view = convolved(8, 64, 64, 100, 1)
        assert self.seconds(view) == pytest.approx(40.96e6 / 0.5e12)

    def test_few_input_channels_run_on_vector_units(self):
        view = convolved(8, 3, 64, 100, 3)
        # 276.48 MFLOP at half of 20 TFLOP/s, and half of that as 64 channels are as many as lost.
        assert self.seconds(view) == pytest.approx(276.48e6 / 5e12)

    def test_depthwise_counts_lane_cycles(self):
        view = convolved(8, 64, 64, 100, 3, groups=64)
        # 5.12 M outputs of 40 + 9 · 30 cycles.
        assert self.seconds(view) == pytest.approx(5.12e6 * 310 / 10e12)

    def test_transposed_grouped_ones_do_not_skip_the_stride(self):
        view = convolved(64, 8, 8, 50, 2, out_side=100, groups=2, t=True)
        # 5.12 M outputs look at 4 taps of 4 channels: 163.84 MFLOP at a quarter of 20 TFLOP/s.
        assert convolutions.dense_flops(task(view)) == 2 * 5_120_000 * 4 * 4
        assert self.seconds(view) == pytest.approx(163.84e6 / 5e12)

    def test_a_small_one_waits_for_its_start_and_its_reduction(self):
        view = convolved(1, 64, 64, 7, 3)
        # 6,540 cycles, and 40 for each 64 of the 64 · 9 · 4 bytes of depth, at 1 GHz.
        walk = (6540 + 40 * 64 * 9 * 4 / 64) / 1e9
        found = self.seconds(view, start_cycles=6540.0, step_cycles=40.0)
        assert found == pytest.approx(walk)
        # And a tile of 64 x 64 at half the peak of its unit, which gathers 32 bytes a cycle.
        tile = 2 * 64 * 64 * 64 * 9 / (self.PEAK / TOY.units / 2) + 64 * 64 * 9 * 4 / 32e9
        shares = {"tile": 0.5, "gather_bytes": 32.0}
        found = self.seconds(view, start_cycles=6540.0, step_cycles=40.0, **shares)
        assert found == pytest.approx(walk + tile)
        assert self.seconds(view) < walk  # AMD's GPUs, of which neither is known


LANES = {
    "direct": 1.0,
    "edge": 0.0,
    "fill": 0.0,
    "winograd_2": 0.5,
    "fill_2": 0.0,
    "winograd_4": 0.5,
    "fill_4": 0.0,
    "operands": 1e3,
    "transforms": 1e3,
    "weights": 1e3,
    "wave": 0.0,
    "small_regions": 0.0,
    "start_4_s": 0.0,
    "start_s": 0.0,
    "energy_j": 0.0,
    "settle_s": 1e-3,
}


class TestConvolutionsOnLanes:
    """Without TF32: 100 units of 0.2 TFLOP/s."""

    def seconds(self, view, **constants):
        return convolutions.convolution(CONV | LANES | constants, TOY, task(view, 20e12))

    def test_tiles_of_128_positions_along_channels_and_taps(self):
        view = convolved(16, 512, 512, 32, 5)
        # 128 · 4 tiles of 128 x 128, 512 · 25 steps.
        direct = 128 * 4 * 2 * 128 * 128 * 512 * 25 / 20e12
        assert self.seconds(view) == pytest.approx(direct, rel=1e-3)

    def test_winograd_saves_multiplications(self):
        view = convolved(16, 512, 512, 32, 3)
        # F(2x2, 3x3): 16 · 4 · 2 regions of 16 · 16 blocks of channels, 16 · 32 · 32 · 512 each, at
        # half of the peak. F(4x4, 3x3): 36 products of 1,024 tiles.
        fused = 128 * 16 * 2 * 16 * 32 * 32 * 512 / 10e12
        unfused = 36 * 2 * 1024 * 512 * 512 / 10e12
        direct = 2 * 16 * 32 * 32 * 512 * 512 * 9 / 20e12
        assert unfused < fused < direct
        assert self.seconds(view) == pytest.approx(unfused, rel=1e-3)
        assert self.seconds(view, winograd_4=0.01) == pytest.approx(fused, rel=1e-3)
        assert self.seconds(view, winograd_4=0.01, winograd_2=0.01) == pytest.approx(
            direct, rel=1e-3
        )

    def test_regions_and_tiles_that_leave_the_image_are_computed_in_full(self):
        small, whole = (convolved(16, 512, 512, side, 3) for side in (5, 8))
        assert self.seconds(small, direct=0.01) == pytest.approx(
            self.seconds(whole, direct=0.01), rel=1e-3
        )

    def test_blocks_of_several_small_images(self):
        view = convolved(64, 512, 512, 8, 3)
        only_fused = {"direct": 0.01, "winograd_4": 0.01}
        # 8 of 16 columns are empty, unless two images share a block.
        assert self.seconds(view, **only_fused) == pytest.approx(
            2 * self.seconds(view, small_regions=1.0, **only_fused), rel=1e-3
        )

    def test_transforms_pass_through_memory(self):
        view = convolved(16, 512, 512, 32, 3)
        more = self.seconds(view, transforms=0.5, weights=0.5, winograd_2=0.01, direct=0.1)
        # 16 · 64 tiles of 36 values of 512 + 512 channels, in 33.6 MB each in and out; kernels of
        # 9 values and of 36.
        made, images = 36 * 4 * 1024 * 1024, 2 * 16 * 512 * 32 * 32 * 4
        weights = 45 * 4 * 512 * 512
        base = self.seconds(view, winograd_2=0.01, direct=0.1)
        assert more - base == pytest.approx((made + images + weights) / 0.5e12, rel=1e-3)


PRODUCT = {
    "ladder": 0.0,
    "rows": 64.0,
    "columns": 128.0,
    "splits": 0.0,
    "k_split": 256.0,
    "wave": 0.0,
    "occupancy": 0.0,
    "k_fill": 0.0,
    "edge": 0.0,
    "compute": 1.0,
    "memory": 1e3,
    "store": 1e3,
    "maxwell": 0.0,
    "vector": 0.5,
    "start_s": 0.0,
    "energy_j": 0.0,
    "settle_s": 1e-3,
    "reach": 0.0,
    "reach_power": 0.0,
    "drift": 1.0,
    "channels_bytes": 0.0,
    "one_channel": 1.0,
}


class TestProducts:
    def test_partly_filled_tiles_compute_in_full(self):
        view = views.matmul(65, 6400, 10_000, dtype="fp32")
        # Two rows of tiles for 65 rows: as 128 · 6,400 · 10,000.
        compute = 2 * 128 * 6400 * 10_000 / 20e12
        memory = task(view).traffic_bytes / 0.9e12
        found = products.matmul(PRODUCT | {"memory": 0.9, "store": 0.9}, TOY, task(view))
        assert found == pytest.approx((compute**3 + memory**3) ** (1 / 3))

    def test_a_wave_that_is_partly_filled_takes_as_long_as_a_full_one(self):
        view = views.matmul(64, 128 * 101, 10_000, dtype="fp32")
        # 101 tiles on 100 units, each at 0.2 TFLOP/s: two waves, or the average of 1.01 and 2.
        tile = 2 * 64 * 128 * 10_000 / 0.2e12
        whole = products.matmul(PRODUCT | {"wave": 1.0}, TOY, task(view))
        half = products.matmul(PRODUCT | {"wave": 0.5}, TOY, task(view))
        assert whole == pytest.approx(2 * tile, rel=1e-6)
        assert half == pytest.approx(1.505 * tile, rel=1e-6)

    def test_the_fastest_tile_and_pieces_along_k(self):
        free = PRODUCT | {"rows": 0.0, "columns": 0.0, "wave": 1.0}
        view = views.matmul(320, 320, 10_000, dtype="fp32")
        # 100 tiles of 32 x 32, one for each unit; 9 of 128 x 128 would leave 91 idle.
        assert products.matmul(free, TOY, task(view)) == pytest.approx(
            2 * 32 * 32 * 10_000 / 0.2e12, rel=1e-6
        )
        single = views.matmul(64, 128, 10_240, dtype="fp32")
        # One tile, in 40 pieces of 256 steps.
        assert products.matmul(
            PRODUCT | {"splits": 1.0, "wave": 1.0}, TOY, task(single)
        ) == pytest.approx(2 * 64 * 128 * 256 / 0.2e12, rel=1e-6)

    def test_rows_that_lie_in_one_memory_channel_take_longer(self):
        slow = PRODUCT | {"channels_bytes": 131_072.0, "one_channel": 2.5}
        for k, factor in ((32_768, 2.5), (32_764, 1.0), (65_536, 2.5), (16_384, 1.0)):
            view = views.matmul(640, 1280, k, dtype="fp32")
            plain = products.matmul(PRODUCT, TOY, task(view))
            assert products.matmul(slow, TOY, task(view)) == pytest.approx(factor * plain)

    def test_rows_far_apart_take_longer(self):
        # 1,000 rows of 40 kB beside each other are 4 times as large as five caches of 2 MB.
        far = PRODUCT | {"reach": 5.0, "reach_power": 0.5, "drift": 1e-9}
        toy = replace(TOY, cache_bytes=2e6)
        view = views.matmul(1000, 1000, 10_000, dtype="fp32")
        plain = products.matmul(PRODUCT, toy, task(view))
        assert products.matmul(far, toy, task(view)) == pytest.approx(2 * plain)

    def test_blocks_that_start_together_read_the_same_rows_together(self):
        # 128 blocks on 100 units: 1.28 of 4 that a unit holds, so that 0.32 waves show half of it.
        far = PRODUCT | {"reach": 5.0, "reach_power": 0.5, "drift": 0.32}
        toy = replace(TOY, cache_bytes=2e6)
        view = views.matmul(1000, 1000, 10_000, dtype="fp32")
        plain = products.matmul(PRODUCT, toy, task(view))
        assert products.matmul(far, toy, task(view)) == pytest.approx(1.5 * plain)
        together = far | {"drift": 1e3}
        assert products.matmul(together, toy, task(view)) == pytest.approx(plain, rel=1e-6)

    def test_operands_are_read_again_unless_the_cache_keeps_them(self):
        # 256 rows of tiles of 64 x 128, 256 across; 400 of them run together, of 1.56 rows. The
        # right operand, 131 MB, is read 163.84 times, the left one, 65.5 MB, once.
        view = views.matmul(16_384, 32_768, 1000, dtype="fp32")
        moved = 16_384 * 4000 + 163.84 * 32_768 * 4000 + 16_384 * 32_768 * 4
        slow = PRODUCT | {"compute": 1e6, "memory": 1e-3, "store": 1e-3}
        found = products.matmul(slow, TOY, task(view))
        assert found == pytest.approx(moved / 1e9, rel=1e-6)
        # A cache of 263 MB keeps half as much: the right operand as well.
        kept = products.matmul(slow, replace(TOY, cache_bytes=263e6), task(view))
        once = 16_384 * 4000 + 32_768 * 4000 + 16_384 * 32_768 * 4
        assert kept == pytest.approx(once / 1e9, rel=1e-6)

    def test_pascal_takes_the_fewest_tiles_though_others_are_faster(self):
        pascal = PRODUCT | {"rows": 0.0, "columns": 0.0, "maxwell": 1.0, "edge": 1.0}
        # 64 rows: 100 tiles of 64 x 64, against 200 of 128 x 32, each half the time but half empty.
        view = views.matmul(64, 6400, 10_000, dtype="fp32")
        tile = 2 * 64 * 64 * 10_000 / 0.2e12
        assert products.matmul(pascal, TOY, task(view)) == pytest.approx(2 * tile, rel=1e-6)
        # 128 rows: as many of either, and the library has the faster ones.
        twice = views.matmul(128, 6400, 10_000, dtype="fp32")
        assert products.matmul(pascal, TOY, task(twice)) == pytest.approx(2 * tile, rel=1e-6)

    def test_pascal_splits_products_until_units_hold_as_many_blocks_as_they_can(self):
        pascal = PRODUCT | {"rows": 0.0, "columns": 0.0, "maxwell": 1.0, "splits": 1.0}
        # 100 tiles of 128 x 32, of which 100 units hold 400: four pieces, each 2,500 steps long.
        view = views.matmul(1280, 320, 10_000, dtype="fp32")
        found = products.matmul(pascal | {"wave": 1.0}, TOY, task(view))
        assert found == pytest.approx(4 * 2 * 4096 * 2500 / 0.2e12, rel=1e-6)

    def test_units_of_64_lanes_take_64_x_64_less_often(self):
        pascal = PRODUCT | {"rows": 0.0, "columns": 0.0, "maxwell": 1.0, "edge": 1.0, "wave": 1.0}
        # A unit gets 101 tiles of 64 x 64, or 102 of 128 x 32.
        view = views.matmul(64 * 101, 64 * 100, 1000, dtype="fp32")
        few = replace(TOY, vector_flop_per_s=100 * 1e9 * 2 * 64)
        many = replace(TOY, vector_flop_per_s=100 * 1e9 * 2 * 128)
        tile = 2 * 4096 * 1000 / 0.2e12
        assert products.matmul(pascal, few, task(view)) == pytest.approx(102 * tile, rel=1e-6)
        assert products.matmul(pascal, many, task(view)) == pytest.approx(202 * tile, rel=1e-6)

    def test_long_products_fall_to_the_clock_that_the_cooling_sustains(self):
        hot = PRODUCT | {"energy_j": 7.8e-12}  # 78 W sustain 10 TFLOP/s, half of the peak
        view = views.matmul(6400, 12_800, 100_000, dtype="fp32")
        full = 2 * 6400 * 12_800 * 100_000 / 20e12
        expected = full * (1 + full / (full + 1e-3))
        assert products.matmul(hot, TOY, task(view)) == pytest.approx(expected, rel=1e-6)

    def test_only_computing_slows_with_the_clock(self):
        # Ten times as long to move as to compute at full clock.
        hot = PRODUCT | {"energy_j": 7.8e-12, "memory": 1.0, "store": 1.0}
        view = views.matmul(64, 12_800, 64, dtype="fp32")
        cool = hot | {"energy_j": 0.0}
        ratio = products.matmul(hot, TOY, task(view)) / products.matmul(cool, TOY, task(view))
        assert 1 < ratio < 1.1

    def test_a_batch_on_hopper_has_one_tile(self):
        ladder = PRODUCT | {"ladder": 1.0, "k_split": 1e9, "cap": 1.0, "memory": 1e3}
        view = OpView(
            kind="matmul",
            inputs=(fp32(100, 32, 1000, storage=1), fp32(100, 1000, 512, storage=2)),
            outputs=(fp32(100, 32, 512, storage=3),),
            sizes={"b": 100, "m": 32, "n": 512, "k": 1000},
        )
        # 400 tiles of 128 x 128, three quarters empty, in four waves.
        wave = 2 * 128 * 128 * 1000 / (0.2e12 * 0.97)
        assert products.matmul(ladder, TOY, task(view)) == pytest.approx(4 * wave, rel=1e-6)

    def test_energy_limits_the_rate(self):
        # 78 W over 15 pJ.
        assert products.sustained(PRODUCT | {"energy_j": 15e-12}, TOY, 20e12) == pytest.approx(
            5.2e12
        )
        assert products.sustained(PRODUCT | {"energy_j": 1e-12}, TOY, 20e12) == 20e12

    def test_a_matrix_times_a_vector_is_a_stream(self):
        view = views.matmul(1000, 1, 10_000, dtype="fp32")
        expected = task(view).traffic_bytes / 0.5e12
        assert products.matmul(PRODUCT, TOY, task(view)) == pytest.approx(expected)

    def test_waves_of_the_largest_tile_that_fills_the_device(self):
        ladder = PRODUCT | {"ladder": 1.0, "k_split": 1e9, "cap": 1.0, "memory": 1e3}
        view = views.matmul(2560, 1408, 1000, dtype="fp32")
        # 10 · 11 tiles of 256 · 128 are two waves on 100 units, each tile at 0.2 TFLOP/s.
        wave = 2 * 256 * 128 * 1000 / 0.2e12
        assert products.matmul(ladder, TOY, task(view)) == pytest.approx(2 * wave)


#: TFLOP/s of square products in fp32 on cards of which none was fitted, by side: PyTorch 2.7 to
#: 2.11, issues 79, 95, 120, 126 and 185 of github.com/zzc0721/torch-performance-test-data.
SQUARES = {
    "l4": {2048: 15.38, 4096: 12.53, 8192: 10.66, 10_240: 11.11},
    "a10g": {2048: 21.73, 4096: 23.37, 8192: 23.23, 10_240: 22.43},
    "a40": {2048: 21.44, 4096: 23.01, 8192: 23.73, 10_240: 22.82},
    "h100-sxm5-80gb": {2048: 49.58, 4096: 51.88, 8192: 51.81, 10_240: 49.61},
    "h100-pcie-80gb": {4096: 36.51, 8192: 36.95, 10_240: 35.80},
}


@pytest.mark.parametrize(
    ("name", "side", "tflops"),
    [(name, side, rate) for name, rates in SQUARES.items() for side, rate in rates.items()],
)
def test_published_squares(name, side, tflops):
    _, found = torch_estimate(views.matmul(side, side, side, dtype="fp32"), name)
    assert 2 * side**3 / found.value == pytest.approx(tflops * 1e12, rel=0.12)


def test_a_process_runs_on_one_die_of_two():
    view = views.matmul(4096, 4096, 4096, dtype="fp32")
    times = [
        Estimator(of_one_die(roofs_of(catalog.load(name))), framework="torch")
        .estimate(view, cost(view), 0.0)
        .value
        for name in ("mi250", "mi210")
    ]
    assert times[0] == pytest.approx(times[1], rel=0.01)


def test_a_recurrence_waits_for_every_step():
    view = OpView(
        kind="recurrent",
        inputs=(fp32(10, 512, 128, storage=1), fp32(1000, storage=2, role="weight")),
        outputs=(fp32(10, 512, 256, storage=3),),
        sizes={
            "batch": 10,
            "seq": 512,
            "input_size": 128,
            "hidden": 256,
            "layers": 6,
            "directions": 2,
        },
        attrs={"cell": "lstm"},
    )
    c = {"step_s": 10e-6, "weights": 1.0, "compute": 1.0}
    # 512 steps of 6 layers, both directions one after the other.
    assert recurrence.recurrent(c, TOY, task(view)) == pytest.approx(512 * 6 * 2 * 10e-6)


few = st.integers(min_value=1, max_value=48)
shapes = st.one_of(
    st.builds(lambda b, c, s: convolved(b, c, c, s, 3, bias=True), few, few, few),
    st.builds(lambda b, c, s: convolved(b, 4 * c, 8, s + 2, 3, dims=3), few, few, few),
    st.builds(lambda b, c, s: convolved(b, c, c, s, 3, groups=c), few, few, few),
    st.builds(lambda m, n, k: views.matmul(m, n, 64 * k, dtype="fp32"), few, few, few),
    st.builds(lambda m, n: unary("relu", m, n), few, few),
)


def torch_estimate(view, name, compiled=False):
    device = catalog.load(name)
    roofs = roofs_of(device)
    priced = cost(view)
    bound = bound_op(priced, roofs, 1).roofline_time_s
    found = Estimator(roofs, framework="torch", compiled=compiled).estimate(view, priced, bound)
    return bound, found


@given(view=shapes, name=st.sampled_from(DEVICES), compiled=st.booleans())
def test_never_below_the_roofline_and_inside_its_range(view, name, compiled):
    bound, found = torch_estimate(view, name, compiled)
    # Winograd's algorithm takes 36 products where 16 outputs of 9 taps have 144 (3x3, stride 1).
    dense = view.kind == "convolution" and view.size("groups", 1) == 1
    is_winograd = dense and view.size("kernel") == (3, 3)
    assert bound * (0.25 if is_winograd else 1) <= found.low * (1 + 1e-9)
    assert found.low <= found.value <= found.high


def test_winograd_beats_the_roofline_of_the_direct_algorithm():
    """VGG's 256 channels at 56x56: measured in whole networks at 1.5 times a TITAN V's peak."""
    view = convolved(12, 256, 256, 56, 3)
    direct, volta = torch_estimate(view, "titan-v")
    assert 0.25 * direct < volta.value < 0.85 * direct
    direct, strided = torch_estimate(convolved(12, 256, 256, 56, 3, out_side=28), "titan-v")
    assert direct <= strided.value


@given(
    name=st.sampled_from(DEVICES),
    b=few,
    c=st.integers(min_value=1, max_value=300),
    s=few,
    more=st.integers(min_value=1, max_value=50),
)
def test_longer_with_every_image(name, b, c, s, more):
    one, other = (torch_estimate(convolved(n, c, 64, s, 3), name)[1] for n in (b, b + more))
    assert one.value <= other.value * (1 + 1e-9)


@given(
    name=st.sampled_from(DEVICES),
    m=st.integers(min_value=1, max_value=5000),
    more=st.integers(min_value=1, max_value=5000),
)
def test_longer_with_every_element(name, m, more):
    assume(more)
    for make in (lambda n: unary("relu", n, 1000), lambda n: unary("pow", n, 1000)):
        one, other = torch_estimate(make(m), name)[1], torch_estimate(make(m + more), name)[1]
        assert one.value <= other.value


def test_arrays_equal_scalars():
    estimator = Estimator(roofs_of(catalog.load("a100-sxm4-80gb")), framework="torch")
    batches = [1, 7, 64, 1000]

    def make(b):
        return (
            convolved(b, 64, 64, 28, 3, bias=True),
            convolved(b, 3, 64, 28, 3),
            convolved(b, 32, 32, 28, 3, groups=32),
            views.matmul(b, 4096, 4096, dtype="fp32"),
        )

    for i, view in enumerate(make(np.array(batches, dtype=float))):
        many = estimator.seconds(view, cost(view), np.zeros(len(batches))).seconds
        for j, batch in enumerate(batches):
            single = make(batch)[i]
            one = estimator.seconds(single, cost(single), 0.0).seconds
            assert many[j] == pytest.approx(one, rel=1e-9), i


def test_convolutions_in_16_bits_are_never_sure():
    """Those that were measured are fp32."""
    analysis = gambrel.analyze("resnet18", "t4", precision="fp16", runtime="torch-compile-graph")
    levels = {op.measures.expected_time_s.confidence for op in analysis.ops
              if op.kind == "convolution"}  # fmt: skip
    assert "high" not in levels


def test_the_least_of_a_convolution_is_that_of_tensorrt():
    """Copies in every set of constants, of the ``engines`` section that was fitted."""
    engine = next(e for e in packaged().engines if e.match == ("nvidia",)).constants
    sets = [s.constants for s in packaged().sets if s.form == "torch_convolution"]
    walked = [c for c in sets if c["start_cycles"]]
    assert len(walked) > 5
    for c in walked:
        assert c["start_cycles"] == pytest.approx(engine["launch"], rel=0.01)
        assert c["step_cycles"] == pytest.approx(engine["step"], rel=0.01)
        assert c["tile"] == pytest.approx(engine["compute"] * engine["small"], rel=0.01)
        assert c["gather_bytes"] == pytest.approx(engine["gather"] * 64, rel=0.01)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("flops_a_cycle", [1024, 2048, 4096])  # a unit of T4, A100, H100
def test_a_single_tile_takes_as_long_as_under_tensorrt(kernel, flops_a_cycle):
    """8 x 8 positions and 64 channels of 256 x 3 x 3 values in 16 bits, by both constants."""
    engine = next(e for e in packaged().engines if e.match == ("nvidia",)).constants
    depth, peak = 256.0 * kernel**2, flops_a_cycle * TOY.clock_hz * TOY.units
    one = {
        "rows": 64.0, "columns": 64.0, "depth": depth, "copies": 1.0, "step_bytes": 2 * depth,
        "windowed": float(kernel > 1),
    }  # fmt: skip
    empty = dict.fromkeys(
        ("attention", "finished", "taps", "elements", "weight_bytes", "inner_bytes", "functions",
         "function_bytes", "images"), 0.0,
    )  # fmt: skip
    machine = EngineMachine(
        units=TOY.units, clock_hz=TOY.clock_hz, byte_per_s=1e12, cache_bytes=0.0,
        lanes_per_s=1e13, tdp_w=0.0, flop_j=0.0, byte_j=0.0,
    )  # fmt: skip
    work = {name: np.array([value]) for name, value in (empty | one).items()}
    own = kernel_times(engine, machine, work, peak, 1.0).whole[0]
    view = convolved(1, 256, 64, 8, kernel)
    view = replace(view, inputs=tuple(replace(t, dtype="fp16") for t in view.inputs))
    half = {"half": 1.0, "half_grouped": 1.0, "few": 1.0, "energy_j": 0.0, "relay": 1e6}
    for c in (s.constants for s in packaged().sets if s.form == "torch_convolution"):
        if c["start_cycles"]:
            found = convolutions.convolution(CONV | c | half, TOY, task(view, peak))
            assert found == pytest.approx(own, rel=0.01)


def apart(view):
    """The task of an attention of several kernels, whose traffic holds its scores."""
    one, scores = task(view), split_scores(view)
    split = replace(view, attrs={**view.attrs, "split": True})
    read = one.cost.read_bytes + scores.products + scores.softmax
    return replace(one, view=split, cost=replace(one.cost, read_bytes=read))


def test_attention_in_three_kernels_writes_its_scores():
    view = views.attention(2, 4, 4, 2048, 2048, 64)
    c = {"compute": 0.5, "memory": 0.25, "softmax": 0.5, "extra": 2.0}
    pairs = 2 * 4 * 2048 * 2048  # masked ones are computed as well
    scores = 2 * pairs
    traffic = 4 * 2 * 4 * 2048 * 64 * 2  # queries, keys, values, results
    products = max(4 * 64 * pairs / 10e12, (traffic + 2 * scores) / 0.25e12)
    softmax = (2 + 2) * scores / 0.5e12
    found = attention.attention(c, TOY, apart(view))
    assert found == pytest.approx(products + softmax)
    fused = attention.attention(c, TOY, task(view))
    assert fused == pytest.approx(task(view).matrix_flops / 10e12)
    short = views.attention(2, 4, 4, 1024, 1024, 64)  # a quarter of the scores, read once
    products = max(64 * pairs / 10e12, (traffic / 2 + scores / 2) / 0.25e12)
    found = attention.attention(c, TOY, apart(short))
    assert found == pytest.approx(products + scores / 2 / 0.5e12)


def test_gradients_of_attention_in_kernels_of_their_own():
    forward = views.attention(2, 4, 4, 2048, 2048, 64)
    view = replace(forward, kind="attention_backward", inputs=(forward.inputs[0], *forward.inputs))
    c = {"compute": 0.5, "memory": 0.25, "softmax": 0.5, "extra": 2.0}
    pairs = 2 * 4 * 2048 * 2048
    moved = task(view).traffic_bytes + 4 * 2 * pairs  # P, dP, and dS twice
    products = max(2 * 4 * 64 * pairs / 10e12, moved / 0.25e12)
    found = attention.attention(c, TOY, apart(view))
    assert found == pytest.approx(products + 3 * 2 * pairs / 0.5e12)


@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile", "pytorch-graph"])
def test_the_roofline_of_attention_in_several_kernels_holds_its_scores(runtime):
    op = "attention:heads=8,q=4096,d=64,batch=2,fp16"
    fused, apart = (gambrel.analyze(op, name, runtime=runtime) for name in ("mi210", "mi100"))
    scores = 2 * 8 * 4096 * 4096 * 2
    assert apart.total.traffic_bytes == fused.total.traffic_bytes + 4 * scores
    assert apart.total.sol_traffic_bytes == fused.total.sol_traffic_bytes
    assert apart.bound == "memory"
    assert apart.limited_by == "memory"


@pytest.mark.parametrize("name", ["mi100", "mi210", "mi300x", "mi355x", "rx-6900-xt"])
def test_attention_on_amd_takes_longer_than_its_roofline(name):
    found = gambrel.analyze("attention:heads=8,q=4096,d=64,batch=2,fp16", name, runtime="pytorch")
    assert found.expected_time_s.value > 1.5 * found.roofline_time_s
    assert found.expected_time_s.confidence == "low"
