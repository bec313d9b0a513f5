"""What is known: devices, models and runtimes, as lists."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gambrel.analysis.question import Question
from gambrel.report.answers import Devices, Models, Runtimes, Sheet

if TYPE_CHECKING:
    from gambrel.runtimes import Runtime


def devices(question: Question, **order: Any) -> Devices:
    """Devices of the catalog that a question names.

    Args:
        question: Of the verb ``devices``.
        **order: Precision, sort and reverse of `gambrel.device.listing.list_rows`.
    """
    from gambrel.device.listing import Filter, list_rows

    which = Filter(**{f.name: getattr(question, f.name) for f in fields(Filter)})
    return Devices(devices=tuple(list_rows(which, **order)))


def device(question: Question) -> Sheet:
    """One device with every ceiling and its source."""
    from gambrel.device.resolve import resolve_hardware

    found, notes = resolve_hardware(question.hardware)
    return Sheet(device=found, notes=notes)


def models(question: Question) -> Models:
    """Built-in models, and language models that are built from their configuration."""
    from gambrel.analysis.question.model_sets import is_set, members
    from gambrel.capture.zoo import search
    from gambrel.llm.known import names

    text, family = question.text, question.family
    if is_set(text):
        wanted = members((text,), "models")
        return Models(models=tuple(m for m in search() if m.name in wanted), language=())
    language = () if family else names()
    found = tuple(name for name in language if text is None or text.lower() in name)
    return Models(models=tuple(search(text, family)), language=found)


def runtimes(question: Question) -> Runtimes:
    """Runtimes; of a device those that run there."""
    from gambrel.device.resolve import resolve_hardware
    from gambrel.runtimes import on_device
    from gambrel.runtimes import runtimes as known

    if question.hardware is None:
        return Runtimes(runtimes=tuple(known().values()))
    device = resolve_hardware(question.hardware)[0]
    return Runtimes(runtimes=on_device(device, language=True))


def runtime(question: Question) -> Runtime:
    """One runtime."""
    from gambrel.runtimes import runtime as known

    return known(question.runtime)
