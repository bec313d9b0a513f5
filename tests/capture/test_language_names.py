"""A language model by name is the model of its published configuration, under every engine."""

from __future__ import annotations

import json

import pytest

import gambrel
from gambrel.errors import InputError
from gambrel.llm.known import config_of
from gambrel.report.terms import items

ASKED = {"phase": "decode", "context": 4096}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("llama") / "config.json"
    path.write_text(json.dumps(config_of("llama-3.1-8b")[1]), encoding="utf-8")
    return path


@pytest.mark.parametrize("precision", [None, "fp8", "int8", "w4a16", "q4_k_m"])
def test_a_name_and_its_configuration_are_one_model(config, precision):
    by_name, by_file, zoo = (
        gambrel.analyze(model, "h100", precision=precision, **ASKED).total
        for model in ("llama-3.1-8b", config, "llama-3-8b-decode")
    )
    assert by_name == by_file == zoo


@pytest.mark.parametrize("precision", ["bf16", "fp8", "w4a16"])
def test_every_face_has_that_model(config, precision):
    asked = {**ASKED, "precision": precision, "runtime": "vllm"}
    whole = gambrel.analyze(config, "h100", **asked).total
    row = gambrel.compare("llama-3.1-8b", "h100", **asked).rows[0]
    assert row.figures["latency"].value == pytest.approx(whole.expected_time_s.value)
    swept = gambrel.sweep("llama-3.1-8b", "h100", **asked)
    assert swept.roofline_time_s.item() == pytest.approx(whole.roofline_time_s)


def test_the_cache_of_a_quantized_file_has_sixteen_bits():
    """8 k of cached tokens are 8192 x 32 layers x 2 x 8 heads x 128 x 2 bytes."""
    long, short = (
        gambrel.analyze(
            "llama-3.1-8b", "rtx-4090", phase="decode", context=n, precision="q4_k_m"
        ).total.traffic_bytes
        for n in (8192, 4096)
    )
    assert long - short == pytest.approx(4096 * 32 * 2 * 8 * 128 * 2, rel=0.01)


def test_quantized_files_are_read_by_engines_for_language_models():
    default = gambrel.analyze("llama-3.1-8b", "rtx-4090", precision="q4_k_m", **ASKED)
    assert default.runtime == "llama-cpp"
    with pytest.raises(InputError, match="PyTorch eager does not run q4_k_m"):
        gambrel.analyze("llama-3.1-8b", "rtx-4090", precision="q4_k_m", runtime="pytorch", **ASKED)


def test_eager_pytorch_runs_the_models_own_code():
    eager = gambrel.analyze("llama-3.1-8b", "h100", runtime="pytorch", **ASKED)
    engine = gambrel.analyze("llama-3.1-8b", "h100", runtime="vllm", **ASKED)
    assert eager.flops == engine.flops
    assert len(eager.ops) > len(engine.ops)


def test_a_prompt_is_counted_in_tokens(config):
    assert items(gambrel.analyze(config, "h100", seq=2048)) == (2048, "tokens")
