"""A config.json of a language model through the front door: no torch, open sizes, precisions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gambrel
from gambrel.capture import zoo
from gambrel.capture.closed_form import is_closed_form, workload_of_config
from gambrel.errors import CaptureError, GambrelError, InputError, UnknownNameError, WorkloadError
from tests.llm.captures import totals
from tests.llm.models import GEMMA3_27B, LLAMA3_8B, MIXTRAL, PUBLISHED, WHISPER_SMALL


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA3_8B), encoding="utf-8")
    return file


def test_the_same_answer_as_the_zoo(path: Path) -> None:
    """The zoo's entry was captured from transformers, which splits norms and rotation into ops."""
    for phase in ("prefill", "decode"):
        asked: dict[str, Any] = {"phase": phase, "batch_size": 4, "precision": "bf16"}
        asked["runtime"] = "pytorch"  # serving engines would store q, k and v as one matrix
        own = gambrel.analyze(str(path), "h100", **asked)
        known = gambrel.analyze("llama-3-8b", "h100", **asked)
        assert own.total.matrix_flops == known.total.matrix_flops
        assert own.model.parameters == known.model.parameters
        assert own.footprint.weights_bytes == pytest.approx(known.footprint.weights_bytes, rel=1e-6)
        matmuls = [
            {g.name: g.measures.traffic_bytes for g in a.by_kind if g.name == "matmul"}
            for a in (own, known)
        ]
        assert matmuls[0] == matmuls[1]


ZOO = {
    "llama-3-8b": "Llama-3-8B",
    "llama-3-70b": "Llama-3-70B",
    "llama-3.1-405b": "Llama-3.1-405B",
    "llama-3.2-1b": "Llama-3.2-1B",
    "mixtral-8x7b": "Mixtral-8x7B",
    "phi-4": "Phi-4",
    "qwen3-8b": "Qwen3-8B",
    "gpt2": "GPT-2",
}


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("name", ZOO)
def test_products_and_attention_of_the_zoo(name: str, phase: str) -> None:
    sizes = {"batch": 4, ("seq" if phase == "prefill" else "context"): 512}
    config = {**PUBLISHED[ZOO[name]][0], "torch_dtype": "bfloat16"}
    own = workload_of_config(config, phase=phase, sizes=sizes)
    entry = zoo.load(zoo.find(name, phase=phase)[0].name)
    assert totals(own, **sizes) == totals(entry, **sizes)


def test_neither_torch_nor_transformers_is_imported(path: Path) -> None:
    code = (
        "import sys, gambrel\n"
        f"gambrel.analyze({str(path)!r}, 'h200', phase='decode', precision='fp8')\n"
        "print([m for m in ('torch', 'transformers', 'plotly') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_device_without_bf16_takes_fp16(path: Path) -> None:
    """Volta and Turing multiply fp16 alone; engines refuse bf16 there."""
    own = gambrel.analyze(str(path), "t4", phase="decode")
    assert own.model.precision == "fp16"
    assert own.model.precision_reason.startswith("t4 has no bf16 engine")
    asked = gambrel.analyze(str(path), "t4", phase="decode", precision="bf16")
    assert asked.model.precision == "bf16"
    assert gambrel.analyze(str(path), "a10", phase="decode").model.precision == "bf16"


def test_the_parts_of_a_precision_too(path: Path) -> None:
    found = gambrel.analyze(str(path), "t4", phase="decode", precision="w4a16")
    assert found.model.precision == "w4a16,activations=fp16"
    again = gambrel.analyze(
        str(path), "t4", phase="decode", precision="w4a16,activations=fp16", runtime="vllm"
    )
    assert again.roofline_time_s == found.roofline_time_s
    kept = gambrel.analyze(str(path), "t4", phase="decode", precision="w4a16,activations=bf16")
    assert kept.model.precision == "w4a16,activations=bf16"


def test_every_face_knows_a_precision_part_by_part() -> None:
    """The zoo's recorded model is built again from its description."""
    asked = {"precision": "w4a16", "phase": "decode", "runtime": "pytorch"}
    one = gambrel.analyze("llama-3-8b", "t4", **asked)
    (row,) = gambrel.compare("llama-3-8b", "t4", **asked).rows
    assert row.precision == one.model.precision
    assert row.roofline_time_s == one.roofline_time_s


def test_precision_part_by_part(path: Path) -> None:
    found = gambrel.analyze(str(path), "h200", phase="decode", precision="w4a16,kv=fp8")
    assert (found.model.precision, found.model.precision_reason) == (
        "w4a16,kv=fp8",
        "part by part",
    )
    assert found.footprint.kv_cache_bytes == 2048 * 65_536  # one byte a value
    assert any(
        s.startswith("precision w4a16,kv=fp8: stored as weights int4") for s in found.assumptions
    )
    again = gambrel.analyze(str(path), "h200", phase="decode", precision="bf16")
    assert again.model.precision == "bf16"
    assert again.footprint.kv_cache_bytes == 2048 * 131_072


def test_a_saved_analysis_keeps_its_precision(path: Path, tmp_path: Path) -> None:
    found = gambrel.analyze(str(path), "h200", phase="decode", precision="fp8", batch_size=2)
    file = tmp_path / "out.json"
    found.save(file)
    assert gambrel.load(file) == found


def test_sizes_stay_open_for_sweeps(path: Path) -> None:
    asked: dict[str, Any] = {"phase": "decode", "precision": "bf16", "runtime": "pytorch"}
    table = gambrel.sweep(str(path), "h100", batch_size=[1, 16], **asked)
    times = [
        gambrel.analyze(str(path), "h100", batch_size=b, **asked).total.roofline_time_s
        for b in (1, 16)
    ]
    assert list(table.roofline_time_s) == pytest.approx(times)


def test_windows_bound_the_cache_of_one_analysis(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(GEMMA3_27B), encoding="utf-8")
    asked: dict[str, Any] = {"phase": "decode", "precision": "bf16", "runtime": "pytorch"}
    found = gambrel.analyze(str(file), "h100", context=8192, **asked)
    # 52 layers keep 1,024 positions, 10 keep all; 16 heads of 128, keys and values, 2 bytes.
    assert found.footprint.kv_cache_bytes == (52 * 1024 + 10 * 8192) * 16 * 128 * 2 * 2
    table = gambrel.sweep(str(file), "h100", context=[1024, 8192], **asked)
    assert table.roofline_time_s[1] == pytest.approx(found.total.roofline_time_s)


def test_encoders_and_decoders() -> None:
    both = workload_of_config(WHISPER_SMALL, sizes={"batch": 2, "target": 8})
    assert [s.name for s in both.symbols] == ["batch", "target"]
    later = workload_of_config(WHISPER_SMALL, phase="decode")
    assert not any(op.kind == "convolution" for op in later.ops)
    t5 = workload_of_config(PUBLISHED["T5-base"][0])
    assert [s.name for s in t5.symbols] == ["batch", "target", "seq"]
    image = workload_of_config(PUBLISHED["ViT-B/16"][0])
    assert [s.name for s in image.symbols] == ["batch"]


@pytest.mark.parametrize(
    ("config", "asked", "error", "says"),
    [
        (
            LLAMA3_8B,
            {"phase": "train"},
            InputError,
            "no phase 'train'; it has phases: prefill, dec",
        ),
        (PUBLISHED["BERT-base"][0], {"phase": "decode"}, InputError, "it has one forward pass"),
        (LLAMA3_8B, {"sizes": {"image": 3}}, InputError, "no size 'image'; it has batch, seq"),
        (
            LLAMA3_8B,
            {"phase": "decode", "sizes": {"context": 9000}},
            WorkloadError,
            "context=9000: this model takes at least 1 and at most 8192",
        ),
        (MIXTRAL, {"precision": "fp9"}, UnknownNameError, "unknown precision 'fp9'"),
        (MIXTRAL, {"precision": "kv=fp9"}, UnknownNameError, "unknown precision 'fp9'"),
    ],
)
def test_what_a_model_does_not_have(
    config: dict[str, Any], asked: dict[str, Any], error: type[GambrelError], says: str
) -> None:
    with pytest.raises(error, match=says):
        workload_of_config(config, **asked)


def test_an_unknown_type_is_refused_without_importing_transformers() -> None:
    code = (
        "import sys\n"
        "from gambrel.capture.closed_form import is_closed_form\n"
        "from gambrel.errors import GambrelError\n"
        "try:\n"
        "    is_closed_form({'model_type': 'lamma'})\n"
        "except GambrelError as error:\n"
        "    print(error)\n"
        "print('transformers' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, imported = run.stdout.strip().splitlines()
    assert "'lamma'" in said
    assert "closed form" in said
    assert imported == "False"


def test_other_types_are_left_to_transformers() -> None:
    pytest.importorskip("transformers")
    assert not is_closed_form({"model_type": "swin"})
    assert not is_closed_form({})
    assert not is_closed_form([])


def test_without_transformers_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        CaptureError, match=r"'swin' has no closed form, and transformers.*huggingf"
    ):
        is_closed_form({"model_type": "swin"})


def test_a_sweep_over_precisions_part_by_part(path: Path) -> None:
    formats = ["bf16", "fp8", "w4a16,kv=fp8"]
    asked: dict[str, Any] = {"phase": "decode", "runtime": "pytorch"}
    table = gambrel.sweep(
        str(path), ["h100", "a100"], precision=formats, batch_size=[1, 8], **asked
    )
    assert len(table) == 3 * 2 * 2
    for i in (0, 3, 5, 11):
        one = gambrel.analyze(
            str(path),
            str(table.device[i]),
            **asked,
            batch_size=int(table.sizes["batch"][i]),
            precision=str(table.precision[i]),
        )
        assert table.roofline_time_s[i] == pytest.approx(one.total.roofline_time_s)
        assert table.traffic_bytes[i] == pytest.approx(one.total.traffic_bytes)
    with pytest.raises(InputError, match="is not a list with a value in it"):
        gambrel.sweep(str(path), "h100", precision=[])


def test_a_training_step_is_not_answered_with_a_prefill(path: Path) -> None:
    with pytest.raises(CaptureError, match=r"llama is an inference workload"):
        gambrel.analyze(str(path), "h100", train=True)


def test_every_command_takes_a_precision_part_by_part(path: Path) -> None:
    formats = ["bf16", "w4a16,kv=fp8"]
    asked: dict[str, Any] = {"phase": "decode", "runtime": "pytorch"}
    found = gambrel.compare(str(path), ["h100"], precision=formats, metric="latency", **asked)
    by_format = {row.precision: row for row in found.rows}
    one = gambrel.analyze(str(path), "h100", precision="w4a16,kv=fp8", **asked)
    assert by_format.keys() == {"bf16", "w4a16,kv=fp8"}
    assert by_format["w4a16,kv=fp8"].roofline_time_s == pytest.approx(one.total.roofline_time_s)
    chosen = gambrel.select(
        str(path), ["h100", "l4"], phase="decode", precision="w4a16", latency="1s"
    )
    assert len(chosen.meets) == 2


def test_a_language_model_by_name_needs_no_file():
    analysis = gambrel.analyze("Qwen/Qwen3-32B", "h200", phase="decode", precision="fp8")
    assert analysis.model.name == "qwen3-32b"
    # 32,762,123,264 parameters as published; one byte each but embedding and head (2 x 151,936 x
    # 5,120 of two bytes) and norms.
    assert 33e9 < analysis.total.read_bytes < 33.5e9


def test_serving_engines_store_q_k_v_and_gate_up_as_one_matrix():
    own = gambrel.analyze("qwen3-32b", "h200", phase="decode", runtime="pytorch")
    served = gambrel.analyze("qwen3-32b", "h200", phase="decode", runtime="vllm")
    default = gambrel.analyze("qwen3-32b", "h200", phase="decode")
    assert (default.runtime, default.total) == ("vllm", served.total)
    assert served.flops == own.flops  # the same arithmetic
    products = [sum(op.kind == "matmul" for op in a.ops) for a in (own, served)]
    assert products == [7 + 1, 4 + 1]  # of 64 equal layers: q k v o gate up down; and the head
    assert any("one GEMM each" in a for a in served.assumptions)
