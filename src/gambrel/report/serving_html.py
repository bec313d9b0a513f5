"""A serving plan as a page that opens offline: the Pareto front, the layouts, why others lose.

The page has no script: its drawings and tables are written out, everything that comes from a model
escaped.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gambrel._version import __version__
from gambrel.llm.serving.records import Choice, Plan, Point
from gambrel.report.llm_pictures import time_by_layer
from gambrel.report.options import Options
from gambrel.report.picture import Axis, Chart, Curve, Picture
from gambrel.report.svg import GROUND, STYLE, draw, draw_file
from gambrel.report.text import clean
from gambrel.units import format_capacity, format_number, format_percent, format_si

#: Points drawn of one device; a plan over many layouts has thousands.
_DRAWN: Final = 400

_PAGE_STYLE: Final = """
body { margin: 0 auto; padding: 1.2rem clamp(0.75rem, 3vw, 2.5rem); max-width: 1300px;
  font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 1.8rem; }
.soft, figcaption { color: var(--soft); font-size: 0.88rem; }
.all { display: grid; gap: 1rem; margin-top: 1.4rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 34rem), 1fr)); }
figure { margin: 0; padding: 0.6rem; border: 1px solid var(--line); border-radius: 8px; }
figure svg { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.7rem; border-bottom: 1px solid var(--line); text-align: right; }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left; }
"""


def pareto(plan: Plan) -> Chart | None:
    """Tokens a second per device against those of one user: all points, and the front.

    Args:
        plan: The answer of `gambrel.serve_plan`.

    Returns:
        None when no point was found.
    """
    points = [p for p in plan.points if _drawable(p)]
    if not points:
        return None
    front = sorted((p.tokens_per_s_per_user, p.tokens_per_s_per_device) for p in plan.pareto)
    devices = list(dict.fromkeys(p.device for p in points))
    clouds = [
        Curve(
            name=device,
            points=tuple(_thinned([p for p in points if p.device == device])),
            style="dots",
            color=i,
        )
        for i, device in enumerate(devices)
    ]
    best = plan.best[0].point if plan.best and _drawable(plan.best[0].point) else None
    return Chart(
        title="Throughput against speed for one user",
        about="Every point is a layout with a number of requests in flight; on the line are those "
        "that no other beats in both. The star is the best that meets the target.",
        x=Axis(title="tokens/s of one user", unit="token/s"),
        y=Axis(title="tokens/s of one device", unit="token/s"),
        curves=(*clouds, Curve(name="", points=tuple(front), color=5)),
        mark=(best.tokens_per_s_per_user, best.tokens_per_s_per_device) if best else None,
    )


def _drawable(point: Point) -> bool:
    return 0 < point.tokens_per_s_per_user < float("inf") and point.tokens_per_s_per_device > 0


def _thinned(points: Sequence[Point]) -> Iterator[tuple[float, float]]:
    """At most so many, evenly, by rising speed."""
    found = sorted((p.tokens_per_s_per_user, p.tokens_per_s_per_device) for p in points)
    step = max(1, -(-len(found) // _DRAWN))
    yield from found[::step]


def pictures(plan: Plan) -> tuple[Picture, ...]:
    """The front, and where the time of the best layout's decode step goes."""
    found: list[Picture | None] = [pareto(plan)]
    if plan.best and plan.best[0].decode is not None:
        found.append(time_by_layer(plan.best[0].decode))
    return tuple(p for p in found if p is not None)


def picture(plan: Plan, _options: Options, _name: str) -> str:
    """The pictures as one SVG file."""
    return draw_file(pictures(plan))


def render(plan: Plan, _options: Options) -> str:
    """The whole page."""
    style = f"{GROUND}{_PAGE_STYLE}{STYLE}"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    title = f"Serving {plan.model}"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            f"style-src 'sha256-{digest}'\">",
            f'<meta name="generator" content="gambrel {html.escape(__version__)}">',
            f"<title>{_escaped(title)}</title><style>{style}</style></head><body>",
            f"<h1>{_escaped(title)}</h1>",
            *_best(plan.best),
            '<div class="all">',
            *(_figure(p) for p in pictures(plan)),
            "</div>",
            *_refused(plan),
            "<h2>Assumptions</h2><ul>",
            *(f"<li>{_escaped(text)}</li>" for text in plan.assumptions),
            "</ul></body></html>\n",
        ]
    )


def _figure(picture: Picture) -> str:
    caption = f"<figcaption>{_escaped(picture.about)}</figcaption>"
    return f"<figure>{draw(picture)}{caption}</figure>"


def _escaped(text: str) -> str:
    return html.escape(clean(text), quote=True)


_HEADS: Final = (
    "layout",
    "devices",
    "requests",
    "TPOT",
    "range",
    "TTFT",
    "tokens/s a device",
    "memory of a device",
    "limit",
    "why not first",
)


def _best(choices: Iterable[Choice]) -> Iterator[str]:
    rows = [_row(c) for c in choices]
    if not rows:
        yield '<p class="soft">No layout meets the target.</p>'
        return
    heads = "".join(f"<th>{_escaped(h)}</th>" for h in _HEADS)
    yield f'<h2>Best layouts</h2><div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>'
    for row in rows:
        yield "<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def _row(choice: Choice) -> tuple[str, ...]:
    p, tpot = choice.point, choice.tpot
    spread = f"{format_si(tpot.low, 's', 3)} to {format_si(tpot.high, 's', 3)}" if tpot else "?"
    memory = p.memory
    requests = -(-p.batch // p.sharding.attention_data)
    used = memory.weights_bytes + memory.activations_bytes + requests * memory.sequence_bytes
    share = f" of {format_capacity(memory.capacity_bytes, 3)}" if memory.capacity_bytes else ""
    return (
        f"{p.device} · {p.precision} · {p.sharding}",
        f"{p.devices}",
        f"{p.batch:,} a replica",
        format_si(p.tpot_s, "s", 3),
        spread,
        format_si(p.ttft_s, "s", 3),
        format_number(p.tokens_per_s_per_device, 4),
        f"{format_capacity(used, 3)}{share}",
        f"{choice.limited_by or 'unknown'}, {_largest(choice)}",
        choice.why_not,
    )


def _largest(choice: Choice) -> str:
    name = max(choice.shares, key=lambda n: choice.shares[n], default="")
    return f"{name} {format_percent(choice.shares[name])}" if name else ""


def _refused(plan: Plan) -> Iterator[str]:
    if not plan.refused:
        return
    yield "<h2>What does not do</h2><ul>"
    for one in plan.refused[:12]:
        where = f"{one.device}, {one.precision}, {one.sharding}"
        yield f"<li>{_escaped(where)}: {_escaped(one.reason)}</li>"
    yield "</ul>"
    if plan.would_fit:
        yield "<h2>What would fit</h2><ul>"
        yield from (f"<li>{_escaped(text)}</li>" for text in plan.would_fit)
        yield "</ul>"
