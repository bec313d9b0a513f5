"""Parameter counts of published models, from their configuration alone."""

from __future__ import annotations

import pytest

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import parameter_count
from gambrel.llm.build import build
from gambrel.llm.config import read_config
from gambrel.llm.step import decode, prefill
from gambrel.ops import Conventions
from gambrel.workload import Workload

from .models import DEEPSEEK_V3, GPT_OSS_20B, MIXTRAL, PUBLISHED, QWEN3_30B, WITH_IMAGES


def parameters(workload: Workload) -> int:
    return parameter_count(workload, Evaluator(workload, {}, {}, Conventions()))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_parameters_to_the_digit(name: str) -> None:
    config, published = PUBLISHED[name]
    assert parameters(build(read_config(config), prefill(1, 128, encode=True))) == published


@pytest.mark.parametrize("name", WITH_IMAGES)
def test_towers_and_projectors(name: str) -> None:
    config, published = WITH_IMAGES[name]
    spec = read_config(config)
    assert parameters(build(spec, prefill(1, 1024, encode=True))) == published
    later = build(spec, decode(1, 1024))
    assert parameters(later) == published
    assert not any(op.module.startswith("vision") for op in later.ops)


@pytest.mark.parametrize("name", ["Gemma-3-27B", "Whisper-small", "T5-base"])
def test_what_a_step_does_not_run_is_in_memory_all_the_same(name: str) -> None:
    config, published = PUBLISHED[name]
    assert parameters(build(read_config(config), decode(1, 128))) == published


@pytest.mark.parametrize(
    ("config", "published"),
    [
        # Active parameters as the publishers round them: Mixtral 12.9 B, Qwen3-30B-A3B 3.3 B,
        # gpt-oss-20b 3.6 B, DeepSeek-V3 37 B.
        (MIXTRAL, 12.9e9),
        (QWEN3_30B, 3.3e9),
        (GPT_OSS_20B, 3.6e9),
        (DEEPSEEK_V3, 37.5e9),
    ],
)
def test_active_parameters_of_mixtures(config: dict[str, object], published: float) -> None:
    """Weights that one token meets: every product's k times n, and the embedding's table."""
    spec = read_config(config)
    workload = build(spec, decode(1, 1))
    active = spec.vocab * spec.hidden
    for op in workload.ops:
        sizes = op.sizes
        if op.kind == "matmul":
            active += op.repeat * int(sizes["b"]) * int(sizes["n"]) * int(sizes["k"])
        elif op.kind == "grouped_matmul":
            active += op.repeat * int(sizes["rows"]) * int(sizes["n"]) * int(sizes["k"])
    if config is GPT_OSS_20B:
        active -= spec.vocab * spec.hidden  # its publisher leaves out the embedding
    assert active == pytest.approx(published, rel=0.02)
