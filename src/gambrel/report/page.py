"""A document as a page: headings, tables, a picture. It opens offline, and no script can run."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator
from typing import Final

from gambrel._version import __version__
from gambrel.report.blocks import Block, Chart, DataTable, Document, FactList, Notes, Section
from gambrel.report.options import Options
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


def render(document: Document, options: Options, svg: str = "") -> str:
    """Returns the whole page; folded sections open on a click.

    Args:
        document: What to show.
        options: Its title.
        svg: A picture below the answer; charts of characters are left out.
    """
    title = _escape(options.title or document.title)
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    parts = [f"<p>{_escape(text)}</p>" for text in document.answer]
    parts += [_picture(svg, document.title)] if svg else []
    parts += [part for section in document.sections for part in _section(section)]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"img-src data:; style-src 'sha256-{digest}'\">\n"
        f"<style>{_STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        + "\n".join(parts)
        + f"\n<footer><p>gambrel {_escape(__version__)}</p></footer></body></html>\n"
    )


def _section(section: Section) -> Iterator[str]:
    if section.folded:
        yield f"<details><summary>{_escape(section.about)}</summary>"
    for block in section.blocks:
        yield from _block(block)
    if section.folded:
        yield "</details>"


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Chart):
        return
    if block.heading:
        yield f"<h2>{_escape(block.heading)}</h2>"
    if isinstance(block, FactList):
        rows = "".join(f"<tr>{_cells('td', item)}</tr>" for item in block.items)
        yield f'<div class="wide"><table>{rows}</table></div>'
    elif isinstance(block, Notes):
        yield f"<ul>{_cells('li', block.items)}</ul>"
    else:
        yield from _table(block)


def _table(table: DataTable) -> Iterator[str]:
    if table.rows:
        head = _cells("th", (c.title for c in table.columns))
        cells = zip(*(c.cells for c in table.columns), strict=True)
        body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in cells)
        yield (
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
    if table.note:
        yield f'<p class="soft">{_escape(table.note)}</p>'


def _picture(svg: str, alt: str) -> str:
    """An SVG as an image, in which no script can run."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{_escape(alt)}" src="data:image/svg+xml;base64,{data}">'


def _escape(text: str) -> str:
    return html.escape(clean(text))


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{_escape(text)}</{tag}>" for text in texts)
