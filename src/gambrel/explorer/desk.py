"""One question of a page in, the data of its answer out.

A server's worker and Python in a browser call the same function.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.analysis.commandline import commands_of
from gambrel.analysis.question import Question, ask
from gambrel.analysis.result import Analysis
from gambrel.api.faces import refuse_code
from gambrel.api.verbs import answer
from gambrel.errors import GambrelError, InputError, withholding
from gambrel.explorer.controls import MOST_DEVICES, TABS
from gambrel.report.options import Options

#: A model that a page sent is named by this and its place in the folder of files.
UPLOAD: Final = "upload:"
#: Asks what a file is that the page sent.
FILE: Final = "file"
#: Ops up to which other batches are asked unasked.
_QUICK: Final = 1500
_TRUST: Final = "Choose a built-in model or drop a file; or start 'gambrel explore --trust'."


class PageQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a page asks.

    Attributes:
        verb: One of the tabs.
        given: Field → text or value.
        changes: To apply, as ``what-if`` takes them.
        against: The ``given`` of another question; the answer shows what moves from there.
        against_changes: Applied there.
        measured: A file that the page sent with measured times, laid over the analysis.
        brief: Leave out what takes longer than the answer.
    """

    verb: str
    given: dict[str, Any]
    changes: tuple[str, ...] = ()
    against: dict[str, Any] | None = None
    against_changes: tuple[str, ...] = ()
    measured: str = ""
    brief: bool = False


class Desk:
    """Answers the questions of one page.

    Args:
        folder: Where files lie that the page sent.
        trust: Whether models may be code that is run.
    """

    def __init__(self, folder: Path, *, trust: bool = False) -> None:
        self._folder = folder
        self._trust = trust

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request, or ``error`` with one sentence.

        Args:
            request: As `PageQuestion`.
        """
        try:
            with withholding():
                return self._answered(msgspec.convert(request, PageQuestion))
        except GambrelError as error:
            return {"error": self._named(str(error))}
        except msgspec.ValidationError as error:
            return {"error": f"not a request of a page: {error}."}

    def _answered(self, request: PageQuestion) -> dict[str, Any]:
        from gambrel.report.page import page_data

        verb, given = request.verb, request.given
        if verb == FILE:
            return {"measured": self._is_measured(given)}
        if verb not in TABS:
            raise InputError(f"a page does not ask {verb!r}; it asks {', '.join(TABS)}.")
        if verb == "analyze":
            record, analyses = self._analyzed(given, request)
        else:
            record, analyses = answer(self._question(verb, given)), ()
        options = Options(brief=request.brief)
        data = page_data(record, options)
        if request.against is None:
            asked = {n: self._shown(v) for n, v in given.items()}
            _add_command(data, verb, asked, request.changes)
        return {"page": data} | _choices(analyses, options) | self._more(request, analyses)

    def _more(self, request: PageQuestion, analyses: Sequence[Analysis]) -> dict[str, Any]:
        """Where a single answer stands among other batches; a short answer has its place only."""
        if len(analyses) != 1 or request.changes or request.against:
            return {}
        from gambrel.explorer.scan import place_of, scan, why
        from gambrel.report.page.data import picture_data

        (now,) = analyses
        made: dict[str, Any] = {"place": place_of(now), "why": why(now)}
        if request.brief or len(now.ops) > _QUICK:
            return made
        from gambrel.api.advise import point_at

        given = {**request.given, "hardware": next(iter(_devices(request.given)))}
        asked = self._question("analyze", {**given, "batch_size": now.model.symbols.get("batch")})
        chart = scan(now, lambda n: point_at(asked, n, now))
        return made | {"scan": picture_data(chart) if chart else None}

    def _analyzed(
        self, given: Mapping[str, Any], request: PageQuestion
    ) -> tuple[object, Sequence[Analysis]]:
        """One analysis, several side by side, or what moved."""
        from gambrel.report.answers import Analyses

        changes, against = request.changes, request.against
        levels = not request.brief
        before = self._side_by_side(given, levels=levels)
        now = _changed(before, changes)
        if against:
            before = self._side_by_side(against, levels=levels)
            before = _changed(before, request.against_changes)
        if before is now:
            return self._shown_alone(now, request.measured), now
        if len(before) == len(now) == 1 and before[0].model.name == now[0].model.name:
            return _moved(before[0], now[0], () if against else changes), now
        return Analyses(analyses=(*before, *now)), now

    def _side_by_side(self, given: Mapping[str, Any], *, levels: bool) -> Sequence[Analysis]:
        return [self._one({**given, "hardware": n}, levels=levels) for n in _devices(given)]

    def _shown_alone(self, now: Sequence[Analysis], measured: str) -> object:
        """What was asked, without anything that it is compared with."""
        if len(now) > 1:
            from gambrel.report.answers import Analyses

            return Analyses(analyses=tuple(now))
        if not measured:
            return now[0]
        from gambrel.measure.runs.overlay import overlaid

        return overlaid(now[0], Path(self._read(measured)))

    def _is_measured(self, given: Mapping[str, Any]) -> bool:
        from gambrel.measure.runs.overlay import is_measured

        return is_measured(Path(self._read(given.get("model"))))

    def _one(self, given: Mapping[str, Any], *, levels: bool) -> Analysis:
        made: Analysis = answer(self._question("analyze", given), levels=levels)
        return made

    def _question(self, verb: str, given: Mapping[str, Any]) -> Question:
        said = {name: self._read(value) for name, value in given.items() if value != ""}
        if isinstance(said.get("sizes"), str):
            said["sizes"] = said["sizes"].split()
        question = ask(verb, said, "page")
        if not self._trust:
            refuse_code(question, _TRUST)
        return dataclasses.replace(question, trust=self._trust)

    def _read(self, value: Any) -> Any:
        """A value with the path of a file that the page sent."""
        if not (isinstance(value, str) and value.startswith(UPLOAD)):
            return value
        path = (self._folder / value.removeprefix(UPLOAD)).resolve()
        if not path.is_relative_to(self._folder.resolve()) or not path.is_file():
            raise InputError("this file is not here any more; drop it again.")
        return str(path)

    def _named(self, text: str) -> str:
        """A sentence with the names of files that the page sent, not where they lie here."""
        return re.sub(rf"{re.escape(str(self._folder))}/[^/\s]+/", "", text)

    def _shown(self, value: Any) -> Any:
        """A value as a command outside says it."""
        is_upload = isinstance(value, str) and value.startswith(UPLOAD)
        return value.rpartition("/")[2] if is_upload else value


def _devices(given: Mapping[str, Any]) -> Sequence[str | None]:
    """The devices of an analysis: none where a roof of one's own is given."""
    named = given.get("hardware")
    listed = named.split(",") if isinstance(named, str) else list(named or ())
    names = [name.strip() for name in listed if str(name).strip()]
    if len(names) > MOST_DEVICES:
        raise InputError(f"{len(names)} devices: at most {MOST_DEVICES} side by side.")
    return names or [None]


def _changed(analyses: Sequence[Analysis], changes: Sequence[str]) -> Sequence[Analysis]:
    return [one.with_change(*changes) for one in analyses] if changes else analyses


def _moved(before: Analysis, now: Analysis, changes: Sequence[str]) -> object:
    from gambrel.advise.whatif import what_if
    from gambrel.report.answers import Changed

    found = what_if(before, now, list(changes) or ["A to B"])
    return Changed(found=found, before=before, after=now)


def _add_command(
    data: Mapping[str, Any], verb: str, given: Mapping[str, Any], changes: Sequence[str]
) -> None:
    """How to ask the same, on each view that does not say it itself."""
    asked = {"change": list(changes)} if changes else {}
    made = commands_of("what-if" if changes else verb, {**given, **asked})
    for view in data["views"]:
        view["commands"] = {**made, **view["commands"]}


def _choices(analyses: Sequence[Analysis], options: Options) -> dict[str, Any]:
    """What the controls offer now: sizes of the model, formats and runtimes of the device."""
    if not analyses:
        return {}
    from gambrel.analysis.settings import is_language_model
    from gambrel.runtimes import on_device

    first = analyses[0]
    model, device = first.workload, first.hardware
    symbols = model.symbols if model else ()
    language = model is not None and is_language_model(model)
    made: dict[str, Any] = {
        "sizes": [
            {
                "name": s.name,
                "value": first.model.symbols.get(s.name, s.default),
                "least": s.minimum,
                "most": s.maximum,
                "step": s.multiple_of,
                "about": s.about,
            }
            for s in symbols
        ],
        "language": language,
        "runtime": first.runtime,
        "precision": first.model.precision,
        "runtimes": [
            [r.id, r.name]
            for r in on_device(device, language=language, training=first.model.training)
        ],
        "precisions": list(dict.fromkeys(c.dtype for c in device.ceilings)),
    }
    return made | ({} if options.brief else {"changes": _recommended(first)})


def _recommended(analysis: Analysis) -> list[dict[str, Any]]:
    """What to change, for a click to apply."""
    from gambrel.report.builders.advice import advice_of

    advice = advice_of(analysis)
    return [
        {
            "changes": list(one.changes),
            "label": one.change,
            "gain": one.gain,
            "about": one.about,
            "effort": one.effort,
        }
        for one in (advice.recommendations if advice else ())
    ]
