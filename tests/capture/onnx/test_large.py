"""Large files: read by their structure, refused by their count of nodes."""

import itertools

import pytest

import gambrel
from gambrel.capture.onnx.reader import read_onnx
from gambrel.errors import FileFormatError
from tests.capture.onnx.models import array, model, node, value


def varint(number):
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def field(number, content, length=None):
    return varint(number << 3 | 2) + varint(len(content) if length is None else length) + content


def test_a_file_beyond_the_limit_of_protobuf(tmp_path):
    """Six gigabytes within the file, none of which are on the disk or read."""
    rows, columns = 30_000, 50_000
    held = 4 * rows * columns
    built = model([node("MatMul", "x w", "y")], [value("x", [2, rows])], [value("y", None)])
    graph = built.graph.SerializeToString()
    built.ClearField("graph")
    # dims, data type FLOAT, name, then the tag and the length of raw_data
    head = b"\x08" + varint(rows) + b"\x08" + varint(columns) + b"\x10\x01" + field(8, b"w")
    head += varint(9 << 3 | 2) + varint(held)
    inner = varint(5 << 3 | 2) + varint(len(head) + held) + head
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.write(built.SerializeToString())
        file.write(field(7, graph + inner, len(graph) + len(inner) + held))
        file.truncate(file.tell() + held)
    assert path.stat().st_size > 2**32
    analysis = gambrel.analyze(str(path), "h100")
    assert analysis.model.parameters == rows * columns
    assert int(analysis.total.matrix_flops) == 2 * 2 * rows * columns


def test_too_many_nodes_are_refused(tmp_path):
    one = field(1, node("Relu", "x", "y").SerializeToString())
    built = model([node("Relu", "x", "y")], [value("x", [2])], [value("y", None)])
    graph = built.graph.SerializeToString() + one * 450_000
    built.ClearField("graph")
    path = tmp_path / "m.onnx"
    path.write_bytes(built.SerializeToString() + field(7, graph))
    with pytest.raises(FileFormatError, match="more than 400,000 nodes"):
        read_onnx(path)


def test_functions_that_multiply_are_refused(tmp_path, monkeypatch):
    """Each calls the one before ten times: ten billion nodes from seventy lines."""
    from onnx import helper

    def function(level):
        inner = "Relu" if level == 0 else f"F{level - 1}"
        domain = "" if level == 0 else "mine"
        names = ["x", *(f"t{i}" for i in range(9)), "y"]
        nodes = [node(inner, a, b, domain=domain) for a, b in itertools.pairwise(names)]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
        return helper.make_function("mine", f"F{level}", ["x"], ["y"], nodes, opsets)

    built = model(
        [node("F9", "x", "y", domain="mine")],
        [value("x", [2])],
        [value("y", None)],
        [array("unused", 1)],
        domains=["mine"],
        functions=[function(i) for i in range(10)],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(built.SerializeToString())
    monkeypatch.setattr("gambrel.capture.onnx.walk._MAX_VISITS", 20_000)
    with pytest.raises(FileFormatError, match="more than 20,000 nodes to walk"):
        read_onnx(path)
