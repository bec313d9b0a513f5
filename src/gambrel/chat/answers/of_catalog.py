"""Answers about devices, models and terms, which need no analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gambrel.chat.answers.base import Answer
from gambrel.chat.command import command_of
from gambrel.chat.frame import Frame
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_number, format_si

if TYPE_CHECKING:
    from gambrel.device.model import Device


def answer(frame: Frame, options: Options) -> Answer:
    """Looks up what the frame names."""
    return _BY_INTENT[frame.intent](frame, options)


def _device(frame: Frame, options: Options) -> Answer:
    from gambrel.device.resolve import resolve_hardware
    from gambrel.report import render
    from gambrel.report.answers import Sheet

    device, notes = resolve_hardware(frame.hardware[0])
    sheet = Sheet(device=device, notes=notes)
    return Answer(
        frame=frame,
        sentence=_SENTENCES[frame.intent](device, frame.precision),
        body="" if frame.intent == "ridge" else str(render(sheet, "table", options)),
        notes=notes if frame.intent == "ridge" else (),
        command=command_of(frame),
        data=lambda: str(render(sheet, "json")),
    )


def _ridge_sentence(device: Device, precisions: tuple[str, ...]) -> str:
    from gambrel.device.explain import explain_sparsity
    from gambrel.device.roofs import default_precision, main_memory, resolve

    memory = main_memory(device)
    rate = memory.byte_per_s if memory else None
    asked, why = (precisions[0], "") if precisions else default_precision(device)
    roof = resolve(device, "matrix", asked)
    if roof is None or rate is None:
        return f"The ridge point of {device.name} in {asked} is unknown: a roof is not published."
    text = (
        f"{device.name} in {roof.dtype}: {format_number(roof.flop_per_s / rate)} FLOP/byte, "
        f"{format_si(roof.flop_per_s, 'FLOP/s')} dense over {format_si(rate, 'B/s')}."
    )
    if roof.dtype != asked:
        text = f"It has no {asked} engine; {asked} runs as {roof.dtype}. {text}"
    sparse = [s for s in explain_sparsity(device) if f" {roof.dtype}:" in s]
    told = [text, why, *(f"Often quoted with sparsity: {s}" for s in sparse[:1])]
    return " ".join(filter(None, told))


def _device_sentence(device: Device, precisions: tuple[str, ...]) -> str:
    from gambrel.device.roofs import default_precision, main_memory, resolve

    memory = main_memory(device)
    asked = precisions[0] if precisions else default_precision(device)[0]
    roof = resolve(device, "matrix", asked)
    peak = (
        f"{format_si(roof.flop_per_s, 'FLOP/s')} dense in {roof.dtype}"
        if roof
        else f"no known {asked} peak"
    )
    if roof and roof.dtype != asked:
        peak = f"no {asked} engine; as {roof.dtype} {format_si(roof.flop_per_s, 'FLOP/s')}"
    parts = [peak]
    if memory is not None:
        size = format_capacity(memory.capacity_bytes)
        parts.append(f"{format_si(memory.byte_per_s, 'B/s')} from {size} of {memory.name}")
    parts.append(f"TDP {format_si(device.tdp_w, 'W')}")
    return f"{device.name}: {', '.join(parts)}."


_SENTENCES: Final = {"ridge": _ridge_sentence, "device": _device_sentence}


def _devices(frame: Frame, options: Options) -> Answer:
    from gambrel.device.listing import Filter, list_rows
    from gambrel.report import render
    from gambrel.report.answers import Devices

    filters = dict(frame.filters)
    sort = filters.pop("sort", "name")
    rows = list_rows(Filter(**filters), sort=sort)
    found = Devices(devices=tuple(rows))
    said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in frame.filters)
    return Answer(
        frame=frame,
        sentence=f"{len(rows)} devices{f' ({said})' if said else ''}.",
        body=str(render(found, "table", options)) if rows else "",
        command=command_of(frame),
        data=lambda: str(render(found, "json")),
    )


def _models(frame: Frame, options: Options) -> Answer:
    from gambrel.capture.zoo import list_models
    from gambrel.report import render
    from gambrel.report.answers import Models

    text = dict(frame.filters).get("text", "") or (frame.models[0] if frame.models else "")
    rows = [
        m for m in list_models() if text.lower() in " ".join((m.name, m.family, *m.aliases)).lower()
    ]
    found = Models(models=tuple(rows))
    own = next((m for m in rows if frame.models and m.name in _entries(frame)), None)
    sentence = f"{len(rows)} models{f' with {text!r}' if text else ''} are built in."
    if own is not None:
        sizes = ", ".join(f"{s.name} {s.default}" for s in own.symbols)
        sentence = (
            f"{own.name} ({own.about}): {format_si(own.parameters, '')} parameters, "
            f"{format_si(own.flops, 'FLOP')} of multiply-accumulate work (FMA = 2)"
            f"{f' at {sizes}' if sizes else ''}."
        )
    return Answer(
        frame=frame,
        sentence=sentence,
        body=str(render(found, "table", options)),
        command=command_of(frame),
        data=lambda: str(render(found, "json")),
    )


def _entries(frame: Frame) -> tuple[str, ...]:
    name = frame.models[0]
    return (name, f"{name}-{frame.phase or 'prefill'}")


def _explain(frame: Frame, _options: Options) -> Answer:
    from gambrel.chat.glossary import terms

    term = terms()[frame.term]
    return Answer(
        frame=frame,
        sentence=f"{_heading(term.name)}: {term.text}",
        body=f"See it: {term.see}\n" if term.see else "",
        command=command_of(frame),
        data=lambda: _term(term),
    )


def _term(term: Any) -> str:
    from gambrel.report import with_head

    told = {"term": term.name, "text": term.text, "also": term.also, "see": term.see}
    return msgspec.json.encode(with_head("gambrel/term", told)).decode()


def _heading(name: str) -> str:
    """``"ridge point"`` → ``"Ridge point"``, ``"mfu"`` → ``"MFU"``."""
    return name.upper() if name in _ACRONYMS else f"{name[0].upper()}{name[1:]}"


_ACRONYMS: Final = frozenset({"mfu", "ttft", "tpot", "hbm", "tdp", "flop"})


def _help(frame: Frame, _options: Options) -> Answer:
    return Answer(
        frame=frame,
        sentence="I answer questions about models on devices, by the analysis of the commands.",
        body=help_text(),
        command=command_of(frame),
        data=None,
    )


def help_text() -> str:
    """What can be asked, with an example each."""
    from gambrel.chat.intents import INTENTS

    width = max(len(i.about) for i in INTENTS.values())
    return "".join(f"{i.about:<{width}}  {i.example}\n" for i in INTENTS.values())


_BY_INTENT: Final[dict[str, Callable[[Frame, Options], Answer]]] = {
    "device": _device,
    "ridge": _device,
    "devices": _devices,
    "models": _models,
    "model": _models,
    "explain": _explain,
    "help": _help,
}
