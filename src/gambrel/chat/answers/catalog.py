"""Answers about devices, models and terms, which need no analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gambrel import roofline
from gambrel.analysis.question import ask
from gambrel.api.verbs import answer as answered
from gambrel.chat.answers.base import Answer
from gambrel.chat.frame import Frame
from gambrel.report import document
from gambrel.units import format_capacity, format_number, format_si

if TYPE_CHECKING:
    from gambrel.device.model import Device


def answer(frame: Frame) -> Answer:
    """Looks up what the frame names."""
    return _BY_INTENT[frame.intent](frame)


def _device(frame: Frame) -> Answer:
    sheet = answered(ask("device", {"hardware": frame.hardware[0]}))
    of = _ridge if frame.intent == "ridge" else _figures
    return Answer(
        frame=frame,
        sentence=of(sheet.device, frame.precision),
        record=sheet,
        blocks=() if frame.intent == "ridge" else document(sheet).tables[:1],
    )


def _ridge(device: Device, precisions: tuple[str, ...]) -> str:
    from gambrel.device.explain import explain_sparsity
    from gambrel.device.roofs import default_precision, main_memory, resolve

    memory = main_memory(device)
    rate = memory.byte_per_s if memory else None
    asked, why = (precisions[0], "") if precisions else default_precision(device)
    roof = resolve(device, "matrix", asked)
    if roof is None or rate is None:
        return f"The ridge point of {device.name} in {asked} is unknown: a roof is not published."
    ridge = format_number(roofline.ratio(roof.flop_per_s, rate))
    text = (
        f"{device.name} in {roof.dtype}: {ridge} FLOP/byte, "
        f"{format_si(roof.flop_per_s, 'FLOP/s')} dense over {format_si(rate, 'B/s')}."
    )
    if roof.dtype != asked:
        text = f"It has no {asked} engine; {asked} runs as {roof.dtype}. {text}"
    sparse = [s for s in explain_sparsity(device) if f" {roof.dtype}:" in s]
    told = [text, why, *(f"Often quoted with sparsity: {s}" for s in sparse[:1])]
    return " ".join(filter(None, told))


def _figures(device: Device, precisions: tuple[str, ...]) -> str:
    from gambrel.device.explain import power
    from gambrel.device.roofs import default_precision, main_memory, resolve

    memory = main_memory(device)
    asked = precisions[0] if precisions else default_precision(device)[0]
    roof = resolve(device, "matrix", asked)
    peak = f"no known {asked} peak"
    if roof:
        value = format_si(roof.flop_per_s, "FLOP/s")
        peak = f"{value} dense in {roof.dtype}"
        if roof.dtype != asked:
            peak = f"no {asked} engine; as {roof.dtype} {value}"
    parts = [peak]
    if memory is not None:
        size = format_capacity(memory.capacity_bytes)
        parts.append(f"{format_si(memory.byte_per_s, 'B/s')} from {size} of {memory.name}")
    parts.append(power(device))
    return f"{device.name}: {', '.join(parts)}."


def _devices(frame: Frame) -> Answer:
    filters = dict(frame.filters)
    order = {"sort": filters.pop("sort")} if "sort" in filters else {}
    found = answered(ask("devices", filters), **order)
    said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in frame.filters)
    return Answer(
        frame=frame,
        sentence=f"{len(found.devices)} devices{f' ({said})' if said else ''}.",
        record=found,
        blocks=document(found).tables,
    )


def _models(frame: Frame) -> Answer:
    text = dict(frame.filters).get("text", "") or "".join(frame.models[:1])
    found = answered(ask("models", {"text": text or None}))
    rows = found.models
    sentence = f"{len(rows)} models{f' with {text!r}' if text else ''} are built in."
    entries = {name for m in frame.models for name in (m, f"{m}-{frame.phase or 'prefill'}")}
    own = next((m for m in rows if m.name in entries), None)
    if own is not None:
        sizes = ", ".join(f"{s.name} {s.default}" for s in own.symbols)
        sentence = (
            f"{own.name} ({own.about}): {format_si(own.parameters, '')} parameters, "
            f"{format_si(own.flops, 'FLOP')} of multiply-accumulate work (FMA = 2)"
            f"{f' at {sizes}' if sizes else ''}."
        )
    return Answer(frame=frame, sentence=sentence, record=found, blocks=document(found).tables)


def _explain(frame: Frame) -> Answer:
    from gambrel.chat.glossary import terms

    term = terms()[frame.term]
    name = term.name.upper() if term.name in _ACRONYMS else term.name[0].upper() + term.name[1:]
    see = f" See it: {term.see}" if term.see else ""
    return Answer(frame=frame, sentence=f"{name}: {term.text}{see}")


_ACRONYMS: Final = frozenset({"mfu", "ttft", "tpot", "hbm", "tdp", "flop"})


def _help(frame: Frame) -> Answer:
    from gambrel.chat.intents import INTENTS
    from gambrel.report.blocks import DataTable, words

    examples = words("for example", (intent.example for intent in INTENTS.values()))
    table = DataTable(columns=(examples,), all=True)
    return Answer(frame=frame, sentence="Ask about models and devices:", blocks=(table,))


_BY_INTENT: Final[dict[str, Callable[[Frame], Answer]]] = {
    "device": _device,
    "ridge": _device,
    "devices": _devices,
    "models": _models,
    "model": _models,
    "explain": _explain,
    "help": _help,
}
