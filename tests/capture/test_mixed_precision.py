"""Casts of automatic mixed precision that follow from ops are those that torch makes."""

from __future__ import annotations

from collections import Counter

import pytest

from gambrel.capture import zoo
from gambrel.capture.backpropagation import training_step
from gambrel.capture.mixed_precision import in_autocast
from gambrel.capture.request import Request
from gambrel.capture.resolve import resolve_model
from gambrel.workload import Phase, Workload


def _ops(workload: Workload) -> Counter[tuple[object, ...]]:
    """Ops with the formats that they read and write."""

    def formats(tensors: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(sorted(workload.tensors[i].dtype for i in tensors))

    return Counter(
        (op.kind, op.attrs.get("function"), formats(op.inputs), formats(op.outputs[:1]))
        for op in workload.ops
    )


@pytest.mark.torch
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["vit-b-16", "resnet50", "convnext-tiny", "densenet201"])
def test_casts_of_a_built_in_network_are_those_of_its_code(name: str, precision: str) -> None:
    """Given the ops alone, the same casts are found that a capture of the code records."""
    recorded = resolve_model(name, Request(autocast=precision)).workload
    assert _ops(in_autocast(zoo.load(name), precision)) == _ops(recorded)


def test_weights_are_cast_once_and_gradients_return_to_fp32() -> None:
    """In a step each weight is read in fp32 once; its update is of fp32 throughout."""
    forward = in_autocast(zoo.load("bert-base"), "fp16")
    step = training_step(forward)
    casts = [op for op in forward.ops if op.attrs.get("function") == "cast"]
    read = [forward.tensors[i].storage for op in casts for i in op.inputs]
    learned = [s for s in read if any(t.storage == s and t.name for t in forward.tensors)]
    assert learned
    assert len(learned) == len(set(learned))
    updates = [op for op in step.ops if op.phase is Phase.OPTIMIZER]
    assert {step.tensors[i].dtype for op in updates for i in op.inputs} == {"fp32"}
    products = [op for op in step.ops if op.kind == "matmul"]
    assert {step.tensors[i].dtype for op in products for i in op.inputs} == {"fp16"}


def test_norms_are_in_fp32_and_a_softmax_reads_fp16() -> None:
    """The residual stream behind a norm is in fp32; products alone are in 16 bits."""
    forward = in_autocast(zoo.load("bert-base"), "fp16")
    norms = [op for op in forward.ops if op.kind == "normalization"]
    assert norms
    assert {forward.tensors[op.outputs[0]].dtype for op in norms} == {"fp32"}
