"""The command line that asks a question: for answers that say how to get them again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from gambrel.analysis.question import fields_of

#: Verb → words of its command; the others are called as they are.
_COMMANDS: Final = {
    "recommend": "analyze --recommend",
    "train-search": "train-plan --search",
    "limits": "judge --limits",
    "explain-gap": "judge --gap",
    "devices": "hardware list",
    "device": "hardware show",
    "models": "models list",
    "runtimes": "runtimes list",
    "runtime": "runtimes show",
    "explain": "ask explain",
}
#: Fields that commands take without an option.
_WORDS: Final = {
    "device": "hardware",
    "runtime": "runtime",
    "devices": "text",
    "models": "text",
    "design": "device_file",
}


def word_of(verb: str) -> str:
    """The field that the command of a verb takes without an option."""
    return _WORDS.get(verb, "model")


def command_of(verb: str, given: Mapping[str, Any]) -> str:
    """The command line that asks the same.

    Args:
        verb: One of `VERBS`.
        given: Field → text or value, as `ask` takes them; None is left out.
    """
    name, *options = _COMMANDS.get(verb, verb).split(" --", 1)
    words = ["gambrel", *name.split()]
    rest: list[str] = []
    for field in fields_of(verb, "mcp"):
        value = given.get(field.name)
        if value is None or value is False or value == field.default:
            continue
        texts = field.texts(value)
        if field.name in (word_of(verb), "term"):
            words.append(",".join(texts))
        elif field.split and verb in field.several:
            rest += [field.flags[0], ",".join(texts)]
        else:
            for text in texts:
                rest += [field.flags[0], *([text] if value is not True else [])]
    return shlex.join([*words, *rest, *(f"--{option}" for option in options)])
