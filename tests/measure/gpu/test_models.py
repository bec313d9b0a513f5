"""Whole models on a GPU: the benchmark, run on the processor."""

import csv
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]
if not (ROOT / "benchmarks" / "gpu_models.py").is_file():
    pytest.skip("the benchmarks are not here", allow_module_level=True)

from benchmarks import gpu_model_cases as cases  # noqa: E402
from benchmarks import gpu_model_score as score  # noqa: E402
from benchmarks import gpu_models as models  # noqa: E402

SMALL = (
    cases.Case("mlp", 2, size=4),
    cases.Case("lstm", 2, size=4),
    cases.Case("mlp", 2, "bf16", size=4, phase="training", amp=True),
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """models.csv of three small models on the processor."""
    folder = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "LEAST_S", 0.0)
        patch.setattr(torch.cuda, "get_device_name", lambda index: "a processor")
        for case in SMALL:
            found, ops = models.measured(case, models.Meter(), "cpu")
            assert found.eager_s > 0
            models.write(folder, case, found, [*ops, ("aten::mm", "[[4,512]]", 1, 2.5, "gemm")])
    return folder


def test_a_row_per_case_and_its_ops(written):
    with (written / "models.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [score.case_of(row) for row in rows] == list(SMALL)
    assert all(row["graph_s"] == "" for row in rows)  # that needs a GPU
    with (written / "ops.csv").open(newline="") as file:
        assert [row["model"] for row in csv.DictReader(file)] == ["mlp", "lstm", "mlp"]


def test_rows_are_scored(written, capsys):
    assert score.main([str(written / "models.csv"), "--hardware", "h100-sxm5-80gb"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(SMALL) + 1
    assert lines[-1].startswith("pytorch: 3 rows, ")


def test_no_case_twice_and_every_family_has_one():
    every = [*cases.cases(), *cases.compiled_cases()]
    assert len(set(cases.cases())) == len(list(cases.cases()))
    for pattern, _ in cases.FAMILIES:
        assert any(cases.re.match(pattern, case.model) for case in every)
