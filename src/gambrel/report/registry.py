"""Every kind of result and every format, each once: who builds, draws and writes what."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from gambrel.errors import InputError, UnknownNameError
from gambrel.report.blocks import Document, Section, TextChart
from gambrel.report.options import Options

if TYPE_CHECKING:
    from gambrel.report.page.parts import PageParts
    from gambrel.report.picture import Picture

Rendered = str | bytes


class ReportFormat(msgspec.Struct, frozen=True, kw_only=True):
    """One format.

    Attributes:
        name: As the user writes it.
        about: One line for a list of formats.
        suffixes: Of files, lower case; empty when it is for the terminal only.
        every: Whether every kind of result has it; the others name who draws it.
    """

    name: str
    about: str
    suffixes: tuple[str, ...] = ()
    every: bool = False


#: All formats by name.
FORMATS: Final[dict[str, ReportFormat]] = {
    f.name: f
    for f in (
        ReportFormat(name="table", about="text for a terminal", suffixes=(".txt",), every=True),
        ReportFormat(
            name="json", about="every figure, with units", suffixes=(".json",), every=True
        ),
        ReportFormat(
            name="csv", about="the main table, SI base units", suffixes=(".csv",), every=True
        ),
        ReportFormat(name="markdown", about="for an issue or text", suffixes=(".md",), every=True),
        ReportFormat(
            name="html", about="a page that opens offline", suffixes=(".html", ".htm"), every=True
        ),
        ReportFormat(name="svg", about="the chart, for papers", suffixes=(".svg",)),
        ReportFormat(name="png", about="the chart as a picture", suffixes=(".png",)),
        ReportFormat(name="pdf", about="the chart, for papers", suffixes=(".pdf",)),
        ReportFormat(name="roofline", about="the chart for a terminal"),
        ReportFormat(name="instructions", about="the instruction roofline for a terminal"),
    )
}
#: Formats of pictures.
PICTURES: Final = ("svg", "png", "pdf")


class ResultKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of result.

    Attributes:
        type: What JSON calls it.
        record: ``module:Class`` of the record; a name, so that nothing is imported for it.
        builder: Module of `gambrel.report.builders` with ``document(record, options)``; with
            ``content(record, options)`` where JSON is not the record as it is, and
            ``rows(record)`` where CSV is not the document's first table. Empty: called as the type.
        drawn: Format → ``module:function`` of this package, called with record and options.
        pictures: ``module:function`` that gives the pictures of a record (`gambrel.report.picture`)
            for `PICTURES` and for its page; empty for none.
        page: ``module:function`` that gives the `gambrel.report.page.parts.PageParts` of a record;
            empty for its document with its pictures.
    """

    type: str
    record: str
    builder: str = ""
    drawn: Mapping[str, str] = msgspec.field(default_factory=dict)
    pictures: str = ""
    page: str = ""

    @property
    def module(self) -> str:
        """Name of its builder."""
        return self.builder or self.type.partition("/")[2].replace("-", "_")

    def _of(self, name: str) -> Callable[..., Any] | None:
        module = importlib.import_module(f"gambrel.report.builders.{self.module}")
        return getattr(module, name, None)

    def document(self, record: object, options: Options) -> Document:
        """The result to read."""
        build = self._of("document")
        if build is None:
            raise TypeError(f"the builder of {self.type} has no document()")
        made: Document = build(record, options)
        return made

    def content(self, record: object, options: Options | None) -> Any:
        """What its JSON says below the head."""
        build = self._of("content")
        return record if build is None else build(record, options)

    def rows(self, record: object) -> Any:
        """The table of its CSV; None takes the document's."""
        build = self._of("rows")
        return None if build is None else build(record)

    @property
    def formats(self) -> tuple[str, ...]:
        """Names of the formats that it has."""
        drawn = {*self.drawn, *(PICTURES if self.pictures else ())}
        return tuple(n for n, f in FORMATS.items() if f.every or n in drawn)


def _answer(name: str) -> str:
    return f"gambrel.report.answers:{name}"


_FLEET: Final = "gambrel.measure.fleet.records:FleetReport"

#: Every kind of result. A new one is one entry and one builder.
KINDS: Final[tuple[ResultKind, ...]] = (
    ResultKind(
        type="gambrel/analysis",
        record="gambrel.analysis.result:Analysis",
        drawn={"roofline": "plot_terminal:render"},
        pictures="roofline_picture:pictures",
        page="page.analyses:parts",
    ),
    ResultKind(
        type="gambrel/analyses",
        record=_answer("Analyses"),
        pictures="builders.analyses:pictures",
    ),
    ResultKind(
        type="gambrel/advice",
        record="gambrel.advise.recommend:Advice",
        pictures="verdict_bars:advice",
    ),
    ResultKind(
        type="gambrel/recommendations",
        record=_answer("Changes"),
        builder="advice",
        pictures="verdict_bars:advice",
    ),
    ResultKind(
        type="gambrel/check",
        record="gambrel.advise.check:Check",
        pictures="verdict_bars:check",
    ),
    ResultKind(
        type="gambrel/comparison",
        record="gambrel.advise.compare:Comparison",
        pictures="advice_pictures:comparison",
        page="page.choices:comparison",
    ),
    ResultKind(
        type="gambrel/selection",
        record="gambrel.advise.select:Selection",
        pictures="advice_pictures:selection",
        page="page.choices:selection",
    ),
    ResultKind(
        type="gambrel/what-if",
        record="gambrel.advise.whatif:WhatIf",
        builder="whatif",
        pictures="table_bars:whatif",
    ),
    ResultKind(
        type="gambrel/what-if",
        record=_answer("Changed"),
        builder="whatif",
        pictures="advice_pictures:whatif",
        page="page.changes:what_if",
    ),
    ResultKind(
        type="gambrel/judgement",
        record="gambrel.advise.judge.records:Judgement",
        pictures="verdict_bars:judgement",
    ),
    ResultKind(
        type="gambrel/limits",
        record="gambrel.advise.judge.records:KernelLimits",
        builder="kernel_limits",
        pictures="verdict_bars:kernel_limits",
    ),
    ResultKind(
        type="gambrel/explain-gap",
        record="gambrel.advise.judge.records:Gap",
        builder="gap",
        pictures="verdict_bars:gap",
    ),
    ResultKind(
        type="gambrel/problems",
        record="gambrel.advise.judge.records:Problems",
        pictures="table_bars:problems",
    ),
    ResultKind(
        type="gambrel/diagnosis",
        record="gambrel.analysis.samples.diagnosis:Diagnosis",
        pictures="table_bars:diagnosis",
    ),
    ResultKind(
        type="gambrel/gate",
        record="gambrel.advise.gate.records:GateReport",
        pictures="verdict_bars:gate",
    ),
    ResultKind(
        type="gambrel/baseline",
        record="gambrel.advise.gate.records:GateRecorded",
        builder="gate",
        pictures="table_bars:baseline",
    ),
    ResultKind(
        type="gambrel/trend",
        record="gambrel.advise.gate.records:Trend",
        pictures="builders.trend:pictures",
    ),
    ResultKind(
        type="gambrel/sweep",
        record="gambrel.analysis.sweep.record:Sweep",
        pictures="sweep_chart:pictures",
    ),
    ResultKind(
        type="gambrel/design",
        record="gambrel.advise.design.record:DesignStudy",
        pictures="design_chart:pictures",
    ),
    ResultKind(
        type="gambrel/serve-plan",
        record="gambrel.llm.serving.records:Plan",
        builder="serving",
        pictures="serving_chart:pictures",
    ),
    ResultKind(
        type="gambrel/serve-sim",
        record="gambrel.llm.serving.outcomes:Simulation",
        builder="simulation",
        pictures="simulation_chart:pictures",
    ),
    ResultKind(
        type="gambrel/serve-split",
        record="gambrel.llm.serving.split_records:SplitPlan",
        builder="split",
        pictures="plan_pictures:split",
    ),
    ResultKind(
        type="gambrel/train-plan",
        record="gambrel.llm.training:TrainingStep",
        builder="training",
        pictures="plan_pictures:training",
    ),
    ResultKind(
        type="gambrel/train-search",
        record="gambrel.llm.training_search:TrainingSearch",
        builder="training_search",
        pictures="plan_pictures:training_search",
    ),
    ResultKind(
        type="gambrel/kv-cache",
        record="gambrel.llm.cache_plan:CachePlan",
        pictures="plan_pictures:cache",
    ),
    ResultKind(type="gambrel/devices", record=_answer("Devices")),
    ResultKind(
        type="gambrel/device",
        record=_answer("Sheet"),
        pictures="roofs_chart:pictures",
        page="roofs_chart:page",
    ),
    ResultKind(type="gambrel/models", record=_answer("Models")),
    ResultKind(type="gambrel/runtimes", record=_answer("Runtimes")),
    ResultKind(type="gambrel/runtime", record="gambrel.runtimes.model:Runtime"),
    ResultKind(
        type="gambrel/peaks",
        record=_answer("Peaks"),
        pictures="roofs_chart:pictures",
        page="roofs_chart:page",
    ),
    ResultKind(type="gambrel/fleet", record=_FLEET, pictures="verdict_bars:fleet"),
    ResultKind(
        type="gambrel/calibration",
        record=_answer("Calibrated"),
        pictures="table_bars:calibration",
    ),
    ResultKind(
        type="gambrel/profile",
        record=_answer("Profiled"),
        drawn={"roofline": "profile_chart:render_terminal"},
        pictures="profile_chart:pictures",
        page="page.profiles:profile",
    ),
    ResultKind(
        type="gambrel/overlay",
        record="gambrel.analysis.overlay:Overlay",
        page="page.profiles:overlay",
    ),
    ResultKind(
        type="gambrel/samples",
        record=_answer("Recorded"),
        drawn={
            "roofline": "samples_chart:render",
            "instructions": "samples_instructions:render",
        },
        pictures="samples_instructions:pictures",
        page="page.profiles:samples",
    ),
    ResultKind(
        type="gambrel/runs",
        record="gambrel.measure.runs.pair:Pairing",
        drawn={"roofline": "runs_chart:render"},
        pictures="runs_chart:pictures",
        page="page.changes:runs",
    ),
    ResultKind(type="gambrel/memory", record=_answer("Memory"), pictures="timeline:pictures"),
    ResultKind(type="gambrel/pictures", record=_answer("Pictures"), pictures="llm_pictures:drawn"),
)
_BY_RECORD: Final = {kind.record: kind for kind in KINDS}


def kind_of(record: object) -> ResultKind:
    """The kind of a result, by its record or the record's class.

    Raises:
        TypeError: Nothing is registered for it.
    """
    found = record if isinstance(record, type) else type(record)
    for each in found.__mro__:
        kind = _BY_RECORD.get(f"{each.__module__}:{each.__qualname__}")
        if kind is not None:
            return kind
    raise TypeError(f"{found.__qualname__} is no kind of result; register it in report.registry")


def document(record: object, options: Options | None = None) -> Document:
    """A result as a document to read."""
    record, options = as_one(record), options or Options()
    if isinstance(record, Document):
        return record
    kind = kind_of(record)
    made = kind.document(record, options)
    if not options.roofline or "roofline" not in kind.drawn:
        return made
    chart = TextChart(draw=lambda shown: str(_drawn(record, "roofline", shown)))
    return replace(made, sections=(Section(blocks=(chart,)), *made.sections))


def render(record: object, name: str = "table", options: Options | None = None) -> Rendered:
    """Renders a result, a sequence of analyses, or a document.

    Args:
        record: What to show.
        name: A key of `FORMATS`.
        options: Width, colour, ...; None takes the defaults.

    Returns:
        Text, or bytes for ``png`` and ``pdf``.

    Raises:
        UnknownNameError: No such format.
        InputError: This kind of result does not have it.
    """
    options, record = options or Options(), as_one(record)
    if name not in FORMATS:
        raise UnknownNameError("format", name, FORMATS)
    if name == "table":
        from gambrel.report import terminal

        return terminal.render(document(record, options), options)
    if name == "markdown":
        from gambrel.report import markdown

        return markdown.render(document(record, options), options)
    if name == "csv":
        from gambrel.report import csv_

        rows = None if isinstance(record, Document) else kind_of(record).rows(record)
        return csv_.render(Document(title="") if rows else document(record, options), rows)
    if name == "json":
        from gambrel.report.json_head import json_text

        return json_text(record, options)
    if name in PICTURES:
        return _saved(record, name, options)
    if name == "html":
        from gambrel.report import page

        return page.render(record, options)
    return _drawn(record, name, options)


def pictures_of(record: object, options: Options) -> Sequence[Picture]:
    """The pictures of a record; none where its kind has none."""
    named = "" if isinstance(record, Document) else kind_of(record).pictures
    made: Sequence[Picture] = _named(named)(record, options) if named else ()
    return made


def parts_of(record: object, options: Options) -> PageParts:
    """What the page of a result shows."""
    from gambrel.report.page.parts import PageParts

    named = "" if isinstance(record, Document) else kind_of(record).page
    if named:
        made: PageParts = _named(named)(record, options)
        return made
    try:
        pictures = pictures_of(record, options)
    except InputError:
        pictures = ()  # e.g. a comparison without two known figures: its table says so
    return PageParts(document=document(record, options), pictures=pictures)


def _saved(record: object, name: str, options: Options) -> Rendered:
    refuse_lacking(kind_of(record), name, name)
    made = pictures_of(record, options)
    if not made:
        raise InputError("there is nothing to draw.")
    if name == "svg" and options.figure == "screen":
        from gambrel.report.svg import draw_file

        return draw_file(made)
    from gambrel.report.plot_static import save

    return save(made, name, options.figure)


def _drawn(record: object, name: str, options: Options) -> Rendered:
    kind = kind_of(record)
    refuse_lacking(kind, name, name)
    made: Rendered = _named(kind.drawn[name])(record, options)
    return made


def _named(function: str) -> Callable[..., Any]:
    """A function of this package, as ``module:name``."""
    module, _, name = function.partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(f"gambrel.report.{module}"), name)
    return made


def as_one(record: object) -> object:
    """A sequence of analyses as one record; a single one of them as itself."""
    if not isinstance(record, (list, tuple)):
        return record
    from gambrel.report.answers import Analyses

    if not record:
        raise InputError("there is nothing to report: the list of analyses is empty.")
    return record[0] if len(record) == 1 else Analyses(analyses=tuple(record))


def refuse_lacking(kind: ResultKind, name: str, said: object) -> None:
    """Refuses a format that a kind of result does not have."""
    if name not in kind.formats:
        has = ", ".join(s for n in kind.formats for s in FORMATS[n].suffixes)
        what = kind.type.partition("/")[2].replace("-", " ")
        raise InputError(f"{said}: there is no {name} of {what}; write one of {has}.")
