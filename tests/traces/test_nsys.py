"""Nsight Systems: databases with full and with poor schemas, overlaps, NVTX, damage."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from gambrel.analysis.samples import Known
from gambrel.errors import FileFormatError
from gambrel.traces import read

KERNELS = [(0, 100, 1, 10), (50, 150, 2, 10), (200, 260, 3, 11)]


def make(path, nvtx=True, columns="demangledName INTEGER, gridX INTEGER"):
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(10, "gemm"), (11, "relu")])
    base.execute(
        'CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, "end" INT, correlationId INT, '
        f"{columns})"
    )
    places = ", ".join("?" * (3 + columns.count(",") + 1))
    rows = [(*k, 64) if "," in columns else k for k in KERNELS]
    base.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({places})", rows)
    base.execute("CREATE TABLE TARGET_INFO_GPU (name TEXT)")
    base.execute("INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA A100-SXM4-80GB')")
    if nvtx:
        base.execute('CREATE TABLE NVTX_EVENTS (start INT, "end" INT, text TEXT, globalTid INT)')
        base.execute("INSERT INTO NVTX_EVENTS VALUES (0, 40, 'forward', 7)")
        base.execute("INSERT INTO NVTX_EVENTS VALUES (5, 15, 'layer 1', 7)")
        base.execute(
            'CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, "end" INT, correlationId INT, '
            "globalTid INT)"
        )
        calls = [(10, 11, 1, 7), (20, 21, 2, 7), (90, 91, 3, 7)]
        base.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?)", calls)
    base.commit()
    base.close()
    return path


def test_kernels_by_range(tmp_path):
    samples = read(make(tmp_path / "r.sqlite"))
    found = {(s.name, s.group): (s.count, s.time_s) for s in samples.launches}
    assert found == {
        ("gemm", "layer 1"): (1, pytest.approx(100e-9)),
        ("gemm", "forward"): (1, pytest.approx(100e-9)),
        ("relu", ""): (1, pytest.approx(60e-9)),
    }
    assert all(s.state is Known.MISSING for s in samples.launches)
    assert samples.device_name == "NVIDIA A100-SXM4-80GB"
    # 0 to 150 and 200 to 260 busy, 150 to 200 idle.
    assert samples.spans == pytest.approx({"busy": 210e-9, "idle": 50e-9})


def test_poor_schema(tmp_path):
    path = make(tmp_path / "r.sqlite", nvtx=False, columns="shortName INTEGER")
    found = {s.name: (s.count, s.time_s) for s in read(path).launches}
    assert found == {"gemm": (2, pytest.approx(200e-9)), "relu": (1, pytest.approx(60e-9))}


def test_other_database(tmp_path):
    base = sqlite3.connect(tmp_path / "o.db")
    base.execute("CREATE TABLE t (a)")
    base.commit()
    base.close()
    with pytest.raises(FileFormatError, match="no table CUPTI_ACTIVITY_KIND_KERNEL"):
        read(tmp_path / "o.db")


def test_damaged(tmp_path):
    path = make(tmp_path / "r.sqlite")
    data = path.read_bytes()
    for size in (20, 100, 5000):
        path.write_bytes(data[:size])
        with pytest.raises(FileFormatError):
            read(path)


def test_private_reports_name_the_command(tmp_path):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"\x01\x02")
    with pytest.raises(FileFormatError, match="nsys export --type sqlite"):
        read(path)
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(b"NVR\0")
    with pytest.raises(FileFormatError, match=r"ncu --import .* --csv --page raw"):
        read(path)


def test_other_databases_say_what_to_export(tmp_path):
    path = tmp_path / "results.db"
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE rocpd_kernel_dispatch_00ab (id INTEGER)")
        base.commit()
    with pytest.raises(
        FileFormatError, match=r"rocpd convert -i .*results\.db --output-format csv"
    ):
        read(path)


@pytest.mark.parametrize(
    ("name", "head", "said"),
    [
        ("r.ncu-rep", b"NVR", r"export it \(no GPU needed\): ncu --import"),
        ("r.nsys-rep", b"abc", "nsys export --type sqlite"),
        ("r.pftrace", b"\n\x10abc", "rocprofv3 --kernel-trace --output-format csv"),
        ("perf.data", b"PERFILE2\0\0", "perf stat -x, -o run.csv"),
    ],
)
def test_private_formats_say_what_to_export(tmp_path, name, head, said):
    (tmp_path / name).write_bytes(head)
    with pytest.raises(FileFormatError, match=said):
        read(tmp_path / name)
