"""A plain page: headings, tables, pictures. It opens offline, and no script of a file can run."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from typing import Final

from gambrel._version import __version__
from gambrel.report.text import clean

_STYLE: Final = """
body{margin:0 auto;padding:1.2rem;max-width:1300px;font:15px/1.5 system-ui,sans-serif;
color:#1d2129;background:#fff}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin-top:1.6rem}
img{width:100%;max-width:1000px;height:auto}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid #d9dde3;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;
min-width:14rem}
footer,.soft{color:#5b6472}
"""


def page(heading: str, parts: Iterable[str], *, scripts: bool = False) -> str:
    """A whole page.

    Args:
        heading: Plain text.
        parts: HTML, as the functions of this module make it.
        scripts: Allow scripts within the parts (a chart that moves).
    """
    title = escape(heading)
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = (
        ""
        if scripts
        else '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"img-src data:; style-src 'sha256-{digest}'\">\n"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"{policy}<style>{_STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        + "\n".join(part for part in parts if part)
        + f"\n<footer><p>gambrel {escape(__version__)}</p></footer></body></html>\n"
    )


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f'<p class="soft">{escape(text)}</p>'


def table(heading: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table under a heading; nothing without rows."""
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    if not body:
        return ""
    return (
        f'<h2>{escape(heading)}</h2><div class="wide"><table><thead><tr>{_cells("th", header)}'
        f"</tr></thead><tbody>{body}</tbody></table></div>"
    )


def listed(heading: str, texts: Sequence[str]) -> str:
    """A list of sentences under a heading; nothing without any."""
    return f"<h2>{escape(heading)}</h2><ul>{_cells('li', texts)}</ul>" if texts else ""


def picture(svg: str, alt: str) -> str:
    """An SVG as an image, in which no script can run."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'


def escape(text: str) -> str:
    """Text of any origin, harmless in HTML."""
    return html.escape(clean(text))


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
