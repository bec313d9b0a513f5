"""What has been measured and published is possible: no limit and no verdict may deny it."""

import csv
import dataclasses

import pytest

import gambrel
from gambrel.advise.figures import facts_of, figure
from gambrel.device.catalog import load
from gambrel.device.lookup import find
from gambrel.device.onchip import on_chip

from .rows import FOLDER, Row, exceptions, files, rows, sample
from .sol import sol_s

#: Every n-th group of rows is tried unless ``--all-published`` is given.
STRIDES = {
    "edge_aihub": 4,
    "kernelbench": 4,
    "mlperf_inference": 4,
    "pytorch_kernels": 4,
    "serving": 15,
}
#: Files whose models are captured with torch.
CAPTURED = {"kernelbench", "edge_aihub"}


def causes(row: Row) -> str:
    """Why less work than is counted may do; empty where nothing may be faster."""
    if row.model == "bert-large" and row.file == "mlperf_inference":
        return "inputs shorter than 384 tokens are not padded"
    if row.model == "op:conv" and (row.numbers["kernel"], row.numbers["stride"]) == (3, 1):
        return "Winograd's algorithm takes fewer FLOPs for a 3x3 convolution"
    return ""


@pytest.fixture
def chosen(request):
    """Returns ``chosen(file)``: the rows to try."""

    def rows_of(file: str) -> list[Row]:
        stride = 1 if request.config.getoption("--all-published") else STRIDES.get(file, 1)
        return list(sample(file, stride))

    return rows_of


def beats_light(row: Row) -> bool:
    limit = sol_s(row)
    if limit is None and on_chip(load(row.device)).assumed:
        return False  # everything may stay on the chip, as far as its maker says
    assert limit is not None, f"no limit for {row.key}"
    return row.seconds < limit


@pytest.mark.parametrize("file", files())
def test_no_published_run_is_faster_than_light(file, chosen, request):
    if file in CAPTURED:
        pytest.importorskip("torch")
    tried = chosen(file)
    faster = {row.key: causes(row) for row in tried if beats_light(row)}
    if request.config.getoption("--update-golden"):
        _write(file, faster)
        return
    listed = {row for (name, row) in exceptions() if name == file}
    listed &= {row.key for row in tried}
    unexplained = sorted(faster.keys() - listed)
    assert not unexplained, "faster than light:\n" + "\n".join(unexplained)
    stale = sorted(listed - faster.keys())
    assert not stale, "no exception any more, take it from the list:\n" + "\n".join(stale)


def _write(file: str, faster: dict[str, str]) -> None:
    """Rewrites the exceptions of a file; run with --all-published --update-golden, unsplit."""
    missing = [row for row, cause in faster.items() if not cause]
    assert not missing, "faster than light without a known cause:\n" + "\n".join(missing)
    path = FOLDER / "exceptions.csv"
    kept = [(f, row, cause) for (f, row), cause in exceptions().items() if f != file]
    exceptions.cache_clear()
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("file", "row", "cause"))
        writer.writerows(sorted([*kept, *((file, row, cause) for row, cause in faster.items())]))


def test_a_run_that_is_too_fast_would_be_noticed():
    row = rows("contract")[0]
    assert not beats_light(row)
    assert beats_light(dataclasses.replace(row, value=row.value * 4))


def test_every_exception_names_a_row():
    known = {(file, row.key) for file in files() for row in rows(file)}
    assert exceptions().keys() <= known
    assert all(exceptions().values())


def test_rows_have_keys_of_their_own():
    for file in files():
        keys = [(row.key, row.quantity, row.source, row.note) for row in rows(file)]
        assert len(keys) == len(rows(file))


def test_every_device_is_in_the_catalog():
    devices = {row.device for file in files() for row in rows(file)}
    assert {find(device).device.id for device in devices} == devices


def test_the_data_are_small():
    assert sum(p.stat().st_size for p in FOLDER.rglob("*") if p.is_file()) < 1.5e6


# --- Verdicts -----------------------------------------------------------------------------------


def verdict(row: Row, target: float) -> str:
    """The verdict on a published figure as a target, without a runtime and without a batch."""
    limit = {"throughput": target} if row.quantity == "throughput_per_s" else {"latency": target}
    question = {"batch_size": row.batch, "sizes": row.numbers or None}
    checked = gambrel.check(row.model, row.device, precision=row.precision, **limit, **question)
    return str(checked.verdict)


#: Models whose work is the same in every run; language models are served, not checked.
CHECKED = ("resnet", "vit-", "yolov8", "wide-", "densenet", "convnext", "deit", "swin", "mobilenet")


@pytest.mark.parametrize("share", [1, 0.65, 0.1])
def test_no_target_of_the_contract_fails(share):
    tried = list(rows("contract"))
    failed = [row.key for row in tried if verdict(row, row.value * share) == "FAIL"]
    assert not failed


@pytest.mark.parametrize(
    "file",
    ["mlperf_inference", "edge_aihub", "edge_hailo", "edge_rknn"],
)
def test_no_published_figure_fails(file, chosen):
    tried = [r for r in chosen(file) if r.model.startswith(CHECKED)]
    fastest = {}
    for row in sorted(tried, key=lambda r: -r.seconds):
        fastest[row.model, row.device, row.precision] = row
    failed = [row.key for row in fastest.values() if verdict(row, row.value) == "FAIL"]
    assert not failed, "FAIL for what has been measured:\n" + "\n".join(failed)


def test_the_energy_of_a_hailo_8_is_capped_by_its_slowest_time():
    """ResNet-50 v1 at 1,372 frames a second (Hailo Model Zoo); typical power is another figure."""
    found = gambrel.analyze("resnet50", hardware="hailo-8", batch_size=8)
    assert found.sol_time_s / 8 <= 1 / 1372
    energy = figure(facts_of(found), "energy")
    assert energy.worst == pytest.approx(8.65 * found.expected_time_s.high / 8)
    assert energy.worst >= 8.65 / 1372
    assert energy.value == pytest.approx(2.5 * found.expected_time_s.value / 8)
    answer = gambrel.check("resnet50", hardware="hailo-8", throughput=1372)
    assert answer.verdict.value != "FAIL"
