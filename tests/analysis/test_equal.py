"""Equal ops cost the same: counting one for all changes no figure."""

import msgspec
import pytest

from gambrel.analysis.equal import classes_of
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.precision import casts_of
from gambrel.capture import zoo
from gambrel.ops import Conventions, cost
from tests.analysis.small import perceptron


@pytest.mark.parametrize(
    "name", ["resnet18", "bert-base", "llama-3-8b-decode", "mamba-130m", "yolov8n", "swin-t"]
)
def test_shared_costs_are_those_of_each_op(name):
    workload = zoo.load(name)
    values, casts = workload.resolve_symbols({}), casts_of(workload, "int8")
    assert len(set(classes_of(workload))) < len(workload.ops)
    evaluator = Evaluator(workload, values, casts, Conventions())
    views = [evaluator.op(op) for op in workload.ops]
    alone = [(op, view, cost(view)) for op, view in zip(workload.ops, views, strict=True)]
    assert list(evaluator.costs()) == alone


def test_ops_that_share_memory_otherwise_are_not_equal():
    workload = perceptron()
    matmul = next(op for op in workload.ops if op.kind == "matmul")
    first, *rest = matmul.inputs
    # The same shapes, but one tensor read twice: its bytes count once.
    tensors = workload.tensors
    twin = msgspec.structs.replace(tensors[first], storage=max(t.storage for t in tensors) + 1)
    both = msgspec.structs.replace(
        workload,
        tensors=(*tensors, twin),
        ops=(
            msgspec.structs.replace(matmul, inputs=(first, first, *rest)),
            msgspec.structs.replace(matmul, inputs=(first, len(tensors), *rest)),
        ),
    )
    assert len(set(classes_of(both))) == 2
