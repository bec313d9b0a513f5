"""Kernels of `function`: of one tensor, with the sum before a norm, in a library call."""

import pytest
from msgspec.structs import replace

from gambrel.analysis.plan import KernelPlan
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Workbench
from gambrel.capture import zoo
from gambrel.runtimes import Kernels

from .build import Net, groups, kernels

WAY = "function"


def product(net, *shape):
    """The result of a matmul: op 0."""
    return net.matmul(net.input(shape[0], 8), net.weight(8, shape[1]))


def launches(name, precision):
    workload = zoo.load(name)
    bench = Workbench(workload, workload.resolve_symbols({}), Settings().conventions)
    table = bench.table(precision, KernelPlan(kernels=Kernels.FUNCTION))
    return sum(item.launches * item.count for item in table.items)


def test_gelu_written_out_is_one_kernel():
    """0.5 x (1 + tanh(a (x + b x³))), as GPT-2 has it: x is read, the result is written."""
    net = Net()
    x = product(net, 4, 16)
    inner = net.pointwise("add", x, net.pointwise("mul", net.pointwise("pow", x)))
    bent = net.pointwise("add", net.pointwise("tanh", net.pointwise("mul", inner)))
    y = net.pointwise("mul", net.pointwise("mul", x), bent)
    found = kernels(net.workload(net.matmul(y, net.weight(16, 8))), WAY)
    assert [k.ops for k in found] == [(0,), (1, 2, 3, 4, 5, 6, 7, 8), (9,)]
    assert found[1].kind == "fused pointwise"
    assert (found[1].read_bytes, found[1].write_bytes) == (4 * 16 * 4, 4 * 16 * 4)


def test_a_norm_written_out_is_one_kernel():
    net = Net()
    x = product(net, 4, 16)
    scale, shift = net.weight(16), net.weight(16)
    centred = net.pointwise("sub", x, net.mean(x))
    variance = net.mean(net.pointwise("pow", centred))
    inverse = net.pointwise("rsqrt", net.pointwise("add", variance))
    y = net.pointwise(
        "add", net.pointwise("mul", net.pointwise("mul", centred, inverse), scale), shift
    )
    found = kernels(net.workload(y), WAY)
    assert [k.ops for k in found] == [(0,), tuple(range(1, 10))]
    assert found[1].kind == "fused reduction"
    assert found[1].read_bytes == (4 * 16 + 16 + 16) * 4


def test_group_norm_with_swish_is_one_kernel():
    net = Net()
    x = net.convolution(net.input(1, 4, 8, 8), 4)
    y = net.group_norm(x, 2)
    y = net.pointwise("mul", y, net.pointwise("sigmoid", y))
    assert groups(net.workload(y), WAY) == [(0,), (1, 2, 3)]


def test_a_gated_product_is_a_kernel_beside_its_function():
    """silu(gate) * up reads two halves of a tensor."""
    net = Net()
    both = product(net, 4, 32)
    gate, up = net.view(both, 4, 16), net.view(both, 4, 16, offset=64)
    y = net.pointwise("mul", net.pointwise("silu", gate), up)
    assert groups(net.workload(y), WAY) == [(0,), (1,), (2,)]


def test_a_product_with_the_result_of_a_sum_takes_in_the_function_alone():
    """x * sigmoid(x), where x is the sum of two tensors."""
    net = Net()
    x = net.pointwise("add", product(net, 4, 16), net.input(4, 16))
    y = net.pointwise("mul", x, net.pointwise("sigmoid", x))
    assert groups(net.workload(y), WAY) == [(0,), (1,), (2, 3)]


def test_a_modulation_by_computed_vectors_is_three_kernels():
    """x * (1 + scale) + shift of a diffusion transformer, behind a norm."""
    net = Net()
    x, vectors = product(net, 4, 16), product(net, 1, 32)
    scale, shift = net.view(vectors, 1, 16), net.view(vectors, 1, 16, offset=16)
    y = net.pointwise("mul", net.layer_norm(x), net.pointwise("add", scale))
    y = net.pointwise("add", y, shift)
    assert groups(net.workload(y), WAY) == [(0,), (1,), (2,), (3,), (4,), (5,)]


def test_parameters_are_no_second_tensor():
    net = Net()
    x = product(net, 4, 16)
    y = net.pointwise("mul", net.layer_norm(x), net.weight(16))
    assert groups(net.workload(y), WAY) == [(0,), (1, 2)]


def test_a_function_of_parameters_joins_nothing_that_depends_on_it_otherwise():
    net = Net()
    gain = net.pointwise("exp", net.weight(16, 16))
    y = net.pointwise("mul", net.matmul(gain, net.weight(16, 16)), gain)
    assert groups(net.workload(y), WAY) == [(0,), (1,), (2,)]


def test_the_inputs_of_a_model_are_tensors():
    net = Net()
    x = net.pointwise("tanh", product(net, 4, 16))
    y = net.pointwise("add", x, net.input(4, 16))
    assert groups(net.workload(y), WAY) == [(0,), (1,), (2,)]


@pytest.mark.parametrize("ending", ["layer_norm", "softmax"])
def test_the_sum_before_a_norm_or_softmax_runs_in_its_kernel(ending):
    """A residual sum, which the next block needs as well: it is written, and not read again."""
    net = Net()
    stream = net.pointwise("add", product(net, 4, 16), net.input(4, 16))
    normed = getattr(net, ending)(stream)
    found = kernels(net.workload(stream, normed), WAY)
    assert [k.ops for k in found] == [(0,), (1, 2)]
    parameters = 2 * 16 if ending == "layer_norm" else 0
    assert found[1].read_bytes == (2 * 4 * 16 + parameters) * 4
    assert found[1].write_bytes == 2 * 4 * 16 * 4


def test_a_norm_written_out_takes_in_the_sum_too():
    net = Net()
    stream = net.pointwise("add", product(net, 4, 16), net.input(4, 16))
    inverse = net.pointwise("rsqrt", net.mean(net.pointwise("pow", stream)))
    y = net.pointwise("mul", stream, inverse)
    assert groups(net.workload(y), WAY) == [(0,), (1, 2, 3, 4, 5)]


def test_a_mean_takes_in_no_sum():
    net = Net()
    y = net.mean(net.pointwise("add", product(net, 4, 16), net.input(4, 16)))
    assert groups(net.workload(y), WAY) == [(0,), (1,), (2,)]


def test_of_two_norms_of_a_sum_one_takes_it_in():
    net = Net()
    stream = net.pointwise("add", product(net, 4, 16), net.input(4, 16))
    y = net.workload(net.layer_norm(stream), net.layer_norm(stream))
    assert groups(y, WAY) == [(0,), (1, 2), (3,)]


def test_a_bias_belongs_to_its_matmul():
    net = Net()
    y = net.pointwise("gelu", net.pointwise("add", product(net, 4, 16), net.weight(16)))
    found = kernels(net.workload(y), WAY)
    assert [(k.ops, k.kind) for k in found] == [((0, 1), "matmul"), ((2,), "elementwise")]


def test_a_table_of_positions_is_no_bias():
    net = Net()
    y = net.pointwise("add", product(net, 4, 16), net.weight(4, 16))
    assert groups(net.workload(y), WAY) == [(0,), (1,)]


def test_a_convolution_takes_in_batch_norm_and_relu():
    net = Net()
    y = net.pointwise("relu", net.batch_norm(net.convolution(net.input(1, 4, 8, 8), 4)))
    assert groups(net.workload(y), WAY) == [(0, 1, 2)]


def test_a_convolution_takes_in_batch_norm_sum_and_relu():
    """The end of a residual block; of two convolutions that are added the later one."""
    net = Net()
    x = net.input(1, 4, 8, 8)
    short, long = net.batch_norm(net.convolution(x, 4)), net.batch_norm(net.convolution(x, 4))
    y = net.pointwise("relu", net.pointwise("add", long, short))
    found = kernels(net.workload(y), WAY)
    assert [(k.ops, k.kind) for k in found] == [
        ((0, 1), "convolution"),
        ((2, 3, 4, 5), "convolution"),
    ]


def test_other_activations_behind_a_convolution_are_kernels():
    net = Net()
    y = net.pointwise("silu", net.batch_norm(net.convolution(net.input(1, 4, 8, 8), 4)))
    assert groups(net.workload(y), WAY) == [(0, 1), (2,)]


def test_a_convolution_whose_result_others_read_takes_in_nothing():
    net = Net()
    x = net.convolution(net.input(1, 4, 8, 8), 4)
    y = net.batch_norm(x)
    assert groups(net.workload(x, y), WAY) == [(0,), (1,)]


def test_relus_of_convolutions_in_16_bits_are_kernels():
    """ResNet-18: 20 convolutions, a pooling, a mean, a linear layer; 17 relus, 8 behind a sum.

    The last relu and the mean behind it are one function.
    """
    assert launches("resnet18", "fp32") == 20 + 3
    assert launches("resnet18", "fp16") == 20 + 3 + 17 + 8 - 1


def test_copies_and_gathers_are_kernels():
    net = Net()
    x = net.pointwise("relu", net.embedding(net.weight(32, 8), net.input(4, dtype="int64")))
    y = net.pointwise("tanh", net.copy(x))
    assert groups(net.workload(y), WAY) == [(0,), (1,), (2,), (3,)]


def test_a_function_of_a_part_of_a_tensor_does_not_join_what_wrote_it():
    net = Net()
    x = net.pointwise("relu", product(net, 4, 16))
    y = net.pointwise("tanh", net.view(x, 2, 16))
    assert groups(net.workload(y), WAY) == [(0,), (1,), (2,)]


def test_constants_are_computed_when_the_model_is_loaded():
    """Kernels read the result nevertheless; one that is an output is computed."""
    net = Net()
    ones = net.pointwise("exp", net.fill(4, 16))
    y = net.pointwise("mul", net.pointwise("tanh", product(net, 4, 16)), ones)
    found = kernels(net.workload(y), WAY)
    assert [k.ops for k in found] == [(2,), (3, 4)]
    assert found[1].read_bytes == 2 * 4 * 16 * 4
    assert groups(net.workload(net.fill(4, 4)), WAY) == [(5,)]


def test_repeated_ops_join_their_like_alone():
    net = Net()
    x = net.pointwise("relu", product(net, 4, 16), repeat=3)
    y = net.pointwise("tanh", x)
    workload = net.workload(y)
    assert groups(workload, WAY) == [(0,), (1,), (2,)]
    ops = (*workload.ops[:2], replace(workload.ops[2], repeat=3))
    assert groups(replace(workload, ops=ops), WAY) == [(0,), (1, 2)]


@pytest.mark.parametrize("name", ["bert-base", "gpt2", "vit-b-16", "swin-t", "flux-transformer"])
def test_transformers_have_more_kernels_than_under_a_compiler(name):
    workload = zoo.load(name)
    counts = [
        sum(k.launches * k.repeat for k in kernels(workload, way))
        for way in ("op", WAY, "pointwise")
    ]
    assert counts == sorted(counts, reverse=True)
