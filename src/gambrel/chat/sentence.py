"""A question as a sentence: what it names, the values it gives, and the words that remain."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gambrel.chat.names import Named, Names, names
from gambrel.chat.ops import marked
from gambrel.chat.slots import Slots, extract
from gambrel.chat.words import corrected, is_known

#: Words of the longest name.
_LONGEST: Final = 6
#: Marks at the edges of a word do not belong to it.
_WORD: Final = re.compile(r"(?![.:'’`])[^\s,;?!()\"“”]+(?<![.:'’`])")
_ARTICLES: Final = frozenset(
    {"a", "an", "the", "at", "in", "on", "is", "for", "of", "to", "or", "and", "vs"}
)
#: Plurals that mean every device of a family rather than the one that its name stands for.
_FAMILIES: Final = frozenset({"tpus", "ipus", "orins", "hailos", "gaudis", "gravitons", "jetsons"})
_UNIT_AHEAD: Final = re.compile(
    r"^\s*(?:ms|us|s|fps|w|gb|mb|tok\w*|images?|frames?|px|pixels?|k)\b"
)
_COUNTED: Final = frozenset({"batch", "size", "bs", "context", "seq", "length", "of", "=", "len"})


@dataclass(slots=True, kw_only=True)
class Sentence:
    """A question in parts.

    Attributes:
        question: Lower case, misspelt words corrected, with markers for names.
        text: The same with markers for quantities, too.
        models: Models named, in order.
        devices: Devices named, in order.
        slots: Values by field.
        notes: How misspellings and short names were read.
        strangers: What looks like a name and is none.
        numbers: Numbers whose meaning is open.
        words: Words that mean nothing here.
    """

    question: str = ""
    text: str = ""
    models: list[Named] = field(default_factory=list)
    devices: list[Named] = field(default_factory=list)
    slots: Slots = field(default_factory=Slots)
    notes: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


#: ``"8xh100"``: a count and a name; what begins with digits could be a size, as 640x480.
_COUNTED_NAME: Final = re.compile(r"\b(\d{1,4})x(?=[a-z])([a-z]\w+)")
#: Words taken at a position and the marker for them; (0, "") for none.
_Step = Callable[[str, list[re.Match[str]], int, Sentence], tuple[int, str]]


def parse(question: str) -> Sentence:
    """Takes a question apart; nothing is decided yet."""
    done = Sentence()
    text, ops = marked(_files(question, done).replace("\u2019", "'"))
    done.models += [Named(kind="model", name=name) for name in ops]
    text = _COUNTED_NAME.sub(r"\1 x \2", text)
    text = _mark(text, _exact, done)
    text = _mark(text, _misspelt_word, done)
    done.question = text
    text, done.slots = extract(text)
    text = _mark(text, _misspelt_name, done)
    done.text = re.sub(r"\s+", " ", text).strip()
    done.notes += done.slots.notes
    _leftovers(done)
    return done


#: Files of models that hold data, or that are opened as data: no code runs for a question.
_FILE: Final = re.compile(
    r"(?<!\S)[\"'(]?((?:[\w.~-]*/)*[\w.+-]+\.(?:gguf|json|pt2|onnx|safetensors))(?=[\s,;:?!)\"']|\.?$|\.\s)",
    re.IGNORECASE,
)


def _files(question: str, done: Sentence) -> str:
    """The question in lower case, with a marker for each file of a model."""
    parts, at = [], 0
    for match in _FILE.finditer(question):
        done.models.append(Named(kind="model", name=match[1]))
        parts += [question[at : match.start(1)].lower(), "MODEL"]
        at = match.end(1)
    return "".join([*parts, question[at:].lower()])


def without_names(text: str) -> str:
    """A text without the names of models and devices and without number formats, case kept."""
    words = _words(text)
    kept, at, i = [], 0, 0
    while i < len(words):
        size, _ = _exact(text.lower(), words, i, Sentence())
        if size:
            kept.append(text[at : words[i].start()])
            at = words[i + size - 1].end()
        i += size or 1
    return _FORMATS.sub(" ", "".join([*kept, text[at:]]))


_FORMATS: Final = re.compile(r"\b(?:fp|bf|tf|int|w|a)\d+(?:a\d+)?\b", re.IGNORECASE)


def _mark(text: str, step: _Step, done: Sentence) -> str:
    """Goes through the words; a step that recognizes some replaces them by a marker."""
    words = _words(text)
    parts, at, i = [], 0, 0
    while i < len(words):
        taken, marker = step(text, words, i, done)
        if taken:
            parts += [text[at : words[i].start()], marker]
            at = words[i + taken - 1].end()
        i += taken or 1
    return "".join([*parts, text[at:]])


def _words(text: str) -> list[re.Match[str]]:
    return list(_WORD.finditer(text))


def _exact(text: str, words: list[re.Match[str]], i: int, done: Sentence) -> tuple[int, str]:
    """A name in any known spelling, the longest one that begins here."""
    known = names()
    for size in range(min(_LONGEST, len(words) - i), 0, -1):
        span = text[words[i].start() : words[i + size - 1].end()]
        if _broken(span) or _stray(words, i, size) or _is_number(text, words, i, size):
            continue
        found = known.find(span) or _plural(known, span)
        if found is not None:
            return size, _keep(found, span, done)
    return 0, ""


def _broken(span: str) -> bool:
    return any(mark in span for mark in (",", "?", "!", ";", ": ", "(", ")", '"'))


def _stray(words: list[re.Match[str]], i: int, size: int) -> bool:
    """Whether a window begins or ends with a word that belongs to the sentence."""
    return words[i][0] in _ARTICLES or words[i + size - 1][0] in _ARTICLES


def _is_number(text: str, words: list[re.Match[str]], i: int, size: int) -> bool:
    """Whether a bare number, as 3090, counts something rather than naming a card."""
    if size > 1 or not words[i][0].isdigit():
        return False
    before = words[i - 1][0] if i else ""
    return before in _COUNTED or bool(_UNIT_AHEAD.match(text[words[i].end() :]))


def _plural(known: Names, span: str) -> Named | None:
    """``"a100s"``, ``"h100's"``."""
    if span.split()[-1] in _FAMILIES:
        return None
    for ending in ("'s", "s"):
        if span.endswith(ending):
            found = known.find(span.removesuffix(ending))
            if found is not None and (found.kind == "device" or ending == "'s"):
                return found
    return None


def _keep(found: Named, span: str, done: Sentence) -> str:
    if found.kind == "model":
        done.models.append(found)
        return "MODEL"
    done.devices.append(found)
    if found.also:
        done.notes.append(f"{span} is ambiguous: using {found.name}; also {', '.join(found.also)}.")
    if found.completed:
        from gambrel.device.lookup import only_one

        done.notes.append(only_one(span, found.name))
    return "DEVICE"


def _misspelt_word(_: str, words: list[re.Match[str]], i: int, done: Sentence) -> tuple[int, str]:
    """A misspelt name without digits, or a misspelt word of the vocabulary."""
    word = words[i][0]
    if not re.fullmatch(r"[a-z][a-z'-]{3,}", word) or is_known(word) or names().begins(word):
        return 0, ""
    better = corrected(word)
    if better is not None:
        done.notes.append(f"{word} read as {better}.")
        return 1, better
    found = names().similar(word)
    if found is None:
        return 0, ""
    done.notes.append(f"{word} read as {found.name}.")
    return 1, _keep(found, word, done)


def _misspelt_name(
    text: str, words: list[re.Match[str]], i: int, done: Sentence
) -> tuple[int, str]:
    """A misspelt name with digits; else what looks like a name is noted as a stranger."""
    if _plain_word(words[i][0]):
        return 0, ""
    size = 1
    while size < 4 and i + size < len(words) and not _plain_word(words[i + size][0]):
        size += 1
    spans = [text[words[i].start() : words[i + n - 1].end()] for n in range(size, 0, -1)]
    for n, span in zip(range(size, 0, -1), spans, strict=True):
        found = None if _broken(span) else names().similar(span)
        if found is not None:
            done.notes.append(f"{span} read as {found.name}.")
            return n, _keep(found, span, done)
    whole = next(span for span in spans if not _broken(span))
    if _looks_like_name(whole):
        done.strangers.append(whole)
        return len(_words(whole)), "STRANGER"
    return 0, ""


def _plain_word(word: str) -> bool:
    return (
        word.isupper()
        or is_known(word)
        or word in {"-", "+", "&", "/", "=", "<", ">", "<=", ">=", "|", "@", "≤"}
    )


def _looks_like_name(text: str) -> bool:
    first = _words(text)[0][0]
    mixed = any(c.isalpha() for c in text) and any(c.isdigit() for c in text)
    return mixed or (first.isalpha() and names().begins(first))


#: Counts written out are numbers like any other; "the two" are what was named.
_COUNT: Final = re.compile(r"two|three|four|five|six|seven|eight|nine|ten|dozen")
_THOSE: Final = re.compile(rf"\b(?:the|these|those|of) (?:{_COUNT.pattern})\b")


def _leftovers(done: Sentence) -> None:
    for word in _words(done.text):
        if _COUNT.fullmatch(word[0]) and not _THOSE.search(done.text):
            done.numbers.append(word[0])
            continue
        if word[0] == "STRANGER" or _plain_word(word[0]):
            continue
        if any(c.isdigit() for c in word[0]):
            done.numbers.append(word[0])
        else:
            done.words.append(word[0])
