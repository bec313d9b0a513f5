"""The committed table of limits is what the code gives; ``benchmarks/kernelbench_limits.py``."""

import csv
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")

from gambrel.analysis.question import ask
from gambrel.analysis.workbench import Machine
from gambrel.api.analyze import settings_of
from gambrel.api.problems import rows_of
from gambrel.device.catalog import list_devices, load

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "benchmarks" / "results" / "kernelbench_limits.csv"
PROBLEMS = ROOT / "tests" / "data" / "published" / "kernelbench"
#: Without a published rate: none at present.
UNKNOWN: set[str] = set()
DEVICES = ("h100-sxm5-80gb", "a100-sxm4-80gb", "l4", "mi300x", "jetson-agx-orin-64gb")


@pytest.fixture(scope="module")
def table():
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return {row["problem"]: row for row in csv.DictReader(stream)}


@pytest.mark.parametrize("name", ["level1_100_HingeLoss", "level2_12_Gemm_Multiply_LeakyReLU"])
def test_the_table_is_what_the_code_gives(table, name):
    settings = settings_of(ask("limits", {"model": "resnet50", "hardware": "a100"}))
    path = PROBLEMS / f"{name}.py"
    if not path.is_file():
        pytest.skip("not among the problems that are kept here")
    for row in rows_of(path, [Machine(load(device), settings) for device in DEVICES]):
        assert f"{row.cold_time_s * 1e3:.3g}" == table[name][row.hardware]


def test_the_table_has_every_gpu_and_a_limit_for_each(table):
    gpus = {d.id for d in list_devices() if "gpu" in d.category.lower()}
    levels = Counter(name.partition("_")[0] for name in table)
    assert levels == {"level1": 100, "level2": 100, "level3": 50}
    assert gpus <= set(next(iter(table.values())))
    assert all(row["bound"] in {"compute", "memory"} for row in table.values())
    for path in PROBLEMS.glob("level*.py"):
        assert _without(table[path.stem]) <= UNKNOWN


def test_where_a_problem_is_not_at_hand_only_later_devices_lack_its_limit(table):
    """Half of the problems are not kept here: GPUs that came later have no limit for them."""
    gaps = {frozenset(_without(row) - UNKNOWN) for row in table.values()}
    assert len(gaps - {frozenset()}) <= 1  # the same devices everywhere
    assert not frozenset().union(*gaps) & {*DEVICES, "rtx-4090", "t4", "m4-max", "b200-hgx-180gb"}


def _without(row):
    return {device for device, cell in row.items() if not cell}
