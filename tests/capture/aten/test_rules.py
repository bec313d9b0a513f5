"""Sizes of calls, worked out by hand; no torch anywhere."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from gambrel.capture.aten import TensorArg, describe, is_known, known_ops, rule

_numbers = itertools.count()


def t(*shape: int, dtype: str = "fp32", strides: tuple[int, ...] | None = None) -> TensorArg:
    return TensorArg(next(_numbers), shape, dtype, strides)


def sizes(op, args, out, overload="default", **kwargs):
    return describe(op, overload, args, kwargs, out).sizes


def test_matmul_family():
    assert sizes("aten.mm", (t(2, 3), t(3, 4)), t(2, 4)) == {"b": 1, "m": 2, "n": 4, "k": 3}
    assert sizes("aten.bmm", (t(5, 2, 3), t(5, 3, 4)), t(5, 2, 4)) == {
        "b": 5,
        "m": 2,
        "n": 4,
        "k": 3,
    }
    assert sizes("aten.mv", (t(2, 3), t(3)), t(2)) == {"b": 1, "m": 2, "n": 1, "k": 3}
    assert sizes("aten.dot", (t(7), t(7)), t()) == {"b": 1, "m": 1, "n": 1, "k": 7}
    # 6·5 rows of 3 against a (4, 3) weight.
    assert sizes("aten.linear", (t(6, 5, 3), t(4, 3)), t(6, 5, 4)) == {
        "b": 1,
        "m": 30,
        "n": 4,
        "k": 3,
    }
    assert sizes("aten.addbmm", (t(2, 4), t(5, 2, 3), t(5, 3, 4)), t(2, 4))["k"] == 15


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((3,), (3,), (1, 1, 1, 3)),
        ((2, 3), (3,), (1, 2, 1, 3)),
        ((3,), (3, 4), (1, 1, 4, 3)),
        ((7, 2, 3), (3, 4), (1, 14, 4, 3)),
        ((7, 1, 2, 3), (5, 3, 4), (35, 2, 4, 3)),
        ((2, 3), (7, 3, 4), (7, 2, 4, 3)),
    ],
)
def test_matmul_broadcasts(a, b, expected):
    found = sizes("aten.matmul", (t(*a), t(*b)), t(1))
    assert (found["b"], found["m"], found["n"], found["k"]) == expected


def test_an_addend_is_a_bias_and_comes_last():
    bias, a, b = t(4), t(2, 3), t(3, 4)
    found = describe("aten.addmm", "default", (bias, a, b), {}, t(2, 4))
    assert found.attrs == {"bias": True}
    assert found.inputs == (a, b, bias)


@pytest.mark.parametrize(
    ("equation", "a", "b", "expected"),
    [
        ("bij,jk->bik", (2, 3, 4), (4, 5), (1, 6, 5, 4)),
        ("bhqd,bhkd->bhqk", (2, 3, 4, 8), (2, 3, 5, 8), (6, 4, 5, 8)),
        ("ij,jk", (3, 4), (4, 5), (1, 3, 5, 4)),
        ("i,i->", (7,), (7,), (1, 1, 1, 7)),
        ("i,j->ij", (3,), (4,), (1, 3, 4, 1)),
    ],
)
def test_einsum_of_two_operands(equation, a, b, expected):
    found = sizes("aten.einsum", (equation, [t(*a), t(*b)]), t(1))
    assert (found["b"], found["m"], found["n"], found["k"]) == expected


def test_einsum_of_three_operands_is_unmodelled_not_wrong():
    found = describe("aten.einsum", "default", ("i,i,i->i", [t(3), t(3), t(3)]), {}, t(3))
    assert found.kind == "aten.einsum"


def test_weight_only_quantized_products():
    # Packed int4 weights hide n: it stands in the result.
    x, packed = t(4, 64, dtype="bf16"), t(2, 4, 32, 4, dtype="int32")
    found = describe(
        "aten._weight_int4pack_mm", "default", (x, packed, 32, t(2, 16, 2)), {}, t(4, 16)
    )
    assert found.sizes == {"b": 1, "m": 4, "n": 16, "k": 64}
    assert found.attrs == {"bias": False, "compute_dtype": "bf16", "dequantize": True}


def test_grouped_products_of_experts():
    x, w, offsets = t(10, 8), t(4, 8, 6), t(4, dtype="int32")
    found = describe("aten._grouped_mm", "default", (x, w), {"offs": offsets}, t(10, 6))
    assert found.kind == "grouped_matmul"
    assert found.sizes == {"rows": 10, "n": 6, "k": 8, "experts": 4, "top_k": 1, "tokens": 10}
    assert found.inputs == (x, w, offsets)
    # The gradient of the weights: (8, 10) × (10, 6) split over the ten rows.
    gradient = describe(
        "aten._grouped_mm", "default", (t(8, 10), t(10, 6)), {"offs": offsets}, t(4, 8, 6)
    )
    assert gradient.attrs == {"weight_gradient": True}
    assert (gradient.sizes["rows"], gradient.sizes["experts"]) == (10, 4)


def test_convolution_grouped_and_transposed():
    args = (t(2, 6, 32, 32), t(12, 2, 3, 5), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 3)
    assert sizes("aten.convolution", args, t(2, 12, 30, 28)) == {
        "batch": 2,
        "out_channels": 12,
        "in_channels": 6,
        "groups": 3,
        "kernel": (3, 5),
        "spatial": (30, 28),
    }
    args = (t(2, 6, 8), t(6, 4, 3), t(12), [2], [0], [1], True, [0], 3)
    found = describe("aten.convolution", "default", args, {}, t(2, 12, 17))
    assert found.sizes["spatial"] == (8,)  # a transposed one counts its input positions
    assert found.attrs == {"transposed": True, "bias": True}


def test_convolution_without_a_batch():
    found = sizes("aten.conv1d", (t(6, 10), t(4, 6, 3)), t(4, 8))
    assert (found["batch"], found["in_channels"], found["spatial"]) == (1, 6, (8,))


def test_convolution_backward_says_which_gradients():
    args = (t(2, 8, 30, 30), t(2, 3, 32, 32), t(8, 3, 3, 3), [8], [1, 1], [0, 0], [1, 1])
    rest = (False, [0, 0], 1, [False, True, True])
    found = describe("aten.convolution_backward", "default", args + rest, {}, (None, t(8), t(8)))
    assert found.attrs == {
        "transposed": False,
        "bias": True,
        "grad_input": False,
        "grad_weight": True,
        "grad_bias": True,
    }


def test_attention_with_fewer_key_value_heads():
    q, k, v = t(2, 8, 5, 16), t(2, 4, 7, 16), t(2, 4, 7, 12)
    found = describe(
        "aten.scaled_dot_product_attention", "default", (q, k, v, None, 0.0, True), {}, t(1)
    )
    assert found.sizes == {
        "batch": 2,
        "heads": 8,
        "kv_heads": 4,
        "q_len": 5,
        "kv_len": 7,
        "head_dim": 16,
        "v_head_dim": 12,
    }
    assert found.attrs["causal"] is True
    # torch's is_causal lets the first query see the first key, whatever the lengths.
    assert found.attrs["causal_alignment"] == "upper_left"


def test_attention_mask_is_read():
    q, mask = t(2, 8, 5, 16), t(5, 5)
    found = describe(
        "aten._scaled_dot_product_flash_attention_for_cpu",
        "default",
        (q, q, q),
        {"attn_mask": mask},
        (t(2, 8, 5, 16), t(2, 8, 5)),
    )
    assert found.attrs == {"causal": False, "mask": True, "dropout": False}
    assert found.inputs[3] is mask


def test_token_first_layout_of_the_flash_kernel():
    q = t(2, 128, 8, 64)
    found = sizes("aten._flash_attention_forward", (q, q, q, None, None, 128, 128, 0.0, True), q)
    assert (found["batch"], found["q_len"], found["heads"]) == (2, 128, 8)


def test_normalizations_count_their_groups():
    assert sizes("aten.native_layer_norm", (t(2, 5, 8), [8], t(8), t(8), 1e-5), t(2, 5, 8)) == {
        "elements": 80,
        "groups": 10,
    }
    args = (t(2, 6, 4, 4), t(6), t(6), 2, 6, 16, 3, 1e-5)
    assert sizes("aten.native_group_norm", args, t(2, 6, 4, 4))["groups"] == 6


def test_batch_norm_updates_its_averages_in_training_only():
    mean, var = t(6), t(6)
    args = (t(2, 6, 4, 4), t(6), t(6), mean, var)
    out = (t(2, 6, 4, 4), t(6), t(6))
    training = describe("aten.native_batch_norm", "default", (*args, True, 0.1, 1e-5), {}, out)
    assert training.outputs == (*out, mean, var)
    assert training.attrs["running"] is True
    inference = describe("aten.native_batch_norm", "default", (*args, False, 0.1, 1e-5), {}, out)
    assert inference.attrs["statistics"] is False
    assert inference.outputs == out


def test_batch_norm_gradient_has_one_weight_a_channel():
    args = (t(2, 6, 4, 4), t(2, 6, 4, 4), t(6), t(6), t(6), t(6), t(6), True, 1e-5)
    found = describe("aten.native_batch_norm_backward", "default", args, {}, t(2, 6, 4, 4))
    assert found.sizes == {"elements": 192, "groups": 6, "parameters": 6}


@pytest.mark.parametrize(
    ("op", "args", "function"),
    [
        ("aten.add", (2,), "add"),
        ("aten.add_", (2,), "add"),
        ("aten.pow", (2,), "square"),
        ("aten.pow", (0.5,), "sqrt"),
        ("aten.pow", (2.7,), "pow"),
        ("aten.eq", (1,), "compare"),
        ("aten.silu_", (), "silu"),
    ],
)
def test_element_wise_functions(op, args, function):
    found = describe(op, "Scalar", (t(3, 4), *args), {}, t(3, 4))
    assert (found.kind, found.sizes, found.attrs) == (
        "elementwise",
        {"elements": 12},
        {"function": function},
    )


def test_a_factor_is_a_product_more():
    assert describe("aten.add", "Tensor", (t(3), t(3)), {"alpha": 2}, t(3)).attrs == {
        "function": "add_scaled"
    }
    assert describe("aten.gelu", "default", (t(3),), {"approximate": "tanh"}, t(3)).attrs == {
        "function": "gelu_tanh"
    }


def test_broadcasting_counts_results():
    assert sizes("aten.mul", (t(3, 1), t(1, 4)), t(3, 4), "Tensor") == {"elements": 12}


def test_lists_of_tensors_add_up_and_are_written():
    parameters = [t(3, 4), t(5)]
    found = describe("aten._foreach_add_", "List", (parameters, [t(3, 4), t(5)]), {}, None)
    assert found.sizes == {"elements": 17}
    assert found.outputs == tuple(parameters)


def test_fused_optimizer_reads_and_writes():
    p, g, m, v, step = t(10), t(10), t(10), t(10), t()
    found = describe(
        "aten._fused_adamw_", "default", ([p], [g], [m], [v], [], [step]), {"lr": 0.1}, None
    )
    assert found.sizes == {"elements": 10}
    assert found.attrs["function"] == "adamw"
    assert found.inputs == (p, g, m, v, step)
    assert found.outputs == (p, m, v)


def test_reductions():
    assert sizes("aten.sum", (t(4, 6), [1]), t(4), "dim_IntList") == {"elements": 24, "outputs": 4}
    pair = (t(4), t(4, dtype="int64"))
    assert describe("aten.max", "dim", (t(4, 6), 1), {}, pair).kind == "reduction"
    two = describe("aten.max", "other", (t(4), t(4)), {}, t(4))
    assert (two.kind, two.attrs) == ("elementwise", {"function": "maximum"})
    inf = describe("aten.linalg_vector_norm", "default", (t(4), float("inf")), {}, t())
    assert inf.attrs == {"function": "norm_inf"}


def test_running_sums_and_sorts_know_their_rows():
    assert sizes("aten.cumsum", (t(4, 6), -1), t(4, 6)) == {"elements": 24, "rows": 4}
    assert sizes("aten.sort", (t(4, 6), 0), (t(4, 6), t(4, 6))) == {"elements": 24, "rows": 6}
    assert sizes("aten.topk", (t(4, 6), 2), (t(4, 2), t(4, 2))) == {
        "elements": 24,
        "rows": 4,
        "k": 2,
    }


def test_a_binary_search_takes_log2_steps():
    # Eight boundaries leave nine gaps: four comparisons find one of nine. 5 · 4 = 20.
    assert sizes("aten.bucketize", (t(5), t(8)), t(5)) == {"elements": 20}
    assert sizes("aten.searchsorted", (t(8), t(5)), t(5)) == {"elements": 20}


def test_adaptive_windows_that_overlap():
    # 5 to 2: windows 0..2 and 2..4, three each; per map (3 + 3)² = 36, three maps.
    found = sizes("aten._adaptive_avg_pool2d", (t(1, 3, 5, 5), [2, 2]), t(1, 3, 2, 2))
    assert found == {"outputs": 12, "window": 9, "covered": 108}


def test_pooling_window_given_as_one_number():
    assert sizes("aten.max_pool2d_with_indices", (t(1, 1, 8, 8), 2), (t(1, 1, 4, 4),)) == {
        "outputs": 16,
        "window": 4,
    }


def test_views_cost_nothing_and_copies_do():
    for op in ("aten.view", "aten.slice", "aten.expand", "aten.empty_like", "aten.detach"):
        assert describe(op, "default", (t(4),), {}, t(4)).kind == "view"
    x = t(3, 4, strides=(1, 3))
    assert describe("aten.reshape", "default", (x, [12]), {}, t(12)).kind == "copy"
    assert describe("aten.reshape", "default", (t(3, 4), [12]), {}, t(12)).kind == "view"
    cast = describe("aten._to_copy", "default", (t(3),), {}, t(3, dtype="fp16"))
    assert (cast.kind, cast.attrs) == ("copy", {"function": "cast"})


@pytest.mark.parametrize(
    ("shape", "strides", "new", "fits"),
    [
        ((3, 4), (4, 1), (12,), True),
        ((3, 4), (1, 3), (12,), False),
        ((2, 3, 4), (12, 4, 1), (6, 4), True),
        ((2, 3, 4), (4, 8, 1), (6, 4), False),  # batch and tokens exchanged
        ((2, 3, 4), (4, 8, 1), (2, 3, 2, 2), True),  # only the innermost is split
        ((2, 3, 4), (12, 4, 1), (2, 1, 12), True),
        ((5, 3, 4), (0, 4, 1), (5, 12), True),  # expanded, the rest merges
        ((5, 3, 4), (0, 4, 1), (15, 4), False),
        ((5, 6), (0, 0), (30,), True),
        ((1, 3), (99, 1), (3,), True),
        ((4,), (1,), (2, 2, 1), True),
        ((0, 3), (3, 1), (0,), True),
    ],
)
def test_when_a_reshape_is_a_view(shape, strides, new, fits):
    x = t(*shape, strides=strides)
    found = describe("aten.reshape", "default", (x, list(new)), {}, t(*new))
    assert found.kind == ("view" if fits else "copy")


def test_what_is_overwritten_is_not_read():
    target, source = t(4), t(4)
    found = describe("aten.copy_", "default", (target, source), {}, target)
    assert (found.inputs, found.outputs) == ((source,), (target,))
    assert describe("aten.zero_", "default", (target,), {}, target).inputs == ()
    assert describe("aten.zeros_like", "default", (target,), {}, t(4)).inputs == ()


def test_gather_and_scatter_count_touched_elements():
    # x[:, idx] of (4, 10, 3) with 5 places: 4·5·3.
    x, places, values = t(4, 10, 3), t(5, dtype="int64"), t(4, 5, 3)
    assert sizes("aten.index", (x, [None, places]), t(4, 5, 3), "Tensor") == {"elements": 60}
    found = describe("aten.index_put_", "default", (x, [None, places], values), {}, x)
    assert found.sizes == {"elements": 60}
    assert found.attrs == {"accumulate": False, "in_place": True}
    assert x not in found.inputs
    added = describe("aten.index_put_", "default", (x, [None, places], values, True), {}, x)
    assert x in added.inputs
    copied = describe("aten.scatter", "src", (t(9), 0, t(3), t(3)), {}, t(9))
    assert copied.attrs["in_place"] is False


def test_embedding_rows():
    table, indices = t(50257, 768), t(1, 4, dtype="int64")
    found = describe("aten.embedding", "default", (table, indices), {}, t(1, 4, 768))
    assert found.sizes == {"rows": 4, "width": 768, "table_rows": 50257}


def test_recurrent_layers():
    weights = [t(32, 16), t(32, 8), t(32), t(32)] * 2
    args = (t(4, 5, 16), [t(2, 4, 8), t(2, 4, 8)], weights, True, 1, 0.0, False, True, True)
    found = describe("aten.lstm", "input", args, {}, t(4, 5, 16))
    assert found.sizes == {
        "batch": 4,
        "seq": 5,
        "input_size": 16,
        "hidden": 8,
        "projection": 0,
        "directions": 2,
        "layers": 1,
    }
    assert found.attrs == {"cell": "lstm", "bias": True}


def test_fourier_transforms_are_as_long_as_their_real_side():
    assert sizes("aten._fft_r2c", (t(3, 8), [1], 0, True), t(3, 5, dtype="complex64")) == {
        "elements": 24,
        "length": 8,
        "transforms": 3,
    }
    assert sizes("aten._fft_c2r", (t(3, 5, dtype="complex64"), [1], 2, 8), t(3, 8))["length"] == 8


def test_linear_algebra():
    assert sizes("aten._linalg_solve_ex", (t(7, 4, 4), t(7, 4, 2)), t(7, 4, 2)) == {
        "n": 4,
        "m": 4,
        "batch": 7,
        "rhs": 2,
    }
    wide = sizes("aten.linalg_qr", (t(3, 5),), (t(3, 3), t(3, 5)))
    assert (wide["m"], wide["n"]) == (5, 3)
    # Ten points have 45 distances among themselves.
    assert sizes("aten._pdist_forward", (t(10, 3),), t(45))["n"] == 45


def test_collectives_know_their_payload():
    shard = t(4, 8, dtype="fp16")
    found = describe(
        "_c10d_functional.all_gather_into_tensor",
        "default",
        (shard, 8, "0"),
        {},
        t(32, 8, dtype="fp16"),
    )
    assert found.sizes == {"payload_bytes": 512, "devices": 8}  # 32 · 8 · 2 bytes
    unknown = describe("_c10d_functional.all_reduce", "default", (shard, "sum", "0"), {}, shard)
    assert unknown.kind == "_c10d_functional.all_reduce"  # how many devices? nobody said
    told = describe(
        "_c10d_functional.all_reduce", "default", (shard, "sum", "0"), {"group_size": 4}, shard
    )
    assert told.sizes == {"payload_bytes": 64, "devices": 4}


def test_regions_of_interest():
    args = (t(1, 256, 50, 50), t(10, 5), 0.25, 7, 7, 2, False)
    found = describe("torchvision.roi_align", "default", args, {}, t(10, 256, 7, 7))
    assert found.sizes == {"outputs": 125440, "samples": 4}
    adaptive = (*args[:5], -1, False)
    unknown = describe("torchvision.roi_align", "default", adaptive, {}, t(10, 256, 7, 7))
    assert unknown.kind == "torchvision.roi_align"


def test_an_unknown_op_keeps_its_name_and_tensors():
    x, y = t(3), t(3)
    found = describe("custom.magic", "default", ([x, None], 5), {}, y)
    assert (found.kind, found.inputs, found.outputs) == ("custom.magic", (x,), (y,))
    assert not is_known("custom.magic")


def test_arguments_of_another_form_are_unmodelled():
    assert describe("aten.mm", "default", ("what", 5), {}, t(1)).kind == "aten.mm"


def test_an_op_has_one_rule():
    with pytest.raises(ValueError, match=r"op 'aten\.mm' has two rules"):
        rule("aten.mm")(lambda call: call.described("view"))


def test_every_common_name_is_there():
    assert len(known_ops()) > 900


def test_the_tables_need_no_torch():
    code = "import sys, gambrel.capture.aten; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
