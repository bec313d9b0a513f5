"""Exports as users of many chips have them, with their figures derived by hand."""

from __future__ import annotations

import csv
import io

import pytest

from gambrel.analysis.samples import Known, place
from gambrel.traces.devices import roofs_for
from gambrel.traces.ncu.reader import from_text

_FIRST = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name"]
_OLD = [*_FIRST, "Kernel Time", "Context", "Stream"]
_NEW = [*_FIRST, "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
_CELLS = ["Section Name", "Metric Name", "Metric Unit", "Metric Value"]
_NAME = "device__attribute_display_name"


def inst(name):
    return f"sm__sass_thread_inst_executed_op_{name}_pred_on.sum"


def text(rows):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def old(number, kernel, process="31337"):
    return [str(number), process, "python3.6", "127.0.0.1", kernel, "2019-Nov-21 10:11", "1", "7"]


def new(kernel, cc, number=0, process="9"):
    shape = ["(256, 1, 1)", "(132, 1, 1)"]
    return [str(number), process, "python", "n0", kernel, "1", "7", *shape, "0", cc]


def long(heading, launches):
    rows = [[*heading, *_CELLS]]
    rows += [[*info, "Section", *metric] for info, metrics in launches for metric in metrics]
    return text(rows)


def wide(heading, launches):
    names = [(name, unit) for name, unit, _ in launches[0][1]]
    units = [""] * len(heading) + [unit for _, unit in names]
    rows = [[*heading, *(name for name, _ in names)], units]
    rows += [[*info, *(value for *_, value in metrics)] for info, metrics in launches]
    return text(rows)


def levels(launch):
    return {t.level: t.traffic_bytes for t in launch.traffic}


def test_v100_2019_with_lines_of_the_profiler_and_the_program():
    metrics = [
        ("dram__bytes_read.sum", "Mbyte", "101.32"),
        ("dram__bytes_write.sum", "Mbyte", "33.56"),
        ("gpu__time_duration.sum", "msecond", "1.62"),
        ("sm__inst_executed_pipe_tensor.sum", "inst", "268,435,456"),
        (inst("hmul"), "inst", "16,777,216"),
    ]
    export = (
        '==PROF== Connected to process 31337\n==PROF== Profiling "volta" - 1: 0%....100%\n'
        "iter 0 loss 2.31\n"
        + long(_OLD, [(old(0, "volta_fp16_s884gemm_fp16_128x128_nn"), metrics)])
        + long(_OLD, [(old(1, "volta_h884gemm_128x64_nn"), metrics)])
    )
    single, half = from_text(export, "f.csv").launches
    # 268,435,456 x 512 = 137,438,953,472; the accumulator in fp16 takes half the steps.
    assert single.work[0].flops == 137_438_953_472
    assert half.work[0].flops == 274_877_906_944
    assert any("inferred" in note for note in half.notes)
    assert not any("inferred" in note for note in single.notes)
    # 101.32 + 33.56 MB, in 1.62 ms.
    assert (levels(single)["DRAM"], single.time_s) == (134_880_000, pytest.approx(1.62e-3))


def test_t4_2021_german_at_a_low_clock():
    attributes = [("compute_capability_major", "7"), ("compute_capability_minor", "5")]
    attributes += [("display_name", "Tesla T4"), ("multiprocessor_count", "40")]
    attributes += [("clock_rate", "1.590.000"), ("memory_clock_rate", "5.001.000")]
    attributes += [("global_memory_bus_width", "256")]
    rate = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    metrics = [
        *((f"device__attribute_{name}", "", value) for name, value in attributes),
        ("gpu__time_duration.sum", "nsecond", "112.416"),
        ("dram__bytes.sum", "byte", "12.582.912"),
        ("sm__cycles_elapsed.avg.per_second", "cycle/second", "584.989.341,02"),
        (rate.format("ffma"), "inst/cycle", "1.276,42"),
        (rate.format("fadd"), "inst/cycle", "0,00"),
        (rate.format("fmul"), "inst/cycle", "0,00"),
        ("sm__cycles_elapsed.avg", "cycle", "65.714,25"),
        ("lts__t_sectors_srcunit_tex.sum", "sector", "1.572.864"),
    ]
    samples = from_text(wide(_OLD, [(old(0, "saxpy_kernel(int, float)"), metrics)]), "f.csv")
    (launch,) = samples.launches
    # 2 x 1276.42 x 65,714.25 = 167,757,966; 1,572,864 x 32 = 50,331,648.
    assert launch.flops == 167_757_966
    assert levels(launch) == {"DRAM": 12_582_912, "L2": 50_331_648}
    # 584.99 MHz of 1590 MHz is 37 %.
    device, notes = roofs_for(samples)
    assert device.id == "t4"
    assert any("585 MHz of 1.59 GHz" in n and "37%" in n for n in notes)


def test_a100_2022_details_of_two_processes():
    metrics = [
        ("SM Frequency", "cycle/nsecond", "1.09"),
        ("Elapsed Cycles", "cycle", "218,004"),
        ("Memory Throughput", "%", "81.02"),
        ("DRAM Throughput", "%", "81.02"),
        ("Duration", "usecond", "199.97"),
        ("Memory Throughput", "Tbyte/second", "1.26"),
        ("Achieved Occupancy", "%", "88.3"),
    ]
    name = "void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>(int, T2)"
    export = long(_NEW, [(new(name, "8.0", process=p), metrics) for p in ("100", "101")])
    samples = from_text(export, "f.csv")
    # The same number in two processes: two launches. 1.26 TB/s x 199.97 µs = 251,962,200 bytes.
    assert [levels(s)["DRAM"] for s in samples.launches] == [251_962_200] * 2
    assert all(s.state is Known.MISSING for s in samples.launches)
    # Half a unit of the last digit of both: 0.005 / 1.26 + 0.005 / 199.97, and 0.1 % of the way.
    error = samples.launches[0].traffic[0].error
    assert error == pytest.approx(0.005 / 1.26 + 0.005 / 199.97 + 1e-3)
    assert samples.launches[0].recorded["DRAM"] == pytest.approx(0.8102)


def test_h100_2023_parts_by_sparsity_and_total_are_one_work():
    path = "sm__ops_path_tensor_"
    part = f"{path}op_hgmma_src_bf16_dst_fp32_sparsity_"
    metrics = [
        ("gpu__time_duration.sum", "us", "185.120000"),
        ("dram__bytes_read.sum", "Mbyte", "134.217728"),
        ("dram__bytes_write.sum", "Mbyte", "66.100000"),
        (f"{part}off.sum", "", "137,438,953,472"),
        (f"{part}on.sum", "", "0"),
        (f"{path}src_bf16_dst_fp32.sum", "", "137,438,953,472"),
        (f"{path}src_bf16_dst_fp32.sum.peak_sustained", "", "1,081,344"),
        (f"{part}off.sum.peak_sustained", "", "540,672"),
        ("sm__cycles_elapsed.avg.per_second", "Ghz", "1.755"),
        ("dram__bytes.sum.peak_sustained", "byte/cycle", "1,280"),
        ("dram__cycles_elapsed.avg.per_second", "Ghz", "2.619"),
        (_NAME, "", "NVIDIA H100 80GB HBM3"),
    ]
    samples = from_text(wide(_NEW, [(new("nvjet_hsh_256x128_NNT", "9.0"), metrics)]), "f.csv")
    device, _ = roofs_for(samples)
    (kernel,) = place(samples, device).kernels
    # 2 x 4096^3, once; 540,672 x 1.755 GHz = 948.9 TFLOP/s is the dense peak, not the sparse one.
    assert kernel.sample.flops == 137_438_953_472
    assert device.ceiling("matrix", "bf16").flop_per_s == pytest.approx(948.87936e12)
    # 1280 x 2.619 GHz = 3352 GB/s; 137,438,953,472 / 185.12 µs = 742.4 TFLOP/s of 948.9.
    assert device.level("DRAM").byte_per_s == pytest.approx(3.35232e12)
    assert kernel.roofline_efficiency == pytest.approx(742.431685 / 948.87936, rel=1e-6)


def test_b200_2024_joint_counter_of_narrow_formats():
    path = "sm__ops_path_tensor_"
    metrics = [
        ("gpu__time_duration.sum", "ns", "402112"),
        ("dram__bytes.sum", "byte", "402653184"),
        ("lts__t_sectors_srcunit_tex.sum", "sector", "25165824"),
        ("lts__t_bytes.sum", "byte", "1610612736"),
        (f"{path}src_fp4_fp6_fp8_dst_fp32.sum", "", "1099511627776"),
        (f"{path}op_utcqmma_src_fp4_fp6_fp8_dst_fp32.sum", "", "1099511627776"),
        (inst("fadd"), "inst", "1000"),
        (inst("fmul"), "inst", "2000"),
        (inst("ffma"), "inst", "3000"),
        (inst("ffma2"), "inst", "4000"),
        (_NAME, "", "NVIDIA B200"),
    ]
    samples = from_text(wide(_NEW, [(new("cutlass3x_sm100_f8_gemm", "10.0"), metrics)]), "f.csv")
    (launch,) = samples.launches
    work = {(w.work_class, w.dtype): w.flops for w in launch.work}
    # 1000 + 2000 + 2 x 3000 + 4 x 4000 = 25,000 on the CUDA cores.
    assert work == {("matrix", "fp8"): 2**40, ("vector", "fp32"): 25_000}
    # 25,165,824 x 32; lts__t_bytes is twice that on the halves of this chip's L2.
    assert levels(launch)["L2"] == 805_306_368
    assert roofs_for(samples)[0].id == "b200-hgx-180gb"


def test_gtx_1650_2021_labels_of_the_details_page():
    metrics = [
        ("DRAM Frequency", "cycle/nsecond", "4.00"),
        ("SM Frequency", "cycle/nsecond", "1.48"),
        ("SOL SM", "%", "91.2"),
        ("SOL DRAM", "%", "12.4"),
        ("Duration", "msecond", "1.00"),
        ("Memory Throughput", "Gbyte/second", "15.87"),
    ]
    (launch,) = from_text(long(_OLD, [(old(0, "matmul(float*)"), metrics)]), "f.csv").launches
    # 15.87 GB/s x 1.00 ms; the time is known to half a percent only.
    assert levels(launch) == {"DRAM": 15_870_000}
    assert launch.traffic[0].error == pytest.approx(0.005 / 15.87 + 0.005 / 1.00 + 1e-3)
    assert launch.recorded == {"compute": pytest.approx(0.912), "DRAM": pytest.approx(0.124)}
    assert launch.state is Known.MISSING


def test_rtx_3080_2024_french_agrees_with_the_profiler():
    metrics = [
        (_NAME, "", "NVIDIA GeForce RTX 3080"),
        ("gpu__time_duration.sum", "ns", "301 440"),
        ("dram__bytes_read.sum", "byte", "134 217 728"),
        ("dram__bytes_write.sum", "byte", "67 108 864"),
        (inst("fadd"), "inst", "16 777 216"),
        (inst("fmul"), "inst", "0"),
        (inst("ffma"), "inst", "0"),
        ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "87,91"),
    ]
    narrow = [(n, u, v if n == _NAME else v.replace(" ", "\u202f")) for n, u, v in metrics]
    samples = from_text(long(_NEW, [(new("vecadd(float*)", "8.6"), narrow)]), "f.csv")
    device, _ = roofs_for(samples)
    (kernel,) = place(samples, device).kernels
    # 201,326,592 B / 301.44 µs = 667.9 GB/s of 760: 87.88 %, the profiler says 87.91 %.
    assert kernel.sample.flops == 16_777_216
    assert kernel.roofline_efficiency == pytest.approx(0.878793, rel=1e-5)
    assert kernel.sample.recorded["DRAM"] == pytest.approx(0.8791)


def test_rtx_4090_2025_what_is_not_there_stays_unknown():
    metrics = [
        ("gpu__time_duration.sum", "ns", "50176"),
        ("dram__bytes.sum", "byte", "no data"),
        ("dram__bytes_read.sum", "byte", "4194304"),
        ("dram__bytes_write.sum", "byte", "n/a"),
        ("lts__t_sectors_srcunit_tex.sum", "sector", "524288 (262144; 262144)"),
        (inst("ffma"), "inst", "67108864"),
        (inst("fadd"), "inst", "(!) n/a"),
        (inst("fmul"), "inst", "0"),
    ]
    export = "\ufeff" + wide(_NEW, [(new("gemv<32, (bool)1>(float*)", "8.9"), metrics)])
    (launch,) = from_text(export, "f.csv").launches
    assert levels(launch) == {"L2": 16_777_216}  # half of the DRAM traffic is no figure of DRAM
    assert launch.flops == 134_217_728
    assert any("fadd not collected; the rest is a lower limit" in n for n in launch.notes)


@pytest.mark.parametrize(
    ("heading", "cell", "name"),
    [
        (
            "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
            "<default domain>:solve:none:none:none:none:none:none",
            "solve",
        ),
        (
            "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
            "4711:<default domain>:solve:none:none:none:none:none:none",
            "solve",
        ),
        (
            "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
            "3:train:step 12:none:none:none:none:none:none",
            "step 12",
        ),
        ("NVTX Push/Pop_Range", "forward", "forward"),
        ("Id:Domain:Start/Stop_Range:PL_Type", "", ""),
    ],
)
def test_v100_2022_ranges_of_nvtx(heading, cell, name):
    metrics = [
        ("gpu__time_duration.sum", "ns", "1000000"),
        (inst("dfma"), "inst", "2500000000"),
        (inst("dadd"), "inst", "0"),
        (inst("dmul"), "inst", "1000000"),
        (heading, "", f'"{cell}"' if cell else ""),
    ]
    (launch,) = from_text(wide(_NEW, [(new("dgemm", "7.0"), metrics)]), "f.csv").launches
    # 2 x 2.5e9 + 1e6.
    assert (launch.flops, launch.group) == (5_001_000_000, name)


def test_columns_that_no_recipe_reads_do_not_matter():
    used = [("gpu__time_duration.sum", "ns", "1000"), (inst("dfma"), "inst", "500")]
    more = [
        ("launch__grid_size", "", "132"),
        ("smsp__pcsamp_warps_issue_stalled_wait", "warp", "1,234.5"),
        ("smsp__average_warp_latency_issue_stalled_wait.ratio", "", "2.25"),
    ]
    exports = [wide(_NEW, [(new("k", "8.0"), m)]) for m in (used, [*more, *used])]
    first, second = (from_text(export, "f.csv").launches for export in exports)
    assert first == second
    assert first[0].flops == 1000
