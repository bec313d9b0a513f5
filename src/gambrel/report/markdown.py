"""A document as Markdown, for an issue or a text; what comes from models and files is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gambrel.report.blocks import Block, DataTable, Document, FactList, Notes, Section, TextChart
from gambrel.report.options import Options
from gambrel.report.text import clean, shorten

_NAME: Final = 60
_SPECIAL: Final = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]|#~"} | {"<": "&lt;", "&": "&amp;"})
#: Of charts, which are text in a code block.
_CHART: Final = Options(width=80, height=20)


def render(document: Document, options: Options | None = None) -> str:
    """Returns headings, lists and tables; folded sections are details that open on a click."""
    options = options or Options()
    aside = f" ({document.aside})" if document.aside else ""
    parts = [f"# {escape(options.title or document.title)}{escape(aside)}"]
    parts += ["  \n".join(escape(text) for text in document.answer)] if document.answer else []
    for section in document.sections:
        parts += _section(section, options)
    return "\n\n".join(parts) + "\n"


def _section(section: Section, options: Options) -> Iterator[str]:
    folded = section.folded and not options.verbose
    if folded:
        yield f"<details><summary>{escape(section.about)}</summary>"
    for block in section.blocks:
        yield from _block(block, options)
    if folded:
        yield "</details>"


def _block(block: Block, options: Options) -> Iterator[str]:
    heading = getattr(block, "heading", "")
    if heading:
        yield f"## {escape(heading)}"
    if isinstance(block, FactList):
        yield _rows(("figure", "value"), "ll", block.items)
    elif isinstance(block, Notes):
        yield "\n".join(f"- {escape(item)}" for item in block.items)
    elif isinstance(block, TextChart):
        yield f"```text\n{block.draw(_CHART).rstrip()}\n```"
    else:
        yield from _table(block, options)


def _table(block: DataTable, options: Options) -> Iterator[str]:
    shown, rest = block.cut(options.top)
    columns = [c for c in shown.columns if any((c.title, *c.cells))]
    if block.rows:
        cells = zip(*(c.cells for c in columns), strict=True)
        rows = [[shorten(cell, _NAME) for cell in row] for row in cells]
        yield _rows([c.title for c in columns], "".join(c.align[0] for c in columns), rows)
    yield from (escape(text) for text in (rest, block.note) if text)


def _rows(head: Sequence[str], align: str, rows: Sequence[Sequence[str]]) -> str:
    rule = ["---" if a == "l" else "---:" for a in align]
    body = [[escape(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(head), rule, *body])


def escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    return clean(text).translate(_SPECIAL)
