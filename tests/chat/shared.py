"""The questions with their frames, as the TOML files hold them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from gambrel.chat.filters import matching_devices
from gambrel.chat.frame import Frame, Unclear, Understood
from gambrel.chat.sentence import parse
from gambrel.chat.understand import understand

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    category: str
    question: str
    after: tuple[str, ...]
    frame: Frame | None


def cases(name):
    data = tomllib.loads((HERE / name).read_text(encoding="utf-8"))
    return [_case(category, entry) for category, of in data.items() for entry in of]


def _case(category, entry):
    given = dict(entry)
    question, after = given.pop("q"), tuple(given.pop("after", ()))
    among = given.pop("among", None)
    if among:
        given["hardware"] = matching_devices(parse(among))
    if given["intent"] == "unclear":
        return Case(category=category, question=question, after=after, frame=None)
    fields = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
    for key in ("sizes", "settings", "limits", "filters"):
        if key in fields:
            fields[key] = tuple(sorted(fields[key].items()))
    return Case(category=category, question=question, after=after, frame=Frame(**fields))


def asked(case):
    """What the last question of a case is understood as, turn by turn."""
    previous = None
    for question in case.after:
        found = understand(question, previous)
        previous = found.partial or previous if isinstance(found, Unclear) else found.frame
    return understand(case.question, previous)


def frame_of(found):
    """The frame with its pairs in alphabetic order; None when nothing was understood."""
    from dataclasses import replace

    if not isinstance(found, Understood):
        return None
    frame = found.frame
    ordered = {
        key: tuple(sorted(getattr(frame, key)))
        for key in ("sizes", "settings", "limits", "filters")
    }
    return replace(frame, **ordered)
