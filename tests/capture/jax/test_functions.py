"""Functions of JAX: matrix work against arithmetic written out, patterns, loops, devices."""

from __future__ import annotations

import subprocess
import sys

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import gambrel  # noqa: E402
from gambrel.capture.jax.capture import capture_jax  # noqa: E402
from gambrel.errors import CaptureError, InputError  # noqa: E402

S = jax.ShapeDtypeStruct
F32, BF16 = jnp.float32, jnp.bfloat16


def taken(function, *args, **named):
    return capture_jax(function, args, **named)


def matrix_flops(workload):
    return gambrel.analyze(workload, "tpu-v5e").total.matrix_flops


def kinds(workload):
    return [op.kind for op in workload.ops]


def only(workload, kind):
    (op,) = [op for op in workload.ops if op.kind == kind]
    return op


class TestProducts:
    def test_dimensions_in_any_order(self):
        x, w = S((4, 6, 8), F32), S((8, 3, 5), F32)
        workload = taken(lambda x, w: jnp.einsum("bsd,dhk->hbsk", x, w), x, w)
        # 4·6 rows, 3·5 columns, sums of 8
        assert matrix_flops(workload) == 2 * 24 * 15 * 8

    def test_batches_stay_apart(self):
        a, b = S((7, 2, 3), F32), S((7, 3, 4), F32)
        op = only(taken(lambda a, b: a @ b, a, b), "matmul")
        assert dict(op.sizes) == {"b": 7, "m": 2, "n": 4, "k": 3}

    @pytest.mark.parametrize("groups", [1, 4])
    def test_convolutions_in_groups(self, groups):
        x, w = S((2, 16, 16, 8), F32), S((3, 3, 8 // groups, 12), F32)
        workload = taken(
            lambda x, w: jax.lax.conv_general_dilated(
                x,
                w,
                (2, 2),
                "SAME",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=groups,
            ),
            x,
            w,
        )
        # images · results of each · taps · input channels of a group · output channels
        assert matrix_flops(workload) == 2 * 2 * (8 * 8) * 9 * (8 // groups) * 12

    def test_transposed_convolutions_skip_the_zeros(self):
        x, w = S((1, 4, 4, 8), F32), S((2, 2, 8, 6), F32)
        workload = taken(lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME"), x, w)
        assert matrix_flops(workload) == 2 * (4 * 4) * 4 * 8 * 6

    @pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
    def test_a_gradient_costs_two_more_products(self, strides):
        x, w = S((2, 8, 8, 4), F32), S((3, 3, 4, 6), F32)

        def loss(x, w):
            numbers = ("NHWC", "HWIO", "NHWC")
            y = jax.lax.conv_general_dilated(x, w, strides, "SAME", dimension_numbers=numbers)
            return (y**2).sum()

        forward = matrix_flops(taken(loss, x, w))
        both = matrix_flops(taken(jax.value_and_grad(loss, (0, 1)), x, w))
        side = 8 // strides[0]
        assert forward == 2 * 2 * side * side * 9 * 4 * 6
        assert both == 3 * forward

    def test_experts_of_a_mixture(self):
        rows, weights, sizes = S((64, 16), F32), S((8, 16, 32), F32), S((8,), jnp.int32)
        op = only(taken(jax.lax.ragged_dot, rows, weights, sizes), "grouped_matmul")
        assert dict(op.sizes) == {
            "rows": 64,
            "n": 32,
            "k": 16,
            "experts": 8,
            "top_k": 1,
            "tokens": 64,
        }
        assert matrix_flops(taken(jax.lax.ragged_dot, rows, weights, sizes)) == 2 * 64 * 16 * 32


class TestAttention:
    def call(self, kv_heads=4, **named):
        q, kv = S((2, 8, 4, 16), BF16), S((2, 8, kv_heads, 16), BF16)
        function = lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **named)  # noqa: E731
        return only(taken(function, q, kv, kv), "attention"), matrix_flops(
            taken(function, q, kv, kv)
        )

    def test_all_pairs(self):
        op, flops = self.call()
        assert flops == 2 * 2 * 4 * (8 * 8) * (16 + 16)
        assert not op.attrs["causal"]

    def test_a_triangle_of_known_values_is_causal(self):
        op, flops = self.call(is_causal=True)
        assert flops == 2 * 2 * 4 * (8 * 9 // 2) * (16 + 16)
        assert op.attrs["causal"]
        assert len(op.inputs) == 3

    def test_a_band_is_a_window(self):
        op, _ = self.call(is_causal=True, local_window_size=(2, 0))
        assert op.sizes["window"] == 3

    def test_heads_that_share_keys(self):
        op, flops = self.call(kv_heads=2)
        assert (op.sizes["heads"], op.sizes["kv_heads"]) == (4, 2)
        assert flops == 2 * 2 * 4 * (8 * 8) * (16 + 16)

    def test_a_mask_that_is_data_is_read(self):
        q, mask = S((1, 8, 2, 4), F32), S((1, 1, 8, 8), jnp.bool_)

        def function(q, m):
            return jax.nn.dot_product_attention(q, q, q, mask=m)

        op = only(taken(function, q, mask), "attention")
        assert op.attrs["mask"]
        assert len(op.inputs) == 4

    def test_written_out_with_einsum(self):
        q = S((2, 4, 8, 16), F32)

        def function(q, k, v):
            scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 4.0
            scores = jnp.where(jnp.tril(jnp.ones((8, 8), bool)), scores, -1e9)
            return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)

        workload = taken(function, q, q, q)
        assert kinds(workload) == ["attention"]
        assert only(workload, "attention").attrs["causal"]


class TestPatterns:
    X = S((4, 32), F32)

    @pytest.mark.parametrize(
        ("function", "name"),
        [
            (jax.nn.gelu, "gelu_tanh"),
            (lambda x: jax.nn.gelu(x, approximate=False), "gelu"),
            (jax.nn.silu, "silu"),
            (jax.nn.relu, "relu"),
            (jax.nn.sigmoid, "sigmoid"),
        ],
    )
    def test_activations(self, function, name):
        op = only(taken(function, self.X), "elementwise")
        assert op.attrs["function"] == name

    @pytest.mark.parametrize(
        ("function", "name"), [(jax.nn.softmax, "softmax"), (jax.nn.log_softmax, "log_softmax")]
    )
    def test_softmax(self, function, name):
        op = only(taken(function, self.X), "softmax")
        assert (op.attrs["function"], dict(op.sizes)) == (name, {"elements": 128, "rows": 4})

    def test_a_layer_norm(self):
        def function(params, x):
            mean = x.mean(-1, keepdims=True)
            centred = x - mean
            variance = (centred**2).mean(-1, keepdims=True)
            return centred * jax.lax.rsqrt(variance + 1e-5) * params["w"] + params["b"]

        params = {"w": S((32,), F32), "b": S((32,), F32)}
        workload = taken(function, params, self.X)
        assert kinds(workload) == ["normalization"]
        op = workload.ops[0]
        assert dict(op.attrs) == {"function": "layer_norm", "statistics": True, "affine": True}
        assert op.sizes["groups"] == 4

    def test_a_scaled_norm_of_data_is_left_alone(self):
        def function(x, scale):
            y = x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5)
            return y * scale

        workload = taken(function, self.X, self.X)
        assert kinds(workload) == ["normalization", "elementwise"]
        assert not workload.ops[0].attrs["affine"]

    def test_what_is_added_to_an_rms_norm_is_no_part_of_it(self):
        def function(params, x):
            y = x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5)
            return y + params["places"]

        workload = taken(function, {"places": S(self.X.shape, F32)}, self.X)
        assert kinds(workload) == ["normalization", "elementwise"]

    def test_a_bias_joins_its_product(self):
        params = {"w": S((32, 8), F32), "b": S((8,), F32)}
        workload = taken(lambda params, x: x @ params["w"] + params["b"], params, self.X)
        assert kinds(workload) == ["matmul"]
        assert workload.ops[0].attrs["bias"]

    def test_results_that_nobody_reads_cost_nothing(self):
        def function(x):
            _ = x @ x.T
            return x + 1

        assert kinds(taken(function, self.X)) == ["elementwise"]


class TestLoops:
    def test_a_scan_counts_its_trips(self):
        w, xs = S((8, 8), F32), S((11, 4, 8), F32)

        def function(w, xs):
            step = lambda c, x: (jnp.tanh(c @ w + x), c)  # noqa: E731
            return jax.lax.scan(step, xs[0], xs)

        workload = taken(function, w, xs)
        op = only(workload, "matmul")
        assert op.repeat == 11
        assert matrix_flops(workload) == 11 * 2 * 4 * 8 * 8

    def test_stacked_layers_are_copies(self):
        params, x = {"w": S((6, 4096, 4096), F32)}, S((4, 4096), F32)

        def function(params, x):
            return jax.lax.scan(lambda c, p: (c @ p["w"], None), x, params)[0]

        workload = taken(function, params, x)
        weight = next(t for t in workload.tensors if t.role == "weight")
        assert (weight.shape, weight.copies) == ((4096, 4096), 6)
        analysis = gambrel.analyze(workload, "a100", precision="fp32")
        # all six matrices cross the memory once, less what its caches may keep between runs
        assert only(workload, "matmul").repeat == 6
        assert analysis.sol_time_s == pytest.approx(6 * 4096**2 * 4 / 2.039e12, rel=0.25)

    def test_mamba_counts_every_step(self):
        """A selective scan: h = exp(d a) h + d b x, y = c h, token by token."""
        tokens, channels, state = 12, 16, 4

        def function(a, x, d, b, c):
            def step(h, given):
                x, d, b, c = given
                h = jnp.exp(d[:, None] * a) * h + (d * x)[:, None] * b[None]
                return h, h @ c

            return jax.lax.scan(step, jnp.zeros((channels, state)), (x, d, b, c))[1]

        wide, narrow = S((tokens, channels), F32), S((tokens, state), F32)
        workload = taken(function, S((channels, state), F32), wide, wide, narrow, narrow)
        assert matrix_flops(workload) == tokens * 2 * channels * state
        assert all(op.repeat == tokens for op in workload.ops if op.kind != "sync")

    def test_a_counter_gives_the_trips_of_a_while(self):
        x = S((8, 8), F32)

        def function(x):
            return jax.lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 2, c[1] @ c[1]), (0, x))

        assert only(taken(function, x), "matmul").repeat == 5

    def loop(self, x, n):
        return jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] @ c[1]), (0, x))

    def test_a_while_that_depends_on_data_is_unmodelled(self):
        workload = taken(self.loop, S((8, 8), F32), S((), jnp.int32))
        assert gambrel.analyze(workload, "tpu-v5e").coverage < 1
        assert any("--size trip=N" in text for text in workload.assumptions)

    def test_its_trips_can_be_said(self):
        analysis = gambrel.analyze(
            self.loop, "tpu-v5e", (S((8, 8), F32), S((), jnp.int32)), sizes={"trip": 30}
        )
        assert analysis.total.matrix_flops == 30 * 2 * 8 * 8 * 8

    def test_the_larger_branch_counts(self):
        x = S((8, 8), F32)
        workload = taken(
            lambda p, x: jax.lax.cond(p, lambda x: x @ x @ x, lambda x: x + 1, x),
            S((), jnp.bool_),
            x,
        )
        assert matrix_flops(workload) == 2 * (2 * 8**3)
        assert any("larger one is counted" in text for text in workload.assumptions)

    @pytest.mark.parametrize("wrapper", [jax.jit, jax.checkpoint, jax.vmap])
    def test_calls_are_entered(self, wrapper):
        x = S((3, 8, 8), F32)
        assert matrix_flops(taken(wrapper(lambda x: x @ x), x)) == 3 * 2 * 8**3

    def test_recomputation_is_counted(self):
        w, x = S((8, 8), F32), S((4, 8), F32)
        loss = lambda w, x: (jnp.tanh(jnp.tanh(x @ w) @ w) ** 2).sum()  # noqa: E731
        plain = matrix_flops(taken(jax.value_and_grad(loss), w, x))
        again = matrix_flops(taken(jax.value_and_grad(jax.checkpoint(loss)), w, x))
        assert plain == 5 * 2 * 4 * 8 * 8  # two forward, two for w, one for the inner activation
        assert again == 7 * 2 * 4 * 8 * 8


class TestDevices:
    def mesh(self, size):
        return jax.sharding.AbstractMesh((size,), ("x",))

    def test_the_program_of_one_device_and_what_it_sends(self):
        spec = jax.sharding.PartitionSpec

        def local(a, b):
            return jax.lax.psum(a @ b, "x")

        function = jax.shard_map(
            local,
            mesh=self.mesh(4),
            in_specs=(spec(None, "x"), spec("x", None)),
            out_specs=spec(None, None),
        )
        workload = taken(function, S((16, 32), F32), S((32, 8), F32))
        assert dict(only(workload, "matmul").sizes) == {"b": 1, "m": 16, "n": 8, "k": 8}
        sent = only(workload, "collective")
        assert dict(sent.sizes) == {"payload_bytes": 16 * 8 * 4, "devices": 4}
        assert sent.attrs["function"] == "all_reduce"
        assert any("one device of the mesh (x=4)" in text for text in workload.assumptions)


class TestKernels:
    def run(self, stated):
        pl = pytest.importorskip("jax.experimental.pallas")
        estimate = pl.CostEstimate(flops=700, transcendentals=30, bytes_accessed=1000)

        def body(x, y):
            y[...] = x[...] * 2

        def function(x):
            shape = S(x.shape, x.dtype)
            cost = {"cost_estimate": estimate} if stated else {}
            return pl.pallas_call(body, out_shape=shape, name="twice", **cost)(x)

        return taken(function, S((8, 8), F32))

    def test_what_the_author_states(self):
        workload = self.run(True)
        total = gambrel.analyze(workload, "a100").total
        assert (total.matrix_flops, total.special_ops, total.traffic_bytes) == (700, 30, 1000)

    def test_without_a_statement_it_is_unmodelled(self):
        workload = self.run(False)
        assert gambrel.analyze(workload, "a100").coverage == 0
        assert any("twice states no cost" in text for text in workload.assumptions)


class TestParameters:
    def roles(self, workload):
        return {t.name: str(t.role) for t in workload.tensors if t.name}

    def test_the_first_argument_where_it_is_a_tree(self):
        workload = taken(lambda p, x: x @ p["w"], {"w": S((8, 4), F32)}, S((2, 8), F32))
        assert self.roles(workload) == {"p['w']": "weight", "x": "input"}
        assert "real arrays of p;" in workload.assumptions[0]

    def test_arguments_by_name(self):
        workload = taken(lambda x, params: x @ params, S((2, 8), F32), S((8, 4), F32))
        assert self.roles(workload) == {"x": "input", "params": "weight"}

    def test_what_a_function_closes_over(self):
        w = jnp.ones((8, 4))
        workload = taken(lambda x: x @ w, S((2, 8), F32))
        assert [t.shape for t in workload.tensors if t.role == "weight"] == [(8, 4)]


class TestRefusals:
    def test_without_arguments(self):
        with pytest.raises(InputError, match="give the forms of its arguments"):
            gambrel.analyze(lambda x: x, "tpu-v5e")

    def test_arguments_that_do_not_fit(self):
        with pytest.raises(CaptureError, match=r"cannot be traced by jax\.make_jaxpr"):
            taken(lambda a, b: a @ b, S((2, 3), F32), S((4, 5), F32))

    def test_training_is_a_function_of_its_own(self):
        with pytest.raises(CaptureError, match=r"jax\.value_and_grad"):
            gambrel.analyze(lambda x: x, "tpu-v5e", S((2,), F32), train=True)

    def test_nothing_is_run(self):
        def function(x):
            jax.debug.callback(lambda _: pytest.fail("it ran"), x)
            return x * 2

        assert "elementwise" in kinds(taken(function, S((10**6, 10**6), F32)))

    def test_jax_is_not_imported_for_others(self):
        code = "import gambrel, sys; gambrel.analyze('resnet18', 'a100')"
        code += "; assert 'jax' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True)
