"""What the controls of the explorer are made of: the fields of the question, as data."""

from __future__ import annotations

from typing import Any, Final

from gambrel.analysis.fields import FLAG, Field
from gambrel.analysis.question import FIELDS, fields_of

#: Verb → what its tab is called, and what stands in fields that it cannot be asked without. The
#: first is the one a page opens with.
TABS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "analyze": ("one model", {}),
    "compare": ("devices", {}),
    "check": ("targets", {"latency": "10ms"}),
    "serve-plan": ("serving", {"input": "1024", "output": "256"}),
    "train-plan": ("training", {"seq": "4096"}),
}
#: Devices looked at side by side.
MOST_DEVICES: Final = 4


def controls() -> dict[str, Any]:
    """The tabs and their fields, each field once."""
    verbs = {verb: [field.name for field in fields_of(verb, "page")] for verb in TABS}
    used = {name for names in verbs.values() for name in names}
    tabs = [
        {"verb": verb, "label": label, "fields": verbs[verb], "start": start}
        for verb, (label, start) in TABS.items()
    ]
    return {
        "tabs": tabs,
        "fields": {name: _control(FIELDS[name]) for name in FIELDS if name in used},
        "most_devices": MOST_DEVICES,
    }


def _control(field: Field) -> dict[str, Any]:
    kind = field.kind
    default = None if field.default in (None, (), False) else field.default
    return {
        "label": field.flags[0].lstrip("-") if field.flags else field.name,
        "help": field.help,
        "group": field.group,
        "form": "flag" if kind is FLAG else "choice" if kind.choices else "text",
        "choices": list(kind.choices),
        "unit": kind.unit,
        "example": kind.example,
        "default": ",".join(map(str, default)) if isinstance(default, tuple) else default,
        "several": sorted(field.several & set(TABS)),
        "required": sorted(field.required & set(TABS)),
    }


def names() -> dict[str, Any]:
    """Models and devices to choose among: name, and what is searched besides it."""
    from gambrel.capture.zoo import search
    from gambrel.device.listing import Filter, list_rows
    from gambrel.llm.known import names as language

    models = [[m.name, f"{m.about} ({m.family})"] for m in search(None, None)]
    models += [[name, "language model"] for name in language()]
    devices = [[d.id, f"{d.name} ({d.category})"] for d in list_rows(Filter())]
    return {"models": models, "devices": devices}
