"""Nodes by their plain names, by what they write, and names that several have."""

import pytest

pytest.importorskip("onnx")

from gambrel.capture.onnx.reader import read_onnx
from gambrel.capture.part import part_of
from gambrel.errors import InputError, UnknownNameError
from gambrel.workload import serialize
from tests.capture.onnx.models import array, node, save, value


@pytest.fixture
def workload(tmp_path):
    """Two products of other sizes with one name, and one without a name between them."""
    nodes = [
        node("MatMul", "x first", "a", name="fc"),
        node("MatMul", "a second", "b"),
        node("MatMul", "b third", "c", name="fc"),
        node("Relu", "c", "out", name="act_1"),
    ]
    stored = [array("first", 8, 16), array("second", 16, 32), array("third", 32, 4)]
    path = tmp_path / "named.onnx"
    save(path, nodes, [value("x", (2, 8))], [value("out", (2, 4))], stored)
    return read_onnx(path)


@pytest.mark.parametrize(("name", "sides"), [("a", (8, 16)), ("b", (16, 32)), ("c", (32, 4))])
def test_a_node_is_named_by_what_it_writes(workload, name, sides):
    (op,) = part_of(workload, name).ops
    assert (op.sizes["k"], op.sizes["n"]) == sides


def test_a_node_is_named_by_its_name(workload):
    (op,) = part_of(workload, "act_1").ops
    assert op.attrs["function"] == "relu"


def test_a_name_of_several_nodes_is_refused_with_what_they_write(workload):
    with pytest.raises(InputError, match="named has 2 ops 'fc': a, c; name one of them"):
        part_of(workload, "fc")


def test_the_closest_names_are_told(workload):
    with pytest.raises(UnknownNameError, match="'act_2'; closest: act_1"):
        part_of(workload, "act_2")


def test_names_are_saved_and_files_without_them_are_read(workload):
    written = serialize.dumps(workload)
    assert [op.labels for op in serialize.loads(written).ops] == [op.labels for op in workload.ops]
