"""The node cases of onnx's own backend tests: each opens or is refused, with the right shapes."""

import warnings

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from gambrel.capture.files.dynamic import DataTrips
from gambrel.capture.onnx.dimensions import open_inputs
from gambrel.capture.onnx.model_file import open_model
from gambrel.capture.onnx.reader import read_onnx, trace_model
from gambrel.capture.onnx.shapes import ASSUMED
from gambrel.errors import GambrelError

#: A loop whose trip count depends on data counts once, so its stacked results are shorter.
LOOPS = ("test_loop", "test_range_")


@pytest.fixture(scope="module")
def cases(request):
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, in the references
        found = load_model_tests(kind="node")
    step = 1 if request.config.getoption("--all-differential") else 6
    return [case for case in found if case.model is not None][::step]


def with_integers(case):
    """The model with its small integer inputs as constants: axes, sizes, places."""
    built = onnx.ModelProto()
    built.CopyFrom(case.model)
    for formal, data in zip(built.graph.input, case.data_sets[0][0], strict=False):
        small = isinstance(data, np.ndarray) and data.dtype.kind in "iub" and data.size < 64
        if small and formal.type.HasField("tensor_type"):
            tensor = numpy_helper.from_array(data, formal.name)
            tensor.data_type = formal.type.tensor_type.elem_type
            built.graph.initializer.append(tensor)
    return built


def test_every_case_opens_and_its_shapes_are_the_references(cases, tmp_path):
    path = tmp_path / "m.onnx"
    wrong, refusals, opened = [], [], 0
    for case in cases:
        path.write_bytes(with_integers(case).SerializeToString())
        try:
            read_onnx(path)
        except GambrelError as error:
            refusals.append(str(error))
            continue
        opened += 1
        loaded = open_model(path)
        inputs = open_inputs(loaded.graph, {})
        hints = {d.name: d.hint for d in inputs.sizes}
        trace = trace_model(loaded, inputs, hints, DataTrips(None))
        if any(s.op in ASSUMED for s in trace.steps) or case.name.startswith(LOOPS):
            continue  # their sizes depend on data
        for edge, data in zip(trace.outputs, case.data_sets[0][1], strict=False):
            if isinstance(data, np.ndarray) and edge.shape not in (None, data.shape):
                wrong.append((case.name, edge.shape, data.shape))
    assert not wrong
    assert not [text for text in refusals if "\n" in text]
    assert opened == len(cases) > 250
