"""Tables of points, AMD's tables, perf and likwid: hand arithmetic, units, broken rows."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.analysis.samples import Known
from gambrel.errors import FileFormatError, GambrelError, InputError
from gambrel.traces import launches, read
from gambrel.traces.devices import roofs_for
from gambrel.traces.user_work import with_flops, with_precision


@pytest.fixture
def write(tmp_path):
    def write(text, name="points.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


class TestPoints:
    @pytest.mark.parametrize(
        "text",
        [
            "name,flops,bytes,time\ngemm,2.5e9,1e8,0.00125\n",
            "name;flops (G);dram_gb;time (ms)\ngemm;2,5;0,1;1,25\n",
            "kernel\tGFLOP\tBytes [MB]\tmedian_us\ngemm\t2.5\t100\t1250\n",
            "# notes\nname,flops,dram_bytes,time_s\ngemm,2500000000,100000000,1.25e-3\n",
            "name,flops,bytes,time\ngemm,2.5e9,100 MB,1.25 ms\n",
            '[{"name": "gemm", "flops": 2.5e9, "bytes": 100000000, "time_ms": 1.25}]',
            '{"points": [{"name": "gemm", "flops": 2500000000, "bytes": 1e8, "time": 0.00125}]}',
        ],
    )
    def test_units_of_the_heading(self, write, text):
        if "GFLOP" in text:
            text = text.replace("GFLOP", "flops (GFLOP)")
        (point,) = read(write(text)).launches
        assert (point.name, point.flops) == ("gemm", 2_500_000_000)
        assert point.bytes_at("DRAM") == 100_000_000
        assert point.time_s == pytest.approx(1.25e-3)

    def test_levels_and_missing_figures(self, write):
        path = write("name,flops,bytes,l2_bytes,l1_kb,time_us\na,10,20,30,0.04,50\nb,,7,,,1\n")
        a, b = read(path).launches
        assert [(t.level, t.traffic_bytes) for t in a.traffic] == [
            ("DRAM", 20),
            ("L2", 30),
            ("L1", 40),
        ]
        assert (b.state, b.flops, b.bytes_at("L2")) == (Known.MISSING, None, None)

    def test_repeated_names_get_what_tells_them_apart(self, write):
        path = write("kernel,n,mean_ms,flops,note x\ns,4,0.5,8,\ns,8,0.7,16,\n")
        assert [p.name for p in read(path).launches] == ["s [n=4]", "s [n=8]"]

    def test_bad_rows_are_skipped_and_counted(self, write):
        path = write("name,flops,bytes,time\na,-1,2,3\nb,1,2,3\nc,x,2,3\n,,,\n")
        samples = read(path)
        assert [p.name for p in samples.launches] == ["b"]
        assert samples.skipped == {
            "rows with a figure that is no number, negative or not finite": 2,
            "rows without a name or figures": 1,
        }

    def test_roofs_beside_points(self, write):
        points = write("name,flops,bytes,time\na,1,2,3\n")
        roofs = write("label,peak_flops,peak_bandwidth\nmine,1e12,5e11\nother,9e11,4e11\n", "r.csv")
        samples = read([points, roofs])
        assert samples.device.level("DRAM").byte_per_s == 5e11
        assert "not used: other" in samples.notes[0]

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("name,flops,bytes,time\n", "no row"),
            ("[{]", "no valid JSON"),
            ('{"points": 3}', "write a list of objects"),
            ("hello\nworld\n", "no known format; line 1 is 'hello'"),
        ],
    )
    def test_one_clear_sentence(self, write, text, sentence):
        name = "p.json" if text[0] in "[{" else "p.csv"
        text = text.replace("[{]", '[{"flops"]')
        with pytest.raises(FileFormatError, match=sentence):
            read(write(text, name))

    @settings(max_examples=80, deadline=None)
    @given(text=st.text(st.sampled_from('name,flopsbyt;\t"\n0159.eE-()[]GM '), max_size=80))
    def test_any_text_gives_an_answer_or_an_error_of_ours(self, tmp_path_factory, text):
        path = tmp_path_factory.mktemp("p") / "p.csv"
        path.write_text("name,flops,bytes,time\n" + text)
        with suppress(GambrelError):
            read(path)


class TestGiven:
    def test_work_by_name(self, write):
        samples = read(write("name,bytes,time,count\nsaxpy_1,20,1,3\nother,20,1,1\n"))
        a, b = with_flops(samples, {"saxpy": 100}).launches
        assert (a.flops, b.flops) == (300, None)
        with pytest.raises(InputError, match="no kernel of that name"):
            with_flops(samples, {"gemm": 1})

    def test_precision_of_points(self, write):
        samples = with_precision(read(write("name,flops,bytes\na,5,20\n")), "half")
        assert samples.launches[0].work[0].dtype == "fp16"


class TestRocprof:
    def test_counters_of_a_dispatch(self, write):
        head = (
            "Kernel_Name,Grid_Size,Workgroup_Size,Start_Timestamp,End_Timestamp,"
            "SQ_INSTS_VALU_ADD_F32,SQ_INSTS_VALU_MUL_F32,SQ_INSTS_VALU_FMA_F32,"
            "SQ_INSTS_VALU_TRANS_F32,SQ_INSTS_VALU_MFMA_MOPS_F16,"
            "TCC_EA_RDREQ_sum,TCC_EA_RDREQ_32B_sum,TCC_EA_WRREQ_sum,TCC_EA_WRREQ_64B_sum"
        )
        path = write(f"{head}\nk.kd,1024,256,1000,3000,10,20,30,5,7,100,40,50,20\n")
        (k,) = read(path).launches
        assert (k.name, k.grid) == ("k", "1024")
        assert k.time_s == pytest.approx(2e-6)
        # 64 x (10 + 20 + 2 x 30 + 5) and 512 x 7.
        assert {(w.work_class, w.dtype): w.flops for w in k.work} == {
            ("matrix", "fp16"): 3584,
            ("vector", "fp32"): 6080,
        }
        # 40 x 32 + 60 x 64 read, 20 x 64 + 30 x 32 written.
        assert k.bytes_at("DRAM") == 1280 + 3840 + 1280 + 960

    def test_one_row_a_counter(self, write):
        rows = [("SQ_INSTS_VALU_FMA_F64", 4), ("SQ_INSTS_VALU_ADD_F64", 1)]
        text = "Correlation_Id,Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value,"
        text += "Start_Timestamp,End_Timestamp\n"
        text += "".join(f"1,{d},k,{n},{v},0,500\n" for d in (1, 2) for n, v in rows)
        found = read(write(text)).launches
        # 64 x (2 x 4 + 1), twice.
        assert [k.flops for k in found] == [576, 576]

    def test_times_alone_have_no_work(self, write):
        text = "Name,Calls,TotalDurationNs,AverageNs,Percentage\nk,4,8000,2000,100\n"
        (k,) = read(write(text)).launches
        assert (k.count, k.time_s, k.state) == (4, pytest.approx(8e-6), Known.MISSING)

    def test_measured_roofs(self, write):
        text = "device,HBMBw,L2Bw,L1Bw,LDSBw,FP32Flops,FP64Flops,MFMAF16Flops\n"
        device = read(write(text + "0,1388,5017,9227,17714,20000,20300,165000\n")).device
        assert device.level("DRAM").byte_per_s == 1.388e12
        assert device.ceiling("matrix", "fp16").flop_per_s == 1.65e14

    def test_passes_over_one_run_are_one(self, write):
        head = "Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp\n"
        first = write(
            head + "1,k,SQ_INSTS_VALU_FMA_F32,10,0,500\n2,j,SQ_INSTS_VALU_FMA_F32,1,600,700\n",
            "p1.csv",
        )
        second = write(
            head + "1,k,FETCH_SIZE,3,0,900\n1,k,WRITE_SIZE,1,0,900\n"
            "2,j,FETCH_SIZE,1,950,990\n2,j,WRITE_SIZE,0,950,990\n",
            "p2.csv",
        )
        samples = read([first, second])
        assert [(s.name, s.flops, s.bytes_at("DRAM")) for s in samples.launches] == [
            ("k", 1280, 4096),
            ("j", 128, 1024),
        ]
        assert samples.launches[0].time_s == pytest.approx(500e-9)
        assert "2 passes over one run" in samples.notes[0]
        # The same counters twice are two ranks.
        assert len(read([first, first]).launches) == 4

    def test_many_launches_are_added_up(self, write, monkeypatch):
        monkeypatch.setattr(launches, "MOST_SINGLE", 10)
        head = "Kernel_Name,Start_Timestamp,End_Timestamp,SQ_INSTS_VALU_ADD_F32\n"
        samples = read(write(head + "".join(f"k{i % 3},0,1000,1\n" for i in range(100))))
        assert len(samples.launches) <= 10
        assert sum(s.flops for s in samples.launches) == 6400
        assert sum(s.count for s in samples.launches) == 100

    def test_mi300_has_longer_lines(self, write):
        head = (
            "Kernel_Name,Start_Timestamp,End_Timestamp,TCC_EA0_RDREQ_sum,TCC_EA0_RDREQ_32B_sum,"
            "TCC_EA0_WRREQ_sum,TCC_EA0_WRREQ_64B_sum,TCC_BUBBLE_sum,TCP_TOTAL_CACHE_ACCESSES_sum,"
            "SQ_INSTS_VALU_MFMA_MOPS_F8,SQ_INSTS_VALU_MFMA_MOPS_XF32"
        )
        (k,) = read(write(f"{head}\nk,0,1000,100,10,8,8,40,5,2,3\n")).launches
        # 40 x 128 + 50 x 64 + 10 x 32 read, 8 x 64 written; L1 in lines of 128.
        assert k.bytes_at("DRAM") == 5120 + 3200 + 320 + 512
        assert k.bytes_at("L1") == 640
        assert {w.dtype: w.flops for w in k.work} == {"fp8": 1024, "tf32": 1536}

    COPY = (
        "Kernel_Name,Start_Timestamp,End_Timestamp,TCP_TCC_READ_REQ_sum,TCP_TCC_WRITE_REQ_sum,"
        "TCP_TCC_ATOMIC_WITH_RET_REQ_sum,TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum,"
        "TCP_TCC_RW_READ_REQ_sum,TCP_TCC_NC_READ_REQ_sum,TCP_TCC_UC_READ_REQ_sum,"
        "TCP_TCC_CC_READ_REQ_sum,TCP_TCC_RW_WRITE_REQ_sum,TCP_TCC_NC_WRITE_REQ_sum,"
        "TCP_TCC_UC_WRITE_REQ_sum,TCP_TCC_CC_WRITE_REQ_sum"
    )

    def test_l2_requests_and_their_parts_are_one_thing(self, write):
        values = "5,6,7,8,4,0,1,0,6,0,0,0"
        (k,) = read(write(f"{self.COPY}\nk,0,1000,{values}\n")).launches
        # 64 x (5 + 6 + 7 + 8); the parts are the same requests again.
        assert k.bytes_at("L2") == 64 * 26

    def test_parts_stand_for_a_total_that_was_not_collected(self, write):
        names = [f"TCP_TCC_{t}_{k}_REQ_sum" for k in ("READ", "WRITE") for t in RW_NC_UC_CC]
        head = ",".join(["Kernel_Name,Start_Timestamp,End_Timestamp", *names])
        (k,) = read(write(f"{head}\nk,0,1000,4,0,1,0,6,0,0,0\n")).launches
        assert k.bytes_at("L2") == 64 * 11
        (k,) = read(
            write(f"{head.replace(names[1], 'GRBM_COUNT')}\nk,0,1,4,0,1,0,6,0,0,0\n")
        ).launches
        assert k.bytes_at("L2") is None

    def test_a_copy_on_mi300_reads_lines_and_writes_halves(self, write):
        # A copy of 1,048,576 doubles on an MI300A: 65,536 and 131,072 requests.
        head = f"{self.COPY},TCC_EA0_RDREQ_sum,TCC_BUBBLE_sum"
        values = "65536,131072,0,0,65536,0,0,0,131072,0,0,0,65536,65536"
        (k,) = read(write(f"{head}\nk,0,1000,{values}\n")).launches
        assert k.bytes_at("L2") == 2 * 8 * 1_048_576
        tcc = "Kernel_Name,Start_Timestamp,End_Timestamp,TCC_READ_sum,TCC_WRITE_sum,TCC_BUBBLE_sum"
        (k,) = read(write(f"{tcc}\nk,0,1000,65536,131072,65536\n")).launches
        assert k.bytes_at("L2") == 2 * 8 * 1_048_576

    @pytest.mark.parametrize(
        ("more", "values", "reads"),
        [
            # A counter for each size.
            ("TCC_EA0_RDREQ_64B_sum,TCC_EA0_RDREQ_128B_sum", "20,70", 10 * 32 + 20 * 64 + 70 * 128),
            # Without them all but the short ones are of 128 bytes: TCC_BUBBLE is always 0 there.
            ("TCC_BUBBLE_sum", "0", 10 * 32 + 90 * 128),
            ("SQ_INSTS_VALU_MFMA_MOPS_F6F4", "0", 10 * 32 + 90 * 128),
        ],
    )
    def test_mi350_reads_memory_in_lines(self, write, more, values, reads):
        head = (
            "Kernel_Name,Start_Timestamp,End_Timestamp,TCC_EA0_RDREQ_sum,TCC_EA0_RDREQ_32B_sum,"
            f"TCC_EA0_WRREQ_sum,TCC_EA0_WRREQ_64B_sum,{more}"
        )
        (k,) = read(write(f"{head}\nk,0,1000,100,10,4,4,{values}\n")).launches
        assert k.bytes_at("DRAM") == reads + 4 * 64

    def test_a_chip_that_is_known_decides(self, write):
        head = "Kernel_Name,Start_Timestamp,End_Timestamp,TCC_READ_sum,TCC_WRITE_sum"
        path = write(f"{head}\nk,0,1000,2,4\n")
        assert read(path).launches[0].bytes_at("L2") == 64 * 6
        assert read(path, chip="gfx942").launches[0].bytes_at("L2") == 128 * 2 + 64 * 4
        # An NVIDIA GPU chosen for other files says nothing about this one.
        assert read(path, chip="9.0").launches[0].bytes_at("L2") == 64 * 6

    def test_waves_of_rdna_have_32_lanes(self, write):
        path = write("Kernel_Name,Start_Timestamp,End_Timestamp,SQ_INSTS_VALU_ADD_F32\nk,0,1,5\n")
        assert read(path, chip="gfx1100").launches[0].flops == 160

    def test_counters_of_6_and_4_bits(self, write):
        head = "Kernel_Name,Start_Timestamp,End_Timestamp,SQ_INSTS_VALU_MFMA_MOPS_F6F4"
        (k,) = read(write(f"{head}\nk,0,1000,2\n")).launches
        assert [(w.dtype, w.flops) for w in k.work] == [("fp4", 1024)]

    @pytest.mark.parametrize(
        ("head", "row", "name", "chip", "note"),
        [
            ("gpu_model,gpu_arch,cu_per_gpu", "MI300X_A1,gfx942,304", "MI300X", "gfx942", ""),
            ("gpu_model,gpu_arch,cu_per_gpu", "MI300,gfx942,228", "MI300A", "gfx942", ""),
            ("gpu_soc,numCU,name", "gfx90a,104,mi200", "MI210", "gfx90a", "a die of an MI250"),
            ("gpu_soc,numCU,name", "gfx90a,110,MI250X", "MI250X (one die of two)", "gfx90a", ""),
            ("gpu_soc,numCU,name", "gfx90a,110,mi200", "", "gfx90a", ""),
            (
                "gpu_model,gpu_arch,cu_per_gpu,compute_partition",
                "MI300X,gfx942,38,CPX",
                "MI300X (CPX partition)",
                "gfx942",
                "was partitioned (CPX)",
            ),
        ],
    )
    def test_the_system_file_beside_names_the_chip(self, write, head, row, name, chip, note):
        counters = "Kernel_Name,Start_Timestamp,End_Timestamp,TCC_READ_sum,TCC_WRITE_sum"
        path = write(f"{counters}\nk,0,1000,2,4\n", "pmc_perf.csv")
        system = write(f"workload_name,{head}\nvcopy,{row}\n", "sysinfo.csv")
        for samples in (read(path), read([path, system])):
            assert samples.device_name == (f"AMD Instinct {name}" if name else "")
            read_size = 128 if chip == "gfx942" else 64
            assert samples.launches[0].bytes_at("L2") == 2 * read_size + 4 * 64
            assert any(note in n for n in samples.notes) if note else not samples.notes

    def test_the_agents_beside_name_the_chip(self, write):
        path = write("Kernel_Name,Start_Timestamp,End_Timestamp\nk,0,1\n", "77_kernel_trace.csv")
        write(
            "Node_Id,Agent_Type,Name,Product_Name\n0,CPU,AMD EPYC,AMD EPYC\n"
            "1,GPU,gfx942,AMD Instinct MI325X\n2,GPU,gfx942,AMD Instinct MI325X\n",
            "77_agent_info.csv",
        )
        device, _ = roofs_for(read(path))
        assert device is not None
        assert device.id == "mi325x"

    def test_a_damaged_system_file_costs_nothing(self, write):
        path = write("Kernel_Name,Start_Timestamp,End_Timestamp\nk,0,1\n", "pmc_perf.csv")
        for text in ("", "gpu_arch", 'gpu_arch\n"', "\0\0", "other\n1\n"):
            write(text, "sysinfo.csv")
            assert read(path).device_name == ""

    def test_calls_of_the_host_are_no_kernels(self, write):
        head = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
        host = ["hipLaunchKernel", "hsa_signal_wait_scacquire", "__hipPushCallConfiguration"]
        host += ["MEMORY_COPY_HOST_TO_DEVICE", "KERNEL_DISPATCH", "HIP_API", "roctxRangePushA"]
        rows = "".join(f'"{name}",4,8000,2000,10\n' for name in host)
        with pytest.raises(FileFormatError, match=r"calls of the host's API.*kernel_stats\.csv"):
            read(write(head + rows, "1_hip_stats.csv"))
        kernels = '"hipify(float*)",1,10,10,5\n"__amd_rocclr_copyBuffer",2,20,10,5\n'
        samples = read(write(head + kernels + rows))
        assert [k.name for k in samples.launches] == ["hipify(float*)", "__amd_rocclr_copyBuffer"]
        assert list(samples.skipped.values()) == [len(host)]

    def test_stamps_that_a_spreadsheet_rounded(self, write):
        text = "Kernel_Name,Start_Timestamp,End_Timestamp,SQ_INSTS_VALU_ADD_F32\n"
        (k,) = read(write(text + '"copy(double*, int) (.kd)",1.62E+14,1.62E+14,1\n')).launches
        assert (k.name, k.time_s) == ("copy(double*, int)", None)

    def test_mi100_counts_instructions_only(self, write):
        head = "Index,KernelName,gpu-id,BeginNs,EndNs,FETCH_SIZE,WRITE_SIZE"
        head += ",SQ_INSTS_VALU,SQ_INSTS_SALU"
        (k,) = read(write(f"{head}\n0,k.kd,1,1000,3000,3,1,100,7\n")).launches
        assert (k.state, k.flops, k.instructions) == (Known.MISSING, None, 407)
        assert "--instructions" in k.why
        assert k.bytes_at("DRAM") == 4096
        assert k.origin == "device 1"

    def test_instances_and_their_sum(self, write):
        head = "Kernel_Name,Start_Timestamp,End_Timestamp,TCC_READ[0],TCC_READ[1],TCC_WRITE_sum"
        (k,) = read(write(f"{head}\nk,0,1,10,20,5\n")).launches
        assert k.bytes_at("L2") == 64 * 35
        head += ",TCC_READ_sum"
        (k,) = read(write(f"{head}\nk,0,1,10,20,5,30\n")).launches
        assert k.bytes_at("L2") == 64 * 35

    def test_averages_in_the_form_of_nsight_compute(self, write):
        head = (
            '"Kernel Name","Invocations","Metric Name","Metric Unit","Minimum","Maximum","Average"'
        )
        rows = [
            ("SQ_INSTS_VALU_FMA_F32", "", "10"),
            ("SQ_INSTS_VALU_ADD_F32", "", "2"),
            ("SQ_INSTS_VALU", "", "20"),
            ("SQ_INSTS_SALU", "", "5"),
            ("FETCH_SIZE", "", "1"),
            ("WRITE_SIZE", "", "1"),
        ]
        text = "\n".join([head, *(f'"k","3","{n}","{u}","{v}","{v}","{v}"' for n, u, v in rows)])
        (k,) = read(write(text + "\n")).launches
        # Three times 64 x (2 x 10 + 2), 2 KiB, 4 x 20 + 5.
        assert (k.count, k.flops, k.bytes_at("DRAM"), k.instructions) == (3, 4224, 6144, 255)

    @pytest.mark.parametrize(
        ("fetch", "write_", "time", "seconds"),
        [
            # Four KiB read and two written, in 12.5 µs, each time.
            (("4", ""), ("2", ""), ("12.5", "us"), 12.5e-6),
            (("4096", "bytes"), ("2048", "byte"), ("12500", "ns"), 12.5e-6),
            (("4", "KB"), ("2", "kilobytes"), ("0.0125", "ms"), 12.5e-6),
            (("4", "KiB"), ("0.001953125", "MiB"), ("12.5", "usecond"), 12.5e-6),
            (("0.004096", "MB"), ("2", "kB"), ("12.5", "%"), None),
        ],
    )
    def test_the_unit_of_a_metric_is_obeyed(self, write, fetch, write_, time, seconds):
        rows = [("FetchSize", *fetch), ("WriteSize", *write_), ("time", *time)]
        text = '"Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
        text += "".join(f'"k","{n}","{unit}","{value}"\n' for n, value, unit in rows)
        (k,) = read(write(text)).launches
        assert k.bytes_at("DRAM") == 4096 + 2048
        assert k.time_s == (None if seconds is None else pytest.approx(seconds))


RW_NC_UC_CC = ("RW", "NC", "UC", "CC")

PERF = """# started on Fri

1000,,fp_arith_inst_retired.scalar_double:u,100,100.00,,
500,,fp_arith_inst_retired.256b_packed_double:u,100,100.00,,
<not supported>,,amx_ops_retired.bf16,0,100.00,,
2.00,MiB,uncore_imc/cas_count_read/,100,100.00,,
1.00,MiB,uncore_imc/cas_count_write/,100,100.00,,
2000000,ns,duration_time,2000000,100.00,,
"""


class TestCpu:
    def test_perf_stat(self, write):
        samples = read(write(PERF, "app.csv"))
        (run,) = samples.launches
        # 1000 x 1 + 500 x 4.
        assert (run.name, run.flops) == ("app", 3000)
        assert run.bytes_at("DRAM") == 3 * 2**20
        assert run.time_s == pytest.approx(2e-3)
        assert samples.notes == ("amx_ops_retired.bf16 was not counted",)

    PRINTED = """
 Performance counter stats for './app 64' (2 runs):

          1,255.53 msec task-clock:u                     #    0.978 CPUs utilized    ( +-  0.59% )
     1,000,000,500      fp_arith_inst_retired.scalar_double:u #  0.8 G/sec  (49.77%)
               500      fp_arith_inst_retired.256b_packed_double
   <not supported>      amx_ops_retired.bf16
              2.50 MiB  uncore_imc/cas_count_read/
              1.50 MiB  uncore_imc/cas_count_write/

        1.20250000 +- 0.0021 seconds time elapsed  ( +-  0.18% )

       1.190000000 seconds user
       0.010000000 seconds sys
"""
    GERMAN: ClassVar = str.maketrans(",.", ".,")

    @pytest.mark.parametrize(
        "change",
        [
            lambda t: t,
            lambda t: t.translate(TestCpu.GERMAN).replace("seconds,", "seconds."),
            lambda t: t.replace("1,000,000,500", "1 000 000 500").replace("1,255", "1 255"),
            lambda t: t.replace("1,000,000,500", "1\u202f000\u202f000\u202f500"),
            lambda t: t.replace("2 runs", "its output: 7 cycles"),
            lambda t: t.replace("        1,0", "S0  8    1,0").replace("      500 ", "S0  8  500 "),
            lambda t: t.replace("    1,0", "CPU0    1,0").replace("     500 ", "CPU12  500 "),
            lambda t: "the program's own 17 lines\n" + t,
        ],
    )
    def test_perf_stat_as_printed(self, write, change):
        text = change(self.PRINTED)
        for name in ("fp_arith_inst_retired", "amx_ops_retired"):
            text = text.replace(f"{name},", f"{name}.")
        samples = read(write(text, "run.txt"))
        (run,) = samples.launches
        assert run.flops == 1_000_000_500 + 4 * 500
        assert run.bytes_at("DRAM") == 4 * 2**20
        assert run.time_s == pytest.approx(1.2025)
        assert "amx_ops_retired.bf16 was not counted" in samples.notes
        assert any("counted 49" in note for note in samples.notes)

    def test_requests_to_memory_without_a_unit_are_lines(self, write):
        text = "100,,unc_m_cas_count.rd,9,100.00,,\n60,,unc_m_cas_count.wr,9,100.00,,\n"
        (run,) = read(write(text)).launches
        assert run.bytes_at("DRAM") == 64 * 160

    def test_semicolons_and_a_decimal_comma(self, write):
        text = PERF.replace(",", ";").replace("2.00;MiB", "2,50;MiB")
        text = text.replace("1.00;MiB", "1,50;MiB")
        assert read(write(text)).launches[0].bytes_at("DRAM") == 4 * 2**20

    @pytest.mark.parametrize(
        "lead", ["CPU0,", "S0,1,", "S0-D0-C0,1,", "     1.000123,", "     1.000123,S0,1,"]
    )
    def test_columns_before_the_value(self, write, lead):
        lines = PERF.splitlines()
        text = "\n".join([f"{lead}{x}" if x[:1].isdigit() or x[:1] == "<" else x for x in lines])
        assert read(write(text)).launches[0].flops == 3000

    @pytest.mark.parametrize(
        ("events", "flops", "size"),
        [
            # AMD Zen 4: reads and writes of the memory controllers; Zen 2: beats of channels.
            (
                {
                    "fp_ret_sse_avx_ops.all": 500,
                    "amd_umc_0/umc_cas_cmd.rd/": 3,
                    "amd_umc_0/umc_cas_cmd.wr/": 1,
                },
                500,
                256,
            ),
            ({"fp_ret_sse_avx_ops.all": 5, "dram_channel_data_controller_0": 4}, 5, 256),
            ({"fp_ret_sse_avx_ops.all": 5, "ls_any_fills_from_sys.dram_io_all": 2}, 5, 128),
            ({"fp_fixed_ops_spec": 30, "fp_scale_ops_spec": 12, "ll_cache_miss_rd": 1}, 42, 64),
            ({"fp_arith_inst_retired.512b_packed_single": 2, "longest_lat_cache.miss": 1}, 32, 64),
        ],
    )
    def test_other_processors(self, write, events, flops, size):
        text = "".join(f"{v},,{n},100,100.00,,\n" for n, v in events.items())
        (run,) = read(write(text)).launches
        assert (run.flops, run.bytes_at("DRAM")) == (flops, size)

    def test_lines_of_json(self, write):
        rows = [("3.0", "", "fp_ret_sse_avx_ops.all:u"), ("2000", "ns", "duration_time")]
        text = "".join(
            f'{{"counter-value" : "{v}", "unit" : "{u}", "event" : "{e}", '
            '"event-runtime" : 100, "pcnt-running" : 100.00}\n'
            for v, u, e in rows
        )
        (run,) = read(write(text, "run.json")).launches
        assert (run.flops, run.time_s) == (3, pytest.approx(2e-6))

    def test_matrix_tiles_are_not_countable(self, write):
        (run,) = read(write("7,,amx_ops_retired.bf16,9,100.00,,\n3,,cycles,9,100.00,,\n")).launches
        assert (run.state, run.flops) == (Known.NOT_COUNTABLE, None)

    def test_scaled_counts_are_named(self, write):
        text = PERF.replace("scalar_double:u,100,100.00", "scalar_double:u,100,25.10")
        assert any("25.10 % of the time" in note for note in read(write(text)).notes)

    LIKWID_CSV = (
        "STRUCT,Info,3,,\nCPU name:,Intel Xeon Platinum 8480+,,,\nCPU clock:,2.0 GHz,,,\n"
        "TABLE,Region main,Group 1 Raw,MEM_DP,5\n"
        "Event,Counter,HWThread 0,HWThread 1\nINSTR_RETIRED_ANY,FIXC0,100,200\n"
        "TABLE,Region main,Group 1 Metric,MEM_DP,5\n"
        "Metric,HWThread 0,HWThread 1\n"
        "Runtime (RDTSC) [s],0.5,0.5\n"
        "DP [MFLOP/s],1000,3000\n"
        "Memory data volume [GBytes],1.5,0\n"
        "TABLE,Region main,Group 1 Metric STAT,MEM_DP,5\n"
        "Metric,Sum,Min,Max,Avg\n"
        "Runtime (RDTSC) [s] STAT,1.0,0.5,0.5,0.5\n"
        "DP [MFLOP/s] STAT,4000,1000,3000,2000\n"
        "Memory data volume [GBytes] STAT,1.5,0,1.5,0.75\n"
    )
    LIKWID_TEXT = """
--------------------------------------------------------------------------------
CPU name:\tIntel Xeon Platinum 8480+
CPU type:\tIntel SapphireRapids processor
--------------------------------------------------------------------------------
the program said, "hello
--------------------------------------------------------------------------------
Region main, Group 1: MEM_DP
+-------------------+------------+------------+
|    Region Info    | HWThread 0 | HWThread 1 |
+-------------------+------------+------------+
| RDTSC Runtime [s] |   0.500000 |   0.500000 |
+-------------------+------------+------------+
|       Event       | Counter | HWThread 0 | HWThread 1 |
| INSTR_RETIRED_ANY |  FIXC0  |        100 |        200 |
+-----------------------------+------------+------------+
|            Metric           | HWThread 0 | HWThread 1 |
+-----------------------------+------------+------------+
|     Runtime (RDTSC) [s]     |     0.5000 |     0.5000 |
|         DP [MFLOP/s]        |  1000.0000 |  3000.0000 |
| Memory data volume [GBytes] |     1.5000 |          0 |
+-----------------------------+------------+------------+
|               Metric             |  Sum   | Min  |  Max | Avg  |
|     Runtime (RDTSC) [s] STAT     |    1.0 |  0.5 |  0.5 |  0.5 |
|         DP [MFLOP/s] STAT        | 4000.0 | 1000 | 3000 | 2000 |
| Memory data volume [GBytes] STAT |    1.5 |    0 |  1.5 | 0.75 |
"""

    @pytest.mark.parametrize("text", [LIKWID_CSV, LIKWID_TEXT])
    def test_likwid(self, write, text):
        samples = read(write(text))
        (region,) = samples.launches
        assert region.name == "Region main Group 1 MEM_DP"
        # 4 GFLOP/s for half a second; the table of sums is the same region again.
        assert (region.flops, region.time_s) == (2_000_000_000, 0.5)
        assert region.bytes_at("DRAM") == 1_500_000_000
        assert samples.device_name == "Intel Xeon Platinum 8480+"
