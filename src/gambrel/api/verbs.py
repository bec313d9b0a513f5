"""Which function answers each question, and the record that it returns."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from gambrel.analysis.question import Question

#: Verb → (function, record), each as ``module:name``; faces import them when they are asked for.
_ANSWERS: Final[dict[str, tuple[str, str]]] = {
    "analyze": ("api.analyze:analyze", "analysis.result:Analysis"),
    "recommend": ("api.advise:recommend", "advise.recommend:Advice"),
    "check": ("api.advise:check", "advise.check:Check"),
    "compare": ("api.advise:compare", "advise.compare:Comparison"),
    "select": ("api.advise:select", "advise.select:Selection"),
    "what-if": ("api.advise:what_if", "advise.whatif:WhatIf"),
    "judge": ("api.judging:judge", "advise.judge.records:Judgement"),
    "limits": ("api.judging:limits", "advise.judge.records:KernelLimits"),
    "explain-gap": ("api.judging:explain_gap", "advise.judge.records:Gap"),
    "sweep": ("api.sweep:sweep", "analysis.sweep.record:Sweep"),
    "design": ("api.design:design", "advise.design.record:DesignStudy"),
    "serve-plan": ("api.plans:serve_plan", "llm.serving.records:Plan"),
    "serve-sim": ("api.serving:serve_sim", "llm.serving.outcomes:Simulation"),
    "serve-split": ("api.splitting:serve_split", "llm.serving.split_records:SplitPlan"),
    "train-plan": ("api.plans:train_plan", "llm.training:TrainingStep"),
    "train-search": ("api.plans:train_search", "llm.training_search:TrainingSearch"),
    "kv-cache": ("api.plans:kv_cache", "llm.cache_plan:CachePlan"),
    "devices": ("api.catalog:devices", "report.answers:Devices"),
    "device": ("api.catalog:device", "report.answers:Sheet"),
    "models": ("api.catalog:models", "report.answers:Models"),
    "runtimes": ("api.catalog:runtimes", "report.answers:Runtimes"),
    "runtime": ("api.catalog:runtime", "runtimes:Runtime"),
}


def answer(question: Question, **more: Any) -> Any:
    """The record that answers a question.

    Args:
        question: Of any verb but ``import`` and ``explain``.
        **more: What a face adds, e.g. the order of a list.

    Raises:
        GambrelError: It cannot be answered; the message says what to do.
    """
    function = _imported(_ANSWERS[question.verb][0])
    return getattr(function, "answer", function)(question, **more)


def record_of(verb: str) -> type:
    """The class of what `answer` returns."""
    found: type = _imported(_ANSWERS[verb][1])
    return found


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"gambrel.{module}"), name)
