"""The command line and the Python call that ask a question: answers say how to get them again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gambrel.analysis.question import FIELDS, PRINT, Question, fields_of

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
#: Verbs without a public function of Python.
WITHOUT_FUNCTION: Final = frozenset(
    [
        "import",
        "devices",
        "device",
        "models",
        "runtimes",
        "runtime",
        "explain",
    ]
)
#: Symbol of a size → its field; the others are among the sizes.
_OWN_SIZES: Final = {"batch": "batch_size", "seq": "seq", "context": "context", "image": "image"}
#: Fields that commands take without an option.
_WORDS: Final = {
    "device": "hardware",
    "runtime": "runtime",
    "devices": "text",
    "models": "text",
    "design": "device_file",
    "import": "",
}


def word_of(verb: str) -> str:
    """The field that the command of a verb takes without an option."""
    return _WORDS.get(verb, "model")


def sizes_given(symbols: Mapping[str, int]) -> dict[str, Any]:
    """The sizes of a model as a question takes them: some have a field of their own.

    Args:
        symbols: Symbol → value.
    """
    own = {_OWN_SIZES[name]: n for name, n in symbols.items() if name in _OWN_SIZES}
    others = {name: n for name, n in symbols.items() if name not in _OWN_SIZES}
    return own | ({"sizes": others} if others else {})


def words_of(verb: str) -> str:
    """The command of a verb."""
    return _COMMANDS.get(verb, verb)


def command_of(
    verb: str,
    given: Mapping[str, Any],
    own: Sequence[str] = (),
    face: str = "mcp",
    words: str = "",
) -> str:
    """The command line that asks the same, quoted for a POSIX shell.

    Args:
        verb: One of `VERBS`; empty for a command that asks no question.
        given: Field → text or value, as `ask` takes them; None is left out.
        own: Words and options of the command that belong to no field.
        face: Whose fields were given.
        words: The command that asks, where it is not that of the verb.
    """
    name, *options = (words or words_of(verb)).split(" --", 1)
    line = ["gambrel", *name.split()]
    rest: list[str] = []
    for field in fields_of(verb, face):
        value = given.get(field.name)
        if value is None or value is False or value == field.default:
            continue
        texts = field.texts(value)
        if field.name in (word_of(verb), "term"):
            line.append(",".join(texts))
        elif field.split and verb in field.several:
            rest += [field.flags[0], ",".join(texts)]
        else:
            for text in texts:
                rest += [field.flags[0], *([text] if value is not True else [])]
    return shlex.join([*line, *own, *rest, *(f"--{option}" for option in options)])


def call_of(verb: str, given: Mapping[str, Any]) -> str:
    """The Python that asks the same; empty where no public function does.

    Args:
        verb: One of `VERBS`.
        given: Field → text or value, as `ask` takes them; None is left out.
    """
    known = {field.name: field for field in fields_of(verb, "python")}
    asked = {n: v for n, v in given.items() if v is not None and v is not False}
    lost = [field for field in fields_of(verb, "cli") if field.name not in known]
    if verb in WITHOUT_FUNCTION or any(f.name in asked and f.group != PRINT for f in lost):
        return ""
    values = [f"{n}={asked[n]!r}" for n, f in known.items() if asked.get(n, f.default) != f.default]
    return f"import gambrel\n\ngambrel.{verb.replace('-', '_')}({', '.join(values)})\n"


def commands_of(verb: str, given: Mapping[str, Any], face: str = "mcp") -> dict[str, str]:
    """The command (``shell``) and the call (``python``) that ask the same.

    None where something given has no text, e.g. a model in memory.
    """
    if not is_text(given):
        return {}
    made = {"shell": command_of(verb, given, face=face), "python": call_of(verb, given)}
    return {language: text for language, text in made.items() if text}


def stated(question: Question) -> dict[str, Any]:
    """Field → value of what a question gives that a command line can say."""
    given = {name: getattr(question, name) for name in FIELDS}
    return {n: v for n, v in given.items() if v is not None and v != () and is_text(v)}


def is_text(value: Any) -> bool:
    """Whether a value is made of texts and numbers alone."""
    if isinstance(value, Mapping):
        return all(map(is_text, value.values()))
    if isinstance(value, (list, tuple, range)):
        return all(map(is_text, value))
    return value is None or isinstance(value, (str, int, float))
