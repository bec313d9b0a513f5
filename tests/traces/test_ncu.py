"""Nsight Compute's exports: every layout, locale and unit mode; the recipes by hand arithmetic."""

from __future__ import annotations

import csv
import itertools
import re
from contextlib import suppress
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.analysis.measures import Bound
from gambrel.analysis.samples import PROFILED, Known, place
from gambrel.device.lookup import from_peaks
from gambrel.errors import FileFormatError, GambrelError
from gambrel.traces.devices import roofs_for
from gambrel.traces.ncu.numbers import LocaleEvidence
from gambrel.traces.ncu.reader import from_text
from tests.traces.ncu_files import (
    LAYOUTS,
    LOCALES,
    UNITS,
    Kernel,
    dram,
    fp32,
    thread,
    time_ns,
    write,
)

PATH = "sm__ops_path_tensor_"
KERNELS = [
    Kernel(
        "void scale<(int)64, float>(const float *, float *)",
        fp32(1_048_576, 2_097_152, 33_554_432) | time_ns(1_234_560) | dram(25_165_824),
    ),
    Kernel("reduce, all", fp32(4_194_304, 0, 0) | time_ns(96_000) | dram(16_777_216), process="7"),
]


def one(metrics, name="k", cc="8.0", **more):
    text = write([Kernel(name, metrics, cc=cc, **more)])
    return from_text(text, "f.csv").launches[0]


def ops(**values):
    return {f"{PATH}{name}.sum": (value, "op") for name, value in values.items()}


@pytest.mark.parametrize(
    ("layout", "locale", "units"), list(itertools.product(LAYOUTS, LOCALES, UNITS))
)
def test_reads_back_identically(layout, locale, units):
    found = from_text(write(KERNELS, layout, locale, units), "f.csv").launches
    assert [s.name for s in found] == [k.name for k in KERNELS]
    # 1,048,576 + 2,097,152 + 2 x 33,554,432; and 4,194,304 additions.
    assert [s.flops for s in found] == [70_254_592, 4_194_304]
    assert [s.bytes_at("DRAM") for s in found] == [25_165_824, 16_777_216]
    assert [s.time_s for s in found] == pytest.approx([1.23456e-3, 9.6e-5], rel=1e-9)


RICH = Kernel(
    "gemm<(bool)1, 128>(const __half *)",
    fp32(1_000_000, 0, 2_000_000)
    | time_ns(1_500_000)
    | dram(50_331_648)
    | {
        f"{PATH}src_fp16_dst_fp32.sum": (17_179_869_184, "op"),
        "lts__t_sectors_srcunit_tex.sum": (12_582_912, "sector"),
        "lts__t_bytes.sum": (805_306_368, "byte"),
        "l1tex__t_bytes.sum": (1_610_612_736, "byte"),
        "sm__inst_executed.sum": (123_456_789, "inst"),
        "sm__cycles_elapsed.avg.per_second": (1_250_000_000, "hz"),
        "sm__warps_active.avg.pct_of_peak_sustained_active": (48.25, "%"),
        "dram__bytes.sum.peak_sustained": (1280, "byte"),
        "dram__cycles_elapsed.avg.per_second": (1_500_000_000, "hz"),
    },
    texts={"smsp__inst_executed_pipe_uniform.sum": "n/a"},
)


@pytest.mark.parametrize(
    ("layout", "locale", "units"), list(itertools.product(LAYOUTS, LOCALES, UNITS))
)
def test_everything_reads_back_identically(layout, locale, units):
    kernels = [*KERNELS, RICH]
    reference = from_text(write(kernels, layout), "f.csv")
    found = from_text(write(kernels, layout, locale, units), "f.csv")
    assert found.launches == reference.launches
    assert found.device == reference.device
    rich = found.launches[2]
    assert rich.flops == 17_179_869_184
    assert [(t.level, t.traffic_bytes) for t in rich.traffic] == [
        ("DRAM", 50_331_648),
        ("L2", 402_653_184),
        ("L1", 1_610_612_736),
    ]
    assert (rich.instructions, rich.recorded) == (123_456_789, {"occupancy": 0.4825})


@pytest.mark.parametrize(
    ("layout", "locale", "units"), list(itertools.product(LAYOUTS, LOCALES, UNITS))
)
def test_derived_metrics_are_written_as_in_c(layout, locale, units):
    """Twice the FMA a cycle: 1,048,576.25 and 1.234, which a German shell writes as 1048576.25."""
    name = "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2"
    rates = thread("fadd", 0) | thread("fmul", 0) | {"sm__cycles_elapsed.avg": (1_000, "cycle")}
    kernels = [
        Kernel("many", rates | time_ns(1_234_560) | dram(25_165_824), texts={name: "1048576.25"}),
        Kernel("few", rates | time_ns(1_234_560) | dram(25_165_824), texts={name: "1.234"}),
    ]
    found = from_text(write(kernels, layout, locale, units), "f.csv").launches
    assert [s.flops for s in found] == [1_048_576_250, 1_234]
    assert [s.bytes_at("DRAM") for s in found] == [25_165_824, 25_165_824]
    assert found[0].time_s == pytest.approx(1.23456e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_noise_mark_and_unquoted(layout):
    kernels = [Kernel("plain_kernel", KERNELS[0].metrics)]
    table = write(kernels, layout, quoting=csv.QUOTE_MINIMAL)
    text = (
        '\ufeff==PROF== Connected to process 1 (C:\\app.exe)\nstep 1, loss "0.5\n'
        f"{table}the app's own line, with commas\n==PROF== Disconnected\n"
    )
    found = from_text(text, "f.csv")
    assert [s.flops for s in found.launches] == [70_254_592]
    assert found.skipped == {"lines that are no row of the table": 1}


def test_several_tables_and_processes_stay_apart():
    text = write(KERNELS) + write(KERNELS[:1], "wide")
    found = from_text(text, "f.csv").launches
    assert [s.flops for s in found] == [70_254_592, 4_194_304, 70_254_592]
    assert found[0].origin != found[1].origin


def test_missing_zero_and_uncountable_are_three_answers():
    missing = one(time_ns(1000) | dram(4096))
    assert (missing.state, missing.flops) == (Known.MISSING, None)
    assert "no FLOP counters" in missing.why
    zero = one(fp32(0, 0, 0) | time_ns(1000) | dram(4096))
    assert (zero.state, zero.flops) == (Known.COUNTED, 0)
    pipe = {"sm__inst_executed_pipe_tensor.sum": (1024, "inst")}
    unknown = one(fp32(0, 0, 0) | pipe, name="my_kernel")
    assert (unknown.state, unknown.flops) == (Known.NOT_COUNTABLE, None)
    assert "1024 tensor instructions" in unknown.why


@pytest.mark.parametrize("text", ["no data", "n/a", ""])
def test_cells_without_a_value_are_unknown(text):
    k = Kernel("k", dram(64), texts={"gpu__time_duration.sum": text})
    assert from_text(write([k]), "f.csv").launches[0].time_s is None


def test_instanced_values():
    texts = {"dram__bytes.sum": "96 (32; 64)", "lts__t_sectors_srcunit_tex.sum": "(1; 2; 4)"}
    found = from_text(write([Kernel("k", time_ns(10), texts=texts)]), "f.csv").launches[0]
    assert found.bytes_at("DRAM") == 96
    assert found.bytes_at("L2") == 7 * 32


class TestTensorWork:
    def test_totals_win_over_parts_and_realtime(self):
        found = one(
            ops(
                src_fp16_dst_fp32=8000,
                src_fp16_dst_fp16=500,
                src_fp16_dst_fp32_sparsity_off=8000,
                op_hmma_src_fp16_dst_fp32=8000,
                op_hmma_src_fp16_dst_fp32_sparsity_off=8000,
                src_fp16_dst_fp32_realtime=8000,
                src_tf32_dst_fp32=0,
            )
        )
        # Both accumulators of the source format add: 8000 + 500.
        assert {w.dtype: w.flops for w in found.work} == {"fp16": 8500, "tf32": 0}

    def test_sparse_path_stays_apart(self):
        found = one(ops(src_int8_sparsity_off=100, src_int8_sparsity_on=60), cc="9.0")
        assert [(w.flops, w.sparse) for w in found.work] == [(100, False), (60, True)]

    def test_paths_of_blackwell_add(self):
        found = one(ops(src_fp4_dst_fp32=4, src_fp4_fp6_fp8_dst_fp32=8), cc="10.0")
        assert {w.dtype: w.flops for w in found.work} == {"fp4": 4, "fp8": 8}

    def test_parts_where_there_are_no_totals(self):
        found = one(
            ops(
                op_hmma_src_bf16_dst_fp32_sparsity_off=3,
                op_hgmma_src_bf16_dst_fp32_sparsity_off=40,
            ),
            cc="9.0",
        )
        assert {w.dtype: w.flops for w in found.work} == {"bf16": 43}

    @pytest.mark.parametrize(
        ("cc", "name", "flops"),
        [
            # 20480^3 products: 33,554,432,000 steps of HMMA.884 are 2 x 20480^3 FLOP.
            ("7.0", "volta_s884gemm_fp16_128x128", 33_554_432_000 * 512),
            ("8.0", "ampere_fp16_s1688gemm_fp16_128x128", 33_554_432_000 * 2048),
            ("8.0", "ampere_bf16_s16816gemm_bf16", 33_554_432_000 * 4096),
            ("9.0", "sm90_xmma_gemm_bf16", None),
            ("8.0", "triton_kernel", None),
        ],
    )
    def test_instructions_count_only_with_a_known_shape(self, cc, name, flops):
        pipe = {"sm__inst_executed_pipe_tensor.sum": (33_554_432_000, "inst")}
        assert one(pipe, name=name, cc=cc).flops == flops

    def test_constant_moves_are_subtracted(self):
        pipe = "sm__inst_executed_pipe_tensor_op_hmma"
        metrics = {f"{pipe}.sum": (500, "inst"), f"{pipe}_type_hfma2.sum": (500, "inst")}
        assert one(fp32(1, 0, 0) | metrics, name="s16816").flops == 1

    def test_constant_moves_among_half_work_are_flagged(self):
        half = {
            f"sm__sass_thread_inst_executed_op_{n}_pred_on.sum": (v, "inst")
            for n, v in {"hadd": 0, "hmul": 0, "hfma": 10}.items()
        }
        found = one(fp32(0, 0, 10_000) | half)
        assert found.flops == 20_000
        assert [(w.dtype, w.flops) for w in found.work if w.suspect] == [("fp16", 40)]
        # On a chip without such moves they are arithmetic: 2 x 10,000 + 4 x 10.
        assert one(fp32(0, 0, 10_000) | half, cc="8.6").flops == 20_040

    #: A SiLU of 2^20 elements in fp32: one addition, ten FMA and one move of a constant each.
    SILU: ClassVar = fp32(2**20, 0, 10 * 2**20)

    @pytest.mark.parametrize(
        ("hadd", "executed", "name", "tensor", "cc", "counted"),
        [
            (0, 12 * 2**15, "silu", {"src_fp16_dst_fp32": 0}, "8.0", False),
            (0, None, "silu", {"src_fp16_dst_fp32": 0}, "8.0", False),
            (0, 12 * 2**15, "silu", {"src_fp16": 0}, "9.0", False),
            # Half additions as well, half FMA alone, a name that says so: arithmetic.
            (1, 12 * 2**15, "silu", {"src_fp16_dst_fp32": 0}, "8.0", True),
            (0, 2**15, "silu", {"src_fp16_dst_fp32": 0}, "8.0", True),
            (0, 12 * 2**15, "silu<c10::Half>", {"src_fp16_dst_fp32": 0}, "8.0", True),
            # Tensor operations were not counted, or those of half were not.
            (0, 12 * 2**15, "silu", {}, "8.0", True),
            (0, 12 * 2**15, "silu", {"src_fp64": 0}, "8.0", True),
            # A chip whose compiler does not move constants so.
            (0, 12 * 2**15, "silu", {"src_fp16_dst_fp32": 0}, "8.6", True),
        ],
    )
    def test_idle_tensor_counters_decide(self, hadd, executed, name, tensor, cc, counted):
        half = {
            f"sm__sass_thread_inst_executed_op_{n}_pred_on.sum": (v, "inst")
            for n, v in {"hadd": hadd, "hmul": 0, "hfma": 2**20}.items()
        }
        more = {} if executed is None else {"sm__inst_executed.sum": (executed, "inst")}
        found = one(self.SILU | half | more | ops(**tensor), name=name, cc=cc)
        assert found.flops == 21 * 2**20 + counted * (4 * 2**20 + 2 * hadd)


class TestRates:
    def test_rate_times_cycles(self):
        rates = {
            f"smsp__sass_thread_inst_executed_op_{n}_pred_on.sum.per_cycle_elapsed": (
                v,
                "inst/cycle",
            )
            for n, v in {"fadd": 0.0, "fmul": 0.0, "ffma": 1891.55}.items()
        }
        clock = {"sm__cycles_elapsed.avg.per_second": (1.25e9, "hz")}
        found = one(rates | clock | time_ns(400_000))
        # 1891.55 x 1.25e9 x 400e-6 instructions, two FLOP each.
        assert found.flops == pytest.approx(2 * 1891.55 * 500_000, rel=1e-6)
        assert 1e-3 <= found.work[0].error < 2e-3

    def test_small_rates_say_how_rough_they_are(self):
        rates = {
            f"sm__sass_thread_inst_executed_op_{n}_pred_on.sum.per_cycle_elapsed": (v, "inst/cycle")
            for n, v in {"fadd": 0.14, "fmul": 0.0, "ffma": 0.0}.items()
        }
        found = one(rates | {"sm__cycles_elapsed.avg": (1000, "cycle")})
        assert found.work[0].error == pytest.approx(0.001 + 0.005 / 0.14)

    def test_bytes_per_second_without_a_time_stay_a_rate(self):
        rates = {f"dram__bytes_{n}.sum.per_second": (3e9, "byte/s") for n in ("read", "write")}
        level = one(rates).traffic[0]
        assert (level.traffic_bytes, level.byte_per_s) == (None, 6e9)
        timed = one(rates | time_ns(1_000_000)).traffic[0]
        assert timed.traffic_bytes == 6_000_000


class TestCycles:
    """Rates a cycle refer to the mean cycles; those of the slowest multiprocessor are more."""

    RATES: ClassVar = {
        f"smsp__sass_thread_inst_executed_op_{n}_pred_on.sum.per_cycle_elapsed": (v, "inst/cycle")
        for n, v in {"fadd": 100.0, "fmul": 0.0, "ffma": 0.0}.items()
    }
    MOST: ClassVar = {"sm__cycles_elapsed.max": (1_010_000, "cycle")}

    def flops(self, **more):
        names = {"avg": "sm__cycles_elapsed.avg", "clock": "sm__cycles_elapsed.avg.per_second"}
        extra = {names[k]: v for k, v in more.items()}
        return one(self.RATES | self.MOST | time_ns(1_000_000) | extra).flops

    def test_mean_first(self):
        assert self.flops(avg=(1_000_500, "cycle"), clock=(1e9, "hz")) == 100_050_000

    def test_exact_clock_next(self):
        assert self.flops(clock=(1_000_000_000, "hz")) == 100_000_000

    def test_rough_clock_last(self):
        # Printed as 1.00 GHz: half a digit is 0.5 %.
        assert self.flops(clock=(1.0012, "Ghz")) == 101_000_000


class TestTensorActivity:
    def test_kinds_of_instructions_are_added(self):
        pipe = "sm__inst_executed_pipe_tensor_op_{}.sum"
        metrics = {pipe.format("hmma"): (0, "inst"), pipe.format("imma"): (100, "inst")}
        found = one(fp32(1, 0, 0) | metrics, name="mystery")
        assert found.state is Known.NOT_COUNTABLE
        found = one(fp32(1, 0, 0) | metrics, name="ampere_i16832gemm", cc="8.0")
        assert found.flops == 100 * 8192

    @pytest.mark.parametrize(
        ("share", "name", "cc", "state"),
        [
            (0.0, "gemm", "8.0", Known.COUNTED),
            (30.0, "silu", "8.0", Known.NOT_COUNTABLE),
            (0.5, "silu", "8.0", Known.COUNTED),
            (0.5, "silu", "8.6", Known.NOT_COUNTABLE),
            (0.5, "ampere_gemm", "8.0", Known.NOT_COUNTABLE),
        ],
    )
    def test_share_of_the_pipe(self, share, name, cc, state):
        metric = "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active"
        found = one(fp32(5, 0, 0) | {metric: (share, "%")}, name=name, cc=cc)
        assert found.state is state
        assert any(w.flops == 5 for w in found.work)


class TestLevels:
    def test_definition_that_matches_known_traffic_comes_first(self):
        found = one(
            {
                "lts__t_sectors_srcunit_tex.sum": (100, "sector"),
                "lts__t_bytes.sum": (6336, "byte"),
                "lts__lts2xbar_cycles_active.sum": (50, "cycle"),
                "l1tex__t_bytes.sum": (6400, "byte"),
            }
        )
        l2, l1 = found.traffic
        assert (l2.traffic_bytes, l1.traffic_bytes) == (3200, 6400)
        assert l2.how == "lts__t_sectors_srcunit_tex x 32"
        chart = "lts__lts2xbar_cycles_active x 32 (Nsight Compute's chart)"
        assert l2.others == {"lts__t_bytes": 6336, chart: 1600}

    def test_double_counting_is_said(self):
        assert any("twice" in n for n in one({"lts__t_bytes.sum": (64, "byte")}).notes)
        turing = one({"lts__t_bytes.sum": (64, "byte")}, cc="7.5")
        assert not any("twice" in n for n in turing.notes)

    def test_dram_of_blackwell(self):
        metrics = {f"dram__bytes_op_{n}.sum": (v, "byte") for n, v in (("read", 60), ("write", 4))}
        assert one(metrics, cc="12.0").bytes_at("DRAM") == 64


class TestRoofs:
    def test_roofs_of_a_report_at_the_profiling_clock(self):
        peaks = {
            "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": (20480, "inst"),
            "sm__cycles_elapsed.avg.per_second": (1.3e9, "hz"),
            "dram__bytes.sum.peak_sustained": (96, "byte"),
            "dram__cycles_elapsed.avg.per_second": (6.25e9, "hz"),
        }
        text = write([Kernel("k", peaks | fp32(0, 0, 10**9) | time_ns(10**6) | dram(10**6))])
        samples = from_text(text, "f.csv")
        # 20480 lanes x 2 FLOP x 1.3 GHz; 96 bytes x 6.25 GHz.
        assert samples.device.ceiling("vector", "fp32").flop_per_s == pytest.approx(53.248e12)
        assert samples.device.level("DRAM").byte_per_s == pytest.approx(600e9)
        assert "1.3 GHz" in samples.device.name
        kernel = place(samples).kernels[0]
        assert kernel.bound is Bound.COMPUTE
        # 2e9 FLOP in 1 ms of 53.248 TFLOP/s.
        assert kernel.roofline_efficiency == pytest.approx(2 / 53.248)

    def test_own_roofs_are_not_spoken_of_where_others_are_used(self):
        samples = from_text(write([RICH]), "f.csv")
        assert any("roofs from the report" in n for n in place(samples).notes)
        other = place(samples, from_peaks(1e12, 1e12))
        assert not any("roofs from the report" in n for n in other.notes)

    def test_hopper_takes_the_dense_peak(self):
        peaks = {
            f"{PATH}src_bf16_dst_fp32.sum.peak_sustained": (8192 * 132, "op"),
            f"{PATH}op_hgmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained": (4096 * 132, "op"),
            "sm__cycles_elapsed.avg.per_second": (1.5e9, "hz"),
        }
        samples = from_text(write([Kernel("k", peaks, cc="9.0")]), "f.csv")
        assert samples.device.ceiling("matrix", "bf16").flop_per_s == 4096 * 132 * 1.5e9

    def test_engine_that_the_report_has_no_peak_of_has_no_roof(self):
        peaks = {
            "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2": (13824, "inst"),
            "sm__cycles_elapsed.avg.per_second": (1e9, "hz"),
            "dram__bytes.sum.peak_sustained": (1280, "byte"),
            "dram__cycles_elapsed.avg.per_second": (1e9, "hz"),
        }
        metrics = peaks | ops(src_fp16_dst_fp32=10**9) | time_ns(1000) | dram(1000)
        samples = from_text(write([Kernel("k", metrics)]), "f.csv")
        assert samples.device.ceiling("vector", "fp32").flop_per_s == 13824e9
        kernel = place(samples).kernels[0]
        assert (kernel.bound, kernel.peak_flop_per_s) == (None, None)

    def test_catalog_helps_out_where_the_report_lacks_an_engine(self):
        peaks = {
            "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": (6912, "inst"),
            "sm__cycles_elapsed.avg.per_second": (1e9, "hz"),
            "dram__bytes.sum.peak_sustained": (1280, "byte"),
            "dram__cycles_elapsed.avg.per_second": (1e9, "hz"),
        }
        name = {"device__attribute_display_name": "NVIDIA A100-SXM4-80GB"}
        base = fp32(0, 0, 10) | peaks | time_ns(1000) | dram(1000)
        vector = from_text(write([Kernel("k", base, texts=name)]), "f.csv")
        assert roofs_for(vector)[0].id == PROFILED
        metrics = base | ops(src_fp16_dst_fp32=10**9)
        matrix = from_text(write([Kernel("k", metrics, texts=name)]), "f.csv")
        assert roofs_for(matrix)[0].id == "a100-sxm4-80gb"

    @pytest.mark.parametrize(
        ("name", "device", "said"),
        [
            ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb", ""),
            ("NVIDIA A10G", "a10g", ""),
            ("NVIDIA A16", None, "A16 is not in the catalog; give --peak"),
        ],
    )
    def test_device_by_its_name(self, name, device, said):
        texts = {"device__attribute_display_name": name}
        samples = from_text(write([Kernel("k", time_ns(1000), texts=texts)]), "f.csv")
        found, notes = roofs_for(samples)
        assert (found.id if found else None) == device
        assert said in " ".join(notes)

    def test_above_the_roof_names_causes(self):
        text = write([Kernel("saxpy", fp32(0, 0, 1000) | time_ns(1000) | dram(2_000_000))])
        kernel = place(from_text(text, "f.csv"), from_peaks(1e12, 1e12)).kernels[0]
        # 2 MB in 1 us is 2 TB/s against 1 TB/s.
        assert kernel.roofline_efficiency == pytest.approx(2)
        assert "200% of the DRAM roof" in kernel.warnings[0]
        assert "cache" in kernel.warnings[0]

    def test_warm_cache_is_seen_beside_equal_work(self):
        sizes = {"a": 12_000_000, "b": 500_000, "c": 13_000_000}
        text = write([Kernel(n, fp32(0, 0, 10**6) | dram(b)) for n, b in sizes.items()])
        found = {k.sample.name: k.warnings for k in place(from_text(text, "f.csv")).kernels}
        assert "warm cache" in found["b"][0]
        assert (found["a"], found["c"]) == ((), ())

    def test_levels_out_of_order(self):
        metrics = dram(6400) | {"lts__t_sectors_srcunit_tex.sum": (100, "sector")}
        assert any("out of order" in w for w in place_one(metrics).warnings)


def place_one(metrics):
    return place(from_text(write([Kernel("k", metrics)]), "f.csv")).kernels[0]


@pytest.mark.parametrize(("size", "said"), [(900_000, "memory-bound"), (100_000, "10.0% of")])
def test_bytes_speak_where_the_work_is_missing(size, said):
    text = write([Kernel("k", time_ns(1000) | dram(size))])
    kernel = place(from_text(text, "f.csv"), from_peaks(1e12, 1e12)).kernels[0]
    # 900 kB in 1 us of 1 TB/s are 90 %.
    assert kernel.bound is None
    assert said in kernel.findings[0]


def test_launches_add_up_before_ratios():
    launches = [Kernel("k", fp32(n, 0, 0) | time_ns(1000 * n) | dram(100 / n)) for n in (1, 4)]
    kernel = place(from_text(write(launches), "f.csv"), from_peaks(1e12, 1e12)).kernels[0]
    # 5 FLOP over 125 bytes, not the mean of 0.01 and 0.16.
    assert kernel.level("DRAM").arithmetic_intensity == 0.04
    assert kernel.sample.count == 2


def test_summary_by_kernel():
    text = (
        '"Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
        '"Grid Size","Device","CC","Invocations","Section Name","Metric Name","Metric Unit",'
        '"Minimum","Maximum","Average"\n'
    )
    row = '"1","a","h","{0}","1","7","(32, 1, 1)","(8, 1, 1)","0","8.0","3","m","{1}","{2}",{3}\n'
    for name in ("k", "l"):
        text += row.format(name, "gpu__time_duration.sum", "ns", '"900","1100","1000"')
        text += row.format(name, "dram__bytes.sum", "byte", '"60","70","64"')
    found = from_text(text, "f.csv").launches
    assert [(s.name, s.count, s.bytes_at("DRAM")) for s in found] == [("k", 3, 192), ("l", 3, 192)]
    assert found[0].time_s == pytest.approx(3e-6)


class TestChip:
    PIPE: ClassVar = {"sm__inst_executed_pipe_tensor.sum": (1000, "inst")}

    @pytest.mark.parametrize(
        ("name", "extra", "given", "flops"),
        [
            ("gemm", {}, "", None),
            ("gemm", {}, "7.0", 512_000),
            ("volta_h884gemm", {}, "", 1_024_000),
            ("x_s16816_y", {"device__attribute_compute_capability_major": (8, "")}, "", 4_096_000),
        ],
    )
    def test_old_exports_without_the_column(self, name, extra, given, flops):
        text = write([Kernel(name, self.PIPE | extra)], "long_old")
        assert from_text(text, "f.csv", given).launches[0].flops == flops

    def test_pipe_active_without_operations(self):
        found = one(fp32(5, 0, 0) | self.PIPE | ops(src_fp16_dst_fp32=0))
        assert found.flops == 5
        assert any("constant moves" in n for n in found.notes)


def locale_of(cells):
    evidence = LocaleEvidence("f")
    for text, whole in cells:
        evidence.note(text, whole)
    return evidence.locale()


class TestNumbers:
    @pytest.mark.parametrize(
        ("cells", "decimal"),
        [
            ([("1.234.567", False)], ","),
            ([("1,234,567", False)], "."),
            ([("12,5", False), ("1.234", False)], ","),
            ([("0.125", False)], "."),
            ([("1234.567", False)], "."),
            ([("1.234", True)], ","),
            ([("1,234", True)], "."),
            ([("1\u202f234,5", False)], ","),
            ([("540.543.213,63", False)], ","),
        ],
    )
    def test_locale(self, cells, decimal):
        assert locale_of(cells).decimal == decimal

    def test_undecided_is_the_c_locale(self):
        assert locale_of([("1.234", False), ("17", True)]).sure is False

    def test_two_locales_are_refused(self):
        with pytest.raises(FileFormatError, match=r"two locales, '1,234.5' and '1.234,5'"):
            locale_of([("1,234.5", False), ("1.234,5", False)])


class TestMore:
    def test_ranges_are_groups(self):
        column = '"Id:Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"'
        head, units, row = write(KERNELS[:1], "wide").splitlines()
        text = "\n".join(
            (f"{head},{column}", f'{units},""', f'{row},"7:<default domain>:layer 3:none:none"')
        )
        found = from_text(text + "\n", "f.csv").launches[0]
        assert (found.group, found.flops) == ("layer 3", 70_254_592)

    def test_sectors_a_request(self):
        base = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
        metrics = {
            base.format("sectors", "ld"): (3200, "sector"),
            base.format("sectors", "st"): (64, "sector"),
            base.format("requests", "ld"): (100, "request"),
            base.format("requests", "st"): (2, ""),
        }
        found = one(metrics | time_ns(10))
        assert found.ratios == {"sectors per request": 32.0}

    def test_instructions(self):
        found = one({"smsp__inst_executed.sum": (640, "inst")} | time_ns(10))
        assert found.instructions == 640


class TestBroken:
    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (
                "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n",
                "ERR_NVGPUCTRPERM",
            ),
            ("nothing here\n", "no table of Nsight Compute"),
            (write(KERNELS).splitlines()[0] + "\n", "no kernel"),
            ('"ID","Something"\n', "no table of Nsight Compute"),
            (write(KERNELS) + '"2","1","a","h","' + "x" * 200_000 + '"\n', "field larger"),
        ],
    )
    def test_one_clear_sentence(self, text, sentence):
        with pytest.raises(FileFormatError, match=re.escape(sentence)):
            from_text(text, "f.csv")

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_damaged_files_never_crash(self, data):
        layout = data.draw(st.sampled_from(LAYOUTS))
        text = write(KERNELS, layout)
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(start + 40, len(text))))
        middle = data.draw(st.text(st.sampled_from('",;\n\0 0Za.-('), max_size=8))
        with suppress(GambrelError):
            from_text(text[:start] + middle + text[end:], "f.csv")

    def test_truncated_anywhere(self):
        text = write(KERNELS)
        for end in range(len(text.splitlines()[0]) + 1, len(text), 37):
            with suppress(FileFormatError):
                assert len(from_text(text[:end], "f.csv").launches) <= 2
