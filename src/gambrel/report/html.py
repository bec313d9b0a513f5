"""A self-contained interactive page: chart, table, device and remarks, from one file, offline.

The chart is drawn by 300 lines of own script rather than by a plotting library: the page is 60 kB
plus its data where a library alone adds 4.8 MB, and dots, legend and table can be linked freely.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any, Final

import msgspec

from gambrel.analysis.result import Analysis
from gambrel.report.answers import Analyses
from gambrel.report.blocks import DataTable, Notes, rate_text
from gambrel.report.builders import advice, figures_of
from gambrel.report.builders.analysis import answer, seconds_of
from gambrel.report.chart import describe
from gambrel.report.json_head import envelope
from gambrel.report.level_points import level_chart
from gambrel.report.options import Options
from gambrel.report.page import digest
from gambrel.report.svg import STYLE, draw
from gambrel.report.terms import items, title, verdict
from gambrel.report.text import clean

_SCRIPTS: Final = ("base.js", "chart.js", "table.js", "page.js")

#: Ops of all analyses of a page up to which advice is given unasked.
_QUICK: Final = 1500

_UNASKED: Final = {"tables": [], "texts": ["Write this page with --recommend to see them."]}

#: Where the headline of a figure ends and its details begin.
_DETAILS: Final = re.compile(r" (?=\()|[;,] ")


def render(record: Analysis | Analyses, options: Options | None = None) -> str:
    """Returns the page of one analysis, or of several: a table to choose from, and the chosen one.

    Everything that comes from a model or a file is data: escaped in the file, written by the
    script as text only, and a content security policy lets no script run but the page's own. The
    wholes of the others on the same device appear in the chart as hollow stars.
    """
    options = options or Options()
    several = isinstance(record, Analyses)
    analyses = record.analyses if isinstance(record, Analyses) else (record,)
    names = ", ".join(dict.fromkeys(a.model.name for a in analyses))
    devices = ", ".join(dict.fromkeys(a.hardware.name for a in analyses))
    heading = f"{names} on {devices}" + (f": {len(analyses)} analyses" if several else "")
    views = [_view(a, advised=_is_advised(analyses, options)) for a in analyses]
    data = [envelope(a) for a in analyses]
    return _filled(data if several else data[0], views, analyses[0], options.title or heading)


def render_over(
    analysis: Analysis,
    over: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    heading: str,
) -> str:
    """Returns the page of an analysis with something measured laid over it.

    Args:
        analysis: One row an op or a kernel.
        over: Entries of the view that take the place of the computed ones: ``chart`` (a
            `gambrel.report.chart.Chart`), ``cards``, ``verdict``, ``more`` (tables and sentences).
        rows: What was measured of each row: ``time_s``, ``spread``, ``share``, ``utilization``,
            ``flop_per_s``, ``reason``.
        heading: Title of the page.
    """
    data = envelope(analysis)
    for op, row in zip(data["ops"], rows, strict=True):
        op["measured"] = dict(row)
    view = _view(analysis, advised=False) | {"advice": None, "levels": None, "pictures": []}
    return _filled(data, [view | msgspec.to_builtins(dict(over))], analysis, heading)


def _filled(data: Any, views: Sequence[Any], first: Analysis, heading: str) -> str:
    style = f"{_template('page.css')}{STYLE}"
    script = "\n".join(map(_template, _SCRIPTS))
    return Template(_template("page.html")).substitute(
        title=html.escape(clean(heading)),
        version=html.escape(first.gambrel_version),
        style=style,
        style_hash=digest(style),
        script=script,
        script_hash=digest(script),
        analysis=_embed(data),
        views=_embed(views),
    )


def _is_advised(analyses: Sequence[Analysis], options: Options) -> bool:
    """Advice is many analyses more: given unasked where it takes less than about a second."""
    ops = sum(len(a.workload.ops) for a in analyses if a.workload is not None)
    return options.recommend or ops <= _QUICK


def _view(analysis: Analysis, *, advised: bool) -> dict[str, Any]:
    whole, (number, unit) = seconds_of(analysis.total), items(analysis)
    return {
        "label": title(analysis),
        "verdict": verdict(analysis),
        "throughput": f"{rate_text(number / whole)} {unit}" if whole else "unknown",
        "answer": answer(analysis),
        "cards": [headline(name, text) for name, text in figures_of.facts(analysis)],
        "chart": msgspec.to_builtins(describe(analysis)),
        "levels": msgspec.to_builtins(level_chart(analysis)),
        "pictures": _pictures(analysis),
        "counting": figures_of.counting(analysis),
        "advice": _advice(analysis) if advised else _UNASKED if analysis.workload else None,
    }


def _advice(analysis: Analysis) -> dict[str, Any] | None:
    """Tables and sentences; None where there is no time to improve on."""
    found = advice.advice_of(analysis)
    if found is None:
        return None
    blocks = [block for part in advice.advice_sections(found) for block in part.blocks]
    tables = [block for block in blocks if isinstance(block, DataTable)]
    return {
        "tables": [as_data(t, t.heading) for t in tables],
        "texts": [clean(x) for b in blocks if isinstance(b, Notes) for x in b.items],
    }


def as_data(table: DataTable, heading: str) -> dict[str, Any]:
    """A table as the page's script draws it."""
    rows = list(zip(*(c.cells for c in table.columns), strict=True))
    return {"heading": heading, "header": [c.title for c in table.columns], "rows": rows}


def _pictures(analysis: Analysis) -> list[dict[str, str]]:
    """Drawings of a language model; its module needs numpy and is loaded for those only."""
    if analysis.workload is None or not analysis.workload.recipe:
        return []
    from gambrel.report.llm_pictures import pictures

    return [{"drawing": draw(p), "about": p.about} for p in pictures(analysis)]


def headline(label: str, text: str) -> tuple[str, str, str]:
    """A line of the summary as a card: label, the figure in large, the details."""
    big, *rest = _DETAILS.split(text, maxsplit=1)
    return label, big, "".join(rest)


def _embed(data: object) -> str:
    """JSON that is safe inside a script element: no text in it can end the element or open another.

    ``<`` and ``>`` occur in JSON only within texts, where the escapes mean the same.
    """
    text = msgspec.json.encode(data).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _template(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")
