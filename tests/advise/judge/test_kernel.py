"""A recorded kernel as the reference: the limits of what it did, by hand."""

import pytest

import gambrel
from gambrel.advise.judge.records import Ruling
from gambrel.cli import run
from gambrel.errors import InputError
from gambrel.traces.ncu.cut import is_ncu
from tests.traces.kineto_files import kernel, launch, mm, trace

#: m = 4096, n = 4096, k = 4096 in fp16 on an A100: 2 mnk over 312 TFLOP/s is 440.5 us.
WORK = 2 * 4096**3
GEMM = "matmul:m=4096,n=4096,k=4096,fp16"
COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC", "dram__bytes.sum", "gpu__time_duration.sum",
)  # fmt: skip
UNITS = ("",) * 11 + ("byte", "ns")
LAUNCH = ("0", "1", "a", "h", "copy", "1", "7", "(256, 1, 1)", "(256, 1, 1)", "0", "8.0", "2000000",
          "2000")  # fmt: skip
NCU = "".join(",".join(f'"{x}"' for x in line) + "\n" for line in (COLUMNS, UNITS, LAUNCH))


@pytest.fixture
def recording(tmp_path):
    """Three launches of one size and one of another."""
    events = []
    for i, (took, side) in enumerate(((500, 4096), (520, 4096), (900, 4096), (10, 64))):
        ts = 2000 * i
        events += [
            mm(ts, i + 1, side, side, side),
            launch(ts + 1, 100 + i),
            kernel("gemm_fp16", ts + 20, took, 100 + i, i + 1),
        ]
    path = tmp_path / "trace.json"
    path.write_text(trace(events))
    return str(path)


def test_a_kernel_is_judged_by_the_work_that_it_did(recording):
    found = gambrel.judge(recording, kernel="gemm")
    assert found.hardware == "a100-sxm4-80gb"  # as the trace says
    assert found.measured_time_s == pytest.approx(520e-6)
    assert found.limits.matrix_flops == WORK
    assert found.limits.traffic_bytes == 3 * 4096**2 * 2
    assert found.limits.cold_time_s == pytest.approx(WORK / 312e12, rel=1e-3)
    assert found.score == pytest.approx(WORK / 312e12 / 520e-6, rel=1e-3)
    assert found.ruling is Ruling.AT_LIMIT or found.ruling is Ruling.HEADROOM
    assert any("1 launches of this kernel do other work" in n for n in found.notes)


def test_a_time_of_ones_own_is_held_against_the_same_work(recording):
    found = gambrel.judge(recording, "100us", "a100", kernel="gemm")
    assert found.ruling is Ruling.IMPOSSIBLE
    assert found.origin == "as given"


def test_a_time_of_another_device_is_not_judged(recording):
    """The trace says that it is of an A100."""
    for question in ({"model": recording}, {"model": GEMM, "recording": recording}):
        found = gambrel.judge(hardware="h100", kernel="gemm", **question)
        assert found.ruling is Ruling.UNKNOWN
        assert found.score is None
        assert found.reason.startswith("measured on a100-sxm4-80gb, which says nothing about h100")
        own = gambrel.judge(hardware="a100", kernel="gemm", **question)
        assert own.ruling in {Ruling.AT_LIMIT, Ruling.HEADROOM, Ruling.LIBRARY}


def test_a_time_of_a_processor_is_not_judged_on_a_gpu(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(trace([mm(0, 1, 64, 64, 64)]))
    found = gambrel.judge(GEMM, hardware="h100", recording=path, kernel="mm")
    assert (found.ruling, found.score) == (Ruling.UNKNOWN, None)
    assert found.reason == "measured on a processor, which says nothing about h100-sxm5-80gb"
    single = GEMM.replace("fp16", "fp32")  # it has no engine for fp16
    assert gambrel.judge(single, hardware="epyc-9654", recording=path, kernel="mm").score > 0


def test_the_command_line_judges_a_recorded_kernel(recording, capsys):
    assert run(["judge", recording, "--kernel", "gemm"]) == 0
    assert "from the shapes of the op that launched it" in capsys.readouterr().out
    assert run(["judge", recording, "--kernel", "gemm", "-d", "h100", "--limits"]) == 0
    assert "h100" in capsys.readouterr().out
    assert run(["judge", recording, "--kernel", "softmax"]) == 2
    assert "gemm_fp16" in capsys.readouterr().err


def test_work_that_no_counter_counted_gets_no_score(tmp_path):
    assert is_ncu(NCU)
    path = tmp_path / "report.csv"
    path.write_text(NCU)
    found = gambrel.judge(str(path), hardware="a100", kernel="copy")
    assert found.ruling is Ruling.UNKNOWN
    assert found.score is None
    assert found.limits.matrix_flops is None
    assert found.limits.traffic_bytes == 2_000_000
    # The bytes crossed the memory, so that a shorter time is impossible all the same.
    assert found.limits.sol_time_s == pytest.approx(2e6 / 2.039e12, rel=1e-3)


def test_a_file_without_launches_is_refused(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("{}")
    with pytest.raises((InputError, gambrel.errors.FileFormatError)):
        gambrel.judge(str(path), hardware="a100", kernel="x")
