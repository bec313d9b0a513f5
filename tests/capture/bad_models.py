"""One small graph in every format that stores a graph, with a fault where a test asks for one."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gambrel.protobuf import packed, varint


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a graph of ReLUs is to be.

    Attributes:
        shape: Of each tensor.
        op: In place of a ReLU; a name that no format has.
        count: How many.
        cyclic: Whether the first reads what the last makes.
    """

    shape: tuple[int, ...] = (2, 4)
    op: str = ""
    count: int = 1
    cyclic: bool = False


def onnx_file(wanted: Wanted) -> bytes:
    """Nodes that repeat are the same bytes."""
    import onnx

    from tests.capture.onnx.models import model, node, value

    op = wanted.op or "Relu"
    if wanted.cyclic:
        nodes = [node(op, "b", "a"), node(op, "a", "b")]
        return model(nodes, [], [value("b", None)]).SerializeToString()
    made = model([node(op, "x", "y")], [value("x", wanted.shape)], [value("y", None)])
    if wanted.count == 1:
        return made.SerializeToString()
    graph = made.graph.SerializeToString() + packed(1, node(op, "x", "z").SerializeToString()) * (
        wanted.count - 1
    )
    rest = onnx.ModelProto(ir_version=9, opset_import=made.opset_import)
    return rest.SerializeToString() + packed(7, graph)


def openvino_file(wanted: Wanted) -> bytes:
    """Layers behind one parameter."""
    dims = "".join(f"<dim>{n}</dim>" for n in wanted.shape)
    port = f'<port id="0" precision="FP32">{dims}</port>'
    shape = ",".join(map(str, wanted.shape))
    first = f'<layer id="0" name="x" type="Parameter" version="opset1"><data shape="{shape}" '
    first += f'element_type="f32"/><output>{port}</output></layer>'
    kind, edges = wanted.op or "ReLU", []
    layers = []
    for i in range(1, wanted.count + 1):
        out = port.replace('"0"', '"1"', 1)
        layers.append(
            f'<layer id="{i}" name="n" type="{kind}" version="opset1"><input>{port}</input>'
            f"<output>{out}</output></layer>"
        )
        source = wanted.count if wanted.cyclic else 0
        port_of = 1 if wanted.cyclic else 0
        edges.append(
            f'<edge from-layer="{source}" from-port="{port_of}" to-layer="{i}" to-port="0"/>'
        )
    body = f"<layers>{first}{''.join(layers)}</layers><edges>{''.join(edges)}</edges>"
    return f'<?xml version="1.0"?><net name="m" version="11">{body}</net>'.encode()


def tflite_file(wanted: Wanted) -> bytes:
    """Operators that repeat are one table named many times."""
    import flatbuffers
    import tflite as t

    b = flatbuffers.Builder(1024)

    def numbers(values: tuple[int, ...] | list[int]) -> int:
        b.StartVector(4, len(values), 4)
        for n in reversed(values):
            b.PrependInt32(n)
        return int(b.EndVector())

    def tables(offsets: list[int]) -> int:
        b.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            b.PrependUOffsetTRelative(offset)
        return int(b.EndVector())

    tensors = []
    for name in ("x", "y"):
        text, shape = b.CreateString(name), numbers(wanted.shape)
        t.TensorStart(b)
        t.TensorAddShape(b, shape)
        t.TensorAddName(b, text)
        tensors.append(t.TensorEnd(b))
    given, made = numbers([1 if wanted.cyclic else 0]), numbers([1])
    t.OperatorStart(b)
    t.OperatorAddInputs(b, given)
    t.OperatorAddOutputs(b, made)
    operators = [t.OperatorEnd(b)] * wanted.count
    inputs, outputs = numbers([] if wanted.cyclic else [0]), numbers([1])
    listed, running = tables(tensors), tables(operators)
    t.SubGraphStart(b)
    t.SubGraphAddTensors(b, listed)
    t.SubGraphAddInputs(b, inputs)
    t.SubGraphAddOutputs(b, outputs)
    t.SubGraphAddOperators(b, running)
    graphs = [t.SubGraphEnd(b)]
    custom = b.CreateString(wanted.op)
    t.OperatorCodeStart(b)
    number = t.BuiltinOperator.CUSTOM if wanted.op else t.BuiltinOperator.RELU
    t.OperatorCodeAddDeprecatedBuiltinCode(b, number)
    t.OperatorCodeAddBuiltinCode(b, number)
    t.OperatorCodeAddCustomCode(b, custom)
    codes = tables([t.OperatorCodeEnd(b)])
    subgraphs = tables(graphs)
    t.ModelStart(b)
    t.ModelAddVersion(b, 3)
    t.ModelAddOperatorCodes(b, codes)
    t.ModelAddSubgraphs(b, subgraphs)
    b.Finish(t.ModelEnd(b), file_identifier=b"TFL3")
    return bytes(b.Output())


def coreml_file(wanted: Wanted) -> bytes:
    """An ML program; numbers of fields are those of `gambrel.capture.coreml.messages`."""

    def number(field: int, value: int) -> bytes:
        return varint(field << 3) + varint(value % 2**64)

    def named(name: str) -> bytes:
        dims = b"".join(packed(3, packed(1, number(1, n))) for n in wanted.shape)
        return packed(1, name.encode()) + packed(2, packed(1, number(1, 11) + dims))

    def operation(source: str, target: str) -> bytes:
        argument = packed(1, packed(1, source.encode()))
        entry = packed(1, b"x") + packed(2, argument)
        return packed(
            3,
            packed(1, (wanted.op or "relu").encode()) + packed(2, entry) + packed(3, named(target)),
        )

    source = "y" if wanted.cyclic else "x"
    block = packed(2, b"y") + operation(source, "y") * wanted.count
    blocks = packed(3, packed(1, b"CoreML7") + packed(2, block))
    function = packed(2, packed(1, b"main") + packed(2, packed(1, named("x")) + blocks))
    description = packed(1, packed(1, b"x"))
    return number(1, 8) + packed(2, description) + packed(502, function)


def keras_file(wanted: Wanted) -> bytes:
    """Layers of a functional model, each behind the one before."""
    layers: list[dict[str, Any]] = [
        {
            "class_name": "InputLayer",
            "name": "x",
            "module": "keras.layers",
            "config": {"batch_shape": list(wanted.shape), "dtype": "float32", "name": "x"},
            "inbound_nodes": [],
        }
    ]
    before = f"n{wanted.count - 1}" if wanted.cyclic else "x"
    for i in range(wanted.count):
        config = {"shape": list(wanted.shape), "dtype": "float32", "keras_history": [before, 0, 0]}
        argument = {"class_name": "__keras_tensor__", "config": config}
        before = f"n{i}"
        kind = wanted.op or "ReLU"
        layer = {"class_name": kind, "name": before, "config": {"name": before}}
        layers.append({**layer, "inbound_nodes": [{"args": [argument], "kwargs": {}}]})
    config = {"name": "m", "layers": layers, "input_layers": [["x", 0, 0]]}
    config["output_layers"] = [[before, 0, 0]]
    return keras_archive(json.dumps({"class_name": "Functional", "config": config}))


def keras_archive(config: str | bytes) -> bytes:
    """The archive around a configuration."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", b"")
    return made.getvalue()


def stablehlo_file(wanted: Wanted) -> bytes:
    """Values are made once: a circle is one that is read before it is made."""
    form = "x".join([*map(str, wanted.shape), "f32"])
    op = wanted.op or "stablehlo.negate"
    first = "%0" if wanted.cyclic else "%arg0"
    lines = [
        f'  %{i} = "{op}"({first}) : (tensor<{form}>) -> tensor<{form}>'
        for i in range(wanted.count)
    ]
    head = f"func.func public @main(%arg0: tensor<{form}>) -> tensor<{form}> {{"
    tail = f"  return %{wanted.count - 1} : tensor<{form}>\n}}"
    return "\n".join(["module @m {", head, *lines, tail, "}"]).encode()


def hlo_file(wanted: Wanted) -> bytes:
    """The text of a dump."""
    form = f"f32[{','.join(map(str, wanted.shape))}]"
    op = wanted.op or "negate"
    first = "n0" if wanted.cyclic else "x"
    lines = [f"  n{i} = {form} {op}({first})" for i in range(wanted.count - 1)]
    last = f"  ROOT n{wanted.count - 1} = {form} {op}({first})"
    start = f"  x = {form} parameter(0)"
    return "\n".join(["HloModule m", "", "ENTRY e {", start, *lines, last, "}"]).encode()


#: Ending → a graph in that format.
GRAPHS: dict[str, Callable[[Wanted], bytes]] = {
    ".onnx": onnx_file,
    ".tflite": tflite_file,
    ".xml": openvino_file,
    ".mlmodel": coreml_file,
    ".keras": keras_file,
    ".mlir": stablehlo_file,
    ".hlo": hlo_file,
}


def write(path: Path, content: bytes) -> Path:
    """The file, and its path."""
    path.write_bytes(content)
    return path
