"""The catalogue of changes: each turns a model, a device or the settings into another.

A change is a text, ``"precision=int8"`` or ``"fuse"``, that means the same in a recommendation, in
`gambrel what-if --change` and in `Analysis.with_change`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gambrel.advise.case import Effort, Kind, Scenario, case_of
from gambrel.advise.kinds_device import IMAGINED
from gambrel.advise.kinds_numbers import NUMBERS, PRECISION
from gambrel.advise.kinds_other import KEEPING, REPLACING
from gambrel.advise.kinds_software import BATCH, FUSION, RUNTIME, SIZES, sized
from gambrel.errors import InputError, UnknownNameError

__all__ = [
    "CATALOGUE",
    "Effort",
    "Kind",
    "Scenario",
    "apply_changes",
    "case_of",
    "describe_changes",
    "effort_of",
    "parse_change",
]

#: By name, what costs a user least first.
CATALOGUE: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        *FUSION,
        BATCH,
        PRECISION,
        *NUMBERS,
        *KEEPING,
        *REPLACING,
        *IMAGINED,
        RUNTIME,
        *SIZES,
    )
}

_ALIASES: Final = {
    "batch_size": "batch",
    "dtype": "precision",
    "kv_precision": "kv",
    "kv_cache": "kv",
    "weight_precision": "weights",
    "device": "hardware",
    "sparse": "sparsity",
    "compile": "fuse",
    "channels_last": "channels-last",
    "cuda-graphs": "graphs",
    "flash-attention": "attention",
    "variant": "model",
}


def apply_changes(case: Scenario, changes: Iterable[str]) -> Scenario:
    """Applies changes one after another.

    Raises:
        UnknownNameError: No such change.
        GambrelError: The model or the device does not take a change; the message says why.
    """
    for text in changes:
        name, value = parse_change(text)
        if name in CATALOGUE:
            case = CATALOGUE[name].apply(case, value)
        elif name in case.sizes:
            case = sized(case, name, value)
        else:
            raise UnknownNameError(
                "change", text, hint=f"Use {', '.join(k.example for k in CATALOGUE.values())}."
            )
    return case


def parse_change(text: str) -> tuple[str, str]:
    """``"precision=int8"`` → ("precision", "int8"); ``"fuse"`` → ("fuse", "").

    Raises:
        InputError: A value is missing, or given where there is none.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    name = _ALIASES.get(name.lower(), name.lower())
    kind = CATALOGUE.get(name)
    if kind is not None and kind.takes_value and not value:
        raise InputError(f"change {text!r} needs a value, e.g. {kind.example}.")
    if kind is not None and not kind.takes_value and equals:
        raise InputError(f"change {text!r} takes no value; write {kind.example}.")
    return name, value


def describe_changes(changes: Sequence[str]) -> str:
    """What the changes are and what they cost, one sentence each."""
    kinds = [CATALOGUE.get(parse_change(text)[0]) for text in changes]
    return " ".join(dict.fromkeys(kind.about for kind in kinds if kind is not None))


def effort_of(changes: Iterable[str]) -> Effort:
    """The most that one of the changes asks of a user; other sizes are software."""
    kinds = [CATALOGUE.get(parse_change(text)[0]) for text in changes]
    return max((kind.effort for kind in kinds if kind is not None), default=Effort.SOFTWARE)
