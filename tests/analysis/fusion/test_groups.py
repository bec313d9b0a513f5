"""Which ops share a kernel, on nets small enough to see it."""

import pytest

from gambrel.runtimes import Kernels

from .build import Net, groups, kernels


def conv_bn_relu():
    net = Net()
    x = net.input(1, 3, 8, 8)
    y = net.pointwise("relu", net.batch_norm(net.convolution(x, 4)))
    return net, y


def test_batch_norm_and_relu_share_a_kernel_behind_their_convolution():
    net, y = conv_bn_relu()
    found = kernels(net.workload(y))
    assert [(k.ops, k.kind) for k in found] == [
        ((0,), "convolution"),
        ((1, 2), "fused pointwise"),
    ]


def test_with_epilogues_they_run_inside_the_convolution():
    net, y = conv_bn_relu()
    (only,) = kernels(net.workload(y), "epilogue")
    assert (only.ops, only.kind, only.launches) == ((0, 1, 2), "convolution", 1)


def test_alone_every_op_is_a_kernel_of_its_kind():
    net, y = conv_bn_relu()
    found = kernels(net.workload(y), "op")
    assert [(k.ops, k.kind) for k in found] == [
        ((0,), "convolution"),
        ((1,), "normalization"),
        ((2,), "elementwise"),
    ]


def test_a_whole_model_is_one_kernel():
    net, y = conv_bn_relu()
    assert [(k.ops, k.kind) for k in kernels(net.workload(y), "whole")] == [
        ((0, 1, 2), "whole model")
    ]


def test_a_residual_addition_joins_the_activation_behind_it():
    net = Net()
    x = net.input(1, 4, 8, 8)
    y = net.pointwise("relu", net.pointwise("add", net.batch_norm(net.convolution(x, 4)), x))
    assert groups(net.workload(y)) == [(0,), (1, 2, 3)]


def test_the_residual_addition_behind_a_matmul_joins_the_norm():
    net = Net()
    x = net.input(16, 32)
    stream = net.pointwise("add", net.matmul(x, net.weight(32, 32)), x)
    y = net.matmul(net.layer_norm(stream), net.weight(32, 8))
    found = kernels(net.workload(y, stream))
    assert [(k.ops, k.kind) for k in found] == [
        ((0,), "matmul"),
        ((1, 2), "fused reduction"),
        ((3,), "matmul"),
    ]


def test_softmax_takes_in_what_leads_to_it_and_what_follows():
    net = Net()
    x = net.input(4, 16, 16)
    y = net.pointwise("mul", net.softmax(net.pointwise("mul", x)), net.input(4, 16, 16))
    (only,) = kernels(net.workload(y))
    assert (only.ops, only.kind) == ((0, 1, 2), "fused reduction")


def test_loops_of_different_lengths_stay_apart():
    net = Net()
    x, z = net.input(16, 16), net.input(8, 8)
    a, b = net.pointwise("relu", x), net.pointwise("relu", z)
    assert groups(net.workload(a, b)) == [(0,), (1,)]


def test_readers_of_one_tensor_share_a_kernel():
    net = Net()
    x = net.input(16, 16)
    a, b = net.pointwise("relu", x), net.pointwise("tanh", x)
    assert groups(net.workload(a, b)) == [(0, 1)]


def test_no_cycle_through_a_library_kernel():
    """The input of a matmul and the addition that needs its result cannot run at once."""
    net = Net()
    x = net.input(8, 8)
    a = net.pointwise("relu", x)
    y = net.pointwise("add", a, net.matmul(a, net.weight(8, 8)))
    assert groups(net.workload(y)) == [(0,), (1,), (2,)]


def test_no_cycle_through_two_kernels():
    """a, then a matmul, a reduction of it over other rows, a matmul; and a joined to the end."""
    net = Net()
    x = net.input(8, 8)
    a = net.pointwise("relu", x)
    first = net.matmul(a, net.weight(8, 4))
    second = net.matmul(net.pointwise("tanh", first), net.weight(4, 8))
    y = net.pointwise("add", net.pointwise("add", x, a), second)
    found = groups(net.workload(y))
    assert found.index((0,)) < found.index((1,)) < found.index((3,))
    assert found[-1] == (4, 5)


def test_a_kernel_that_two_branches_need_runs_before_both():
    net = Net()
    x = net.input(8, 8)
    left = net.matmul(x, net.weight(8, 8))
    a = net.pointwise("relu", x)  # joins nothing before it: the matmuls are libraries
    right = net.matmul(a, net.weight(8, 8))
    y = net.pointwise("add", net.pointwise("add", left, right), a)
    found = groups(net.workload(y))
    assert found.index((1,)) < found.index((2,)) < found.index((3, 4))


def test_in_place_ops_are_ordinary_links_of_a_chain():
    net = Net()
    x = net.input(1, 4, 8, 8)
    y = net.batch_norm(net.convolution(x, 4))
    z = net.pointwise("relu", y, into=y)
    w = net.pointwise("tanh", z, into=y)
    assert groups(net.workload(w)) == [(0,), (1, 2, 3)]


def test_a_gather_runs_within_the_kernel_that_uses_it():
    net = Net()
    table, indices = net.weight(1000, 16), net.input(8, dtype="int64")
    y = net.pointwise("relu", net.embedding(table, indices))
    assert groups(net.workload(y)) == [(0, 1)]


def test_constants_are_formed_where_they_are_needed():
    net = Net()
    x = net.input(8, 8)
    y = net.pointwise("add", x, net.fill(8, 8))
    (only,) = kernels(net.workload(y))
    assert only.ops == (0, 1)
    assert only.traffic_bytes == 2 * 8 * 8 * 4  # the input and the result


def test_dead_code_belongs_to_no_kernel_but_runs_op_by_op():
    net = Net()
    x = net.input(8, 8)
    net.pointwise("tanh", net.pointwise("exp", x))
    y = net.pointwise("relu", x)
    assert groups(net.workload(y)) == [(2,)]
    assert groups(net.workload(y), "op") == [(0,), (1,), (2,)]


def test_without_known_outputs_nothing_is_dead():
    net = Net()
    net.pointwise("tanh", net.input(8, 8))
    assert groups(net.workload()) == [(0,)]


def test_what_the_host_waits_for_is_alive():
    net = Net()
    x = net.input(8, 8)
    flag = net.mean(x)
    net.op("sync", [flag], ())
    y = net.pointwise("relu", x)
    assert any(0 in ops for ops in groups(net.workload(y)))


def test_a_write_to_a_cache_is_alive_though_no_op_reads_it():
    from gambrel.workload import Role

    net = Net()
    x = net.input(4, 8)
    cache = net.tensor(32, 8, role=Role.KV_CACHE)
    net.op("scatter", [cache, x], (32, 8), into=cache, sizes={"elements": 32}, accumulate=False)
    y = net.pointwise("relu", x)
    assert any(0 in ops for ops in groups(net.workload(y)))


def test_cheap_results_are_computed_again_where_they_are_needed():
    """x + a is needed by a norm and, behind a matmul, by the next addition; it is never stored."""
    net = Net()
    x, a = net.input(16, 32), net.input(16, 32)
    stream = net.pointwise("add", x, a)
    branch = net.matmul(net.layer_norm(stream), net.weight(32, 32))
    y = net.pointwise("add", stream, branch)
    first, _, last = kernels(net.workload(y))
    assert (first.ops, first.recomputed) == ((0, 1), ())
    assert (last.ops, last.recomputed) == ((3,), (0,))
    size = 16 * 32 * 4
    assert first.write_bytes == size  # the normalized values alone
    assert last.read_bytes == 3 * size  # x, a and the branch


def test_results_of_many_tensors_are_stored():
    """A sum of five tensors with two readers is stored, not read five times by each."""
    net = Net()
    terms = [net.input(16, 32) for _ in range(5)]
    stream = terms[0]
    for term in terms[1:]:
        stream = net.pointwise("add", stream, term)
    branch = net.matmul(net.layer_norm(stream), net.weight(32, 32))
    y = net.pointwise("add", stream, branch)
    first, _, last = kernels(net.workload(y))
    size = 16 * 32 * 4
    assert first.write_bytes == 2 * size
    assert last.read_bytes == 2 * size
    assert last.recomputed == ()


def test_a_change_of_layout_does_not_join_the_norm_before_it():
    net = Net()
    x = net.input(4, 6, 8)
    normed = net.layer_norm(x)
    permuted = net.view(normed, 4, 8, 6)
    y = net.matmul(net.view(net.copy(permuted, (4, 8, 6)), 32, 6), net.weight(6, 6))
    assert (0, 1) not in groups(net.workload(y))


def test_slices_that_go_separate_ways_are_kernels_of_their_own():
    """A copy of which three library calls read a third each becomes three kernels."""
    net = Net()
    x = net.matmul(net.input(16, 8), net.weight(8, 24))
    copied = net.copy(x)
    parts = [
        net.matmul(net.view(copied, 16, 8, offset=offset), net.weight(8, 8))
        for offset in (0, 128, 256)
    ]
    (kernel,) = [k for k in kernels(net.workload(*parts)) if k.ops == (1,)]
    assert kernel.launches == 3


def test_a_group_norm_finds_its_statistics_in_a_launch_of_its_own():
    net = Net()
    x = net.convolution(net.input(1, 4, 8, 8), 4)
    y = net.convolution(net.pointwise("relu", net.group_norm(x, 2)), 4)
    _, statistics, applied, _ = kernels(net.workload(y))
    size = 4 * 8 * 8 * 4
    assert (statistics.ops, statistics.kind) == ((1,), "fused reduction")
    assert (statistics.read_bytes, statistics.write_bytes) == (size, 0)
    assert (applied.ops, applied.recomputed) == ((2,), (1,))
    assert (applied.read_bytes, applied.write_bytes) == (size, size)


def test_a_group_norm_that_is_stored_is_a_kernel_of_two_launches():
    net = Net()
    x = net.pointwise("tanh", net.pointwise("relu", net.convolution(net.input(1, 4, 8, 8), 4)))
    y = net.convolution(net.group_norm(x, 2), 4)
    _, norm, _ = kernels(net.workload(y))
    size = 4 * 8 * 8 * 4
    assert (norm.ops, norm.launches) == ((1, 2, 3), 2)
    assert (norm.read_bytes, norm.write_bytes) == (2 * size, size)


def test_ops_of_different_repetitions_stay_apart():
    net = Net()
    x = net.input(8, 8)
    y = net.pointwise("tanh", net.pointwise("relu", x, repeat=3))
    assert groups(net.workload(y)) == [(0,), (1,)]


def test_only_one_kernel_runs_inside_a_matmul():
    net = Net()
    product = net.matmul(net.input(8, 8), net.weight(8, 8))
    a = net.pointwise("relu", product)
    b = net.matmul(a, net.weight(8, 8))
    y = net.pointwise("add", b, product)
    found = groups(net.workload(y), "epilogue")
    assert sorted(found) == [(0, 1), (2, 3)]


def test_a_norm_does_not_run_inside_a_matmul():
    net = Net()
    y = net.layer_norm(net.matmul(net.input(8, 8), net.weight(8, 8)))
    assert groups(net.workload(y), "epilogue") == [(0,), (1,)]


def test_an_empty_workload_has_no_kernels():
    for how in Kernels:
        assert kernels(Net().workload(), how) == ()


def test_a_concatenation_of_few_parts_is_formed_where_it_is_read():
    net = Net()
    a, b = (net.matmul(net.input(16, 8), net.weight(8, 8)) for _ in range(2))
    y = net.matmul(net.pointwise("relu", net.cat(a, b)), net.weight(8, 8))
    joined = next(k for k in kernels(net.workload(y)) if 2 in k.ops)
    size = 16 * 8 * 4
    assert (joined.ops, joined.launches) == ((2, 3), 1)
    assert (joined.read_bytes, joined.write_bytes) == (2 * size, 2 * size)


def test_parts_that_are_also_computed_with_are_copied_to_their_places():
    """a is read by a relu as well: a and b are copied, and the relu behind reads the whole."""
    net = Net()
    a, b = (net.matmul(net.input(16, 8), net.weight(8, 8)) for _ in range(2))
    alone = net.matmul(net.pointwise("relu", a), net.weight(8, 8))
    y = net.matmul(net.pointwise("relu", net.cat(a, b)), net.weight(8, 8))
    copies = next(k for k in kernels(net.workload(alone, y)) if 4 in k.ops)
    size = 16 * 8 * 4
    assert (copies.ops, copies.launches) == ((4,), 2)
    assert (copies.read_bytes, copies.write_bytes) == (2 * size, 2 * size)


def test_a_part_of_several_concatenations_is_read_once():
    """Each part goes to both by one kernel; the second concatenation starts none and reads none."""
    net = Net()
    a, b = (net.matmul(net.input(16, 8), net.weight(8, 8)) for _ in range(2))
    outputs = [net.matmul(net.pointwise("relu", a), net.weight(8, 8))]
    for pair in ((a, b), (b, a)):
        outputs.append(net.matmul(net.pointwise("tanh", net.cat(*pair)), net.weight(8, 8)))
    found = kernels(net.workload(*outputs))
    first, second = (next(k for k in found if i in k.ops) for i in (4, 7))
    size = 16 * 8 * 4
    assert (first.launches, first.read_bytes, first.write_bytes) == (2, 2 * size, 2 * size)
    assert (second.launches, second.read_bytes, second.write_bytes) == (0, 0, 2 * size)


def test_a_loop_writes_its_part_where_it_belongs():
    """Of nine parts one comes from a relu, which writes it in place; the others are copied."""
    net = Net()
    parts = [net.matmul(net.input(16, 8), net.weight(8, 8)) for _ in range(9)]
    parts[0] = net.pointwise("relu", parts[0])
    y = net.matmul(net.cat(*parts), net.weight(8, 8))
    joined = next(k for k in kernels(net.workload(y)) if 10 in k.ops)
    size = 16 * 8 * 4
    assert joined.launches == 8
    assert (joined.read_bytes, joined.write_bytes) == (8 * size, 9 * size)


def _behind_a_norm(weight, *, view=(2, 6, 8, 8)):
    """A convolution of what a norm over the last dimension has written."""
    net = Net()
    normed = net.layer_norm(net.pointwise("relu", net.input(2, 8, 8, 6)))
    x = net.view(normed, *view)
    sizes = {"batch": 2, "in_channels": 6, "out_channels": weight[0], "groups": 6 // weight[1]}
    sizes |= {"kernel": weight[2:], "output": (8, 8), "spatial": (8, 8)}
    y = net.op("convolution", [x, net.weight(*weight)], (2, weight[0], 8, 8), sizes=sizes)
    return net.workload(y)


@pytest.mark.parametrize(
    ("weight", "copied"), [((12, 6, 3, 3), True), ((6, 1, 3, 3), False), ((12, 6, 1, 1), False)]
)
def test_weights_follow_the_layout_of_the_input(weight, copied):
    """Channels last: a launch reads and writes 12 * 6 * 3 * 3 weights; other layouts are equal."""
    _, _, plain = kernels(_behind_a_norm(weight), "op")
    norm, convolution = kernels(_behind_a_norm(weight))
    extra = 12 * 6 * 3 * 3 * 4 if copied else 0
    assert norm.launches == 1
    assert convolution.launches == (2 if copied else 1)
    assert convolution.read_bytes - plain.read_bytes == extra
    assert convolution.write_bytes - plain.write_bytes == extra


def test_runtimes_that_own_the_weights_lay_them_out_beforehand():
    _, _, plain = kernels(_behind_a_norm((12, 6, 3, 3)), "op")
    _, convolution = kernels(_behind_a_norm((12, 6, 3, 3)), "epilogue")
    assert (convolution.launches, convolution.traffic_bytes) == (1, plain.traffic_bytes)
