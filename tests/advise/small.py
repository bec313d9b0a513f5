"""Subjects of comparisons, from the zoo or from a workload."""

from __future__ import annotations

from gambrel.advise.fleet import Fleet
from gambrel.advise.subjects import Subject
from gambrel.analysis.settings import Settings
from gambrel.capture import zoo
from gambrel.workload import Workload


def subject(
    model: str | Workload, batch: int | None = None, runtime: str = "", *, bulk: bool = False
) -> Subject:
    """The model at a batch, under one runtime or every one; ``bulk`` for many devices."""
    workload = zoo.load(model) if isinstance(model, str) else model

    def make(size: int | None, layers: str) -> Fleet:
        return Fleet(workload, Settings(sizes={"batch": size} if size else {}), bulk=bulk)

    return Subject(make=make, batch=batch, runtimes=(runtime,) if runtime else ())
