"""A document as a page: headings, tables that sort, pictures. It opens offline.

Everything from a model or a file is escaped text; a content security policy lets no script run but
the page's own, which sorts and filters its tables.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Final

from gambrel._version import __version__
from gambrel.report.blocks import (
    Block,
    Chart,
    Column,
    DataTable,
    Document,
    FactList,
    Notes,
    Section,
)
from gambrel.report.options import Options
from gambrel.report.picture import Picture
from gambrel.report.svg import GROUND, STYLE, draw
from gambrel.report.text import clean

_STYLE: Final = f"""
body{{margin:0 auto;padding:1.2rem;max-width:1300px;font:15px/1.5 system-ui,sans-serif;
color:var(--ink);background:var(--ground)}}
h1{{font-size:1.4rem;overflow-wrap:anywhere}}h2{{font-size:1.1rem;margin-top:1.6rem}}
svg{{max-width:100%;min-width:620px;height:auto}}figure{{margin:1rem 0;overflow-x:auto}}
.wide{{overflow-x:auto}}table{{border-collapse:collapse;font-variant-numeric:tabular-nums}}
th,td{{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;
white-space:nowrap}}
th:first-child,td:first-child{{text-align:left;white-space:normal;overflow-wrap:anywhere;
min-width:14rem}}
th button{{all:unset;cursor:pointer;font-weight:600}}th button:focus-visible{{outline:2px solid}}
input{{font:inherit;padding:.2rem .5rem;margin:.3rem 0}}
footer,.soft{{color:var(--soft)}}
{GROUND}{STYLE}"""
#: Rows from which a table gets a field to filter it.
_MANY: Final = 20


def render(document: Document, options: Options, pictures: Sequence[Picture] = ()) -> str:
    """Returns the whole page; folded sections open on a click.

    Args:
        document: What to show.
        options: Its title.
        pictures: Drawn below the answer; charts of characters are left out.
    """
    title = _escape(options.title or document.title)
    script = (resources.files(__package__) / "templates" / "tables.js").read_text("utf-8")
    parts = [f"<p>{_escape(text)}</p>" for text in document.answer]
    parts += map(_figure, pictures)
    parts += [part for section in document.sections for part in _section(section)]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src '{digest(_STYLE)}'; script-src '{digest(script)}'\">\n"
        f"<style>{_STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        + "\n".join(parts)
        + f"\n<footer><p>gambrel {_escape(__version__)}</p></footer>"
        f"<script>{script}</script></body></html>\n"
    )


def digest(text: str) -> str:
    """The source expression that allows exactly this inline text (CSP Level 3, section 2.3.1)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _figure(picture: Picture) -> str:
    about = f"<figcaption>{_escape(picture.about)}</figcaption>" if picture.about else ""
    return f'<figure tabindex="0">{draw(picture)}{about}</figure>'


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
        head = "".join(
            f'<th scope="col"><button type="button">{_escape(c.title)}</button></th>'
            for c in table.columns
        )
        body = "".join(
            f"<tr>{''.join(row)}</tr>" for row in zip(*map(_column, table.columns), strict=True)
        )
        if table.rows >= _MANY:
            yield '<input type="search" placeholder="filter rows" aria-label="filter rows">'
        yield (
            f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
    if table.note:
        yield f'<p class="soft">{_escape(table.note)}</p>'


def _column(column: Column) -> Iterator[str]:
    """Cells with the number that they sort by; of text and of what is unknown there is none."""
    values: Iterable[object] = column.values or [None] * len(column.cells)
    for text, value in zip(column.cells, values, strict=True):
        number = ""
        if isinstance(value, (int, float)) and math.isfinite(value):
            number = f' data-value="{value:.9g}"'
        yield f"<td{number}>{_escape(text)}</td>"


def _escape(text: str) -> str:
    return html.escape(clean(text))


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{_escape(text)}</{tag}>" for text in texts)
