"""A self-contained interactive page: chart, table, device and remarks, from one file, offline.

The chart is drawn by 300 lines of own script rather than by a plotting library: the page is 60 kB
plus its data where a library alone adds 4.8 MB, and dots, legend and table can be linked freely.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any, Final

import msgspec

from gambrel.analysis.result import Analysis
from gambrel.report.chart import describe
from gambrel.report.json_ import to_data
from gambrel.report.level_points import level_chart
from gambrel.report.options import Options
from gambrel.report.summary import counting, format_count, summary, verdict
from gambrel.report.svg import STYLE, draw
from gambrel.report.terms import sizes, throughput
from gambrel.report.text import clean

_SCRIPTS: Final = ("base.js", "chart.js", "table.js", "page.js")

#: Ops of all analyses of a page up to which advice is given unasked.
_QUICK: Final = 1500

_UNASKED: Final = {"tables": [], "texts": ["Write this page with --recommend to see them."]}

#: Where the headline of a figure ends and its details begin.
_DETAILS: Final = re.compile(r" · | (?=\()|; ")


def render(analysis: Analysis, options: Options | None = None) -> str:
    """Returns the page of one analysis.

    Everything that comes from a model or a file is data: escaped in the file, written by the
    script as text only, and a content security policy lets no script run but the page's own.
    """
    heading = f"{analysis.model.name} on {analysis.hardware.name}"
    return _page(to_data(analysis), [analysis], heading, options or Options())


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
    data = to_data(analysis)
    for op, row in zip(data["ops"], rows, strict=True):
        op["measured"] = dict(row)
    view = _view(analysis, advised=False) | {"advice": None, "levels": None, "pictures": []}
    return _filled(data, [view | msgspec.to_builtins(dict(over))], analysis, heading)


def render_many(analyses: Sequence[Analysis], options: Options | None = None) -> str:
    """Returns one page of several analyses: a table to choose from, and the chosen one in full.

    The wholes of the others on the same device appear in the chart as hollow stars.
    """
    names = dict.fromkeys(a.model.name for a in analyses)
    devices = dict.fromkeys(a.hardware.name for a in analyses)
    heading = f"{', '.join(names)} on {', '.join(devices)}: {len(analyses)} analyses"
    return _page([to_data(a) for a in analyses], analyses, heading, options or Options())


def _page(data: Any, analyses: Sequence[Analysis], heading: str, options: Options) -> str:
    views = [_view(a, advised=_is_advised(analyses, options)) for a in analyses]
    return _filled(data, views, analyses[0], options.title or heading)


def _filled(data: Any, views: Sequence[Any], first: Analysis, heading: str) -> str:
    style = f"{_template('page.css')}{STYLE}"
    script = "\n".join(map(_template, _SCRIPTS))
    return Template(_template("page.html")).substitute(
        title=html.escape(clean(heading)),
        version=html.escape(first.gambrel_version),
        style=style,
        style_hash=_digest(style),
        script=script,
        script_hash=_digest(script),
        analysis=_embed(data),
        views=_embed(views),
    )


def _is_advised(analyses: Sequence[Analysis], options: Options) -> bool:
    """Advice is many analyses more: given unasked where it takes less than about a second."""
    ops = sum(len(a.workload.ops) for a in analyses if a.workload is not None)
    return options.recommend or ops <= _QUICK


def _view(analysis: Analysis, *, advised: bool) -> dict[str, Any]:
    rate = throughput(analysis)
    label = [analysis.model.name, *sizes(analysis), analysis.model.precision]
    return {
        "label": f"{', '.join(label)} on {analysis.hardware.name}",
        "verdict": verdict(analysis),
        "throughput": "unknown" if rate is None else format_count(rate),
        "cards": [headline(name, text) for name, text in summary(analysis)],
        "chart": msgspec.to_builtins(describe(analysis)),
        "levels": msgspec.to_builtins(level_chart(analysis)),
        "pictures": _pictures(analysis),
        "counting": counting(analysis),
        "advice": _advice(analysis) if advised else _UNASKED if analysis.workload else None,
    }


def _advice(analysis: Analysis) -> dict[str, Any] | None:
    """Tables and sentences; None where there is no time to improve on."""
    from gambrel.report.advice_section import advice_of, sections, sentences

    found = advice_of(analysis)
    if found is None:
        return None
    return {
        "tables": [
            {"heading": s.heading, "header": s.header, "rows": s.rows} for s in sections(found)
        ],
        "texts": [clean(text) for text in sentences(found)],
    }


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


def _digest(text: str) -> str:
    """The source expression that allows exactly this inline text (CSP Level 3, section 2.3.1)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
