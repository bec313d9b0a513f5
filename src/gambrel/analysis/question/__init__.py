"""What can be asked of gambrel: each thing once, for every face.

Options of the command line, keywords of the Python functions, arguments of the MCP tools and words
of the chat are made from the fields of `Question`. A new field needs no declaration anywhere else:
it goes into the module of its group in this folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gambrel.analysis.fields import Field
from gambrel.analysis.question.declare import PRINT, TARGETS, VERBS
from gambrel.analysis.question.designing import DesignFields
from gambrel.analysis.question.device import DeviceFields
from gambrel.analysis.question.how import HowFields
from gambrel.analysis.question.judging import JudgeFields
from gambrel.analysis.question.lists import ListFields
from gambrel.analysis.question.model import ModelFields
from gambrel.analysis.question.model_sets import members
from gambrel.analysis.question.plan import PlanFields
from gambrel.analysis.question.printing import PrintFields
from gambrel.analysis.question.requests import RequestFields
from gambrel.analysis.question.sweeping import SweepFields
from gambrel.analysis.question.targets import TargetFields
from gambrel.closest import closest
from gambrel.errors import InputError, UnknownNameError

__all__ = ["FIELDS", "PRINT", "TARGETS", "VERBS", "Question", "ask", "fields_of", "needed"]


@dataclass(frozen=True, kw_only=True)
class Question(
    PrintFields,
    ListFields,
    PlanFields,
    RequestFields,
    SweepFields,
    TargetFields,
    JudgeFields,
    HowFields,
    DeviceFields,
    DesignFields,
    ModelFields,
):
    """One question with its values, read and checked; what a verb does not take is at its default.

    Attributes:
        verb: One of `VERBS`.

    The other attributes are fields: `FIELDS` has their types, units and meanings.
    """

    verb: str

    def several(self, name: str) -> tuple[Any, ...]:
        """The values of a field, ``(None,)`` where none was given."""
        value = getattr(self, name)
        return (value,) if not isinstance(value, tuple) else value or (None,)

    def size_values(self) -> dict[str, Any]:
        """The sizes that were given, by symbol, the batch apart.

        Raises:
            InputError: One that is given twice.
        """
        own = {name: getattr(self, name) for name in ("seq", "context", "image")}
        given = {name: value for name, value in own.items() if value is not None}
        others = self.sizes or {}
        for name, value in ({"batch": self.batch_size} | own).items():
            if name in others and value is not None:
                own_text = ",".join(map(str, value if isinstance(value, tuple) else (value,)))
                raise InputError(
                    f"{name} is given twice: {others[name]} among the sizes, {own_text} on its "
                    "own; give it once."
                )
        return given | others


#: What people name first; the others follow in the order of their groups.
_FIRST: Final = ("device_file", "model", "hardware")
#: Name → field, in the order in which faces show them.
FIELDS: Final[dict[str, Field]] = {
    one.name: msgspec.structs.replace(one.metadata["field"], name=one.name)
    for one in sorted(dataclasses.fields(Question), key=lambda one: one.name not in _FIRST)
    if "field" in one.metadata
}


def fields_of(verb: str, face: str) -> Iterator[Field]:
    """What a face (``cli``, ``python``, ``mcp``) offers for a verb."""
    return (field for field in FIELDS.values() if field.on(face, verb))


def ask(verb: str, given: Mapping[str, Any], face: str = "python") -> Question:
    """A question from what a user gave; None is what was not given.

    Args:
        verb: One of `VERBS`.
        given: Field → text or value.
        face: How the fields are called in messages.

    Raises:
        UnknownNameError: A field that the verb does not have.
        InputError: A value that cannot be used, or a required one that is missing.
    """
    known = {field.name: field for field in fields_of(verb, face)}
    for name in given:
        if name not in known:
            raise UnknownNameError("argument", name, closest(name, known, 3, 60) or known)
    read = {
        name: known[name].read(value, verb, known[name].label(face))
        for name, value in given.items()
        if value is not None
    }
    read = _deployed(read, known, verb, face) | read
    for name, field in known.items():
        if verb in field.required and read.get(name) in (None, ()):
            raise InputError(f"{verb} needs {field.label(face)}. {field.help}")
    if read.get("hub"):
        from gambrel.hub import named

        if "model" not in read:
            raise InputError(f"{known['hub'].label(face)}: name the model, org/name.")
        read["model"] = named(read["model"])
    if "model" in read:
        read["model"] = members(read["model"], verb)
    return Question(verb=verb, **read)


def needed(field: Field, verb: str, face: str) -> bool:
    """Whether a face must demand a field: a deployment that exists may say it."""
    return verb in field.required and not (
        field.name == "model" and any(one.name == "config" for one in fields_of(verb, face))
    )


def _deployed(
    read: Mapping[str, Any], known: Mapping[str, Field], verb: str, face: str
) -> dict[str, Any]:
    """What a deployment that was given says of the fields of a question."""
    deployment = read.get("config")
    if deployment is None:
        return {}
    label = known["config"].label(face)
    return {
        name: known[name].read(value, verb, f"{label}: {name}")
        for name, value in deployment.beside(read).items()
        if name in known
    }
