"""The command that reproduces an answer, and the question that it asks."""

from __future__ import annotations

import shlex
from typing import Any, Final

from gambrel.analysis.commandline import command_of as command_line
from gambrel.analysis.question import FIELDS
from gambrel.chat.filters import class_of
from gambrel.chat.frame import Frame

#: Rows of a table in an answer.
TOP: Final = 5
#: Changes that answer another question than "how do I make this one faster".
ANOTHER: Final = ("model=", "hardware=")
#: What a plan of serving or a cache assumes where a question gives nothing.
ASSUMED: Final[dict[str, dict[str, int]]] = {
    "serve": {"max_devices": 8, "input": 2048, "output": 500},
    "kv_cache": {"context": 8192},
    "train": {"seq": 4096, "devices": 1},
}
#: More devices than this are written as their class.
_MANY: Final = 3
_OF_TOKENS: Final = frozenset({"input", "output", "context", "seq"})
#: Sequences of a training step on each device, where a question gives none.
SEQUENCES: Final = 8
#: Batches that are compared to find the one to use.
_BATCHES: Final = "1:4096:x2"
_METRICS: Final = ("latency", "throughput", "power", "efficiency", "memory")
#: Intent → the verb of the question; any other analyzes.
_VERBS: Final = {
    "check": "check",
    "judge": "judge",
    "select": "select",
    "compare": "compare",
    "throughput": "compare",
    "what_if": "what-if",
    "kv_cache": "kv-cache",
    "batch": "sweep",
    "train": "train-search",
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
    sizes: dict[str, Any] = assumed_by(frame) | dict(frame.sizes)
    if "steps" in sizes:
        sizes["sizes"] = {"steps": sizes.pop("steps")}
    if frame.intent == "train":
        sizes.setdefault("global_batch", SEQUENCES * sizes["devices"])
    if frame.intent == "batch":  # its limit chooses among the points
        return values | sizes | dict(frame.settings) | {"batch_size": _BATCHES}
    limits = dict(frame.limits)
    if frame.intent == "judge":  # the time is what was measured
        limits = {"time": limits["latency"]}
    return values | sizes | dict(frame.settings) | limits


def assumed_by(frame: Frame) -> dict[str, int]:
    """What a plan assumes where the question gives nothing; tokens within the model's context."""
    found = dict(ASSUMED.get(frame.intent, {}))
    if not found or not frame.models:
        return found
    limit = _context_of(frame.models[0])
    if limit is None:
        return found
    half = limit // 2 if "output" in found else limit
    return {n: min(v, half) if n in _OF_TOKENS else v for n, v in found.items()}


def _context_of(model: str) -> int | None:
    """Tokens that a model takes; None without a limit, and where the plan says what is wrong."""
    from gambrel.errors import GambrelError
    from gambrel.llm.known import spec_of

    try:
        return spec_of(model).max_context
    except GambrelError:
        return None


def _ranked(frame: Frame, verb: str) -> dict[str, tuple[str, ...]]:
    """What sorts: metrics of a comparison, the first one leading, or the metric of a selection."""
    if verb == "select":
        return {"sort": frame.metrics[:1]}
    wanted = frame.metrics or (("throughput",) if frame.intent == "throughput" else ())
    rest = tuple(m for m in _METRICS if m not in wanted)
    return {"metric": (*wanted, *rest) if wanted and verb == "compare" else ()}


def command_of(frame: Frame) -> str:
    """The command line that answers a frame, as it is typed."""
    if frame.intent in {"explain", "help"}:
        return shlex.join(("gambrel", "ask", f"explain {frame.term}" if frame.term else "help"))
    if frame.intent in {"device", "ridge"}:
        return command_line("device", {"hardware": frame.hardware[0]})
    filters = dict(frame.filters)
    if frame.intent in {"models", "model"}:
        text = filters.get("text") or next(iter(frame.models), None)
        return command_line("models", {"text": text})
    if frame.intent == "devices":
        order = f" --sort {filters.pop('sort')}" if "sort" in filters else ""
        return command_line("devices", filters) + order
    verb = verb_of(frame)
    more = {"top": TOP} if verb in {"select", "what-if"} else {}
    asked = given(frame) | more
    if len(frame.hardware) > _MANY and (together := class_of(frame.hardware)):
        asked["hardware"] = together
    return command_line("recommend" if advises(frame) else verb, asked)


def advises(frame: Frame) -> bool:
    """Whether its answer lists what to change."""
    return frame.intent in {"bound", "recommend"}
