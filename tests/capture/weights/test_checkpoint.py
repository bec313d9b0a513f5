"""Checkpoint folders: every byte of the files, quantized or not."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from gambrel.analysis.analyze import Settings, analyze
from gambrel.capture.files.safetensors_index import read_checkpoint_folder
from gambrel.capture.resolve import Request, resolve_model
from gambrel.device.resolve import resolve_hardware
from gambrel.dtypes import width_bytes
from gambrel.errors import FileFormatError
from gambrel.workload import Role, Workload

H200 = resolve_hardware("h200")[0]

Tensors = dict[str, tuple[str, tuple[int, ...]]]
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4, "U8": 1, "F64": 8}

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
MATRICES = {
    "self_attn.q_proj": (256, 256),
    "self_attn.k_proj": (128, 256),
    "self_attn.v_proj": (128, 256),
    "self_attn.o_proj": (256, 256),
    "mlp.gate_proj": (512, 256),
    "mlp.up_proj": (512, 256),
    "mlp.down_proj": (256, 512),
}


def ends() -> Tensors:
    return {
        "model.embed_tokens.weight": ("BF16", (1000, 256)),
        "model.norm.weight": ("BF16", (256,)),
        "lm_head.weight": ("BF16", (1000, 256)),
        **{
            f"model.layers.{i}.{n}.weight": ("BF16", (256,))
            for i in range(2)
            for n in ("input_layernorm", "post_attention_layernorm")
        },
    }


def plain() -> Tensors:
    found = ends()
    for i in range(2):
        found |= {f"model.layers.{i}.{n}.weight": ("BF16", s) for n, s in MATRICES.items()}
    return found


def fp8(block: int = 128) -> Tensors:
    """DeepSeek's way: one fp32 scale for each square of weights."""
    found = ends()
    for i in range(2):
        for name, (rows, columns) in MATRICES.items():
            found[f"model.layers.{i}.{name}.weight"] = ("F8_E4M3", (rows, columns))
            scales = (-(-rows // block), -(-columns // block))
            found[f"model.layers.{i}.{name}.weight_scale_inv"] = ("F32", scales)
    return found


def gptq(group: int = 128) -> Tensors:
    """Eight values of 4 bits in a word, a scale and a packed zero point for each group."""
    found = ends()
    for i in range(2):
        for name, (rows, columns) in MATRICES.items():
            at = f"model.layers.{i}.{name}"
            found[f"{at}.qweight"] = ("I32", (columns // 8, rows))
            found[f"{at}.scales"] = ("F16", (columns // group, rows))
            found[f"{at}.qzeros"] = ("I32", (columns // group, rows // 8))
            found[f"{at}.g_idx"] = ("I32", (columns,))
    return found


def size(tensors: Tensors) -> int:
    return sum(BYTES[d] * prod(s) for d, s in tensors.values())


def write(path: Path, tensors: Tensors) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        end = at + BYTES[dtype] * prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)


def folder(path: Path, tensors: Tensors, parts: int = 1, **changes: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(CONFIG | changes))
    if parts == 1:
        write(path / "model.safetensors", tensors)
        return path
    names = list(tensors)
    placed = {n: f"model-{i % parts + 1:05}-of-{parts:05}.safetensors" for i, n in enumerate(names)}
    for part in set(placed.values()):
        write(path / part, {n: tensors[n] for n in names if placed[n] == part})
    index = {"metadata": {"total_size": size(tensors)}, "weight_map": placed}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return path


def decode(path: Path) -> Workload:
    sizes = {"context": 100}
    return resolve_model(str(path), Request(phase="decode", sizes=sizes)).workload


def stored_bytes(workload: Workload) -> float:
    return sum(
        prod(int(n) for n in t.shape) * width_bytes(t.dtype) * t.copies
        for t in workload.tensors
        if t.role is Role.WEIGHT
    )


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("tensors", [plain(), fp8(), gptq()], ids=["bf16", "fp8", "gptq"])
def test_every_byte_of_the_checkpoint(tmp_path: Path, tensors: Tensors, parts: int) -> None:
    path = folder(tmp_path / "m", tensors, parts)
    assert sum(t.nbytes for t in read_checkpoint_folder(path)) == size(tensors)
    found = decode(path)
    assert stored_bytes(found) == size(tensors)
    whole = analyze(found, H200, Settings(sizes={"context": 100}))
    assert whole.footprint.weights_bytes == size(tensors)
    # All but the table is read, of which one row of 512 bytes; the cache, 2 layers x 2 x 2 x 64
    # x 100 values, and activations come on top.
    weights = size(tensors) - 1000 * 512 + 512
    cache = 2 * 2 * 128 * 100 * 2
    assert 0 < whole.total.read_bytes - weights - cache < 0.06 * size(tensors)
    assert not [s for s in found.assumptions if "not found" in s or "not read" in s]


def test_formats_of_products(tmp_path: Path) -> None:
    quantized = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    eight = decode(folder(tmp_path / "a", fp8(), quantization_config=quantized))
    op = next(o for o in eight.ops if o.module.endswith("attention.q_proj"))
    assert [eight.tensors[i].dtype for i in op.inputs[1:]] == ["fp8", "fp32"]
    assert op.attrs["compute_dtype"] == "fp8"
    assert "dequantize" not in op.attrs
    four = decode(folder(tmp_path / "b", gptq()))
    op = next(o for o in four.ops if o.module.endswith("attention.q_proj"))
    assert [four.tensors[i].dtype for i in op.inputs[1:]] == ["int4", "fp16", "int32"]
    assert op.attrs["compute_dtype"] == "bf16"
    assert op.attrs["dequantize"] is True


def test_experts_in_tensors_of_their_own(tmp_path: Path) -> None:
    tensors = {k: v for k, v in plain().items() if ".mlp." not in k}
    for i in range(2):
        at = f"model.layers.{i}.block_sparse_moe"
        tensors[f"{at}.gate.weight"] = ("BF16", (4, 256))
        for e in range(4):
            tensors[f"{at}.experts.{e}.w1.weight"] = ("BF16", (512, 256))
            tensors[f"{at}.experts.{e}.w3.weight"] = ("BF16", (512, 256))
            tensors[f"{at}.experts.{e}.w2.weight"] = ("BF16", (256, 512))
    path = folder(
        tmp_path / "m", tensors, 2,
        model_type="mixtral", num_local_experts=4, num_experts_per_tok=2,
    )  # fmt: skip
    found = decode(path)
    assert stored_bytes(found) == size(tensors)
    assert not [s for s in found.assumptions if "not found" in s or "not read" in s]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    tensors = {k: v for k, v in plain().items() if "q_proj" not in k}
    tensors["model.rotary.inv_freq"] = ("F32", (32,))
    said = " ".join(decode(folder(tmp_path / "m", tensors)).assumptions)
    assert "1 tensors of the checkpoint (128 B, e.g. model.rotary.inv_freq) are not read" in said
    assert "1 weights are not found in the checkpoint" in said


def test_a_folder_without_weights_is_its_configuration(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", plain())
    (path / "model.safetensors").unlink()
    found = decode(path)
    assert found.origin == "closed form of llama"


def test_asked_for_another_precision(tmp_path: Path) -> None:
    """What the files hold does not matter for a question about another precision."""
    path = folder(tmp_path / "m", plain())
    request = Request(phase="decode", sizes={"context": 100}, precision="fp8")
    found = resolve_model(str(path), request).workload
    assert stored_bytes(found) < 0.8 * size(plain())


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        ("{", r"holds no 'weight_map'"),
        ('{"weight_map": []}', r"holds no 'weight_map'"),
        ('{"weight_map": {}}', r"names 0 files"),
        ('{"weight_map": {"a": "../x.safetensors"}}', r"is no safetensors file of this folder"),
        ('{"weight_map": {"a": "/etc/passwd"}}', r"is no safetensors file of this folder"),
        ('{"weight_map": {"a": "x.bin"}}', r"'x.bin' is no safetensors file"),
        ('{"weight_map": {"a": "none.safetensors"}}', r"no such file"),
        ('{"weight_map": {"a": "model.safetensors"}}', r"the tensor 'a', which .* is not in it"),
    ],
)
def test_damaged_indices(tmp_path: Path, index: str, sentence: str) -> None:
    path = folder(tmp_path / "m", plain())
    (path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(FileFormatError, match=sentence):
        decode(path)


def test_a_truncated_part(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", plain(), 3)
    part = path / "model-00002-of-00003.safetensors"
    part.write_bytes(part.read_bytes()[:50])
    with pytest.raises(FileFormatError, match=r"truncated"):
        decode(path)
