"""A change and the question with it asked anew have one answer: `what-if`, `analyze`, `sweep`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gambrel
from gambrel.capture.variants import variant
from gambrel.llm.known import config_of

#: Field of a question that a change sets.
_FIELDS = {"batch": "batch_size", "kv": "precision", "weights": "precision"}
CASES = [
    ("llama-3-8b", "h100", {}, "precision=int8"),
    ("llama-3-8b", "h100", {}, "precision=w4a16,kv=fp8"),
    ("llama-3-8b", "h100", {}, "weights=int4"),
    ("llama-3-8b", "h100", {"precision": "fp8"}, "hardware=m4-max"),
    ("llama-3-8b", "h100", {"precision": "w4a16"}, "kv=fp8"),
    ("llama-3-8b", "a100", {"runtime": "pytorch"}, "runtime=vllm"),
    ("llama-3-8b", "a100", {"runtime": "pytorch"}, "kv=fp8"),
    ("llama-3-8b", "a100", {}, "runtime=pytorch"),
    ("llama-3-8b", "m4-max", {"precision": "q4_k_m"}, "model=llama-3.2-1b"),
    ("qwen3-30b-a3b", "l40s", {}, "precision=fp8"),
    ("gpt-oss-20b", "h100", {}, "kv=fp8"),
    ("gpt-oss-20b", "h100", {}, "hardware=m4-max"),
    ("gemma-3-27b", "h100", {}, "batch=8"),
    ("gemma-3-27b", "h100", {}, "context=8192"),
]


def _applied(asked: dict[str, Any], change: str) -> dict[str, Any]:
    name, _, value = change.partition("=")
    if name in ("kv", "weights"):
        value = ",".join(filter(None, (asked.get("precision"), change)))
    return {**asked, _FIELDS.get(name, name): int(value) if value.isdigit() else value}


@pytest.mark.parametrize(("model", "device", "asked", "change"), CASES)
def test_a_change_predicts_what_the_changed_question_answers(model, device, asked, change):
    given = {"model": model, "hardware": device, "phase": "decode", **asked}
    before = gambrel.analyze(**given)
    changed = gambrel.what_if(**given, change=change)
    after = changed.after
    runtime = {} if change.startswith(("hardware", "runtime")) else {"runtime": after.runtime}
    anew = gambrel.analyze(**{**_applied(given, change), **runtime})
    assert (after.runtime, after.precision) == (anew.runtime, anew.model.precision)
    assert after.total.expected_time_s == anew.expected_time_s
    assert after.total.roofline_time_s == anew.roofline_time_s
    assert (after.memory_bytes, after.fits) == (anew.footprint.total_bytes, anew.footprint.fits)
    assert before.with_change(change).total == anew.total
    if change.startswith(("batch", "context")):
        with pytest.raises(gambrel.InputError, match="sizes are axes of a sweep; give"):
            gambrel.sweep(**given, change=[change])
    elif not change.startswith("model"):
        swept = gambrel.sweep(**given, change=[change])
        assert str(swept.runtime[0]) == anew.runtime
        assert swept.roofline_time_s[0] == pytest.approx(anew.roofline_time_s, rel=1e-9)


def test_advice_gains_what_the_changed_question_gains() -> None:
    given = {"model": "llama-3-70b", "hardware": "h100", "phase": "decode"}
    before = gambrel.analyze(**given)
    (advice,) = (r for r in before.recommend() if r.changes == ("precision=int8",))
    after = gambrel.analyze(**given, precision="int8")
    assert advice.gain == before.expected_time_s.value / after.expected_time_s.value


def test_a_runtime_that_does_not_read_the_format_is_refused_and_not_advised() -> None:
    given = {"phase": "decode", "precision": "q4_k_m"}
    for face in (gambrel.analyze, gambrel.what_if):
        how = {"runtime": "mlx"} if face is gambrel.analyze else {"change": "runtime=mlx"}
        with pytest.raises(gambrel.InputError, match="MLX LM does not run q4_k_m"):
            face("llama-3-8b", "m4-max", **given, **how)
    advice = gambrel.analyze("llama-3-8b", "m4-max", **given).recommend()
    assert not any("mlx" in one.change for one in advice)


def test_changes_are_judged_together() -> None:
    """Of two changes the first alone may be refused: vLLM reads no q8_0, and int8."""
    given = {"phase": "decode", "precision": "q8_0"}
    changed = gambrel.what_if(
        "llama-3-8b", "rtx-4090", **given, change=["runtime=vllm", "precision=int8"]
    )
    anew = gambrel.analyze(
        "llama-3-8b", "rtx-4090", phase="decode", precision="int8", runtime="vllm"
    )
    assert changed.after.total.expected_time_s == anew.expected_time_s


def test_steps_of_a_built_in_pipeline() -> None:
    changed = gambrel.what_if("dit-xl-2-256-pipeline", "a100", change="steps=5")
    anew = gambrel.analyze("dit-xl-2-256-pipeline", "a100", sizes={"steps": 5})
    assert changed.after.total.expected_time_s == anew.expected_time_s
    swept = gambrel.sweep("dit-xl-2-256-pipeline", "a100", sizes={"steps": 5})
    assert swept.expected_time_s[0] == pytest.approx(anew.expected_time_s.value, rel=1e-9)


def test_a_configuration_of_ones_own_is_built_again(tmp_path: Path) -> None:
    named = config_of("llama-3.2-1b")
    assert named is not None
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**named[1], "num_hidden_layers": 3}), encoding="utf-8")
    before = gambrel.analyze(str(file), "h100", phase="decode")
    anew = gambrel.analyze(str(file), "h100", phase="decode", precision="fp8", runtime="pytorch")
    assert before.with_change("runtime=pytorch", "precision=fp8").total == anew.total


def test_changed_ops_are_not_built_again() -> None:
    before = gambrel.analyze("llama-3-8b", "a100", phase="decode", runtime="pytorch")
    edited = before.with_change("attention") if _has(before, "attention") else before
    workload = edited.workload
    other = workload.__class__(
        **{n: getattr(workload, n) for n in workload.__struct_fields__} | {"ops": workload.ops[:-1]}
    )
    assert variant(other, precision="int8", layers="merged", sizes={}) is other


def _has(analysis: Any, change: str) -> bool:
    try:
        analysis.with_change(change)
    except gambrel.InputError:
        return False
    return True
