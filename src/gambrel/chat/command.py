"""The command that reproduces an answer, and the question that it asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gambrel.analysis.question import FIELDS
from gambrel.chat.frame import Frame

#: Rows of a table in an answer.
TOP: Final = 5
#: Changes that answer another question than "how do I make this one faster".
ANOTHER: Final = ("model=", "hardware=")
#: What a plan of serving or a cache assumes where a question gives nothing.
ASSUMED: Final[dict[str, dict[str, int]]] = {
    "serve": {"max_devices": 8, "input": 2048, "output": 500},
    "kv_cache": {"context": 8192},
}
_METRICS: Final = ("latency", "throughput", "power", "efficiency", "memory")
#: Intent → the verb of the question; any other analyzes.
_VERBS: Final = {
    "check": "check",
    "select": "select",
    "compare": "compare",
    "throughput": "compare",
    "what_if": "what-if",
    "kv_cache": "kv-cache",
    "serve": "serve-plan",
}


def verb_of(frame: Frame) -> str:
    """A verb of `gambrel.analysis.question.VERBS`."""
    return _VERBS.get(frame.intent, "analyze")


def given(frame: Frame) -> dict[str, Any]:
    """Field → what the frame gives, for the question of its verb."""
    verb = verb_of(frame)
    several = {
        "model": frame.models,
        "hardware": frame.hardware,
        "phase": (frame.phase,) if frame.phase else (),
        "batch_size": frame.batch,
        "precision": frame.precision,
        "runtime": frame.runtime,
        "change": frame.changes,
        **_ranked(frame, verb),
    }
    values = {
        name: of if verb in FIELDS[name].several else of[0] for name, of in several.items() if of
    }
    sizes = ASSUMED.get(frame.intent, {}) | dict(frame.sizes)
    return values | sizes | dict(frame.settings) | dict(frame.limits)


def _ranked(frame: Frame, verb: str) -> dict[str, tuple[str, ...]]:
    """What sorts: metrics of a comparison, the first one leading, or the metric of a selection."""
    if verb == "select":
        return {"sort": frame.metrics[:1]}
    wanted = frame.metrics or (("throughput",) if frame.intent == "throughput" else ())
    rest = tuple(m for m in _METRICS if m not in wanted)
    return {"metric": (*wanted, *rest) if wanted and verb == "compare" else ()}


def command_of(frame: Frame) -> tuple[str, ...]:
    """The words of ``gambrel ...`` that answer a frame, ready for `shlex.join`."""
    words = _LOOKUPS.get(frame.intent, _asked)(frame)
    return ("gambrel", *words)


def _asked(frame: Frame) -> Iterator[str]:
    """A question: each field with its own option."""
    values = given(frame)
    yield verb_of(frame)
    model = values.pop("model")
    yield ",".join(model) if isinstance(model, tuple) else model
    for name, value in values.items():
        yield from _option(FIELDS[name].flags[0], value, listed=FIELDS[name].split)
    if frame.intent in {"bound", "recommend"}:
        yield "--recommend"
    if verb_of(frame) in {"select", "what-if"}:
        yield from ("--top", str(TOP))


def _option(flag: str, value: Any, *, listed: bool) -> Iterator[str]:
    if value is True:
        yield flag
        return
    several = value if isinstance(value, tuple) else (value,)
    for text in (",".join(map(str, several)),) if listed else several:
        yield from (flag, str(text))


def _device(frame: Frame) -> Iterator[str]:
    yield from ("hardware", "show", frame.hardware[0])


def _devices(frame: Frame) -> Iterator[str]:
    filters = dict(frame.filters)
    yield from ("hardware", "list")
    yield from (value for value in (filters.pop("text", ""),) if value)
    for name, value in filters.items():
        yield from (f"--{name.replace('_', '-')}", value)


def _models(frame: Frame) -> Iterator[str]:
    yield from ("models", "list", *dict(frame.filters).values(), *frame.models[:1])


def _ask(frame: Frame) -> Iterator[str]:
    yield from ("ask", f"explain {frame.term}" if frame.term else "help")


#: Kinds of question that are looked up.
_LOOKUPS: Final = {
    "device": _device,
    "ridge": _device,
    "devices": _devices,
    "models": _models,
    "model": _models,
    "explain": _ask,
    "help": _ask,
}
