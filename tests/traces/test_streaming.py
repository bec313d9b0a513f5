"""Tables are read line by line: what shows late in a file holds for what came early, too."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from gambrel.errors import FileFormatError
from gambrel.traces import launches, read, source
from gambrel.traces.ncu import reader
from gambrel.traces.ncu.reader import from_text
from tests.traces.ncu_files import LAYOUTS, Kernel, dram, fp32, time_ns, write


def kernels(count, process=lambda _: "1"):
    return [
        Kernel(
            f"k{i % 3}",
            fp32(1000 + i, 2000, 3000) | time_ns(1_000_000 + i) | dram(4096),
            process=process(i),
        )
        for i in range(count)
    ]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(reader, "_BATCH", 100)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_locale_that_shows_late(layout):
    # 1.234 is ambiguous; the proof, two decimals behind a comma, stands in the last launch.
    early = [Kernel("k", time_ns(1234) | {"x__rate.avg": (2500, "")}) for _ in range(50)]
    late = Kernel("k", time_ns(1234) | {"x__rate.avg": (0.25, "")})
    found = from_text(write([*early, late], layout, "de_DE"), "f.csv")
    assert [s.time_s for s in found.launches] == pytest.approx([1.234e-6] * 51)
    assert "decimal comma" in found.notes[0]


def test_a_second_locale_names_both_lines():
    first = write([Kernel("k", {"x__a.sum": (1234567.5, "")})], "wide", "C")
    second = write([Kernel("k", {"x__a.sum": (1234567.5, "")})], "wide", "de_DE")
    with pytest.raises(
        FileFormatError, match=r"1234567.50' \(line 3\) and '1.234.567,50' \(line 6"
    ):
        from_text(first + second, "f.csv")


@pytest.mark.parametrize("layout", ["long", "long_old"])
def test_rows_in_any_order(layout):
    heading, *rows = write(kernels(40), layout).splitlines(keepends=True)
    ordered = from_text(heading + "".join(rows), "f.csv")
    random.Random(1).shuffle(rows)
    mixed = from_text(heading + "".join(rows), "f.csv")
    key = lambda s: (s.time_s, s.flops, s.bytes_at("DRAM"), s.name)  # noqa: E731
    assert sorted(map(key, mixed.launches)) == sorted(map(key, ordered.launches))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_second_process_that_shows_late(layout):
    found = from_text(write(kernels(60, lambda i: "7" if i > 55 else "1"), layout), "f.csv")
    origins = [s.origin for s in found.launches]
    assert (
        origins[0]
        == origins[55]
        == "process 1 on 127.0.0.1, device " + ("?" if layout == "long_old" else "0")
    )
    assert origins[56] == origins[59] != origins[0]
    one = from_text(write(kernels(60), layout), "f.csv")
    assert {s.origin for s in one.launches} == {""}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_very_many_launches_are_added_up(layout, monkeypatch):
    text = write(kernels(90), layout)
    whole = from_text(text, "f.csv")
    monkeypatch.setattr(launches, "MOST_SINGLE", 20)
    added = from_text(text, "f.csv")
    assert len(whole.launches) == 90
    assert len(added.launches) < 30
    assert sum(s.count for s in added.launches) == 90
    # 90 x (1000 + 2000 + 6000) + 0 + 1 + ... + 89
    assert sum(s.flops for s in added.launches) == 814_005
    assert "90 launches; those of one kernel and shape are added up" in added.notes
    assert added.device_name == whole.device_name


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(launches, "MOST_SINGLE", 100)
    path = tmp_path / "k.csv"

    def peak(count):
        path.write_text(write(kernels(count), "wide"))
        tracemalloc.start()
        read(path)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(10)  # what is imported and cached at first
    few, many = peak(2000), peak(8000)
    assert many < few + 300_000  # bytes; the file has grown by 700,000
    assert path.stat().st_size > 900_000


@pytest.mark.parametrize("format_", ["ncu", "points", "rocprof", "perf", "likwid"])
def test_a_line_without_end_is_refused_by_its_number(format_, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "LONGEST_LINE", 1000)
    head = {
        "ncu": write(kernels(2), "wide"),
        "points": "name,flops,time\na,1,2\n",
        "rocprof": "Kernel_Name,Start_Timestamp,End_Timestamp\nk,1,2\n",
        "perf": "1,,cycles,5,100.00,,\n2,,instructions,5,100.00,,\n",
        "likwid": "TABLE,Region main,Group 1 Metric,MEM_DP,5,\nRuntime (RDTSC) [s],0.5\n",
    }[format_]
    path = tmp_path / "f.csv"
    path.write_text(head + "x" * 5000)
    line = head.count("\n") + 1
    with pytest.raises(FileFormatError, match=rf"f\.csv, line {line}: longer than 1,000"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(encoding, tmp_path):
    path = tmp_path / "f.csv"
    path.write_bytes(write([Kernel("größe", time_ns(1000))]).encode(encoding))
    assert read(path).launches[0].name == "größe"


def test_dispatches_whose_rows_come_apart(tmp_path):
    path = tmp_path / "c.csv"
    head = "Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value\n"
    path.write_text(
        head + "1,k,FETCH_SIZE,3\n2,j,FETCH_SIZE,1\n1,k,WRITE_SIZE,1\n2,j,WRITE_SIZE,0\n"
    )
    found = read(path).launches
    assert [(s.name, s.bytes_at("DRAM")) for s in found] == [("k", 4096), ("j", 1024)]


def test_points_of_one_name_and_a_late_locale(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("name;bytes;time_ms;m\ngemm;1.024;2;1\ngemm;1.024;2,5;2\n")
    found = read(path).launches
    assert [(s.name, s.bytes_at("DRAM"), s.time_s) for s in found] == [
        ("gemm [m=1]", 1024, 2e-3),
        ("gemm [m=2]", 1024, 2.5e-3),
    ]
