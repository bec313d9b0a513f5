"""Number formats part by part."""

from __future__ import annotations

import pytest

from gambrel.analysis.analyze import analyze
from gambrel.device.lookup import find
from gambrel.errors import InputError, UnknownNameError
from gambrel.llm.build import build
from gambrel.llm.config import read_config
from gambrel.llm.precision import Precisions, is_scheme
from gambrel.llm.step import decode
from gambrel.workload import Role

from .models import LLAMA3_8B


@pytest.mark.parametrize(
    ("text", "weights", "compute", "activations", "cache", "head"),
    [
        ("bf16", "bf16", "bf16", "bf16", "bf16", "bf16"),
        ("fp16", "fp16", "fp16", "fp16", "fp16", "fp16"),
        ("fp8", "fp8", "fp8", "bf16", "fp8", "bf16"),
        ("FP8", "fp8", "fp8", "bf16", "fp8", "bf16"),
        ("nvfp4", "nvfp4", "nvfp4", "bf16", "fp8", "bf16"),
        ("w4a16", "int4", "bf16", "bf16", "bf16", "bf16"),
        ("w8a8", "int8", "int8", "bf16", "bf16", "bf16"),
        ("w8a16", "int8", "bf16", "bf16", "bf16", "bf16"),
        ("w4a8", "int4", "int8", "bf16", "bf16", "bf16"),
        ("w4a16,kv=fp8", "int4", "bf16", "bf16", "fp8", "bf16"),
        ("kv=fp8", "bf16", "bf16", "bf16", "fp8", "bf16"),
        ("fp8, kv=bf16, head=fp8", "fp8", "fp8", "bf16", "bf16", "fp8"),
        ("awq", "int4", "bf16", "bf16", "bf16", "bf16"),
    ],
)
def test_spellings(
    text: str, weights: str, compute: str, activations: str, cache: str, head: str
) -> None:
    p = Precisions.parse(text)
    found = (p.weights, p.multiply, p.activations, p.of("kv_cache"), p.of("lm_head"))
    assert found == (weights, compute, activations, cache, head)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fp9", r"unknown precision 'fp9'; closest: bf16, .*w4a16"),
        ("fp8,kw=fp8", "unknown part of a precision 'kw'"),
        ("fp8,kv", "unknown part of a precision 'kv'|name each part once"),
        ("fp8,kv=", "name each part once"),
        ("fp8,kv=fp8,kv=fp8", "name each part once"),
        ("w3a16", "weights of 4, 8 or 16 bits"),
        ("w8a4", "activations of 8 or 16"),
        ("w4a16,block=x", "block='x': weights that share a scale"),
        ("w4a16,block=0", "block='0'"),
        ("int64", "a model cannot run in int64"),
    ],
)
def test_what_cannot_be_read(text: str, says: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=says):
        Precisions.parse(text)


def test_plain_formats_are_no_schemes() -> None:
    assert not any(map(is_scheme, ("bf16", "fp16", "fp8", "half", "int8")))
    assert all(map(is_scheme, ("w4a16", "fp8,kv=bf16", "kv=fp8", "w8a8", "fp8_block")))


def test_scales_of_groups_and_blocks() -> None:
    # One of 2 bytes per 128 weights of a column: 4096/128·14336; one of 4 a square: 32·112.
    assert Precisions.parse("w4a16").scales(4096, 14336) == 32 * 14336
    assert Precisions.parse("fp8_block").scales(4096, 14336) == 32 * 112
    assert Precisions.parse("fp8").scales(4096, 14336) == 0
    # Not divisible: rounded up.
    assert Precisions.parse("fp8_block").scales(129, 129) == 4


def test_bytes_in_memory_of_w4a16() -> None:
    """Layers 6,979,321,856 values of 4.125 bits; embedding, head and norms of 16."""
    found = analyze(build(read_config(LLAMA3_8B), decode(1, 8), "w4a16"), find("h100").device)
    matrices = 32 * 218_103_808
    rest = 8_030_261_248 - matrices
    assert found.footprint.weights_bytes == matrices * 4.125 / 8 + rest * 2
    assert found.model.parameters == 8_030_261_248
    assert found.model.precision == "bf16"
    assert any("int4" in sentence for sentence in found.assumptions)


def test_fp8_products_run_on_the_fp8_roof() -> None:
    found = analyze(build(read_config(LLAMA3_8B), decode(1, 8), "fp8"), find("h100").device)
    by_dtype = {w.dtype: w.flops for w in found.total.work if w.work_class == "matrix"}
    assert by_dtype["fp8"] == 2 * 32 * 218_103_808
    # The head and attention in bf16: 2·4096·128256 + 4·32·128·8·32.
    assert by_dtype["bf16"] == 2 * 4096 * 128256 + 32 * 4 * 32 * 128 * 8


def test_narrow_weights_are_converted() -> None:
    workload = build(read_config(LLAMA3_8B), decode(1, 8), "w4a16")
    layer = [op for op in workload.ops if op.module.endswith("q_proj")]
    assert layer[0].attrs == {
        "compute_dtype": "bf16",
        "dequantize": True,
        "padded_rows": True,
    }
    assert workload.tensors[layer[0].inputs[1]].dtype == "int4"
    scales = workload.tensors[layer[0].inputs[2]]
    assert (scales.dtype, scales.role, scales.copies) == ("fp16", Role.BUFFER, 32)


def test_the_cache_has_its_own_format() -> None:
    for text, dtype in (("bf16", "bf16"), ("bf16,kv=fp8", "fp8")):
        workload = build(read_config(LLAMA3_8B), decode(1, 8), text)
        assert {t.dtype for t in workload.tensors if t.role is Role.KV_CACHE} == {dtype}
