"""The tools that a language model may call: the same frames, answered by the same functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gambrel.chat.answers import Answer, answer
from gambrel.chat.frame import Frame
from gambrel.chat.intents import INTENTS
from gambrel.errors import InputError
from gambrel.report.options import Options

_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer", "minimum": 1}
_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "model": _TEXT | {"description": "Name of a built-in model, e.g. resnet50, llama-3-8b."},
    "hardware": _TEXT
    | {"description": "Device, e.g. a100; several as a100,h100; all for every one."},
    "batch": _WHOLE | {"description": "Items at once."},
    "precision": _TEXT | {"description": "fp32, tf32, bf16, fp16, fp8, int8, int4."},
    "phase": _TEXT | {"enum": ["prefill", "decode"], "description": "For language models."},
    "runtime": _TEXT | {"enum": ["pytorch", "torch-compile", "epilogue", "ideal"]},
    "seq": _WHOLE | {"description": "Tokens of a sequence."},
    "context": _WHOLE | {"description": "Cached tokens, for decode."},
    "image": _WHOLE | {"description": "Image side in pixels."},
    "latency": _TEXT | {"description": "At most, with a unit: 10ms."},
    "throughput": _TEXT | {"description": "At least: 30/s."},
    "power": _TEXT | {"description": "At most: 15W."},
    "energy": _TEXT | {"description": "At most, per item: 500mJ."},
    "memory": _TEXT | {"description": "At most: 4GiB."},
    "changes": {
        "type": "array",
        "items": _TEXT,
        "description": "precision=int8, fuse, batch=8, weights=int4, kv=fp8, hardware=h200.",
    },
    "metric": _TEXT
    | {"enum": ["latency", "throughput", "power", "energy", "efficiency", "memory"]},
    "term": _TEXT | {"description": "A term of roofline analysis, e.g. ridge point."},
    "text": _TEXT | {"description": "Part of a name."},
}
_SETTINGS: Final = ("batch", "precision", "phase", "runtime", "seq", "context", "image")
_LIMITS: Final = ("latency", "throughput", "power", "energy", "memory")

#: Tool → (intent, what it does, required parameters, optional ones).
_TOOLS: Final[dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]]] = {
    "analyze": ("bound", "Bound, times, utilization, memory and energy of a model on a device.",
                ("model", "hardware"), _SETTINGS),
    "recommend": ("recommend", "Changes with their predicted gain.", ("model", "hardware"),
                  _SETTINGS),
    "slowest_ops": ("ops", "The ops that take longest.", ("model", "hardware"), _SETTINGS),
    "check": ("check", "Whether a model on a device meets limits.", ("model", "hardware"),
              (*_LIMITS, *_SETTINGS)),
    "compare": ("compare", "Models on devices side by side.", ("model", "hardware"),
                ("metric", *_SETTINGS)),
    "select": ("select", "The devices that meet limits.", ("model",),
               (*_LIMITS, "hardware", *_SETTINGS)),
    "what_if": ("what_if", "The effect of changes.", ("model", "hardware", "changes"), _SETTINGS),
    "hardware": ("device", "Peaks, bandwidth and memory of a device.", ("hardware",), ()),
    "devices": ("devices", "The list of devices.", (), ("text",)),
    "models": ("models", "The list of built-in models with parameters and FLOP.", (), ("text",)),
    "explain": ("explain", "What a term means.", ("term",), ()),
}  # fmt: skip

#: Rows of a list that a result keeps, so that it fits into a context window.
_ROWS: Final = 12


def schemas() -> list[dict[str, Any]]:
    """The tools in the form of the chat-completions protocol."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": about,
                "parameters": {
                    "type": "object",
                    "properties": {p: _PARAMETERS[p] for p in (*required, *optional)},
                    "required": list(required),
                },
            },
        }
        for name, (_, about, required, optional) in _TOOLS.items()
    ]


def call(
    name: str, arguments: Mapping[str, Any], options: Options, question: str = ""
) -> tuple[Answer, dict[str, Any]]:
    """Runs a tool.

    Args:
        name: A key of the tools.
        arguments: As the language model gave them; never trusted.
        options: For the report that the user may be shown.
        question: What the user typed; only files that it names are opened.

    Returns:
        The answer, and what the language model is told of it.

    Raises:
        GambrelError: The tool does not exist or the arguments cannot be used.
    """
    if name not in _TOOLS:
        raise InputError(f"there is no tool {name!r}; there are {', '.join(_TOOLS)}.")
    intent, _, required, optional = _TOOLS[name]
    unknown = sorted(set(arguments) - {*required, *optional})
    if unknown:
        raise InputError(
            f"{name} takes no {unknown[0]!r}; it takes {', '.join((*required, *optional))}."
        )
    frame = _frame(intent, arguments)
    missing = [need for need in INTENTS[intent].needs if not getattr(frame, need)]
    if missing:
        raise InputError(f"{name} needs {', '.join(missing)}.")
    _check_count(name, frame)
    _check_files(frame, question)
    found = answer(frame, options).completed()
    return found, {"command": found.command_line, "result": _short(_result(found))}


def _check_count(name: str, frame: Frame) -> None:
    """Refuses several where a tool takes one, rather than leaving some out."""
    if name in {"compare", "devices", "models", "explain"}:
        return
    given = {"model": frame.models, "hardware": frame.hardware, "precision": frame.precision}
    if name == "select":
        given = {"model": frame.models}
    for what, of in given.items():
        if len(of) > 1:
            raise InputError(
                f"{name} takes one {what}, not {', '.join(of)}; compare takes several."
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
    def texts(name: str) -> tuple[str, ...]:
        value = given.get(name) or ()
        parts = value if isinstance(value, list) else str(value).split(",") if value else ()
        return tuple(str(p).strip() for p in parts if str(p).strip())

    return Frame(
        intent=intent,
        models=texts("model"),
        hardware=texts("hardware"),
        precision=texts("precision"),
        batch=tuple(_whole(name, given[name]) for name in ("batch",) if given.get(name)),
        sizes=tuple((n, _whole(n, given[n])) for n in ("seq", "context", "image") if given.get(n)),
        phase=str(given.get("phase") or ""),
        runtime=str(given.get("runtime") or ""),
        limits=tuple((n, str(given[n])) for n in _LIMITS if given.get(n)),
        changes=texts("changes"),
        metrics=texts("metric"),
        filters=(("text", str(given["text"])),) if given.get("text") else (),
        term=_term(given.get("term")),
    )


def _whole(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InputError(f"{name}: {value!r} is not a whole number.") from None


def _term(text: Any) -> str:
    from gambrel.chat.glossary import find_term, terms

    if not text:
        return ""
    found = find_term(str(text).lower())
    if found is None:
        raise InputError(f"no term {text!r}; there are {', '.join(terms())}.")
    return found.name


#: Of an analysis, what an answer about the whole needs; ops only where they are asked for.
_WHOLE_KEYS: Final = ("model", "total", "by_kind", "footprint", "energy", "runtime", "launches",
                      "assumptions", "warnings")  # fmt: skip


def _result(found: Answer) -> Any:
    data = json.loads(found.data()) if found.data else None
    if isinstance(data, dict) and data.get("type") == "gambrel/analysis":
        keys = (*_WHOLE_KEYS, "ops") if found.frame.intent == "ops" else _WHOLE_KEYS
        data = {"hardware": data["hardware"]["id"]} | {k: data[k] for k in keys if k in data}
        if "ops" in data:
            data["ops"].sort(key=lambda op: -(op["roofline_time_s"] or 0.0))
    if isinstance(data, dict):
        data.pop("units", None)
    return data if not found.extra else {"analysis": data, **found.extra}


def _short(value: Any, depth: int = 0) -> Any:
    """The result with long lists cut, the number of rows left out said."""
    if isinstance(value, dict):
        return {k: _short(v, depth + 1) for k, v in value.items() if k not in {"levels", "work"}}
    if isinstance(value, list):
        cut = [_short(v, depth + 1) for v in value[:_ROWS]]
        return cut if len(value) <= _ROWS else [*cut, f"{len(value) - _ROWS} more rows"]
    return value
