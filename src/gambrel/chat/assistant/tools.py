"""The tools that a language model may call: the same frames, answered by the same functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gambrel.analysis.question import FIELDS, TARGETS, fields_of
from gambrel.chat.answers import Answer, answer
from gambrel.chat.command import verb_of
from gambrel.chat.frame import Frame
from gambrel.chat.intents import INTENTS
from gambrel.chat.slots import SETTINGS, SIZES
from gambrel.errors import InputError

#: Tool → kind of question and what it does.
_TOOLS: Final[dict[str, tuple[str, str]]] = {
    "analyze": ("bound", "Bound, times, utilization, memory and energy of a model on a device."),
    "recommend": ("recommend", "Changes with their predicted gain."),
    "slowest_ops": ("ops", "The ops that take longest."),
    "check": ("check", "Whether a model on a device meets limits."),
    "compare": ("compare", "Models on devices side by side."),
    "select": ("select", "The devices that meet limits."),
    "what_if": ("what_if", "The effect of changes."),
    "serve": ("serve", "How to serve a language model to many: devices, layout, TTFT, TPOT."),
    "hardware": ("device", "Peaks, bandwidth and memory of a device."),
    "devices": ("devices", "The list of devices."),
    "models": ("models", "The list of built-in models with parameters and FLOP."),
    "explain": ("explain", "What a term means."),
}
#: Fields whose values become another part of the frame than one of the same name.
_PARTS: Final = {
    "model": "models",
    "hardware": "hardware",
    "batch_size": "batch",
    "precision": "precision",
    "runtime": "runtime",
    "change": "changes",
    "metric": "metrics",
    "sort": "metrics",
}
_TAKEN: Final = {*_PARTS, *SIZES, *SETTINGS, "phase"}
_TEXT: Final = {"type": "string"}
#: Parameters of the tools that look something up.
_LOOKUPS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "device": {"hardware": _TEXT | {"description": "A device, e.g. a100."}},
    "devices": {"text": _TEXT | {"description": "Part of a name."}},
    "models": {"text": _TEXT | {"description": "Part of a name."}},
    "explain": {"term": _TEXT | {"description": "A term of rooflines, e.g. ridge point."}},
}
#: Rows of a list that a result keeps, so that it fits into a context window.
_ROWS: Final = 12
#: Of an analysis, what an answer about the whole leaves out.
_DETAILS: Final = frozenset({"units", "ops", "by_module", "levels", "work", "hardware_record"})


def parameters(intent: str) -> dict[str, dict[str, Any]]:
    """The arguments of a tool, by name, as JSON schemas."""
    if intent in _LOOKUPS:
        return _LOOKUPS[intent]
    verb = verb_of(Frame(intent=intent))
    return {
        field.name: {**field.kind.schema, "description": field.help}
        if verb not in field.several
        else {"type": "array", "items": dict(field.kind.schema), "description": field.help}
        for field in fields_of(verb, "mcp")
        if field.name in _TAKEN or field.group == TARGETS
    }


def schemas() -> list[dict[str, Any]]:
    """The tools in the form of the chat-completions protocol."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": about,
                "parameters": {"type": "object", "properties": parameters(intent)},
            },
        }
        for name, (intent, about) in _TOOLS.items()
    ]


def call(
    name: str, arguments: Mapping[str, Any], question: str = ""
) -> tuple[Answer, dict[str, Any]]:
    """Runs a tool.

    Args:
        name: A key of the tools.
        arguments: As the language model gave them; never trusted.
        question: What the user typed; only files that it names are opened.

    Returns:
        The answer, and what the language model is told of it.

    Raises:
        GambrelError: The tool does not exist or the arguments cannot be used.
    """
    if name not in _TOOLS:
        raise InputError(f"there is no tool {name!r}; there are {', '.join(_TOOLS)}.")
    intent = _TOOLS[name][0]
    known = parameters(intent)
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        raise InputError(f"{name} takes no {unknown[0]!r}; it takes {', '.join(known)}.")
    frame = _frame(intent, arguments)
    missing = [need for need in INTENTS[intent].needs if not getattr(frame, need)]
    if missing:
        raise InputError(f"{name} needs {', '.join(missing)}.")
    _check_count(name, frame, known)
    _check_files(frame, question)
    found = answer(frame)
    results = [_short(part.data(), intent) for part in found.parts]
    return found, {"command": found.command_line, "result": results}


def _check_count(name: str, frame: Frame, known: Mapping[str, Any]) -> None:
    """Refuses several where a tool takes one, rather than leaving some out."""
    for field, part in _PARTS.items():
        given = getattr(frame, part)
        if field in known and known[field].get("type") != "array" and len(given) > 1:
            raise InputError(
                f"{name} takes one {field}, not {', '.join(map(str, given))}; compare takes "
                "several."
            )


def _check_files(frame: Frame, question: str) -> None:
    """Refuses files that the user did not name, and code in any case.

    What a tool returned may have talked the language model into another file.
    """
    from gambrel.chat.names import names

    changed = (c.partition("=")[2] for c in frame.changes if c.startswith(("hardware=", "model=")))
    for name in (*frame.models, *frame.hardware, *changed):
        if name == "all" or names().find(name) is not None:
            continue
        looks_like_file = any(mark in name for mark in "/\\:.") or Path(name).exists()
        if ":" in name or (looks_like_file and name not in question.split()):
            raise InputError(
                f"{name!r} is no built-in name; only files that the user names are read."
            )


def _frame(intent: str, given: Mapping[str, Any]) -> Frame:
    values = {name: value for name, value in given.items() if value not in (None, "", [])}
    parts = {_PARTS[n]: _listed(n, v) for n, v in values.items() if n in _PARTS}
    return Frame(
        intent=intent,
        **parts,
        sizes=tuple((n, _read(n, values[n])) for n in SIZES if n in values),
        settings=tuple((n, _read(n, values[n])) for n in SETTINGS if n in values),
        limits=tuple(
            (n, str(v))
            for n, v in values.items()
            if n in FIELDS and FIELDS[n].group == TARGETS and n not in _PARTS
        ),
        phase=str(values.get("phase", "")),
        filters=(("text", str(values["text"])),) if "text" in values else (),
        term=_term(values.get("term")),
    )


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    several = value if isinstance(value, list) else str(value).split(",")
    if name == "batch_size":
        return tuple(_read(name, one) for one in several)
    return tuple(str(one).strip() for one in several if str(one).strip())


def _read(name: str, value: Any) -> Any:
    kind = FIELDS[name].kind
    return kind.read(value, kind, name)


def _term(text: Any) -> str:
    from gambrel.chat.glossary import find_term, terms

    if not text:
        return ""
    found = find_term(str(text).lower())
    if found is None:
        raise InputError(f"no term {text!r}; there are {', '.join(terms())}.")
    return found.name


def _short(value: Any, intent: str) -> Any:
    """A result without details, and long lists cut, the number of rows left out said."""
    if isinstance(value, dict):
        left_out = _DETAILS - ({"ops"} if intent == "ops" else set())
        return {k: _short(v, intent) for k, v in value.items() if k not in left_out}
    if isinstance(value, list):
        cut = [_short(v, intent) for v in value[:_ROWS]]
        return cut if len(value) <= _ROWS else [*cut, f"{len(value) - _ROWS} more rows"]
    return value
