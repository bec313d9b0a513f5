"""The graph as an ONNX file whose nodes carry their figures, for Netron and other viewers.

Structure only: weights have shapes and number formats and no data, so that the file is small, and
nodes are of the domain ``gambrel``, as their attributes are those of the cost formulas. Every
source has one, also a model that never was ONNX.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gambrel._version import __version__
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.precision import casts_of
from gambrel.analysis.result import Analysis, OpResult
from gambrel.errors import require
from gambrel.ops import Conventions
from gambrel.report.exports.schedule import paired, workload_of
from gambrel.workload import Op, Role, Workload

#: Names of gambrel.dtypes → onnx.TensorProto.DataType; what ONNX lacks is shown as bytes.
_TYPES: Final[dict[str, int]] = {
    "fp32": 1,
    "uint8": 2,
    "int8": 3,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "fp16": 10,
    "fp64": 11,
    "complex64": 14,
    "complex128": 15,
    "bf16": 16,
    "fp8": 17,
    "int4": 22,
    "fp4": 23,
}
_BYTES: Final = 2
#: Version of the domain and of the file's format (ONNX 1.14).
_VERSION, _IR_VERSION = 1, 9
#: Kind → type of node, where ONNX has a name that viewers colour.
_NODES: Final[dict[str, str]] = {
    "convolution": "Conv",
    "matmul": "MatMul",
    "attention": "Attention",
    "softmax": "Softmax",
    "embedding": "Gather",
    "interpolation": "Resize",
    "pooling": "MaxPool",
}
_FUNCTIONS: Final[dict[str, str]] = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "gelu": "Gelu",
    "silu": "Swish",
    "add": "Add",
    "mul": "Mul",
    "layer_norm": "LayerNormalization",
    "batch_norm": "BatchNormalization",
    "cat": "Concat",
    "mean": "ReduceMean",
}
_HELD: Final = frozenset({Role.WEIGHT, Role.BUFFER, Role.CONSTANT})


def annotated_graph(analysis: Analysis) -> bytes:
    """The file.

    Raises:
        MissingExtraError: The package onnx is not installed.
        InputError: The analysis came without its workload.
    """
    require("onnx", "onnx", "writing an .onnx file")
    from onnx import helper

    graph = _Graph(analysis)
    made = helper.make_graph(
        list(graph.nodes()),
        analysis.model.name,
        inputs=graph.given(),
        outputs=graph.returned(),
        initializer=graph.held(),
    )
    model = helper.make_model(
        made,
        producer_name="gambrel",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("gambrel", _VERSION), helper.make_opsetid("", 18)],
        ir_version=_IR_VERSION,
    )
    helper.set_model_props(model, _totals(analysis))
    content: bytes = model.SerializeToString()
    return content


class _Graph:
    """Names of tensors and the nodes between them."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._workload: Workload = workload_of(analysis)
        casts = casts_of(self._workload, analysis.model.precision)
        conventions = Conventions(**analysis.conventions)
        self._sizes = Evaluator(self._workload, analysis.model.symbols, casts, conventions)
        self._latest: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._first: dict[int, int] = {}

    def nodes(self) -> Iterator[Any]:
        """One node for each op, and one for each view that an op reads."""
        from onnx import helper

        for number, (op, row) in enumerate(paired(self._analysis)):
            inputs = []
            for index in op.inputs:
                name, view = self._read(index)
                if view is not None:
                    yield view
                inputs.append(name)
            outputs = [self._write(index, number) for index in op.outputs]
            node = helper.make_node(
                _node_type(op),
                inputs,
                outputs,
                name=f"{number} {row.name}",
                domain="gambrel",
                doc_string=op.source or None,
            )
            for key, value in self._attributes(op).items():
                node.attribute.append(helper.make_attribute(key, value))
            for key, value in _figures(row).items():
                entry = node.metadata_props.add()
                entry.key, entry.value = key, value
            yield node

    def _attributes(self, op: Op) -> dict[str, Any]:
        """Sizes at these values and attributes of the formula."""
        sizes: dict[str, Any] = {}
        for name, value in self._sizes.op(op).sizes.items():
            if isinstance(value, tuple):
                sizes |= {name: [int(n) for n in value]} if value else {}
            else:
                sizes[name] = int(value)
        attrs = {k: int(v) if isinstance(v, bool) else v for k, v in op.attrs.items()}
        return {**sizes, **attrs, "kind": op.kind, "framework_op": op.name}

    def _read(self, index: int) -> tuple[str, Any]:
        """The name of a tensor, and the node of a view of what was written under another form."""
        from onnx import helper

        if index in self._names:
            return self._names[index], None
        tensor = self._workload.tensors[index]
        source = self._latest.get(tensor.storage)
        if source is None:
            name = f"{tensor.name or tensor.role.value} {tensor.storage}"
            self._names[index], self._latest[tensor.storage] = name, name
            self._first[tensor.storage] = index
            return name, None
        name = f"{source} view {index}"
        self._names[index] = name
        return name, helper.make_node("View", [source], [name], name=name, domain="gambrel")

    def _write(self, index: int, number: int) -> str:
        storage = self._workload.tensors[index].storage
        name = f"t{index} of {number}"
        self._names[index] = self._latest[storage] = name
        return name

    def given(self) -> list[Any]:
        """What goes in: inputs, caches, states. Read after `nodes`."""
        return [
            self._info(name, index)
            for name, index in self._sources()
            if self._workload.tensors[index].role not in _HELD
        ]

    def held(self) -> list[Any]:
        """Weights without data."""
        import onnx

        found = []
        for name, index in self._sources():
            if self._workload.tensors[index].role not in _HELD:
                continue
            view = self._sizes.tensor(index)
            tensor = onnx.TensorProto(
                name=name, dims=[int(n) for n in view.shape], data_type=_type(view.dtype)
            )
            tensor.data_location = onnx.TensorProto.EXTERNAL
            place = tensor.external_data.add()
            place.key, place.value = "location", "weights_are_not_part_of_this_file"
            found.append(tensor)
        return found

    def _sources(self) -> list[tuple[str, int]]:
        return [(self._names[index], index) for index in self._first.values()]

    def returned(self) -> list[Any]:
        """What comes out."""
        found = {}
        for index in self._workload.outputs:
            name = self._names.get(index) or self._latest.get(self._workload.tensors[index].storage)
            if name is not None:
                found[name] = self._info(name, index)
        return list(found.values())

    def _info(self, name: str, index: int) -> Any:
        from onnx import helper

        view = self._sizes.tensor(index)
        return helper.make_tensor_value_info(name, _type(view.dtype), [int(n) for n in view.shape])


def _type(dtype: str) -> int:
    return _TYPES.get(dtype, _BYTES)


def _node_type(op: Op) -> str:
    function = str(op.attrs.get("function", ""))
    return _NODES.get(op.kind) or _FUNCTIONS.get(function) or function or op.kind


def _figures(row: OpResult) -> dict[str, str]:
    """Figures of all executions of an op; what is not known says so."""
    m = row.measures
    expected = m.expected_time_s
    unknown = row.state.value == "unmodelled"
    return {
        "gambrel.matrix_flops": "unknown" if unknown else str(m.matrix_flops),
        "gambrel.vector_flops": "unknown" if unknown else str(m.vector_flops),
        "gambrel.read_bytes": "unknown" if unknown else str(m.read_bytes),
        "gambrel.write_bytes": "unknown" if unknown else str(m.write_bytes),
        "gambrel.bound": "unknown" if m.bound is None else m.bound.value,
        "gambrel.roofline_time_s": _said(m.roofline_time_s),
        "gambrel.expected_time_s": _said(None if expected is None else expected.value),
        "gambrel.executions": str(row.count),
        "gambrel.shapes": row.shapes,
    }


def _said(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


def _totals(analysis: Analysis) -> dict[str, str]:
    total = analysis.total
    expected = total.expected_time_s
    return {
        "gambrel.device": analysis.hardware.name,
        "gambrel.runtime": analysis.runtime,
        "gambrel.precision": analysis.model.precision,
        "gambrel.matrix_flops": str(total.matrix_flops),
        "gambrel.coverage": f"{analysis.coverage:.4f}",
        "gambrel.sol_time_s": _said(total.sol_time_s),
        "gambrel.roofline_time_s": _said(total.roofline_time_s),
        "gambrel.expected_time_s": _said(None if expected is None else expected.value),
    }
