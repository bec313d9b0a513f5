"""StableHLO and HLO files: the same figures as the function that they were made of."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402

import gambrel  # noqa: E402
from gambrel.capture.jax.capture import capture_jax  # noqa: E402
from gambrel.capture.xla.hlo import parse  # noqa: E402
from gambrel.capture.xla.reader import read_hlo, read_stablehlo  # noqa: E402
from gambrel.errors import FileFormatError  # noqa: E402

S = jax.ShapeDtypeStruct
F32 = jnp.float32


def block(params, x):
    """A layer of a transformer without biases."""
    mean = x.mean(-1, keepdims=True)
    y = (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    y = y * params["scale"]
    q, k, v = (jnp.einsum("btd,dhk->bthk", y, params[n]) for n in ("q", "k", "v"))
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + jnp.einsum("bthk,hkd->btd", y, params["o"])
    return x + jax.nn.gelu(x @ params["up"]) @ params["down"]


D, HEADS, WIDTH = 32, 4, 8
PARAMS = {
    "scale": S((D,), F32),
    **{n: S((D, HEADS, WIDTH), F32) for n in ("q", "k", "v")},
    "o": S((HEADS, WIDTH, D), F32),
    "up": S((D, 4 * D), F32),
    "down": S((4 * D, D), F32),
}
X = S((2, 16, D), F32)


def layers(params, x):
    return jax.lax.scan(lambda c, p: (block(p, c), None), x, params)[0]


STACKED = {k: S((5, *v.shape), v.dtype) for k, v in PARAMS.items()}


def network(params, x):
    """A small convolutional network."""
    numbers = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(x, params["w"], (2, 2), "SAME", dimension_numbers=numbers)
    y = jax.nn.relu(y + params["b"])
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jax.nn.softmax(y.mean((1, 2)) @ params["head"])


NETWORK = {"w": S((3, 3, 3, 8), F32), "b": S((8,), F32), "head": S((8, 10), F32)}
IMAGES = S((2, 16, 16, 3), F32)

CASES = {
    "block": (block, PARAMS, X),
    "layers": (layers, STACKED, X),
    "network": (network, NETWORK, IMAGES),
}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    function, params, x = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    lowered = jax.jit(function).lower(params, x)
    exported = export.export(jax.jit(function))(params, x)
    (folder / "m.mlir").write_text(lowered.as_text(debug_info=True))
    (folder / "m.mlirbc").write_bytes(exported.mlir_module_serialized)
    (folder / "m.export").write_bytes(exported.serialize())
    (folder / "before.txt").write_text(lowered.as_text(dialect="hlo", debug_info=True))
    (folder / "after.txt").write_text(lowered.compile().as_text())
    return folder, capture_jax(function, (params, x))


def totals(workload):
    analysis = gambrel.analyze(workload, "a100")
    assert analysis.coverage == 1
    return analysis.total.matrix_flops


def parameters(workload):
    from gambrel.workload.parameters import count_parameters

    return count_parameters(workload.tensors, lambda _, t: (t.offset, t.elements or prod(t.shape)))


def prod(shape):
    total = 1
    for n in shape:
        total *= n
    return total


@pytest.mark.parametrize("name", ["m.mlir", "m.mlirbc", "m.export", "before.txt", "after.txt"])
def test_every_route_gives_the_same_matrix_work(case, name):
    folder, original = case
    analysis = gambrel.analyze(str(folder / name), "a100")
    expected = totals(original)
    if name == "after.txt" and folder.name.startswith(("block", "layers")):
        expected = unmasked(original)  # the compiler folds the mask into numbers
    assert analysis.coverage == 1
    assert analysis.total.matrix_flops == expected
    assert parameters(analysis.workload) == parameters(original)


def unmasked(workload):
    """Matrix work with all pairs of queries and keys."""
    flops = totals(workload)
    for op in workload.ops:
        if op.kind == "attention":
            s = op.sizes
            pairs = s["q_len"] * s["kv_len"] - s["q_len"] * (s["q_len"] + 1) // 2
            widths = s["head_dim"] + s["v_head_dim"]
            flops += 2 * s["batch"] * s["heads"] * pairs * widths * op.repeat
    return flops


@pytest.mark.parametrize("name", ["m.mlir", "before.txt"])
def test_kinds_are_recognised_alike(case, name):
    folder, original = case
    read = read_stablehlo if name.endswith("mlir") else read_hlo
    moved = {"scatter", "copy", "sync", "elementwise"}  # a scan of StableHLO stacks by itself
    kinds = [op.kind for op in read(folder / name).ops if op.kind not in moved]
    assert kinds == [op.kind for op in original.ops if op.kind not in moved]


def test_trip_counts_that_the_compiler_knows():
    text = jax.jit(layers).lower(STACKED, X).compile().as_text()
    module = parse(text)
    loops = [i for c in module.computations.values() for i in c.instructions if i.opcode == "while"]
    assert len(loops) == 1


HLO = """HloModule m, entry_computation_layout={(f32[4,8]{1,0}, f32[8,2]{1,0})->f32[4,2]{1,0}}

ENTRY main.4 {
  Arg_0.1 = f32[4,8]{1,0} parameter(0), metadata={op_name="x"}
  Arg_1.2 = f32[8,2]{1,0} parameter(1), metadata={op_name="params[\\'w\\']"}
  ROOT dot.3 = f32[4,2]{1,0} dot(Arg_0.1, Arg_1.2), lhs_contracting_dims={1}, DIMS
}
""".replace("DIMS", "rhs_contracting_dims={0}")


class TestText:
    def write(self, tmp_path, text, name="dump.txt"):
        path = tmp_path / name
        path.write_text(text)
        return path

    def test_hlo_needs_no_package(self, tmp_path):
        workload = read_hlo(self.write(tmp_path, HLO))
        assert gambrel.analyze(workload, "tpu-v5p").total.matrix_flops == 2 * 4 * 8 * 2
        assert [t.name for t in workload.tensors if t.role == "weight"] == ["params['w']"]

    def test_a_gemm_of_cublas(self, tmp_path):
        text = HLO.replace("dot(Arg_0.1, Arg_1.2)", "custom-call(Arg_0.1, Arg_1.2)").replace(
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            'custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{'
            '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
            '"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],'
            '"rhs_batch_dimensions":[]}}}',
        )
        workload = read_hlo(self.write(tmp_path, text))
        assert [op.kind for op in workload.ops] == ["matmul"]

    def test_an_unknown_kernel_lowers_the_coverage(self, tmp_path):
        text = HLO.replace("dot(Arg_0.1", "custom-call(Arg_0.1").replace(
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}", 'custom_call_target="mine"'
        )
        workload = read_hlo(self.write(tmp_path, text))
        assert [op.kind for op in workload.ops] == ["hlo.custom-call"]
        assert gambrel.analyze(workload, "tpu-v5p").coverage == 0

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("ENTRY main.4", "main.4", "no ENTRY computation"),
            ("\n}\n", "\n", "ends within the computation"),
            ("dot(Arg_0.1", "dot(Arg_9.1", "which is not computed"),
            ("Arg_1.2), lhs", "Arg_1.2, lhs", "does not close"),
            ("f32[4,8]{1,0} parameter", "f32[4,?]{1,0} parameter", "are not known"),
            ("  ROOT dot.3 = ", "  ROOT dot.3 ", "is no instruction"),
            ("parameter(0)", "parameter(7)", "contradicts itself"),
            ("f32[4,8]{1,0} p", "f32[4,99999999999999999999]{1,0} p", "impossible sizes"),
        ],
    )
    def test_broken_text(self, tmp_path, old, new, said):
        with pytest.raises(FileFormatError, match=said) as caught:
            read_hlo(self.write(tmp_path, HLO.replace(old, new)))
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("module {", "no module of StableHLO"),
            ("module { func.func @f() { stablehlo.nothing } }", "no module of StableHLO"),
            ("module {}", "has no function"),
            (
                "func.func @main(%a: tensor<?x4xf32>) -> tensor<?x4xf32> { return %a : "
                "tensor<?x4xf32> }",
                "leaves sizes open",
            ),
            (
                "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = call @main(%a) : "
                "(tensor<4xf32>) -> tensor<4xf32>\n return %0 : tensor<4xf32> }",
                "nested more than",
            ),
        ],
    )
    def test_broken_modules(self, tmp_path, capfd, text, said):
        with pytest.raises(FileFormatError, match=said) as caught:
            read_stablehlo(self.write(tmp_path, text, "m.mlir"))
        assert "\n" not in str(caught.value)
        assert capfd.readouterr() == ("", "")

    def test_damaged_bytecode_does_not_end_the_process(self, tmp_path):
        x = S((4, 4), F32)
        data = bytearray(export.export(jax.jit(lambda x: x @ x))(x).mlir_module_serialized)
        for at in range(40, len(data), 97):
            data[at] ^= 255
        path = tmp_path / "m.mlirbc"
        path.write_bytes(data)
        with pytest.raises(FileFormatError, match="no whole bytecode") as caught:
            read_stablehlo(path)
        assert "\n" not in str(caught.value)
