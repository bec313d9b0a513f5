"""Every kind of result in every format: one head, a unit for every number, 80 columns."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from rich.cells import cell_len

from gambrel.report import KINDS, Options, document, envelope, kind_of, render, write
from gambrel.report.page import page_data
from tests.report.kinds import KINDS as MADE

#: Answers that are lists, which have no verdict.
LISTS = {"Devices", "Models", "Runtimes"}
#: Answers without a chart.
PLAIN = {"Calibrated", "Diagnosis", "GateRecorded", "Problems", "WhatIf"}
HEAD = ("type", "schema_version", "gambrel_version", "units", "assumptions", "warnings")


@pytest.fixture(scope="module")
def made() -> Any:
    """Records by the name of their class, each made once."""
    kept: dict[str, Any] = {}

    def make(name: str) -> Any:
        return kept[name] if name in kept else kept.setdefault(name, MADE[name]())

    return make


def test_every_kind_has_a_sample() -> None:
    assert {kind.record.rpartition(":")[2] for kind in KINDS} == MADE.keys()


@pytest.mark.parametrize("name", MADE)
def test_every_json_has_the_head_and_every_number_a_unit(name: str, made: Any) -> None:
    record = made(name)
    data = json.loads(render(record, "json"))
    assert tuple(data)[: len(HEAD)] == HEAD
    assert data["type"] == kind_of(record).type
    assert data["schema_version"] == 2
    assert isinstance(data["assumptions"], list)
    assert isinstance(data["warnings"], list)
    assert {n for n, unit in data["units"].items() if not unit} == set()
    assert set(data) - set(HEAD)  # it says something
    assert data == json.loads(json.dumps(envelope(record)))


@pytest.mark.parametrize("name", MADE)
def test_text_fits_the_terminal_and_leads_with_the_answer(name: str, made: Any) -> None:
    record = made(name)
    shown = document(record)
    text = str(render(record, "table", Options(width=80, top=5)))
    assert max(map(cell_len, text.splitlines())) <= 80
    assert text.splitlines()[0].split()[0] == shown.title.split()[0]
    assert shown.answer or name in LISTS
    assert len(shown.answer) <= 6
    for line in text.splitlines():
        at = line.find("no run is faster")
        assert at < 0 or "speed of light" in text[: text.find(line) + at]


@pytest.mark.parametrize("name", MADE)
def test_the_top_of_every_page_has_figures_and_a_chart(name: str, made: Any) -> None:
    (view, *_) = page_data(made(name))["views"]
    if name in {*LISTS, "Runtime"}:
        return
    assert 2 <= len(view["figures"]) <= 6
    assert all(figure["label"] and figure["text"] for figure in view["figures"])
    labels = [figure["label"] for figure in view["figures"]]
    assert len(set(labels)) == len(labels)
    assert view["charts"] or name in {
        "Calibrated",
        "Diagnosis",
        "GateRecorded",
        "Problems",
        "WhatIf",
    }


@pytest.mark.parametrize("name", MADE)
def test_one_is_not_several(name: str, made: Any) -> None:
    text = str(render(made(name), "table", Options(width=200)))
    plurals = "devices|metrics|classes|launches|points|rows|sequences|requests|samples|near misses"
    assert not re.findall(rf"(?<![\d.,=×-])\b1 (?:{plurals})\b", text)


@pytest.mark.parametrize("name", MADE)
def test_markdown_csv_and_page(name: str, made: Any) -> None:
    record = made(name)
    assert str(render(record, "markdown")).startswith("# ")
    rows = list(csv.reader(io.StringIO(str(render(record, "csv")))))
    assert len({len(row) for row in rows}) == 1
    assert len(set(rows[0])) == len(rows[0])  # every column has a name of its own
    if kind_of(record).type != "gambrel/runs":
        assert "<html" in str(render(record, "html"))[:200].lower()


@pytest.mark.parametrize("name", MADE)
def test_every_picture(name: str, made: Any, tmp_path: Any) -> None:
    record = made(name)
    kind = kind_of(record)
    for drawn in kind.formats:
        if drawn in {"svg", "png", "pdf"}:
            assert write(record, tmp_path / f"x.{drawn}").stat().st_size > 500
        elif drawn in kind.drawn and drawn != "html":
            assert render(record, drawn)
