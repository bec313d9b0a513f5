"""``gambrel ask``: words in, an answer, its JSON, or one line that says what to do."""

import json
import subprocess
import sys

import pytest

QUESTION = "Is ResNet-50 compute-bound or memory-bound on an A100?"


def test_answer(gambrel):
    found = gambrel("ask", QUESTION)
    assert found.code == 0
    assert found.err == ""
    assert "memory-bound" in found.out
    assert "Again: gambrel analyze resnet50 --hardware a100-sxm4-80gb --recommend" in found.out


def test_words_without_quotes(gambrel):
    assert "GFLOP" in gambrel("ask", "how", "many", "flops", "does", "resnet50", "have").out


def test_json(gambrel):
    data = json.loads(gambrel("ask", QUESTION, "--json").out)
    assert data["intent"] == "bound"
    assert data["result"]["total"]["bound"] == "memory"
    assert data["command"].startswith("gambrel analyze resnet50")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["asdf"], "did not understand 'asdf'"),
        (["how fast is resnet50"], "On which device?"),
        (["how fast is llama on an a100"], "Did you mean: llama-3-8b"),
        (["how fast is yolov8n at 100 px on an l4"], "image"),
        (["x", "--llm", "gpt-5-mini"], "set OPENAI_API_KEY"),
        (["x", "--llm", "claude-x"], "set ANTHROPIC_API_KEY"),
        (["x", "--llm-url", "http://h/v1"], "name the model"),
    ],
)
def test_what_cannot_be_answered_is_one_line(gambrel, monkeypatch, words, said):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "GAMBREL_LLM"):
        monkeypatch.delenv(name, raising=False)
    found = gambrel("ask", *words)
    assert found.code == 2
    assert found.out == ""
    assert said in found.err
    assert found.err.count("\n") == 1


def test_no_heavy_package_is_loaded():
    code = (
        "import sys; from gambrel.cli import run; run(['ask', 'how fast is resnet50 on an l4']); "
        "print(*sorted({'prompt_toolkit', 'openai', 'pydantic', 'pandas', 'plotly', 'matplotlib', "
        "'torch', 'httpx'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == []


def test_help_has_examples(gambrel):
    for command in ("ask", "chat"):
        found = gambrel(command, "--help")
        assert found.code == 0
        assert "Examples" in found.out
