"""Pages as files: their data are the document's, nothing in them becomes markup or loads."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gambrel
from gambrel.analysis.result import Analysis
from gambrel.cli import run
from gambrel.report import Options, document, render
from gambrel.report.blocks import DataTable
from gambrel.report.builders.analysis import slowest
from gambrel.report.chart import SHAPES
from gambrel.report.page.file import asset
from gambrel.report.picture import COLORS
from tests.report import samples
from tests.report.kinds import KINDS
from tests.report.pages import Page, cells, page, tables, texts

ALL = (samples.tiny, samples.hostile, samples.empty, samples.unknown, samples.estimated)
WEB = Path(__file__).parents[2] / "web"

#: Attributes through which a page loads something.
LOADING = {"src", "href", "srcset", "data", "action", "poster", "background", "formaction"}


@pytest.mark.parametrize("name", KINDS)
def test_a_page_says_what_the_document_says(name: str) -> None:
    record = KINDS[name]()
    data = page(record).data
    made = document(record, Options(on_page=True))
    shown = data["views"][0]
    assert shown["title"] == made.title
    assert shown["answer"][:2] == list(made.answer[:2])
    blocks = [b for s in made.sections for b in s.blocks if isinstance(b, DataTable)]
    read = [(table.get("note", ""), texts(data, table)) for table in tables(data)]
    for block in blocks:
        columns = [[c.title, *c.cells] for c in block.columns]
        rows = [list(row) for row in zip(*columns, strict=True)]
        assert (block.note, rows) in read or name == "Profiled"  # a page always has the ops


def test_numbers_stand_beside_their_texts() -> None:
    analysis = samples.estimated()
    table = next(t for t in tables(page(analysis).data) if t.get("linked"))
    rows = slowest(analysis)
    flops = next(c for c in table["columns"] if c.get("key") == "flops")
    assert flops["value"] == [op.measures.flops for op in rows]
    assert table["rows"] == len(rows)


def test_dots_are_the_rows_of_the_table() -> None:
    analysis = gambrel.analyze("resnet18", "a100-sxm4-80gb", precision="fp16")
    data = page(analysis).data
    view = data["views"][0]
    points = view["charts"][0]["points"]
    table = next(t for t in tables(data) if t.get("linked"))
    rows = slowest(analysis)
    assert sorted(points["row"]) == [-1, *range(len(rows))]
    for i, row in enumerate(points["row"]):
        if row < 0:
            continue
        measures, estimate = rows[row].measures, rows[row].measures.expected_time_s
        assert data["strings"][points["name"][i]] == rows[row].name
        assert cells(data, table, "kind")[row] == data["strings"][points["kind"][i]]
        assert estimate is not None
        if measures.flops:
            assert points["expected"][i] == pytest.approx(measures.flops / estimate.value)
            assert points["low"][i] == pytest.approx(measures.flops / estimate.high)
            assert points["rate"][i] == pytest.approx(measures.flops / measures.roofline_time_s)
        else:
            assert data["strings"][points["margin"][i]] == "left"
    assert sum(points["count"]) == 1 + sum(op.count for op in analysis.ops)


def test_key_figures_say_where_they_come_from() -> None:
    figures = page(samples.estimated()).data["views"][0]["figures"]
    assert [f["label"] for f in figures] == [
        "expected time",
        "limited by",
        "roofline time",
        "speed of light",
        "memory",
    ]
    assert all(f["formula"] and f["source"] for f in figures)
    assert figures[0]["confidence"].startswith(("high", "medium", "low"))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("resnet18", {"batch_size": 4}),
        ("bert-base", {"seq": 128}),
        ("llama-3.1-8b", {"phase": "decode"}),
    ],
)
def test_how_to_ask_again(
    name: str, sizes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    analysis = gambrel.analyze(name, "h200", **sizes)
    commands = page(analysis).data["views"][0]["commands"]
    space: dict[str, Any] = {}
    exec(commands["python"].replace("gambrel.analyze(", "again = gambrel.analyze("), space)
    assert space["again"].total == analysis.total
    assert run([*shlex.split(commands["shell"])[1:], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"]["roofline_time_s"] == analysis.roofline_time_s


def test_a_model_that_only_has_a_name_is_not_asked_for_again() -> None:
    assert page(samples.tiny()).data["views"][0]["commands"] == {}


@pytest.mark.parametrize("build", ALL)
def test_the_same_markup_whatever_the_names(build: Callable[[], Analysis]) -> None:
    plain = [tag for tag, _ in page(samples.tiny()).tags]
    assert [tag for tag, _ in page(build()).tags] == plain


def test_hostile_names_stay_text() -> None:
    text = str(render(samples.hostile(), "html"))
    assert text.count("</script") == 2  # the data and the script
    assert "<img" not in text
    assert page(samples.hostile()).title.startswith(
        "</script><img src=x onerror=alert(1)>, batch 1"
    )
    assert not set(Page(text).scripts[0][1]) & set("<>&\u2028\u2029")


@pytest.mark.parametrize("build", ALL)
def test_nothing_is_loaded(build: Callable[[], Analysis]) -> None:
    shown = page(build())
    for _, attributes in shown.tags:
        assert not LOADING & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in shown.style
    assert "@import" not in shown.style
    script = shown.scripts[-1][1]
    for loader in ("XMLHttpRequest", "import(", "eval(", "document.write", "new Function"):
        assert loader not in script


def test_policy_allows_this_script_and_no_other() -> None:
    shown = page(samples.tiny())
    policy = next(
        a["content"] for t, a in shown.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    for text in (shown.scripts[-1][1], shown.style):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "connect-src" not in policy  # default-src: no request at all


def test_script_and_style_know_every_shape_and_colour() -> None:
    script, style = asset("page.js"), asset("page.css")
    for shape in SHAPES:
        assert shape in script
    for name, (light, dark) in COLORS.items():
        if name not in ("ink",):
            assert re.search(rf"--{name}:\s?{_short(light)}", style), name
            assert re.search(rf"--{name}:\s?{_short(dark)}", style), name


def _short(color: str) -> str:
    """A colour as a minifier may write it."""
    pairs = re.findall("..", color[1:])
    if all(a == b for a, b in pairs):
        return f"(?:{color}|#{''.join(a for a, _ in pairs)})"
    return color


def test_several_on_one_page() -> None:
    batches = [samples.build(batch=b) for b in (1, 8, 64)]
    shown = page(batches)
    views = shown.data["views"]
    assert views[0]["label"] == "side by side"
    assert len(views) == 4
    assert len(tables(shown.data, 0)) == 1
    assert shown.title == "tinynet on Round 100: 3 analyses"


def test_title() -> None:
    assert page(samples.tiny(), title="A & B").title == "A & B"


def test_large_pages_are_packed() -> None:
    text = str(render(samples.large(), "html"))
    assert len(text) < 400_000
    assert tables(Page(text).data)[0]["rows"] == 2000


@pytest.mark.skipif(not WEB.exists(), reason="not a checkout")
def test_the_built_files_match_their_sources() -> None:
    seal = json.loads(asset("seal.json"))
    names = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"]
    names += [p.relative_to(WEB).as_posix() for p in (WEB / "src").rglob("*") if p.is_file()]
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name}\0".encode() + (WEB / name).read_bytes() + b"\0")
    assert seal["sources"] == digest.hexdigest(), "run: cd web && npm ci && npm run build"
    for name in ("page.js", "page.css"):
        assert seal[name] == hashlib.sha256(asset(name).encode()).hexdigest()
    assert seal["gzipped_bytes"] <= 150_000


@pytest.mark.slow
@pytest.mark.skipif(
    not (WEB / "node_modules").exists() or shutil.which("npx") is None,
    reason="the front end's packages are not installed (cd web && npm ci)",
)
def test_a_build_gives_the_committed_files(tmp_path: Path) -> None:
    command = ["npx", "vite", "build", "--outDir", str(tmp_path), "--logLevel", "error"]
    subprocess.run(command, cwd=WEB, check=True, capture_output=True, timeout=300)
    for name in ("page.js", "page.css"):
        assert (tmp_path / name).read_text("utf-8") == asset(name)
