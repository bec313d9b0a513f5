"""Bytes of kernels, worked out by hand; fp32, four bytes a number."""

from gambrel.workload import Role

from .build import Net, kernels, traffic


def test_convolution_batch_norm_relu():
    net = Net()
    x = net.input(1, 3, 8, 8)
    y = net.pointwise("relu", net.batch_norm(net.convolution(x, 4)))
    workload = net.workload(y)
    # x 192, kernel 12, result 256 numbers; four statistics of 4; the fused result 256.
    convolution = 4 * (192 + 12 + 256)
    norm = 4 * (256 + 16 + 256)
    assert [k.traffic_bytes for k in kernels(workload)] == [convolution, norm]
    # Op by op adds one write and one read of 256 between batch norm and relu.
    assert traffic(workload, "op") == convolution + norm + 4 * 512
    # Inside the convolution, its own result is neither written nor read.
    assert traffic(workload, "epilogue") == 4 * (192 + 12 + 16 + 256)
    assert traffic(workload, "whole") == 4 * (192 + 12 + 16 + 256)


def test_a_whole_model_keeps_what_lies_between_two_matmuls():
    net = Net()
    x = net.input(8, 16)
    y = net.matmul(net.matmul(x, net.weight(16, 32)), net.weight(32, 4))
    # x 128, weights 512 and 128, result 32; in between 256 written and read.
    assert traffic(net.workload(y), "whole") == 4 * (128 + 512 + 128 + 32)
    assert traffic(net.workload(y), "epilogue") == 4 * (128 + 512 + 128 + 32 + 2 * 256)


def test_a_gather_within_a_kernel_reads_the_rows_and_the_indices():
    net = Net()
    table, indices = net.weight(1000, 16), net.input(8, dtype="int64")
    y = net.pointwise("relu", net.embedding(table, indices))
    (only,) = kernels(net.workload(y))
    assert only.read_bytes == 8 * 16 * 4 + 8 * 8
    assert only.write_bytes == 8 * 16 * 4


def test_a_tensor_read_by_two_ops_of_a_kernel_is_read_once_by_the_first():
    net = Net()
    x, z = net.input(16, 16), net.input(16, 16)
    y = net.pointwise("add", net.pointwise("mul", x, z), x)
    (only,) = kernels(net.workload(y))
    size = 16 * 16 * 4
    assert dict(only.op_read_bytes) == {0: 2 * size}
    assert dict(only.op_write_bytes) == {1: size}


def test_an_intermediate_that_is_an_output_is_written_but_not_read_again():
    net = Net()
    x = net.input(16, 16)
    a = net.pointwise("relu", x)
    y = net.pointwise("tanh", a)
    (only,) = kernels(net.workload(a, y))
    size = 16 * 16 * 4
    assert (only.read_bytes, only.write_bytes) == (size, 2 * size)


def test_slices_of_one_storage_never_add_up_to_more_than_it_holds():
    """A whole tensor and its two halves within one kernel: the whole, once."""
    net = Net()
    x = net.matmul(net.input(16, 8), net.weight(8, 8))
    whole = net.pointwise("relu", x)
    first = net.pointwise("tanh", net.view(x, 8, 8))
    second = net.pointwise("exp", net.view(x, 8, 8, offset=64))
    workload = net.workload(whole, first, second)
    (only,) = kernels(workload, "whole")
    assert only.read_bytes == 4 * (128 + 64)
    behind = [k for k in kernels(workload) if k.ops != (0,)]
    assert sum(k.read_bytes for k in behind) <= 2 * 16 * 8 * 4


def test_an_op_in_place_writes_its_memory_once_with_what_was_there_before():
    net = Net()
    x = net.input(4, 4, 8)
    y = net.pointwise("add", x, net.input(4, 4, 8))
    z = net.pointwise("relu", y, into=y)
    (only,) = kernels(net.workload(z))
    size = 4 * 4 * 8 * 4
    assert (only.read_bytes, only.write_bytes) == (2 * size, size)


def test_a_cache_that_is_written_in_part_is_read_from_memory_in_whole():
    net = Net()
    new = net.input(4, 8)
    cache = net.tensor(32, 8, role=Role.KV_CACHE)
    kept = net.op("scatter", [cache, new], (32, 8), into=cache, sizes={"elements": 32})
    y = net.pointwise("relu", kept)
    # The four new rows in and out; the whole cache read and a result of that size written.
    assert traffic(net.workload(y)) == 4 * (32 + 32 + 256 + 256)


def test_repeated_ops_count_all_their_executions():
    net = Net()
    y = net.pointwise("relu", net.input(16, 16), repeat=3)
    for how in ("op", "pointwise", "epilogue"):
        (only,) = kernels(net.workload(y), how)
        assert (only.traffic_bytes, only.repeat) == (3 * 2 * 16 * 16 * 4, 3)


def test_a_mask_that_is_only_expanded_costs_what_it_holds():
    net = Net()
    x = net.input(16, 16)
    row = net.tensor(16, 16, role=Role.INPUT, elements=16)
    y = net.pointwise("add", x, row)
    (only,) = kernels(net.workload(y))
    assert only.read_bytes == 4 * (256 + 16)


def test_recomputation_is_given_up_where_it_moves_more_than_single_ops():
    """bool = wide > wide: one byte stored, eight read again by every reader."""
    net = Net()
    a, b = net.input(64, 64), net.input(64, 64)
    narrow = net.tensor(64, 64, dtype="int8")
    from gambrel.workload import Op

    net.ops.append(
        Op(
            kind="elementwise",
            inputs=(a, b),
            outputs=(narrow,),
            sizes={"elements": 4096},
            attrs={"function": "gt"},
        )
    )
    readers = []
    for other in range(6):  # different rows, so that the readers' loops cannot be joined
        part = net.view(narrow, 64 - other, 64)
        done = net.tensor(64 - other, 64, dtype="int8")
        net.ops.append(
            Op(
                kind="elementwise",
                inputs=(part,),
                outputs=(done,),
                sizes={"elements": 64 * (64 - other)},
                attrs={"function": "relu"},
            )
        )
        readers.append(done)
    workload = net.workload(*readers)
    assert traffic(workload) <= traffic(workload, "op")
    assert all(not k.recomputed for k in kernels(workload))


def test_the_kernel_of_a_whole_model_reads_every_copy_of_repeated_layers() -> None:
    """32 equal layers written as one: a single kernel still reads 32 sets of weights."""
    from gambrel.analysis.analyze import Settings, analyze
    from gambrel.device.resolve import resolve_hardware
    from gambrel.llm.build import build
    from gambrel.llm.spec import Attention, Layer, LayerGroup, Mlp, ModelSpec
    from gambrel.llm.step import decode

    layer = Layer(
        mixer=Attention(heads=32, kv_heads=8, head_dim=128), feed_forward=Mlp(width=14336)
    )
    spec = ModelSpec(
        name="m",
        family="m",
        hidden=4096,
        vocab=1000,
        layers=(LayerGroup(layer=layer, count=32),),
    )
    device = resolve_hardware("h100-sxm5-80gb")[0]
    found = analyze(build(spec, decode(1, 100)), device, Settings(runtime="perfect"))
    weights = 32 * 218_103_808 * 2  # parameters of a layer, 2 bytes each
    cache = 32 * 2 * 8 * 128 * 100 * 2
    assert weights + cache < found.total.traffic_bytes < 1.01 * (weights + cache)
