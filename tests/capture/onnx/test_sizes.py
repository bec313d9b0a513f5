"""Dimensions that a file leaves open."""

import pytest

import gambrel
from gambrel.capture.onnx.reader import read_onnx
from gambrel.errors import WorkloadError
from tests.capture.onnx.models import array, node, save, value


def linear(tmp_path, *dims):
    return str(
        save(
            tmp_path / "m.onnx",
            [node("MatMul", "x w", "y")],
            [value("x", [*dims, 8])],
            [value("y", None)],
            [array("w", 8, 4)],
        )
    )


def flops(path, **more):
    return int(gambrel.analyze(path, "h100", **more).total.matrix_flops)


@pytest.mark.parametrize("name", ["N", "batch_size", "batch", None])
def test_the_batch_is_open_under_its_usual_name(tmp_path, name):
    path = linear(tmp_path, name)
    assert [s.name for s in read_onnx(path).symbols] == ["batch"]
    assert flops(path) == 2 * 8 * 4
    assert flops(path, batch_size=6) == 6 * 2 * 8 * 4


def test_the_name_of_the_file_works_as_well(tmp_path):
    path = linear(tmp_path, "N")
    assert flops(path, sizes={"N": 8}) == 8 * 2 * 8 * 4


def test_sizes_without_a_usual_value_are_named(tmp_path):
    path = linear(tmp_path, "N", "frames")
    workload = read_onnx(path)
    assert {s.name: s.default for s in workload.symbols} == {"batch": 1, "frames": 128}
    assert "frames=128" in workload.assumptions[-1]
    assert flops(path, batch_size=2, sizes={"frames": 10}) == 2 * 10 * 2 * 8 * 4
    assert "frames" not in " ".join(read_onnx(path, {"frames": 10}).assumptions)


def test_an_expression_of_sizes(tmp_path):
    path = linear(tmp_path, "N", "2*n_mels + 1")
    assert flops(path, sizes={"n_mels": 3}) == 7 * 2 * 8 * 4


def test_one_capture_answers_a_sweep(tmp_path):
    workload = read_onnx(linear(tmp_path, "N"))
    assert workload.ops[0].sizes["m"] == "batch"


def test_more_open_sizes_than_polynomials_take_are_read_again(tmp_path):
    path = linear(tmp_path, "N", "a", "b", "c")
    assert flops(path, batch_size=2, sizes={"a": 3, "b": 5, "c": 7}) == 2 * 3 * 5 * 7 * 2 * 8 * 4


def test_a_size_that_the_file_does_not_have(tmp_path):
    with pytest.raises(WorkloadError, match="has no size 'seq'; it has batch"):
        flops(linear(tmp_path, "N"), sizes={"seq": 3})
