"""Sizes of models in mixtures of GGUF formats are those of published files."""

from __future__ import annotations

import math

import pytest

from gambrel.capture.closed_form import workload_of_config
from gambrel.dtypes import width_bytes
from gambrel.llm.known import config_of
from gambrel.workload import Role

GB, GIB = 10**9, 2**30

#: Files: tensorblock/gemma-3-1b-it-GGUF and bartowski/google_gemma-3-1b-it-qat-GGUF (2025), which
#: hold 7 MB of vocabulary; llama-bench tables of github.com/ggml-org/llama.cpp (pull requests 3776
#: and 4766) and geerlingguy/ai-benchmarks (issues 21 and 23); read on 2026-11-28.
FILES = [
    ("gemma-3-1b", "q3_k_s", 0.689 * GB),
    ("gemma-3-1b", "q3_k_m", 0.722 * GB),
    ("gemma-3-1b", "q3_k_l", 0.752 * GB),
    ("gemma-3-1b", "q4_k_s", 0.781 * GB),
    ("gemma-3-1b", "q4_k_m", 0.806 * GB),
    ("gemma-3-1b", "q5_k_s", 0.836 * GB),
    ("gemma-3-1b", "q5_k_m", 0.851 * GB),
    ("llama-2-7b", "q4_k_m", 3.80 * GIB),
    ("llama-2-7b", "q4_0", 3.56 * GIB),
    ("llama-3.2-3b", "q4_k_m", 1.87 * GIB),
    ("gemma-3-1b", "q4_0", 0.72 * GB),
    ("qwen2.5-7b", "q4_k_m", 4.36 * GIB),
    ("qwen2.5-14b", "q4_k_m", 8.37 * GIB),
]


@pytest.mark.parametrize(("model", "file", "published"), FILES)
def test_bytes_of_weights_are_those_of_the_file(model: str, file: str, published: float) -> None:
    assert bytes_of(model, file) == pytest.approx(published, rel=0.022)


def test_rows_that_fit_keep_the_average_of_the_mixture() -> None:
    named = config_of("llama-3.1-8b")
    assert named is not None
    built = workload_of_config(named[1], phase="decode", precision="q4_k_m")
    assert {t.dtype for t in built.tensors if t.role is Role.WEIGHT} == {"q4_k_m", "bf16"}


def test_an_output_gets_more_bits() -> None:
    for model, file, output in (("llama-3.1-8b", "q4_0", "lm_head"), ("qwen3-4b", "q4_k_m", "emb")):
        named = config_of(model)
        assert named is not None
        built = workload_of_config(named[1], phase="decode", precision=file)
        weights = {t.name: t.dtype for t in built.tensors if t.role is Role.WEIGHT}
        assert {dtype for name, dtype in weights.items() if name.startswith(output)} == {"q6_k"}
        assert file in weights.values()


def test_odd_rows_take_blocks_of_32() -> None:
    # Rows of Gemma 3 1B have 1,152 values, 4.5 blocks of 256; those of its down projection 6,912,
    # 27 blocks, of which 3 + 4 + 6 of 26 layers are in q6_k; its table is its output.
    named = config_of("gemma-3-1b")
    assert named is not None
    built = workload_of_config(named[1], phase="decode", precision="q4_k_m")
    formats: dict[str, set[str]] = {}
    for tensor in built.tensors:
        if tensor.role is Role.WEIGHT:
            kind = tensor.name.removesuffix(".weight").rpartition(".")[2]
            formats.setdefault(kind, set()).add(tensor.dtype)
    assert formats["q_proj"] == {"q5_0"}
    assert formats["v_proj"] == {"q5_0", "q8_0"}
    assert formats["o_proj"] == {"q4_k"}
    assert formats["down_proj"] == {"q4_k", "q6_k"}
    assert formats["embedding"] == {"q8_0"}


def bytes_of(model: str, file: str) -> float:
    named = config_of(model)
    assert named is not None
    sizes = {"context": 64}
    built = workload_of_config(named[1], phase="decode", sizes=sizes, precision=file)
    held = {t.storage: t for t in built.tensors if t.role is Role.WEIGHT}
    return sum(
        math.prod(int(n) for n in t.shape) * width_bytes(t.dtype) * t.copies for t in held.values()
    )
