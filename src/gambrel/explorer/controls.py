"""What the controls of the explorer are made of: the fields of the question, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gambrel.analysis.fields import FLAG, Field
from gambrel.analysis.question import FIELDS, fields_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One kind of question.

    Attributes:
        label: What the tab is called.
        start: What stands in fields that it cannot be asked without.
        sliders: Field → largest value of its slider, whose steps are powers of two.
    """

    label: str
    start: Mapping[str, str] = field(default_factory=dict)
    sliders: Mapping[str, int] = field(default_factory=dict)


_LAYOUT: Final = {"tensor": 64, "pipeline": 16, "expert": 256, "context_parallel": 16}
_TOKENS: Final = 1 << 17
#: Verb → its tab. The first is the one a page opens with.
TABS: Final[dict[str, Tab]] = {
    "analyze": Tab(label="one model"),
    "compare": Tab(label="devices"),
    "check": Tab(label="targets", start={"latency": "10ms"}, sliders={"batch_size": 1024}),
    "serve-plan": Tab(
        label="serving",
        start={"input": "1024", "output": "256"},
        sliders={"input": _TOKENS, "output": _TOKENS, **_LAYOUT},
    ),
    "train-plan": Tab(
        label="training",
        start={"seq": "4096"},
        sliders={"seq": _TOKENS, **_LAYOUT, "data": 4096},
    ),
}
#: Devices looked at side by side.
MOST_DEVICES: Final = 4


def controls() -> dict[str, Any]:
    """The tabs and their fields, each field once."""
    verbs = {verb: [one.name for one in fields_of(verb, "page")] for verb in TABS}
    used = {name for names in verbs.values() for name in names}
    tabs = [
        {
            "verb": verb,
            "label": tab.label,
            "fields": verbs[verb],
            "start": tab.start,
            "sliders": {name: _powers(most) for name, most in tab.sliders.items()},
        }
        for verb, tab in TABS.items()
    ]
    return {
        "tabs": tabs,
        "fields": {name: _control(FIELDS[name]) for name in FIELDS if name in used},
        "most_devices": MOST_DEVICES,
    }


def _powers(most: int) -> list[int]:
    return [1 << power for power in range(most.bit_length())]


def _control(asked: Field) -> dict[str, Any]:
    kind = asked.kind
    default = None if asked.default in (None, (), False) else asked.default
    return {
        "label": asked.flags[0].lstrip("-") if asked.flags else asked.name,
        "help": asked.help,
        "group": asked.group,
        "form": "flag" if kind is FLAG else "choice" if kind.choices else "text",
        "choices": list(kind.choices),
        "unit": kind.unit,
        "example": kind.example,
        "default": ",".join(map(str, default)) if isinstance(default, tuple) else default,
        "several": sorted(asked.several & set(TABS)),
        "required": sorted(asked.required & set(TABS)),
    }


def names() -> dict[str, Any]:
    """Models and devices to choose among: name, and what is searched besides it."""
    from gambrel.capture.zoo import search
    from gambrel.device.listing import Filter, list_rows
    from gambrel.llm.known import names as language

    models = [[m.name, f"{m.about} ({m.family})"] for m in search(None, None)]
    captured = {name for name, _ in models}
    models += [[name, "language model"] for name in language() if name not in captured]
    devices = [[d.id, f"{d.name} ({d.category})"] for d in list_rows(Filter())]
    return {"models": models, "devices": devices}
