"""The data of a page: a document with its charts, as columns over one table of texts.

The form is described in `web/README.md`; `web/src/schema.ts` declares it for the page's script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.analysis.provenance import asked_of
from gambrel.report.answers import Analyses
from gambrel.report.blocks import (
    Block,
    Column,
    DataTable,
    Document,
    FactList,
    KeyFigure,
    Notes,
    Section,
    TextChart,
)
from gambrel.report.builders.analyses import name_among
from gambrel.report.options import Options
from gambrel.report.page.parts import PageParts
from gambrel.report.page.rooflines import roofline_data
from gambrel.report.page.strings import Strings, numbers, plain
from gambrel.report.picture import Picture
from gambrel.report.registry import kind_of, parts_of
from gambrel.report.terms import DEFINITIONS
from gambrel.report.text import clean
from gambrel.report.units import unit_of

#: Of the form of the data.
SCHEMA: Final = 1


def page_data(record: object, options: Options | None = None) -> dict[str, Any]:
    """The data of the page of a result, as plain dicts, lists, texts and numbers.

    Args:
        record: Any kind of result, or a document.
        options: Its title; whether to give advice and memory levels.
    """
    options, strings = replace(options or Options(), on_page=True), Strings()
    parts = record.analyses if isinstance(record, Analyses) else (record,)
    views = [_view(part, options, strings) for part in parts]
    if isinstance(record, Analyses):
        for view, one in zip(views, record.analyses, strict=True):
            view["label"] = clean(name_among(one, record.analyses))
        views.insert(0, _view(record, options, strings) | {"label": "side by side"})
    views[0]["commands"] = dict(options.commands or asked_of(record) or views[0]["commands"])
    title = clean(options.title or views[0]["title"])
    return {
        "schema": SCHEMA,
        "type": "document" if isinstance(record, Document) else kind_of(record).type,
        "version": __version__,
        "title": title,
        "terms": _terms(views),
        "views": views,
        "strings": strings.table(),
    }


def empty_page(title: str) -> dict[str, Any]:
    """The data of a page with a title and nothing else."""
    return page_data(Document(title=title))


def _view(record: object, options: Options, strings: Strings) -> dict[str, Any]:
    parts = parts_of(record, options)
    made = parts.document
    charts = [roofline_data(chart, strings) for chart in parts.rooflines]
    charts += [picture_data(p) for p in parts.pictures]
    return {
        "label": clean(made.title),
        "title": clean(made.title),
        "aside": clean(made.aside),
        "style": made.style,
        "answer": [clean(text) for text in made.answer],
        "figures": [_figure(f, made.source) for f in made.figures],
        "charts": charts,
        "sections": [_section(s, strings, parts) for s in made.sections],
        "commands": parts.commands,
    }


def _figure(figure: KeyFigure, source: str) -> dict[str, Any]:
    about = figure.formula or DEFINITIONS.get(figure.key, "")
    more = {"formula": about, "source": figure.source or source}
    return plain({n: getattr(figure, n) for n in figure.__struct_fields__} | more)


def picture_data(picture: Picture) -> dict[str, Any]:
    """A picture as the page draws it."""
    made: dict[str, Any] = msgspec.to_builtins(picture)
    return made | {"kind": made.pop("type")}


def _section(section: Section, strings: Strings, parts: PageParts) -> dict[str, Any]:
    blocks = [_block(b, strings, parts) for b in section.blocks if not isinstance(b, TextChart)]
    return {"about": section.about, "folded": section.folded, "blocks": blocks}


def _block(block: Block, strings: Strings, parts: PageParts) -> dict[str, Any]:
    if isinstance(block, FactList):
        items = [[clean(label), clean(text)] for label, text in block.items]
        return {"kind": "facts", "heading": block.heading, "items": items}
    if isinstance(block, Notes):
        said = [clean(text) for text in block.items]
        return {"kind": "notes", "heading": block.heading, "items": said, "style": block.style}
    if not isinstance(block, DataTable):
        raise TypeError(f"a page has no {type(block).__name__}")
    return _table(block, strings, parts)


def _table(table: DataTable, strings: Strings, parts: PageParts) -> dict[str, Any]:
    data = plain(
        {
            "heading": clean(table.heading),
            "note": clean(table.note),
            "whole": table.whole,
            "outside": table.outside,
            "shares": numbers(table.shares) if table.shares else None,
        }
    )
    data |= {"kind": "table", "rows": table.rows}
    data |= {"columns": [_column(c, strings) for c in table.columns]}
    if table.linked:
        data |= {"linked": True, "details": _details(parts, strings)}
    return data


def _column(column: Column, strings: Strings) -> dict[str, Any]:
    styles = strings.all(column.styles) if any(column.styles) else None
    more = plain({"key": column.key, "value": numbers(column.values), "styles": styles})
    if column.priority:
        more["priority"] = column.priority
    texts = {"title": clean(column.title), "align": column.align}
    return texts | {"text": strings.all(column.cells)} | more


def _details(parts: PageParts, strings: Strings) -> list[dict[str, Any]]:
    """What a row says beside its columns, where a reader asks for it."""
    made = []
    for detail in parts.details:
        columns = {word: numbers(column) for word, column in detail.numbers.items()}
        known = {word: column for word, column in columns.items() if column}
        more = plain({"numbers": known, "unit": detail.unit, "text": strings.all(detail.texts)})
        made.append({"title": detail.title} | more)
    return made


def _terms(views: Sequence[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """What the keys of columns and figures mean, and in which unit their numbers are."""
    keys = {
        part["key"]
        for view in views
        for part in (*view["figures"], *_columns_of(view))
        if part.get("key")
    }
    terms = {
        key: plain({"about": DEFINITIONS.get(key, ""), "unit": unit_of(key) or ""})
        for key in sorted(keys)
    }
    return {key: term for key, term in terms.items() if term}


def _columns_of(view: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        column
        for section in view["sections"]
        for block in section["blocks"]
        if block["kind"] == "table"
        for column in block["columns"]
    ]
