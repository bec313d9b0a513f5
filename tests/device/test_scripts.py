"""The scripts that build and check the catalog."""

import csv
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gambrel.device import catalog
from gambrel.device.files import device_from_table

SCRIPTS = Path(__file__).parents[2] / "scripts"
HEADER = "device quantity value unit dense_or_sparse source_title source_url confidence note"


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("build_catalog", SCRIPTS / "build_catalog.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def row(quantity, value, confidence="primary", note="", title="Sheet [2024-05]"):
    return {
        "device": "Acme One",
        "quantity": quantity,
        "value": value,
        "unit": "x",
        "dense_or_sparse": "",
        "source_title": title,
        "source_url": "https://example.org/sheet",
        "confidence": confidence,
        "note": note,
    }


LABELS = [
    row("vendor", "Acme", "label"),
    row("class", "edge", "label"),
    row("architecture", "Gen 1", "label"),
    row("year", "2024", "label"),
]


def convert(build, *rows):
    table = {r["quantity"]: r for r in (*LABELS, *rows)}
    text = build.dump(build.convert(table, {"id": "acme-one", "name": "Acme One"}))
    return device_from_table(tomllib.loads(text), origin="test")


def test_peaks_become_ceilings_by_engine_and_sparse_peaks_stay_apart(build):
    device = convert(
        build,
        row("peak_matrix_fp16", "1e12"),
        row("peak_matrix_fp16_sparse", "2e12", "secondary (press)"),
        row("peak_matrix_fp16_fp16acc", "3e12"),
        row("peak_gpu_vector_fp32", "4e11"),
        row("peak_matrix_fp16_alt", "9e11"),
    )
    fp16 = device.ceiling("matrix", "fp16")
    assert (fp16.flop_per_s, fp16.sparse_flop_per_s) == (1e12, 2e12)
    assert (fp16.source.date, fp16.source.confidence) == ("2024-05", "primary")
    assert fp16.sparse_source.title == "Sheet (press)"
    assert device.ceiling("matrix", "fp16", "fp16").flop_per_s == 3e12
    assert device.ceiling("vector", "fp32").flop_per_s == 4e11
    assert device.fact("peak_matrix_fp16_alt").value == 9e11
    assert len(device.ceilings) == 3


def test_what_the_table_lacks_is_kept_from_the_file(build):
    table = {r["quantity"]: r for r in (*LABELS, row("l2_capacity", "2048"))}
    kept = tomllib.loads((catalog.CATALOG / "mi250x.toml").read_text(encoding="utf-8"))
    demonstrated = [{"engine": "vector", "dtype": "fp32", "flop_per_s": 9e12, "source": "x"}]
    kept |= {"demonstrated": demonstrated, "category": "edge gpu"}
    kept["sources"] |= {"x": {"title": "X", "date": "2025"}}
    device = device_from_table(tomllib.loads(build.dump(build.convert(table, kept))), origin="test")
    assert device.category == "edge gpu"
    assert device.level("L2").capacity_bytes == 2048
    assert device.level("L2").instance_bytes == 8 * 2**20
    assert device.level("registers").capacity_source.title.startswith("AMD ROCm")
    assert device.demonstrated[0].source.title == "X"


def test_blanks_are_unknown_unless_the_thing_does_not_exist(build):
    device = convert(
        build,
        row("tdp", "", note="not found"),
        row("peak_matrix_fp8", "", note="not supported on this generation"),
        row("memory_capacity", ""),
        row("dram_bandwidth", "", note="no DRAM"),
        row("memory_type", ""),
        row("sram_capacity", "1048576"),
    )
    assert device.unknown == ("tdp",)
    assert [level.name for level in device.memory] == ["SRAM"]


@pytest.mark.parametrize(
    ("note", "direction"),
    [
        ("per direction; Gen4 x16 (headline: 64 GB/s bidirectional)", "per direction"),
        ("bidirectional total; 450 GB/s per direction", "bidirectional total"),
        ("2x 200G ports, per direction", "per direction"),
        ("aggregate as quoted", "unknown"),
    ],
)
def test_the_direction_of_a_link_is_what_its_note_mentions_first(build, note, direction):
    assert (
        convert(build, row("interconnect_pcie", "1e9", note=note)).links[0].direction == direction
    )


def test_a_row_that_has_no_place_is_refused(build, tmp_path):
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEADER.split())
        writer.writeheader()
        writer.writerows([*LABELS, row("peak_quantum_fp16", "1")])
    with pytest.raises(SystemExit, match="peak_quantum_fp16 is doubled or unknown"):
        build.read_table(path)


@pytest.mark.parametrize("device_id", ["h100-sxm5-80gb", "coral-edge-tpu", "xeon-8480+"])
def test_writing_a_file_again_changes_nothing(build, device_id):
    text = (catalog.CATALOG / f"{device_id}.toml").read_text(encoding="utf-8")
    assert build.dump(tomllib.loads(text)) == text


def run(*arguments):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_check_passes_and_prints_a_row_for_every_device():
    done = run(SCRIPTS / "check_catalog.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"\n{len(catalog.list_devices())} devices, 0 violations\n")
    rows = {line.split()[0] for line in done.stdout.splitlines() if line}
    assert rows >= set(catalog.index().vendors)


def test_the_check_can_fail():
    slip = (
        "import sys, runpy\n"
        "from msgspec.structs import replace\n"
        "from gambrel.device import catalog\n"
        "real = catalog.read_files()\n"
        "wrong = replace(real[0], tdp_w=5.0, tdp_source=None)\n"
        "catalog.read_files = lambda: (wrong, *real[1:])\n"
        f"sys.path.insert(0, {str(SCRIPTS)!r})\n"
        f"runpy.run_path({str(SCRIPTS / 'check_catalog.py')!r}, run_name='__main__')"
    )
    done = run("-c", slip)
    assert done.returncode == 1
    assert "tdp has no source: VIOLATION" in done.stdout
