"""Attention kernels known by name, and the phases of a gradient in every form of a program."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import gambrel  # noqa: E402
from gambrel.capture.jax.capture import capture_jax  # noqa: E402
from gambrel.capture.jax.kernels import without_cudnn  # noqa: E402
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


#: The products of a gradient: S, dP and dV with dK and dQ together, or the first two twice.
TOGETHER, APART = 2 * 5 * 128, 2 * 7 * 128
PAIRS = {False: 256 * 256, True: 256 * 257 // 2}


def gradient_of(attention, shape):
    """The gradients of an attention's sum by queries, keys and values."""

    def total(q, k, v):
        return attention(q, k, v).astype(jnp.float32).sum()

    return capture_jax(jax.grad(total, (0, 1, 2)), (shape,) * 3, {})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", ["JAX", "StableHLO", "HLO"])
def test_the_gradient_of_cudnn_with_shared_heads(form, causal, tmp_path):
    """Lowered for a GPU, the calls say their sizes in the configuration of cuDNN."""

    def total(q, k, v):
        found = jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="cudnn")
        return found.astype(jnp.float32).sum()

    function, shared = jax.grad(total, (0, 1, 2)), S((2, 256, 2, 128), BF16)
    given = (TOKENS_FIRST, shared, shared)
    if form == "JAX":
        workload = capture_jax(function, given, {})
    else:
        with without_cudnn():
            lowered = jax.jit(function).trace(*given).lower(lowering_platforms=("cuda",))
        path = tmp_path / ("m.mlir" if form == "StableHLO" else "m.hlo")
        path.write_text(lowered.as_text(dialect="stablehlo" if form == "StableHLO" else "hlo"))
        workload = (read_stablehlo if form == "StableHLO" else read_hlo)(path)
    assert matrix_flops(workload) == 2 * 4 * PAIRS[causal] * (PAIR + TOGETHER)
    back = next(op for op in workload.ops if op.kind == "attention_backward")
    assert (back.sizes["heads"], back.sizes["kv_heads"]) == (4, 2)


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradient_of_mha_on_gpus(causal):
    kernel = pytest.importorskip("jax.experimental.pallas.ops.gpu.attention")
    workload = gradient_of(lambda *x: kernel.mha(*x, None, causal=causal), TOKENS_FIRST)
    assert matrix_flops(workload) == 2 * 4 * PAIRS[causal] * (PAIR + TOGETHER)


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradient_of_flash_attention_on_tpus(causal):
    """Two kernels: one makes the gradients of keys and values, one that of the queries."""
    kernel = pytest.importorskip("jax.experimental.pallas.ops.tpu.flash_attention")
    workload = gradient_of(lambda *x: kernel.flash_attention(*x, causal=causal), HEADS_FIRST)
    assert matrix_flops(workload) == 2 * 4 * PAIRS[causal] * (PAIR + APART)


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradient_of_splash_attention(causal):
    mask = "CausalMask" if causal else "FullMask"
    workload = gradient_of(lambda *x: jax.vmap(splash(mask, shared=False))(*x), HEADS_FIRST)
    rows = 2 * 2 * 4 * 256 * 128  # the sums of the output times its gradient: outside
    assert matrix_flops(workload) == 2 * 4 * PAIRS[causal] * (PAIR + APART) + rows


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
