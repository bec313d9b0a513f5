"""The command that reproduces an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gambrel.chat.frame import Frame

#: Shown of a table in an answer.
TOP: Final = 5

#: Changes that answer another question than "how do I make this one faster".
ANOTHER: Final = ("model=", "hardware=")


def command_of(frame: Frame) -> tuple[str, ...]:
    """The words of ``gambrel ...`` that answer a frame, ready for `shlex.join`."""
    return ("gambrel", *_BY_INTENT.get(frame.intent, _analyze)(frame))


def _analyze(frame: Frame) -> Iterator[str]:
    yield from ("analyze", frame.models[0], "--hardware", frame.hardware[0])
    yield from _settings(frame)
    if frame.intent in {"bound", "recommend"}:
        yield "--recommend"


def _check(frame: Frame) -> Iterator[str]:
    yield from ("check", frame.models[0], "--hardware", frame.hardware[0])
    yield from _limits(frame)
    yield from _settings(frame)


def _select(frame: Frame) -> Iterator[str]:
    yield from ("select", frame.models[0])
    if frame.hardware:
        yield from ("--hardware", ",".join(frame.hardware))
    yield from _limits(frame)
    if frame.metrics:
        yield from ("--sort", frame.metrics[0])
    yield from _settings(frame)
    yield from ("--top", str(TOP))


def _compare(frame: Frame) -> Iterator[str]:
    yield from ("compare", ",".join(frame.models), "--hardware", ",".join(frame.hardware))
    metrics = frame.metrics or (("throughput",) if frame.intent == "throughput" else ())
    if metrics:
        rest = [m for m in _COMPARED if m not in metrics]
        yield from ("--metric", ",".join((*metrics, *rest)))
    yield from _settings(frame)


_COMPARED: Final = ("latency", "throughput", "power", "efficiency", "memory")


def _what_if(frame: Frame) -> Iterator[str]:
    yield from ("what-if", frame.models[0], "--hardware", frame.hardware[0])
    yield from _settings(frame)
    for change in frame.changes:
        yield from ("--change", change)
    yield from ("--top", str(TOP))


def _device(frame: Frame) -> Iterator[str]:
    yield from ("hardware", "show", frame.hardware[0])


def _devices(frame: Frame) -> Iterator[str]:
    yield from ("hardware", "list")
    filters = dict(frame.filters)
    if "text" in filters:
        yield filters.pop("text")
    for name, value in filters.items():
        yield from (f"--{name.replace('_', '-')}", value)


def _models(frame: Frame) -> Iterator[str]:
    yield from ("models", "list", *(value for name, value in frame.filters if name == "text"))


def _model(frame: Frame) -> Iterator[str]:
    yield from ("models", "list", frame.models[0])


def _ask(frame: Frame) -> Iterator[str]:
    yield from ("ask", f"explain {frame.term}" if frame.term else "help")


def _settings(frame: Frame) -> Iterator[str]:
    if frame.phase:
        yield from ("--phase", frame.phase)
    if frame.batch:
        yield from ("--batch", ",".join(map(str, frame.batch)))
    if frame.precision:
        yield from ("--precision", ",".join(frame.precision))
    for name, value in frame.sizes:
        if name in {"seq", "context", "image"}:
            yield from (f"--{name}", str(value))
        else:
            yield from ("--size", f"{name}={value}")
    if frame.runtime:
        yield from ("--runtime", frame.runtime)


def _limits(frame: Frame) -> Iterator[str]:
    for metric, text in frame.limits:
        yield from (f"--{metric}", text)


def _kv_cache(frame: Frame) -> Iterator[str]:
    yield from ("kv-cache", frame.models[0])
    if frame.hardware:
        yield from ("--hardware", frame.hardware[0])
    yield from _settings(frame)
    if "context" not in dict(frame.sizes):
        yield from ("--context", str(CONTEXT))


#: Tokens of a sequence whose cache is counted where a question gives none.
CONTEXT: Final = 8192
#: Tokens of a request where a question gives none.
INPUT: Final = 2048
OUTPUT: Final = 500
#: Devices of a plan where a question gives no number.
DEVICES: Final = 8


def _serve(frame: Frame) -> Iterator[str]:
    sizes = dict(frame.sizes)
    yield from ("serve-plan", frame.models[0], "--hardware", ",".join(frame.hardware))
    yield from ("--max-devices", str(sizes.get("devices", DEVICES)))
    yield from ("--input", str(sizes.get("input", INPUT)))
    yield from ("--output", str(sizes.get("output", OUTPUT)))
    yield from _limits(frame)
    if "users" in sizes:
        yield from ("--concurrency", str(sizes["users"]))
    for precision in frame.precision:
        yield from ("--precision", precision)


_BY_INTENT: Final = {
    "kv_cache": _kv_cache,
    "serve": _serve,
    "check": _check,
    "select": _select,
    "compare": _compare,
    "throughput": _compare,
    "what_if": _what_if,
    "device": _device,
    "ridge": _device,
    "devices": _devices,
    "models": _models,
    "model": _model,
    "explain": _ask,
    "help": _ask,
}
