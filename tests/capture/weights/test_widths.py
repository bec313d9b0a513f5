"""Workloads with the widths of a file: every byte of it, once."""

from __future__ import annotations

import subprocess
import sys
from math import prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gambrel.analysis.analyze import analyze
from gambrel.capture.gguf import workload_from_gguf
from gambrel.capture.weights.ggml import TYPES
from gambrel.capture.weights.gguf import read_gguf
from gambrel.device.resolve import resolve_hardware
from gambrel.dtypes import BITS, parse_dtype, width_bytes
from gambrel.errors import FileFormatError, InputError, WorkloadError
from gambrel.ops.base import to_bytes
from gambrel.workload import Role, Workload
from tests.capture.weights.models import (
    Tensors,
    llama_metadata,
    llama_tensors,
    mixtral_metadata,
    mixtral_tensors,
    write_model,
)

RTX = resolve_hardware("rtx-4090")[0]


def weight_bytes(workload: Workload) -> float:
    return sum(
        prod(int(n) for n in t.shape) * width_bytes(t.dtype) * t.copies
        for t in workload.tensors
        if t.role is Role.WEIGHT
    )


def formats(workload: Workload, module: str) -> list[tuple[str, int, int]]:
    """(format, repeat, copies) of the ops of a module."""
    return [
        (workload.tensors[op.inputs[1]].dtype, op.repeat, workload.tensors[op.inputs[1]].copies)
        for op in workload.ops
        if op.module == module
    ]


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return write_model(tmp_path / "llama.gguf", llama_metadata(), llama_tensors())


def test_formats_of_the_file_and_of_gambrel_agree() -> None:
    spelled = {"i16": "int16", "i64": "int64"}
    for form in TYPES.values():
        name = parse_dtype(spelled.get(form.name, form.name))
        assert BITS[name] == form.bits
        assert to_bytes(3 * form.block, name) == 3 * form.nbytes


def test_layers_that_differ_are_told_apart(llama: Path) -> None:
    found = workload_from_gguf(llama, phase="decode", sizes={"context": 100})
    assert formats(found, "layers.*.attention.q_proj") == [("q4_k", 4, 4)]
    assert formats(found, "layers.*.attention.v_proj") == [("q4_k", 2, 2), ("q6_k", 2, 2)]
    assert formats(found, "layers.*.feed_forward.down_proj") == [("q4_k", 2, 2), ("q6_k", 2, 2)]
    assert formats(found, "lm_head") == [("q6_k", 1, 1)]


def test_every_byte_of_the_file(llama: Path) -> None:
    found = workload_from_gguf(llama, phase="decode", sizes={"context": 100})
    # By hand, 144 bytes a block of 256 in q4_k, 210 in q6_k. Per layer: q, o of 512x512, k of
    # 256x512, gate, up of 1024x512 in q4_k: 2·1024 + 512 + 2·2048 = 6,656 blocks; v of 512 and
    # down of 2,048 blocks in either; two norms of 512 x 4 bytes.
    layer = 6656 * 144 + 2 * 512 * 4
    ends = 2000 * 144 + 2000 * 210 + 512 * 4
    by_hand = 4 * layer + 2 * 2560 * 144 + 2 * 2560 * 210 + ends
    assert by_hand == 6_372_768
    assert weight_bytes(found) == read_gguf(llama).nbytes == by_hand
    whole = analyze(found, RTX)
    assert whole.footprint.weights_bytes == by_hand
    assert whole.coverage == 1.0
    # One token reads every weight but the table, of which it reads one row (2 blocks of 144).
    # Cache: 4 layers x 2 x 4 heads x 64 x 100 x 2 bytes.
    weights = by_hand - 2000 * 144 + 2 * 144
    cache = 4 * 2 * 256 * 100 * 2
    rest = whole.total.read_bytes - weights - cache
    assert 0 < rest < 0.02 * weights  # activations


def test_tied_tables_are_stored_once(tmp_path: Path) -> None:
    path = write_model(tmp_path / "t.gguf", llama_metadata(), llama_tensors(tied=True))
    found = workload_from_gguf(path, phase="decode", sizes={"context": 100})
    assert weight_bytes(found) == read_gguf(path).nbytes
    assert formats(found, "lm_head") == [("q4_k", 1, 1)]


def test_experts_whose_projections_differ(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", mixtral_metadata(), mixtral_tensors())
    found = workload_from_gguf(path, phase="decode", sizes={"context": 100})
    assert weight_bytes(found) == read_gguf(path).nbytes
    (op,) = (o for o in found.ops if o.module.endswith("experts.gate_up_proj"))
    assert [found.tensors[i].dtype for i in op.inputs[1:3]] == ["q4_k", "q6_k"]
    whole = analyze(found, RTX)
    row = next(r for r in whole.ops if r.module.endswith("experts.gate_up_proj"))
    # One token reaches 2 of 4 experts: half of 8,192 blocks in either format, in 4 layers; the
    # token itself and the places of the experts are the rest.
    half = 4 * 4096 * (144 + 210)
    assert half <= row.measures.read_bytes < 1.01 * half


def test_precision_of_the_cache(llama: Path) -> None:
    plain = analyze(workload_from_gguf(llama, phase="decode"), RTX).footprint.kv_cache_bytes
    found = workload_from_gguf(llama, phase="decode", precision="kv=q8_0")
    assert plain == 4 * 2 * 256 * 2048 * 2
    assert analyze(found, RTX).footprint.kv_cache_bytes == plain / 16 * 8.5


def test_sentences(llama: Path, tmp_path: Path) -> None:
    said = " ".join(workload_from_gguf(llama).assumptions)
    assert "weights as the file stores them (q4_k 4.859 MB, q6_k 1.495 MB, f32 18.43 kB)" in said
    more: Tensors = [*llama_tensors(), ("rope_freqs.weight", (32,), "f32")]
    found = workload_from_gguf(write_model(tmp_path / "r.gguf", llama_metadata(), more))
    assert any(
        "1 tensors of the file (128 B, e.g. rope_freqs.weight)" in s for s in found.assumptions
    )
    less = [t for t in llama_tensors() if "attn_q." not in t[0]]
    found = workload_from_gguf(write_model(tmp_path / "q.gguf", llama_metadata(), less))
    assert any(
        "1 weights are not found in the file and keep 16 bits" in s for s in found.assumptions
    )


def test_phases_and_sizes(llama: Path) -> None:
    first = workload_from_gguf(llama)
    assert {s.name: s.default for s in first.symbols} == {"batch": 1, "seq": 2048}
    with pytest.raises(
        InputError, match=r"Tiny Llama has no phase 'train'; it has phases: prefill, decode"
    ):
        workload_from_gguf(llama, phase="train")
    with pytest.raises(WorkloadError, match=r"seq=9000"):
        workload_from_gguf(llama, sizes={"seq": 9000})


@settings(max_examples=25, deadline=None)
@given(batch=st.integers(1, 64), context=st.integers(1, 4096))
def test_matrix_work_does_not_depend_on_widths(batch: int, context: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        write_model(path, llama_metadata(), llama_tensors())
        sizes = {"batch": batch, "context": context}
        found = analyze(workload_from_gguf(path, phase="decode", sizes=sizes), RTX)
    # 4 layers: q, o 512x512, k, v 256x512, three of 1024x512; head; 8 heads x 64 x 2 products.
    layer = 2 * 512 * 512 + 2 * 256 * 512 + 3 * 1024 * 512
    macs = batch * (4 * (layer + 2 * 8 * 64 * context) + 1000 * 512)
    assert found.total.matrix_flops == 2 * macs


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gambrel", *arguments], capture_output=True, text=True, check=False
    )


def test_the_command(llama: Path) -> None:
    done = run(
        "analyze", str(llama), "--hardware", "rtx-4090", "--phase", "decode", "--batch", "1",
        "--context", "4096",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Tiny Llama, batch 1,")
    assert "on NVIDIA GeForce RTX 4090" in done.stdout


def test_several_batches(llama: Path) -> None:
    done = run("analyze", str(llama), "--hardware", "rtx-4090", "--batch", "1,8", "--seq", "64")
    assert done.returncode == 0, done.stderr
    assert "batch 8" in done.stdout


def test_a_truncated_file_on_the_command_line(llama: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(llama.read_bytes()[:3000])
    done = run("analyze", str(cut), "--hardware", "rtx-4090")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "at byte " in done.stderr


def test_no_torch_and_no_transformers(llama: Path) -> None:
    program = (
        "import sys, gambrel; gambrel.analyze(sys.argv[1], 'rtx-4090', phase='decode');"
        "print(sorted({'torch', 'transformers', 'gguf'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(llama)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    from gambrel.capture.resolve import resolve_model

    with pytest.raises(FileFormatError, match=r"no such file"):
        resolve_model(str(tmp_path / "none.gguf"))


def test_names_of_formats_are_no_precision_of_a_run(llama: Path) -> None:
    """A block format is stored, nothing computes in it."""
    found = workload_from_gguf(llama)
    computed = {str(o.attrs.get("compute_dtype")) for o in found.ops if o.kind == "matmul"}
    assert computed == {"fp16"}
    assert found.dtype == "fp16"
    assert replace(found, name="x").dtype == "fp16"
