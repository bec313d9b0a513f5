"""Random questions in the words of users: analyze, sweep, compare and a change give one answer.

Language models in formats of every kind under engines and under runtimes of their code; the same
questions in every run, thirty times as many with ``--all-differential``.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import gambrel
from gambrel.errors import GambrelError

NETWORKS = ("resnet50", "bert-base", "yolov8n", "swin-t", "gpt2", "mamba-130m", "vit-b-16")
LANGUAGE = (
    "llama-3.1-8b",
    "qwen3-30b-a3b",
    "gpt-oss-20b",
    "gemma-3-4b",
    "deepseek-v2-lite",
    "mistral-7b",
    "llama-4-scout",
    "qwen3-next-80b-a3b",
    "mamba-2.8b",
)
DEVICES = (
    "h100",
    "a100",
    "b200",
    "t4",
    "rtx-4090",
    "jetson-agx-orin-64gb",
    "tpu-v6e",
    "mi300x",
    "m4",
    "xeon-8480+",
    "raspberry-pi-5",
    "snapdragon-8-gen-3",
    "inferentia2",
    "gb10",
)
FORMATS = ("fp16", "int8", "fp8", "int4", "fp32", "weights=int4", "kv=fp8", "nvfp4", "w4a16")
RUNTIMES = (
    "pytorch",
    "torch-compile",
    "tensorrt",
    "onnxruntime",
    "vllm",
    "sglang",
    "llama-cpp",
    "openvino",
    "xla",
    "mlx",
    "perfect",
)
#: How many questions a worker asks at once, and how often.
EACH, FEW, MANY = 15, 12, 360


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = metafunc.config.getoption("--all-differential")
    metafunc.parametrize("seed", range(MANY if everything else FEW))


def _question(dice: random.Random) -> tuple[str, str, dict[str, Any]]:
    asked: dict[str, Any] = {}
    model = dice.choice(NETWORKS)
    if dice.random() < 0.7:
        model = dice.choice(LANGUAGE)
        asked["phase"] = dice.choice(("decode", "prefill"))
        size = "context" if asked["phase"] == "decode" else "seq"
        asked[size] = dice.choice((128, 1000, 4096))
    for name, values, share in (
        ("precision", FORMATS, 0.8),
        ("runtime", RUNTIMES, 0.7),
        ("batch_size", (1, 8), 0.5),
    ):
        if dice.random() < share:
            asked[name] = dice.choice(values)
    device = dice.choice(DEVICES)
    if "precision" not in asked and dice.random() < 0.5:
        asked["autocast"] = dice.choice(("fp16", "bf16"))
    return model, device, asked


def _figures(analysis: gambrel.Analysis) -> tuple[float | None, ...]:
    expected = analysis.expected_time_s
    return (
        expected and expected.value,
        analysis.roofline_time_s,
        analysis.sol_time_s,
        analysis.footprint.total_bytes,
    )


def _swept(model: str, device: str, asked: dict[str, Any]) -> tuple[float | None, ...]:
    found = gambrel.sweep(model, [device], **asked)
    columns = (
        found.expected_time_s,
        found.roofline_time_s,
        found.sol_time_s,
        found.memory_bytes,
    )
    return tuple(None if math.isnan(c[0]) else float(c[0]) for c in columns)


def _compared(model: str, device: str, asked: dict[str, Any]) -> tuple[float | None, ...]:
    row = gambrel.compare(model, [device], **asked).rows[0]
    latency, memory = (row.figures[name].value for name in ("latency", "memory"))
    return latency, row.roofline_time_s, row.sol_time_s, memory


def _changed(
    model: str, device: str, asked: dict[str, Any], name: str
) -> tuple[float | None, ...] | None:
    """The question without one thing, which is then changed to it; None where it is refused."""
    less = {key: value for key, value in asked.items() if key != name}
    change = asked[name] if "=" in asked[name] else f"{name}={asked[name]}"
    try:
        before = gambrel.analyze(model, device, **less)
    except GambrelError:
        return None
    return _figures(before.with_change(change))


def _close(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else math.isclose(a, b, rel_tol=1e-9)


def _or_refused(answer: Any, *asked: Any) -> Any:
    try:
        return answer(*asked)
    except GambrelError:
        return "refused"


def test_a_question_has_one_answer(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(EACH):
        model, device, asked = _question(dice)
        said = f"{model} on {device}, {asked}"
        one = _or_refused(
            lambda m, d, q: _figures(gambrel.analyze(m, d, **q)), model, device, asked
        )
        answers = {"sweep": _or_refused(_swept, model, device, asked)}
        if "runtime" in asked:
            answers["compare"] = _or_refused(_compared, model, device, asked)
            if one != "refused":
                answers["change"] = _changed(model, device, asked, "runtime")
        for face, answer in answers.items():
            if "refused" in (one, answer):
                assert answer == one, f"{face}: {said}"
            elif answer is not None:
                assert all(map(_close, answer, one)), f"{face}: {said}: {answer}, {one}"
