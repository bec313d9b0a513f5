"""``gambrel import`` and ``gambrel collect``: reports, files, roofs, and errors on one line."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Gambrel
from tests.traces.ncu_files import Kernel, dram, fp32, time_ns, write

KERNELS = [
    Kernel(
        "void saxpy<float>(float *, int)",
        fp32(0, 0, 10**6) | time_ns(10_000) | dram(12 * 10**6),
    ),
    Kernel("<script>alert(1)</script>", fp32(10**6, 0, 0) | time_ns(40_000) | dram(10**6)),
    Kernel("no_counters", time_ns(50_000) | dram(10**6)),
]
ROOFS = ("--peak", "10T", "--bandwidth", "1T")


@pytest.fixture
def report() -> str:
    Path("kernels.csv").write_text(write(KERNELS))
    return "kernels.csv"


def test_json(gambrel: Gambrel, report: str) -> None:
    done = gambrel("import", report, *ROOFS, "--json")
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert (data["type"], data["schema_version"]) == ("gambrel/samples", 2)
    saxpy = next(k for k in data["kernels"] if "saxpy" in k["name"])
    # 2e6 FLOP and 12e6 byte in 10 us: 200 GFLOP/s, 1.2 TB/s of 1 TB/s.
    assert saxpy["flops"] == 2_000_000
    assert saxpy["flop_per_s"] == pytest.approx(2e11)
    assert saxpy["levels"][0]["arithmetic_intensity"] == pytest.approx(1 / 6)
    assert (saxpy["bound"], saxpy["binding"]) == ("memory", "DRAM")
    assert saxpy["roofline_efficiency"] == pytest.approx(1.2)
    assert saxpy["attainable_flop_per_s"] == pytest.approx(2e11 / 1.2)
    assert "120% of the DRAM roof" in saxpy["warnings"][0]
    unknown = next(k for k in data["kernels"] if k["name"] == "no_counters")
    assert (unknown["flops"], unknown["state"], unknown["bound"]) == (None, "missing", None)


def test_table_lists_and_warns(gambrel: Gambrel, report: str) -> None:
    out = gambrel("import", report, *ROOFS, "--roofline").out
    assert "saxpy<float>" in out
    assert "missing" in out
    assert "120% of the DRAM roof" in out
    assert "◆" in out or "●" in out
    assert "no_counters" not in gambrel("import", report, *ROOFS, "--top", "0").err


def test_top(gambrel: Gambrel, report: str) -> None:
    out = gambrel("import", report, *ROOFS, "--top", "1").out
    assert "2 more take 50.0% of the" in out


def test_files(gambrel: Gambrel, report: str) -> None:
    names = ["a.html", "a.svg", "a.png", "a.pdf", "a.csv", "a.json"]
    words = [word for name in names for word in ("-o", name)]
    assert gambrel("import", report, *ROOFS, *words).code == 0
    page = Path("a.html").read_text()
    # The page's own script alone; names are escaped.
    # Its data, which the browser does not run, and its own script; names cannot end the data.
    assert page.count("<script") == 2
    assert "<script>alert(1)" not in page
    assert "alert(1)" in page
    assert Path("a.svg").read_text().startswith("<svg")
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a.pdf").read_bytes().startswith(b"%PDF")
    assert len(json.loads(Path("a.json").read_text())["kernels"]) == 3


def test_csv_reads_back(gambrel: Gambrel, report: str) -> None:
    gambrel("import", report, *ROOFS, "-o", "a.csv")
    rows = list(csv.DictReader(io.StringIO(Path("a.csv").read_text())))
    assert rows[0]["state"] == "missing"
    again = json.loads(gambrel("import", "a.csv", *ROOFS, "--json").out)
    assert sorted(str(k["flops"]) for k in again["kernels"]) == ["1000000", "2000000", "None"]


def test_work_that_the_user_knows(gambrel: Gambrel, report: str) -> None:
    words = ("--flops", "no_counters=5e6", "--json")
    data = json.loads(gambrel("import", report, *ROOFS, *words).out)
    assert data["total"]["flops"] == 8_000_000


def test_device_of_the_catalog(gambrel: Gambrel, report: str) -> None:
    done = gambrel("import", report, "--hardware", "a10", "--json")
    assert json.loads(done.out)["hardware"]["id"] == "a10"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.csv", b"", "is empty"),
        ("noise.bin", bytes(range(256)) * 8, "no known format; it begins with the bytes 00 01 02"),
        ("cut.csv", write(KERNELS)[:150].encode(), "no kernel"),
        ("x.ncu-rep", b"NVR\0\1\2", "ncu --import x.ncu-rep --csv"),
        ("cut.json", b'{"schemaVersion": 1, "traceEvents": [{"ph": "X"', "cut off"),
    ],
)
def test_broken_files(gambrel: Gambrel, name: str, content: bytes, said: str) -> None:
    Path(name).write_bytes(content)
    done = gambrel("import", name)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("import", "none.csv"), "cannot read none.csv"),
        (("import", "."), "is a folder"),
        (("import", "kernels.csv", "-o", "a.xyz"), "unknown file suffix"),
        (("import", "kernels.csv", "--by", "colour"), "unknown grouping"),
        (("import", "kernels.csv", "--peak", "1T"), "--peak 989T --bandwidth 3.35T"),
        (("import", "kernels.csv", "-d", "a10", "--peak", "1T"), "not both"),
        (("import", "kernels.csv", "--flops", "x"), "write NAME=NUMBER"),
        (("import", "kernels.csv", "--flops", "zzz=1"), "no kernel of that name"),
        (("collect", "ncu", "-d", "mi300x"), "needs an NVIDIA GPU"),
    ],
)
def test_wrong_words(gambrel: Gambrel, report: str, words: tuple[str, ...], said: str) -> None:
    done = gambrel(*words)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err


def test_collect_by_chip(gambrel: Gambrel) -> None:
    ampere = gambrel("collect", "ncu", "-d", "a100", "--", "python", "my file.py").out
    assert "sm__ops_path_tensor_src_bf16_dst_fp32.sum," in ampere
    assert "python 'my file.py' > kernels.csv" in ampere
    assert "fp8" not in ampere
    hopper = gambrel("collect", "ncu", "-d", "h100-sxm5-80gb").out
    assert "sm__ops_path_tensor_src_fp8.sum," in hopper
    assert re.search(r"op_hgmma_src_fp16_sparsity_off\.sum\.peak_sustained", hopper)
    orin = gambrel("collect", "ncu", "-d", "jetson-agx-orin-64gb").out
    assert "dram__" not in orin


#: What the Customization Guide documents of a section: quoted texts, numbers, blocks.
SECTION_LINES = (
    r'(Identifier: "\w+"|DisplayName: "[^"\\]+"|Description: "[^"\\]+"|Order: \d+|Metrics \{|\}'
    r'|  Metrics \{ Label: "([a-z0-9_.]+)" Name: "\2" \})'
)


def test_section_file_for_all_chips(gambrel: Gambrel) -> None:
    out = gambrel("collect", "ncu", "--section", ".", "--", "./app").out
    assert "--section-folder . --section GambrelRoofline" in out
    lines = Path("GambrelRoofline.section").read_text().splitlines()
    assert [x for x in lines if not re.fullmatch(SECTION_LINES, x)] == []
    names = [x.split('"')[1] for x in lines if x.startswith("  ")]
    assert len(names) == len(set(names))
    # Counters of Turing, of Ada and Hopper, and of Blackwell.
    for source in ("src_fp16_bf16_tf32_dst_fp32", "src_fp8", "src_fp4_dst_fp32"):
        assert f"sm__ops_path_tensor_{source}.sum" in names


def test_section_file_for_one_chip(gambrel: Gambrel) -> None:
    gambrel("collect", "ncu", "--section", ".", "-d", "a100", "--", "./app")
    text = Path("GambrelRoofline.section").read_text()
    assert '"sm__ops_path_tensor_src_bf16_dst_fp32.sum"' in text
    assert "fp8" not in text


def test_collect_for_others(gambrel: Gambrel) -> None:
    assert "record_shapes=True" in gambrel("collect", "kineto").out
    compile(gambrel("collect", "kineto").out, "record.py", "exec")
    late = gambrel("collect", "rocprof", "-d", "mi300x", "--", "./a b").out
    assert "TCC_EA0_RDREQ_sum" in late
    assert "-- './a b'" in late
    assert "MFMA_MOPS_F8" in late
    later = gambrel("collect", "rocprof", "-d", "mi355x").out
    assert "TCC_EA0_RDREQ_128B_sum" in later
    assert "TCC_BUBBLE" not in later
    first = gambrel("collect", "rocprof", "-d", "mi100").out
    assert "MFMA_MOPS" not in first
    assert "instruction roofline" in first
    assert "amd_umc" in gambrel("collect", "perf", "-d", "epyc-9654").out
    assert "fp_arith_inst_retired" in gambrel("collect", "perf", "-d", "xeon-8480+").out


def test_collect_runs(gambrel: Gambrel) -> None:
    # There is no profiler here: the shell says so, and so does the exit code.
    done = gambrel("collect", "ncu", "-d", "a100", "--run", "--", "true")
    assert done.code == 2
    assert "exit code 127" in done.err


def test_two_runs(gambrel: Gambrel, report: str) -> None:
    slower = [
        Kernel(k.name, k.metrics | time_ns(2 * k.metrics["gpu__time_duration.sum"][0]))
        for k in KERNELS
    ]
    Path("old.csv").write_text(write(slower))
    words = ("import", report, *ROOFS, "--against", "old.csv")
    data = json.loads(gambrel(*words, "--json").out)["against"]
    assert data["speedup"] == pytest.approx(2)
    # 50 us of 100 us, the longest kernel.
    assert data["moves"][0]["name"] == "no_counters"
    assert data["moves"][0]["gained_s"] == pytest.approx(50e-6)
    assert "speedup 2" in gambrel(*words).out
    gambrel(*words, "-o", "m.html")
    assert "Against the other run" in Path("m.html").read_text()


def test_under_a_model(gambrel: Gambrel) -> None:
    # The head of resnet18 for two images: 2 x 2 x 512 x 1000.
    Path("p.csv").write_text("name,flops,bytes,time_us,dtype\ngemm,2048000,1e6,10,fp16\n")
    words = ("import", "p.csv", "-d", "a100", "--model", "resnet18", "--batch", "2")
    data = json.loads(gambrel(*words, "--json").out)["model"]
    assert [(r["name"], r["how"]) for r in data["rows"]] == [("fc", "work")]
    assert data["coverage_time"] == 1.0
    assert "Under the prediction" in gambrel(*words).out


def test_instructions(gambrel: Gambrel) -> None:
    inst = {"sm__inst_executed.sum": (10**6, "inst")}
    Path("i.csv").write_text(write([Kernel("k", fp32(0, 0, 0) | inst | time_ns(1000) | dram(64))]))
    out = gambrel("import", "i.csv", "-d", "a100", "--instructions").out
    assert "Instructions: i.csv" in out
    data = json.loads(gambrel("import", "i.csv", "-d", "a100", "--json").out)
    assert data["kernels"][0]["instruction_per_s"] == pytest.approx(1e12)
    assert data["kernels"][0]["flops"] == 0


def test_page_shows_what_the_table_says(gambrel: Gambrel, report: str) -> None:
    gambrel("import", report, *ROOFS, "-o", "a.html")
    page = Path("a.html").read_text()
    assert "missing" in page
    data = json.loads(re.search(r'id="gambrel-data">(.*?)</script>', page, re.S)[1])
    assert any("saxpy" in json.dumps(chart) for chart in data["views"][0]["charts"]) or any(
        "saxpy" in text for text in data["strings"]
    )
    assert "120% of the DRAM roof" in page


@pytest.mark.parametrize("command", ["import", "collect"])
def test_help_has_examples(gambrel: Gambrel, command: str) -> None:
    words = (command, "--help") if command == "import" else (command, "ncu", "--help")
    assert "Examples" in gambrel(*words).out


LONG = "a" * 300


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("import", LONG), "File name too long"),
        (("import", "pipe"), "pipe is no regular file"),
        (("import", "/dev/zero"), "/dev/zero is no regular file"),
        (("import", "k.csv", "--against", LONG), "File name too long"),
        (("import", "k.csv", "--against", "pipe"), "pipe is no regular file"),
        (("import", "k.csv", "-d", "a100", "--model", LONG), "File name too long"),
        (("import", "k.csv", "-o", f"{LONG}.html"), "File name too long"),
        (("compare-runs", LONG, LONG), "File name too long"),
        (("compare-runs", "pipe", "pipe"), "pipe is no regular file"),
        (("compare-runs", "/dev/zero", "/dev/zero"), "/dev/zero is no regular file"),
        (("collect", "ncu", "-d", "a100", "--section", LONG), "File name too long"),
        (("analyze", LONG, "-d", "a100"), "File name too long"),
    ],
)
def test_what_is_no_file_is_refused_in_one_line(
    gambrel: Gambrel, arguments: tuple[str, ...], said: str
) -> None:
    os.mkfifo("pipe")
    Path("k.csv").write_text("name,flops,bytes,time\na,1,2,3\n")
    done = gambrel(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
