"""The built-in image generators: found by name, put together from entries of the zoo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gambrel.capture import zoo
from gambrel.errors import InputError
from gambrel.workload import Workload
from gambrel.workload.model import WorkloadSummary

if TYPE_CHECKING:
    from gambrel.llm.pipelines.catalog import Pipeline


def find(name: str) -> Pipeline | None:
    """The pipeline that a name means, as people write it; None when it means none."""
    keys = {zoo.key_of(name), zoo.key_of(name.rpartition("/")[2])}
    if keys & zoo.keys():
        return None  # before the pipelines are loaded
    from gambrel.llm.pipelines.catalog import PIPELINES

    for pipeline in PIPELINES.values():
        if keys & {zoo.key_of(n) for n in (pipeline.name, *pipeline.aliases)}:
            return pipeline
    return None


def load(pipeline: Pipeline, sizes: Mapping[str, int | None], phase: str | None) -> Workload:
    """The workload of a pipeline at a number of steps.

    Args:
        pipeline: As found.
        sizes: Sizes asked for.
        phase: None; a pipeline has no phases.

    Raises:
        InputError: A phase was asked for.
        WorkloadError: A size that the pipeline does not have, or out of its range.
    """
    if phase is not None:
        raise InputError(f"{pipeline.name} has no phase {phase!r}; it has one run over its steps.")
    from gambrel.llm.pipelines.catalog import build

    return build(pipeline, sizes, zoo.load)


def summaries() -> tuple[WorkloadSummary, ...]:
    """What `gambrel models list` shows of them."""
    from gambrel.llm.pipelines.catalog import PIPELINES

    return tuple(
        WorkloadSummary(
            name=p.name,
            aliases=p.aliases,
            family="pipelines",
            about=f"{p.about} ({p.steps} steps)",
            parameters=p.parameters,
            flops=p.flops,
            symbols=(*p.symbols, p.steps_symbol),
            origin="put together from entries of image generation",
        )
        for p in PIPELINES.values()
    )
