"""The registry, and the arithmetic that formulas share."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.errors import InputError
from gambrel.ops import Conventions, OpView, base, cost, is_free, is_modelled, kinds
from tests.ops.builders import costed, op, tensor


def test_a_kind_cannot_have_two_formulas():
    with pytest.raises(ValueError, match="op kind 'matmul' is registered twice"):
        base.formula("matmul")(lambda _op: base.Cost())
    with pytest.raises(ValueError, match="op kind 'view' is registered twice"):
        base.formula("view")(lambda _op: base.Cost())
    with pytest.raises(ValueError, match="op kind 'matmul' is registered twice"):
        base.free("matmul", "because")


def test_unknown_kind_is_unmodelled_and_never_zero():
    unknown = op("aten.frobnicate", inputs=(tensor(3),), outputs=(tensor(3),))
    assert cost(unknown) is None
    assert not is_modelled("aten.frobnicate")
    assert not is_free("aten.frobnicate")


@pytest.mark.parametrize("kind", ["view", "sync"])
def test_free_kinds_cost_nothing(kind):
    found = costed(op(kind, inputs=(tensor(1024, 1024),), outputs=(tensor(1024, 1024),)))
    assert (found.work, found.read_bytes, found.write_bytes, found.link_bytes) == ({}, 0, 0, 0)
    assert is_free(kind)
    assert is_modelled(kind)
    assert kinds()[kind].startswith("free: ")


def test_every_formula_says_what_it_counts():
    for kind, line in kinds().items():
        assert len(line) > 20, kind
        assert line.startswith("free: ") or line.endswith((".", ":")), kind


def test_missing_size_is_named():
    with pytest.raises(KeyError, match="op kind 'matmul' needs the size 'n'"):
        cost(op("matmul", {"m": 1, "k": 2}))


def test_unknown_convention_is_refused():
    with pytest.raises(InputError, match="causal convention 'third': choose 'half' or 'full'"):
        Conventions(causal="third")


def test_dtype_is_the_widest_real_input():
    half, single, index = tensor(3, dtype="bf16"), tensor(3), tensor(3, dtype="int64")
    assert op("matmul", inputs=(half, half)).dtype == "bf16"
    assert op("matmul", inputs=(index, half, single)).dtype == "fp32"
    assert op("matmul", inputs=(index, index)).dtype == "int64"
    assert op("matmul", inputs=(half, single), compute_dtype="fp8").dtype == "fp8"
    assert op("matmul", inputs=(half, single)).operand_dtype(1) == "bf16"
    assert op("matmul", outputs=(half,)).dtype == "bf16"
    assert op("matmul").dtype == "fp32"


def test_complex_formats_are_named_by_their_component():
    z = tensor(3, dtype="complex128")
    assert op("fft", inputs=(z,)).dtype == "fp64"
    assert op("fft", inputs=(z,)).is_complex
    assert not op("fft", inputs=(tensor(3),)).is_complex


def test_distinct_regions_count_once():
    x = tensor(10, 10, storage=1)
    transposed = tensor(10, 10, storage=1)
    head = tensor(5, storage=1)
    tail = tensor(5, storage=1, offset=50)
    assert base.distinct_bytes((x, transposed)) == 400
    assert base.distinct_bytes((head, x)) == 400
    assert base.distinct_bytes((head, tail)) == 40
    assert base.distinct_bytes((x, tensor(10, 10))) == 800
    assert base.distinct_bytes(()) == 0


def test_distinct_regions_over_a_sweep():
    offset = np.array([5.0, 50.0])
    views = (
        tensor(5, storage=1, elements=np.array([5.0, 7.0]), offset=offset),
        tensor(5, storage=1, elements=np.array([6.0, 6.0]), offset=offset.copy()),
        tensor(5, storage=1, elements=np.array([1.0, 1.0]), offset=offset + 1),
    )
    assert base.distinct_bytes(views).tolist() == [(6 + 1) * 4, (7 + 1) * 4]


@pytest.mark.parametrize(
    ("elements", "dtype", "expected"),
    [
        (3, "fp32", 12),
        (3, "int4", 2),  # 12 bits
        (32, "mxfp4", 17),  # 16 bytes and one scale
        (16, "nvfp4", 9),
        (1, "mxfp8", 2),  # 8.25 bits
        (2**60 + 1, "fp16", 2**61 + 2),  # more than a float can tell
    ],
)
def test_bytes_are_exact_and_round_up(elements, dtype, expected):
    assert base.to_bytes(elements, dtype) == expected
    if elements < 2**50:
        assert base.to_bytes(np.array([float(elements)]), dtype).tolist() == [expected]


@given(st.integers(-50, 50), st.integers(-50, 50))
def test_helpers_agree_on_ints_and_arrays(a, b):
    x, y = np.array([float(a)]), np.array([float(b)])
    assert base.minimum(x, y)[0] == base.minimum(a, b)
    assert base.maximum(x, y)[0] == base.maximum(a, b)
    assert base.where(x > y, x, y)[0] == base.where(a > b, a, b)
    assert base.log2(x)[0] == pytest.approx(base.log2(a))
    assert base.rounded(x / 7)[0] == base.rounded(a / 7)
    if b > 0:
        assert base.ceil_div(x, y)[0] == base.ceil_div(a, b)


def test_ints_stay_ints():
    assert isinstance(base.rounded(2.5), int)
    assert isinstance(base.minimum(2, 3), int)
    assert isinstance(base.product((2, 3)), int)
    assert base.product(()) == 1


def test_work_leaves_out_engines_with_nothing_to_do():
    assert base.work("fp16", matrix=0, vector=3) == {("vector", "fp16"): 3}
    assert base.work("fp16") == {}


def test_importing_the_formulas_loads_no_array_library():
    script = "import sys, gambrel.ops; print(*sorted({'numpy', 'torch', 'jax'} & {*sys.modules}))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
    loaded = script.replace("gambrel.ops", "numpy")  # the check itself can fail
    run = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "numpy"


def test_op_views_are_values():
    assert OpView(kind="matmul") == OpView(kind="matmul")
