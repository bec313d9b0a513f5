"""Without an engine, a closed form launches what the code of transformers launches."""

from __future__ import annotations

import pytest

from gambrel.capture.closed_form import workload_of_config
from gambrel.llm.known import config_of
from gambrel.ops import is_free
from gambrel.workload import Workload

from .captures import DECODERS, DIFFERENT, small, totals

DECODE = {"batch": 1, "context": 80}


def launches(workload: Workload) -> int:
    return sum(op.repeat for op in workload.ops if not is_free(op.kind))


def kinds(workload: Workload) -> dict[str, int]:
    found: dict[str, int] = {}
    for op in workload.ops:
        if not is_free(op.kind):
            name = str(op.attrs.get("function") or op.kind)
            found[name] = found.get(name, 0) + op.repeat
    return found


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", ["llama", "qwen3", "starcoder2", "gpt_neox"])
def test_decode_launches_op_for_op_what_a_capture_has(model_type: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from gambrel.capture.torch.huggingface import HuggingFaceModel

    config = small(model_type, DECODERS[model_type])
    captured = HuggingFaceModel(config).capture("decode", DECODE)
    own = workload_of_config(config, phase="decode", sizes=DECODE, layers="code")
    assert kinds(own) == kinds(captured)


# Launches of four layers of the small configurations as captured, transformers 5.24; what runs once
# a step beside the layers (masks, positions) counts for little in a model of full depth.
@pytest.mark.parametrize(
    ("model_type", "captured", "off"),
    [
        ("mistral", 160, 0),
        ("qwen2", 160, 0),
        ("gemma", 176, 0),
        ("gemma2", 300, 0),
        ("gemma3_text", 336, 0),
        ("gpt2", 76, 0),
        ("bloom", 100, 0),
        ("phi", 128, 0),
        ("gpt_oss", 304, 0),
        ("phi3", 156, 0),
        ("olmo2", 232, 0.04),
        ("cohere", 160, 0.11),
        ("mixtral", 232, 0.02),
        ("qwen3_moe", 288, 0.02),
        ("glm4_moe", 340, 0.02),
        ("deepseek_v3", 364, 0.02),
        ("qwen3_next", 366, 0.08),
    ],
)
def test_a_layer_launches_as_many_ops_as_a_capture(
    model_type: str, captured: int, off: float
) -> None:
    changes = DECODERS[model_type] if model_type in DECODERS else DIFFERENT[model_type][0]
    config = small(model_type, changes)
    own = workload_of_config(config, phase="decode", sizes=DECODE, layers="code")
    layers = [op for op in own.ops if ".*" in op.module and not is_free(op.kind)]
    assert sum(op.repeat for op in layers) == pytest.approx(captured, rel=off, abs=0)


def test_llama_2_7b_launches_40_ops_a_layer() -> None:
    named = config_of("llama-2-7b")
    assert named is not None
    own = workload_of_config(named[1], phase="decode", layers="code")
    # 32 layers of 40; embedding, 9 ops of the angles, 8 of the last norm, LM head.
    assert launches(own) == 32 * 40 + 1 + 9 + 8 + 1


def test_an_engine_keeps_its_fused_kernels() -> None:
    from gambrel import analyze as ask

    eager = ask("llama-2-7b", hardware="a100", phase="decode", runtime="pytorch")
    engine = ask("llama-2-7b", hardware="a100", phase="decode", runtime="vllm")
    assert eager.workload is not None
    assert engine.workload is not None
    assert launches(eager.workload) > 3 * launches(engine.workload)


def test_matrix_work_and_weights_do_not_change() -> None:
    named = config_of("mixtral-8x7b")
    assert named is not None
    sizes = {"batch": 1, "context": 512}
    fused, code = (
        totals(workload_of_config(named[1], phase="decode", sizes=sizes, layers=layers), **sizes)
        for layers in ("", "code")
    )
    assert code[1] == fused[1]
    assert {k: flops for k, (flops, _) in code[0].items()} == {
        k: flops for k, (flops, _) in fused[0].items()
    }


@pytest.mark.parametrize("model_type", ["gemma2", "gpt_oss", "bloom"])
def test_attention_written_out_multiplies_as_much_as_a_kernel(model_type: str) -> None:
    changes = DECODERS[model_type] if model_type in DECODERS else DIFFERENT[model_type][0]
    config = small(model_type, changes)
    fused, code = (
        totals(workload_of_config(config, phase="decode", sizes=DECODE, layers=layers), **DECODE)
        for layers in ("engine", "code")
    )
    assert "attention" not in code[0]
    assert sum(n for n, _ in code[0].values()) == sum(n for n, _ in fused[0].values())
