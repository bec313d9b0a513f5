"""Models by name: spellings, and published numbers of parameters."""

from __future__ import annotations

import pytest

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import parameter_count
from gambrel.capture import zoo
from gambrel.errors import FileFormatError, UnknownNameError
from gambrel.llm.build import build
from gambrel.llm.known import names, spec_of
from gambrel.llm.step import decode
from gambrel.ops import Conventions

#: Billions, from the model cards.
PUBLISHED = {
    "llama-3.1-8b": 8.03,
    "llama-3.1-70b": 70.55,
    "llama-3.1-405b": 405.85,
    "llama-3.2-1b": 1.2358,
    "phi-4": 14.6595,
    "gpt2": 0.12444,
    "mixtral-8x7b": 46.70,
    "qwen3-8b": 8.19,
    "qwen3-32b": 32.76,
    "qwen3-30b-a3b": 30.53,
    "qwen3-235b-a22b": 235.09,
    "gpt-oss-20b": 20.91,
    "gpt-oss-120b": 116.83,
    "minimax-m2": 228.69,
    "deepseek-v3": 671.03,
}

#: Names under which both the captured zoo and the configurations know a model.
SERVED = (
    *("llama-3-8b", "llama-3-70b", "llama-3.1-405b", "llama-3.2-1b"),
    *("mixtral-8x7b", "qwen3-8b", "phi-4", "gpt2", "deepseek-v3"),
)


def test_every_name_has_a_published_number():
    assert set(names()) == set(PUBLISHED)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_parameters(name):
    workload = build(spec_of(name), decode(1, 100), "bf16")
    count = parameter_count(workload, Evaluator(workload, {}, {}, Conventions()))
    assert count / 1e9 == pytest.approx(PUBLISHED[name], rel=1e-3)


def test_every_language_model_of_the_zoo_can_be_served():
    served = {zoo.find(n)[0].name for n in SERVED}
    assert {e.name for e in zoo.list_models() if e.name.endswith("-prefill")} == served
    for name in SERVED:
        workload = build(spec_of(name), decode(1, 100), "bf16")
        count = parameter_count(workload, Evaluator(workload, {}, {}, Conventions()))
        assert count == zoo.find(name)[0].parameters


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("MiniMaxAI/MiniMax-M2.5", "minimax-m2"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
    ],
)
def test_spellings(spelling, name):
    assert spec_of(spelling).name == name


def test_unknown_names_and_broken_files(tmp_path):
    with pytest.raises(UnknownNameError, match=r"closest: .*qwen3"):
        spec_of("qwen3-9b")
    with pytest.raises(FileFormatError, match="No such file"):
        spec_of(tmp_path / "config.json")
    broken = tmp_path / "config.json"
    for text, sentence in (
        ("{", "not JSON"),
        ("[]", "is a JSON object"),
        ("[" * 99999, "not JSON"),
    ):
        broken.write_text(text)
        with pytest.raises(FileFormatError, match=sentence):
            spec_of(broken)
