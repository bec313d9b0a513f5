"""Small ONNX models for tests."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper


def value(name, shape, kind=onnx.TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def array(name, *shape, dtype=np.float32):
    return numpy_helper.from_array(np.ones(shape, dtype), name)


def given(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes, inputs, outputs, stored=(), *, opset=18, domains=(), functions=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(stored))
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def save(path, *args, **kwargs):
    path.write_bytes(model(*args, **kwargs).SerializeToString())
    return path
