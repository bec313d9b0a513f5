"""Laws that hold for any workload: random nets of matmuls, norms, chains, in-place ops."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.analysis.fusion import Allowance, fused_costs, kernel_costs, launches
from gambrel.capture import zoo
from gambrel.ops import is_free
from gambrel.runtimes import Kernels

from .build import Net, evaluator, kernels, traffic

#: Ways to fuse, from the most traffic to the least; tiles in ever more on-chip memory.
WAYS = (
    (Kernels.OP, None),
    (Kernels.POINTWISE, None),
    (Kernels.EPILOGUE, None),
    (Kernels.TILED, None),
    (Kernels.TILED, Allowance(group_bytes=300)),
    (Kernels.TILED, Allowance(group_bytes=300, free_scores=True)),
    (Kernels.TILED, Allowance(group_bytes=10**12, free_scores=True)),
    (Kernels.WHOLE, None),
)
#: Beside them: it fuses less than the second, but folds batch norms and computes nothing again.
BESIDE = (Kernels.FUNCTION, None)


@st.composite
def workloads(draw):
    """Up to 14 ops on square tensors; each reads what came before, some write in place."""
    net = Net()
    made = [net.input(8, 8), net.input(8, 8), net.weight(8, 8)]
    for _ in range(draw(st.integers(1, 14))):
        x = draw(st.sampled_from(made[-6:]))
        z = draw(st.sampled_from(made))
        made.append(_step(net, draw(st.integers(0, 12)), x, z))
    picked = draw(st.sets(st.sampled_from(made[3:]), min_size=1, max_size=3))
    return net.workload(*picked)


def _step(net, choice, x, z):
    makers = {
        0: lambda: net.matmul(x, net.weight(8, 8)),
        1: lambda: net.matmul(x, z),
        2: lambda: net.pointwise("relu", x),
        3: lambda: net.pointwise("add", x, z),
        4: lambda: net.pointwise("mul", x, net.mean(z)),
        5: lambda: net.layer_norm(x),
        6: lambda: net.softmax(x),
        7: lambda: net.pointwise("tanh", x, into=x),
        8: lambda: net.copy(net.view(x, 8, 8)),
        9: lambda: net.pointwise("add", x, net.fill(8, 8)),
        10: lambda: net.group_norm(x, 2),
        11: lambda: net.op(
            "elementwise",
            [net.view(x, 4, 8, offset=32)],
            (4, 8),
            into=x,
            function="exp",
            sizes={"elements": 32},
        ),
        12: lambda: net.op("mystery", [x, z], (8, 8)),
    }
    made = makers[choice]()
    return made if choice != 11 else net.view(x, 8, 8)


def check(workload):
    totals = {}
    for way in (*WAYS, BESIDE):
        how, allowance = way
        found = kernels(workload, how, allowance)
        _every_op_once(workload, found, how)
        if how is not Kernels.WHOLE:
            _in_order(workload, found, constants=way == BESIDE)
        totals[way] = sum(k.traffic_bytes for k in found)
    ordered = [totals[way] for way in WAYS]
    assert ordered == sorted(ordered, reverse=True), totals
    assert ordered[0] >= totals[BESIDE] >= ordered[-1], totals


def _every_op_once(workload, found, how):
    placed = [i for k in found for i in k.ops]
    assert len(placed) == len(set(placed))
    counted = {i for i, op in enumerate(workload.ops) if not is_free(op.kind)}
    assert set(placed) <= counted
    if how is Kernels.OP:
        assert set(placed) == counted
    for kernel in found:
        assert kernel.ops == tuple(sorted(kernel.ops))
        assert not set(kernel.ops) & set(kernel.recomputed)
        assert set(kernel.op_read_bytes) | set(kernel.op_write_bytes) <= set(kernel.ops)


def _in_order(workload, found, *, constants):
    """Whoever needs a tensor runs after, or computes it itself from what ran before.

    Where there are ``constants``, what depends on nothing may have run when the model was loaded.
    """
    written, ran = {}, set()
    needs = {}
    for i, op in enumerate(workload.ops):
        if is_free(op.kind):
            continue
        needs[i] = {written.get(workload.tensors[t].storage) for t in op.inputs}
        if constants and needs[i] <= ran:
            ran.add(i)
        needs[i].discard(None)
        for t in op.outputs:
            written[workload.tensors[t].storage] = i
    for kernel in found:
        members = set(kernel.ops) | set(kernel.recomputed)
        ran |= members
        for i in members:
            assert needs[i] <= ran, (kernel, needs[i] - ran)


@given(workloads())
@settings(max_examples=300, deadline=None)
def test_laws_of_random_workloads(workload):
    check(workload)


@pytest.mark.parametrize(
    "name", ["resnet50", "mobilenet-v3-large", "swin-t", "bert-base", "gpt2", "yolov8n", "t5-small"]
)
def test_laws_of_the_zoo(name):
    check(zoo.load(zoo.find(name)[0].name))


@given(workloads())
@settings(max_examples=100, deadline=None)
def test_a_kernel_of_one_op_moves_what_the_op_says(workload):
    priced = tuple(evaluator(workload).costs())
    for kernel in kernels(workload, "op"):
        (op,) = kernel.ops
        cost = priced[op][2]
        expected = (0, 0) if cost is None else (cost.read_bytes, cost.write_bytes)
        assert (kernel.read_bytes, kernel.write_bytes) == expected


@given(workloads(), st.sampled_from(WAYS))
@settings(max_examples=100, deadline=None)
def test_costs_of_ops_add_up_to_those_of_kernels(workload, way):
    priced = tuple(evaluator(workload).costs())
    found = kernels(workload, *way)
    by_op, by_kernel = fused_costs(found, priced), kernel_costs(found, priced)
    assert sum(c.read_bytes + c.write_bytes for c in by_op.values()) == traffic(workload, *way)
    assert sum(c.read_bytes + c.write_bytes for c in by_kernel) == traffic(workload, *way)
    ran = {i for k in found for i in k.ops}
    for i, (_, _, cost) in enumerate(priced):
        if cost is not None:
            assert by_op[i].work == (cost.work if i in ran else {})
    assert sum(launches(found).values()) == sum(k.launches * k.repeat for k in found)
