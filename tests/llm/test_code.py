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


# Launches of captures of the small configurations, transformers 5.24.
@pytest.mark.parametrize(
    ("model_type", "captured"),
    [
        ("mistral", 179),
        ("qwen2", 179),
        ("gemma", 198),
        ("gemma3_text", 370),
        ("gpt2", 84),
        ("phi", 140),
        ("phi3", 175),
        ("mixtral", 251),
        ("qwen3_moe", 307),
        ("olmo2", 249),
    ],
)
def test_decode_launches_as_many_as_a_capture(model_type: str, captured: int) -> None:
    changes = DECODERS[model_type] if model_type in DECODERS else DIFFERENT[model_type][0]
    config = small(model_type, changes)
    own = workload_of_config(config, phase="decode", sizes=DECODE, layers="code")
    assert launches(own) == pytest.approx(captured, rel=0.05)


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
