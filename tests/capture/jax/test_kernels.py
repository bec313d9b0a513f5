"""Attention kernels known by name, and the phases of a gradient in every form of a program."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import gambrel  # noqa: E402
from gambrel.capture.jax.capture import capture_jax  # noqa: E402
from gambrel.capture.xla.reader import read_hlo, read_stablehlo  # noqa: E402

S, BF16 = jax.ShapeDtypeStruct, jnp.bfloat16
#: Two sequences of 256 tokens, 4 heads of 128.
TOKENS_FIRST, HEADS_FIRST = S((2, 256, 4, 128), BF16), S((2, 4, 256, 128), BF16)
#: A score and a scaled row of 128 a pair.
PAIR = 2 * (128 + 128)


def matrix_flops(workload):
    found = gambrel.analyze(workload, "tpu-v5e")
    assert found.coverage == 1
    return found.total.matrix_flops


def attention_of(workload):
    (op,) = [op for op in workload.ops if op.kind == "attention"]
    return op


@pytest.mark.parametrize(("causal", "pairs"), [(False, 256 * 256), (True, 256 * 257 // 2)])
def test_cudnn_is_traced_where_it_is_not_installed(causal, pairs):
    def function(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="cudnn")

    workload = capture_jax(function, (TOKENS_FIRST,) * 3, {})
    assert attention_of(workload).attrs["causal"] is causal
    assert matrix_flops(workload) == 2 * 4 * pairs * PAIR


def splash(mask, shared):
    kernel = pytest.importorskip("jax.experimental.pallas.ops.tpu.splash_attention")
    masks = kernel.splash_attention_mask
    whole = masks.MultiHeadMask([getattr(masks, mask)((256, 256)) for _ in range(4)])
    make = kernel.splash_attention_kernel.make_splash_mha
    if shared:
        make = kernel.splash_attention_kernel.make_splash_mqa
    return make(mask=whole, head_shards=1, q_seq_shards=1)


@pytest.mark.parametrize(
    ("mask", "pairs"), [("FullMask", 256 * 256), ("CausalMask", 256 * 257 // 2)]
)
def test_splash_attention(mask, pairs):
    def function(q, k, v):
        return jax.vmap(splash(mask, shared=False))(q, k, v)

    assert matrix_flops(capture_jax(function, (HEADS_FIRST,) * 3, {})) == 2 * 4 * pairs * PAIR


def test_splash_attention_with_one_head_of_keys():
    q, kv = S((4, 256, 128), BF16), S((256, 128), BF16)
    workload = capture_jax(lambda *x: splash("CausalMask", shared=True)(*x), (q, kv, kv), {})
    op = attention_of(workload)
    assert (op.sizes["heads"], op.sizes["kv_heads"]) == (4, 1)
    assert matrix_flops(workload) == 4 * (256 * 257 // 2) * PAIR


def loss(params, x):
    hidden = jax.nn.gelu(x @ params["up"])
    return jnp.square(hidden @ params["down"]).astype(jnp.float32).sum()


@pytest.fixture(scope="module")
def gradient():
    """A function, and what it is given: x 32 x 64, matrices 64 x 256 and 256 x 64."""
    params = {"up": S((64, 256), BF16), "down": S((256, 64), BF16)}
    return jax.value_and_grad(loss), (params, S((32, 64), BF16))


def read(form, gradient, folder):
    function, given = gradient
    if form == "JAX":
        return capture_jax(function, given, {})
    lowered = jax.jit(function).lower(*given)
    if form == "StableHLO":
        (folder / "m.mlir").write_text(lowered.as_text(debug_info=True))
        return read_stablehlo(folder / "m.mlir")
    (folder / "m.hlo").write_text(lowered.as_text(dialect="hlo", debug_info=True))
    return read_hlo(folder / "m.hlo")


@pytest.mark.parametrize("form", ["JAX", "StableHLO", "HLO"])
def test_a_gradient_has_two_phases(form, gradient, tmp_path):
    """Two products forward; the gradients of both matrices and of what lies between them."""
    products = [op for op in read(form, gradient, tmp_path).ops if op.kind == "matmul"]
    phases = [str(op.phase) for op in products]
    assert (phases.count("forward"), phases.count("backward")) == (2, 3)
    for op in products:
        assert op.sizes["m"] * op.sizes["n"] * op.sizes["k"] == 32 * 64 * 256
