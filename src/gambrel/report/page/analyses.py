"""The page of an analysis: its roofline over folded rows, and how to ask again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Final

from msgspec import structs

from gambrel.analysis.commandline import commands_of, sizes_given
from gambrel.analysis.measures import Measures
from gambrel.analysis.result import Analysis, OpResult
from gambrel.errors import GambrelError
from gambrel.llm.known import names
from gambrel.llm.recipe import recipe_of
from gambrel.report.builders import analysis as report
from gambrel.report.chart import RooflineChart, describe
from gambrel.report.options import Options
from gambrel.report.page.parts import Detail, PageParts
from gambrel.report.picture import Picture
from gambrel.report.registry import document
from gambrel.report.terms import confidence_text
from gambrel.units import format_si

#: Ops up to which advice is given unasked: it takes as long as many analyses.
_QUICK: Final = 1500


def parts(analysis: Analysis, options: Options) -> PageParts:
    """The roofline with a dot a row of the table of ops, and the pictures of its model."""
    rows = report.slowest(analysis)
    quick = analysis.workload is not None and len(analysis.ops) <= _QUICK
    advised = options.recommend or (quick and not options.brief)
    return PageParts(
        document=document(analysis, replace(options, recommend=advised)),
        rooflines=(_roofline(analysis, options, rows),) if rows else (),
        pictures=() if options.brief else tuple(_pictures(analysis)),
        details=tuple(details(rows)),
        commands=commands(analysis),
    )


def _roofline(analysis: Analysis, options: Options, rows: Sequence[OpResult]) -> RooflineChart:
    """The chart with the whole path of each op's module; the page groups by as much as it shows."""
    chart = describe(analysis, options.title, levels=True, rows=rows)
    points = tuple(structs.replace(p, module=rows[p.index].module) for p in chart.points)
    return structs.replace(chart, points=points)


def details(rows: Sequence[OpResult]) -> Iterator[Detail]:
    """What a row says where a reader asks: why its estimate, which roofs, where in the source."""
    estimates = [op.measures.expected_time_s for op in rows]
    measures = [op.measures for op in rows]
    low, high = ([getattr(e, end, None) for e in estimates] for end in ("low", "high"))
    yield Detail(title="range", unit="s", numbers={"": low, "to": high})
    yield Detail(title="confidence", texts=[confidence_text(e) for e in estimates])
    work = {"matrix": "matrix_flops", "vector": "vector_flops"}
    yield Detail(title="work", unit="FLOP", numbers=_columns(measures, work))
    traffic = {"read": "read_bytes", "written": "write_bytes"}
    yield Detail(title="traffic", unit="B", numbers=_columns(measures, traffic))
    roofs = _Roofs()
    yield Detail(title="held against", texts=[roofs.of(m) for m in measures])
    yield Detail(title="framework's op", texts=[op.op for op in rows])
    yield Detail(title="source line", texts=[op.source for op in rows])
    yield Detail(title="phase", texts=["" if op.phase == "forward" else op.phase for op in rows])


def _columns(measures: Sequence[Measures], names: Mapping[str, str]) -> dict[str, list[object]]:
    return {word: [getattr(m, name) for m in measures] for word, name in names.items()}


class _Roofs:
    """The roofs of ops in words; there are few, so each is written once."""

    def __init__(self) -> None:
        self._said: dict[tuple[object, ...], str] = {}

    def of(self, m: Measures) -> str:
        key = (m.peak_byte_per_s, *((w.engine, w.engine_dtype, w.peak_flop_per_s) for w in m.work))
        if key not in self._said:
            self._said[key] = self._text(m)
        return self._said[key]

    def _text(self, m: Measures) -> str:
        roofs = [
            f"{w.engine} {w.engine_dtype} {format_si(w.peak_flop_per_s, 'FLOP/s')}"
            for w in m.work
            if w.peak_flop_per_s is not None
        ]
        roofs += [f"memory {format_si(m.peak_byte_per_s, 'B/s')}"] if m.peak_byte_per_s else []
        return ", ".join(roofs)


def _pictures(analysis: Analysis) -> Iterator[Picture]:
    """Drawings of a language model; their module needs numpy and is loaded for those only."""
    if analysis.workload is None:
        return
    if analysis.workload.recipe:
        from gambrel.report.llm_pictures import pictures

        yield from pictures(analysis)
    if analysis.ops and len(analysis.ops) <= _QUICK:
        from gambrel.report import timeline
        from gambrel.report.answers import Memory

        try:
            for chart in timeline.pictures(Memory(analysis=analysis), Options()):
                yield structs.replace(chart, title="Memory over the run")
        except GambrelError:
            return  # e.g. a layout over several devices, whose memory no timeline describes


def commands(analysis: Analysis) -> dict[str, str]:
    """The command and the call that ask the same; none where the model's name does not find it.

    A model from a file or a program has a name, not a place: a command with it would be wrong.
    """
    model, hardware = analysis.model, analysis.hardware.id
    known = _known(analysis)
    if not hardware or known is None:
        return {}
    name, phase = known
    given = {"model": name, "hardware": hardware, "precision": model.precision}
    more = {"runtime": analysis.runtime or None, "phase": phase or None}
    return commands_of("analyze", given | more | sizes_given(model.symbols))


def _known(analysis: Analysis) -> tuple[str, str] | None:
    """The name by which a model is found, and its phase; None where it is from elsewhere."""
    name, workload = analysis.model.name, analysis.workload
    if workload is not None and workload.recipe:
        recipe = recipe_of(workload)
        is_known = recipe is not None and not workload.precisions and name in names()
        return (name, recipe.phase or "") if is_known and recipe is not None else None
    entry = resources.files("gambrel") / "capture" / "zoo_files" / f"{name}.json.gz"
    if not entry.is_file():
        return None
    for ending in ("prefill", "decode"):
        if name.endswith(f"-{ending}"):
            return name.removesuffix(f"-{ending}"), ending
    return name, ""
