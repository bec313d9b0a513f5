"""Measured kernels as one page that opens offline: the chart, a table, warnings. No script."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from typing import Final

from gambrel._version import __version__
from gambrel.analysis.samples import Known, Placed, Standing
from gambrel.report.options import Options
from gambrel.report.samples_chart import render_svg, title
from gambrel.report.text import clean
from gambrel.units import format_number, format_percent, format_si

_LEVELS: Final = ("DRAM", "L2", "L1", "shared")
_STYLE: Final = """
body{margin:0 auto;padding:1.2rem;max-width:1300px;font:15px/1.5 system-ui,sans-serif;
color:#1d2129;background:#fff}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin-top:1.6rem}
img{width:100%;max-width:1000px;height:auto}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid #d9dde3;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;
min-width:14rem}
.compute{color:#d55e00}.memory{color:#0072b2}footer,.soft{color:#5b6472}
"""


def render(standing: Standing, options: Options | None = None) -> str:
    """Returns the page. Everything that comes from a file is escaped, and no script may run."""
    options = options or Options()
    heading = html.escape(clean(options.title or title(standing)))
    picture = base64.b64encode(render_svg(standing, options).encode()).decode()
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    rows = standing.kernels
    warnings = [f"{k.sample.name}: {w}" for k in rows for w in k.warnings]
    findings = [f"{k.sample.name}: {w}" for k in rows for w in k.findings]
    notes = [*standing.notes, *dict.fromkeys(k.sample.why for k in rows if k.sample.why)]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'sha256-{digest}'">
<style>{_STYLE}</style></head><body>
<h1>{heading}</h1>
<p class="soft">{_escape(standing.samples.format)}, {len(standing.samples.launches):,} launches,
{_escape(format_si(standing.total.sample.time_s, "s"))}</p>
<img alt="Roofline of the kernels" src="data:image/svg+xml;base64,{picture}">
<h2>Kernels</h2><div class="wide"><table><thead><tr>{_cells("th", _header(standing))}</tr></thead>
<tbody>{"".join(_row(k, standing) for k in rows)}</tbody></table></div>
{_list("Warnings", warnings)}{_list("Look at", findings)}{_list("Notes", notes)}
<footer><p>gambrel {_escape(__version__)}</p></footer></body></html>
"""


def _escape(text: str) -> str:
    return html.escape(clean(text))


def _present(standing: Standing) -> list[str]:
    return [x for x in _LEVELS if any(k.level(x) for k in standing.kernels)]


def _header(standing: Standing) -> list[str]:
    levels = [f"FLOP/byte {x}" for x in _present(standing)]
    return ["kernel", "count", "time", "share", "FLOP", "FLOP/s", *levels, "bound", "of roof"]


def _row(k: Placed, standing: Standing) -> str:
    s = k.sample
    found = [k.level(x) for x in _present(standing)]
    flops = format_si(s.flops, "") if s.state is Known.COUNTED else s.state.value
    cells = [
        s.name,
        f"{s.count:,}",
        format_si(s.time_s, "s"),
        format_percent(k.time_share),
        flops,
        format_si(k.flop_per_s, ""),
        *(format_number(x.arithmetic_intensity if x else None) for x in found),
    ]
    bound = k.bound.value if k.bound else "unknown"
    by = f' title="{_escape(k.binding)}"' if k.binding else ""
    tail = f'<td class="{bound}"{by}>{bound}</td><td>{format_percent(k.roofline_efficiency)}</td>'
    return f"<tr>{_cells('td', cells)}{tail}</tr>"


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{_escape(text)}</{tag}>" for text in texts)


def _list(heading: str, texts: Sequence[str]) -> str:
    if not texts:
        return ""
    return f"<h2>{heading}</h2><ul>{_cells('li', texts)}</ul>"
