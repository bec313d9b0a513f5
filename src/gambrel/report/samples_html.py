"""Measured kernels as one page that opens offline: charts to hover over, a table, what to change.

The charts are drawn by a script of the page's own from data beside it. Everything that comes from a
file is data: escaped in the page, written by the script as text only, and a content security policy
lets no other script run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.analysis.samples import Known, Placed, Standing
from gambrel.analysis.samples.diagnose import recommend
from gambrel.analysis.samples.instructions import TRANSACTION_BYTES, peak_instructions
from gambrel.analysis.samples.movement import Movement
from gambrel.report.answers import Recorded
from gambrel.report.builders.samples_text import (
    joined_rows,
    move_rows,
    short_name,
    suggestion_texts,
)
from gambrel.report.options import Options
from gambrel.report.samples_chart import describe, title
from gambrel.report.samples_static import picture
from gambrel.report.text import clean
from gambrel.units import format_number, format_percent, format_si

_LEVELS: Final = ("DRAM", "LLC", "L2", "L1", "shared")
#: Kernels in the table and the charts; --json and --csv have all.
_MOST: Final = 2000
_STYLE: Final = """
body{margin:0 auto;padding:1.2rem;max-width:1300px;font:15px/1.5 system-ui,sans-serif;
color:#1d2129;background:#fff}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin-top:1.6rem}
svg{width:100%;max-width:1100px;height:auto;font-size:12px}
#controls{display:flex;flex-wrap:wrap;gap:.6rem;align-items:center}
.grid{stroke:#e4e4e4}.roof{stroke:#222;stroke-width:1.6;fill:none}
.roof.faint{stroke:#aaa;stroke-dasharray:3 3;stroke-width:1}.faint{fill:#777}
.link{stroke:#999;stroke-width:.8;fill:none}.move{stroke:#222;stroke-width:1;stroke-dasharray:5 3}
.before{fill:#fff;stroke:#222}.dot{cursor:pointer;stroke:#fff;stroke-width:.8}
#tip{position:fixed;max-width:360px;background:#1d2129;color:#fff;padding:.5rem .7rem;
font-size:12px;border-radius:4px;pointer-events:none;overflow-wrap:anywhere;z-index:9}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid #d9dde3;text-align:right;white-space:nowrap}
#kernels th{cursor:pointer}tr.chosen{background:#fff3c4}
th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;
min-width:14rem}
.compute{color:#d55e00}.memory{color:#0072b2}footer,.soft{color:#5b6472}
"""


def render(record: Recorded, options: Options) -> str:
    """Returns the page; beside another run the chart shows where each kernel came from."""
    standing, joined, movement = record.standing, record.joined, record.movement
    heading = html.escape(clean(options.title or title(standing)))
    script = (resources.files("gambrel.report.templates") / "samples.js").read_text("utf-8")
    drawing = _picture(record)
    rows = standing.kernels[:_MOST]
    warnings = [f"{k.sample.name}: {w}" for k in rows for w in k.warnings]
    findings = [f"{k.sample.name}: {w}" for k in rows for w in k.findings]
    notes = [*standing.notes, *dict.fromkeys(k.sample.why for k in rows if k.sample.why)]
    notes += [f"{number:,} {what}" for what, number in standing.samples.skipped.items()]
    if len(standing.kernels) > _MOST:
        notes.append(f"{len(standing.kernels) - _MOST:,} more kernels are in the JSON and CSV only")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
 style-src 'sha256-{_digest(_STYLE)}'; script-src 'sha256-{_digest(script)}'">
<style>{_STYLE}</style></head><body>
<h1>{heading}</h1>
<p class="soft">{_escape(standing.samples.format)}, {len(standing.samples.launches):,} launches,
{_escape(format_si(standing.total.sample.time_s, "s"))}</p>
<div id="controls"></div>
<svg id="chart" viewBox="0 0 1000 560" role="img" aria-label="Roofline of the kernels"></svg>
<div id="tip" hidden></div>
<noscript><img alt="Roofline of the kernels" src="data:image/svg+xml;base64,{drawing}">
</noscript>
{_list("What to change", suggestion_texts(recommend(standing)))}
{_table("Against the other run", move_rows(movement)) if movement else ""}
{_table("Under the prediction", joined_rows(joined)) if joined else ""}
<h2>Kernels</h2><div class="wide"><table id="kernels"><thead><tr>
{_cells("th", _header(standing))}</tr></thead>
<tbody>{"".join(_row(i, k, standing) for i, k in enumerate(rows))}</tbody></table></div>
{_list("Warnings", warnings)}{_list("Look at", findings)}{_list("Notes", notes)}
<footer><p>gambrel {_escape(__version__)}</p></footer>
<script type="application/json" id="data">{_embed(chart_data(standing, movement))}</script>
<script>{script}</script></body></html>
"""


def chart_data(standing: Standing, movement: Movement | None = None) -> dict[str, Any]:
    """What the script draws, in base units; a kernel's index is that of the table."""
    chart = describe(standing)
    before = {id(m.after): m.before for m in movement.moves} if movement else {}
    names = {x.level for k in standing.kernels for x in k.levels}
    peak = peak_instructions(standing.device)
    return {
        "kernels": [_kernel(k, before.get(id(k))) for k in standing.kernels[:_MOST]],
        "level_names": [name for name in _LEVELS if name in names],
        "roofs": [
            {"label": r.label, "value": r.peak_flop_per_s, "used": r.used} for r in chart.roofs
        ],
        "memory": [
            {"label": m.label, "value": m.byte_per_s, "used": m.used} for m in chart.memory_roofs
        ],
        "instruction_roofs": [
            {"label": f"issue {format_si(peak, 'inst/s')}", "value": peak, "used": True}
            for _ in range(peak is not None)
        ],
        "transaction_roofs": [
            {"label": m.label, "value": m.byte_per_s / TRANSACTION_BYTES, "used": m.used}
            for m in chart.memory_roofs
        ],
    }


def _kernel(k: Placed, before: Placed | None) -> dict[str, Any]:
    s = k.sample
    return {
        "name": clean(s.name),
        "short": clean(short_name(s.name)),
        "count": s.count,
        "time": s.time_s,
        "share": k.time_share,
        "flops": s.flops,
        "state": s.state.value,
        "rate": k.flop_per_s,
        "instructions": k.instruction_per_s,
        "bound": k.bound.value if k.bound else "unknown",
        "binding": k.binding,
        "bound_time": k.roofline_time_s,
        "efficiency": k.roofline_efficiency,
        "headroom": k.headroom_s,
        "remarks": [clean(text) for text in (*k.warnings, *k.findings)],
        "levels": [
            {
                "name": x.level,
                "bytes": x.traffic_bytes,
                "intensity": _finite(x.arithmetic_intensity),
                "per_transaction": s.instructions / (x.traffic_bytes / TRANSACTION_BYTES)
                if s.instructions and x.traffic_bytes
                else None,
                "used": x.utilization,
                "how": clean(x.how),
                "before": _place_of(before, x.level),
            }
            for x in k.levels
        ],
    }


def _place_of(before: Placed | None, level: str) -> list[float] | None:
    found = before.level(level) if before else None
    intensity = _finite(found.arithmetic_intensity) if found else None
    if before is None or intensity is None or before.flop_per_s is None:
        return None
    return [intensity, before.flop_per_s]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _picture(record: Recorded) -> str:
    return base64.b64encode(picture(record, Options(), "svg")).decode()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embed(value: object) -> str:
    """JSON that ends no script and begins no tag."""
    text = msgspec.json.encode(value).decode()
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _escape(text: str) -> str:
    return html.escape(clean(text))


def _present(standing: Standing) -> list[str]:
    return [x for x in _LEVELS if any(k.level(x) for k in standing.kernels)]


def _header(standing: Standing) -> list[str]:
    levels = [f"FLOP/byte {x}" for x in _present(standing)]
    head = ["kernel", "count", "time", "share", "FLOP", "FLOP/s", *levels]
    return [*head, "bound", "of roof", "headroom"]


def _row(index: int, k: Placed, standing: Standing) -> str:
    s = k.sample
    found = [k.level(x) for x in _present(standing)]
    flops = format_si(s.flops, "") if s.state is Known.COUNTED else s.state.value
    cells = [
        (f"{s.count:,}", s.count),
        (format_si(s.time_s, "s"), s.time_s),
        (format_percent(k.time_share), k.time_share),
        (flops, s.flops),
        (format_si(k.flop_per_s, ""), k.flop_per_s),
        *(
            (format_number(intensity), intensity)
            for x in found
            for intensity in [x.arithmetic_intensity if x else None]
        ),
    ]
    bound = k.bound.value if k.bound else "unknown"
    by = f' title="{_escape(k.binding)}"' if k.binding else ""
    tail = [
        (format_percent(k.roofline_efficiency), k.roofline_efficiency),
        (format_si(k.headroom_s, "s"), k.headroom_s),
    ]
    return (
        f'<tr data-index="{index}">{_cells("td", [s.name])}{_sorted(cells)}'
        f'<td class="{bound}"{by}>{bound}</td>{_sorted(tail)}</tr>'
    )


def _sorted(cells: Iterable[tuple[str, float | None]]) -> str:
    """Cells with the value that they sort by; what is unknown comes last."""
    return "".join(
        f'<td data-value="{-1 if value is None else min(value, 1e300)!r}">{_escape(text)}</td>'
        for text, value in cells
    )


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{_escape(text)}</{tag}>" for text in texts)


def _table(heading: str, rows: tuple[Sequence[str], Sequence[Sequence[str]], str]) -> str:
    head, body, foot = rows
    if not body:
        return f"<h2>{_escape(heading)}</h2><p>{_escape(foot)}</p>"
    lines = "".join(f"<tr>{_cells('td', row)}</tr>" for row in body)
    return (
        f'<h2>{_escape(heading)}</h2><div class="wide"><table><thead><tr>{_cells("th", head)}'
        f"</tr></thead><tbody>{lines}</tbody></table></div><p>{_escape(foot)}</p>"
    )


def _list(heading: str, texts: Sequence[str]) -> str:
    if not texts:
        return ""
    return f"<h2>{heading}</h2><ul>{_cells('li', texts)}</ul>"
