"""Outputs that nothing uses are dropped; everything else stays."""

from gambrel.workload import Op, Role, Tensor, Workload
from gambrel.workload.prune import drop_unused_outputs


def tensor(storage, role=Role.ACTIVATION):
    return Tensor(shape=(2,), dtype="fp32", storage=storage, role=role)


def pooled(outputs, *, later=()):
    return Workload(
        name="pool",
        dtype="fp32",
        tensors=(tensor(0, Role.INPUT), tensor(1), tensor(2), tensor(3)),
        ops=(Op(kind="pooling", inputs=(0,), outputs=(1, 2)), *later),
        outputs=outputs,
    )


def test_unread_indices_are_dropped_and_tensors_renumbered():
    found = drop_unused_outputs(pooled((1,)))
    assert found.ops[0].outputs == (1,)
    assert [t.storage for t in found.tensors] == [0, 1]


def test_what_a_later_op_reads_stays():
    later = (Op(kind="unpool", inputs=(2,), outputs=(3,)),)
    found = drop_unused_outputs(pooled((3,), later=later))
    assert found.ops[0].outputs == (1, 2)


def test_what_the_model_returns_stays():
    assert drop_unused_outputs(pooled((1, 2))).ops[0].outputs == (1, 2)


def test_the_first_output_stays_even_if_unused():
    assert drop_unused_outputs(pooled((2,))).ops[0].outputs == (1, 2)


def test_states_that_are_written_stay():
    w = pooled((1,))
    cached = (*w.tensors[:2], tensor(2, Role.KV_CACHE), w.tensors[3])
    found = drop_unused_outputs(
        Workload(name="c", dtype="fp32", tensors=cached, ops=w.ops, outputs=(1,))
    )
    assert found.ops[0].outputs == (1, 2)
