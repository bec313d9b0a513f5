"""The pages of every kind of result, and their data as the page's script reads them."""

from __future__ import annotations

import base64
import json
import zlib
from html.parser import HTMLParser
from typing import Any

from gambrel.report import Options, render

VOID = {"meta", "input", "br", "img", "link"}


class Page(HTMLParser):
    """Tags with their attributes, and the texts of scripts, style and title."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.title = self.style = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif inside == "title":
            self.title += data
        elif inside == "style":
            self.style += data

    @property
    def data(self) -> Any:
        """What the page's script reads."""
        attributes, text = self.scripts[0]
        if attributes["type"] == "application/zlib;base64":
            return json.loads(zlib.decompress(base64.b64decode(text)))
        assert attributes["type"] == "application/json"
        return json.loads(text)


def page(record: Any, **options: Any) -> Page:
    """The page of a record."""
    return Page(str(render(record, "html", Options(**options))))


def tables(data: Any, view: int = 0) -> list[dict[str, Any]]:
    """The tables of a view."""
    blocks = [b for s in data["views"][view]["sections"] for b in s["blocks"]]
    return [b for b in blocks if b["kind"] == "table"]


def cells(data: Any, table: dict[str, Any], title: str) -> list[str]:
    """The texts of a column."""
    column = next(c for c in table["columns"] if c["title"] == title)
    return [data["strings"][i] for i in column["text"]]


def texts(data: Any, table: dict[str, Any]) -> list[list[str]]:
    """A table as a reader sees it: the headings, then the rows."""
    columns = [[c["title"], *(data["strings"][i] for i in c["text"])] for c in table["columns"]]
    return [list(row) for row in zip(*columns, strict=True)]
