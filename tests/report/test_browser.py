"""Pages in a real browser: every kind of result, at three widths, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import gambrel
from gambrel.capture.zoo import list_models
from gambrel.report import document, render
from tests.report import samples
from tests.report.browser import Reader, chromium, needs_browser, violations
from tests.report.kinds import KINDS

pytestmark = [pytest.mark.slow, needs_browser]

WIDTHS = (390, 768, 1440)

#: Pairs of labels, or of a label and a dot, that cover each other in any roofline of the page.
OVERLAPS = """() => [...document.querySelectorAll("canvas")].flatMap(({ scene }) => {
  if (!scene) return [];
  const cross = (a, b) =>
    a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
  const straight = scene.labels.filter((l) => !l.turn);
  const dots = scene.dots.map((d) => (
    { x: d.x - d.r, y: d.y - d.r, w: 2 * d.r, h: 2 * d.r, text: d.mark.name }));
  const found = [];
  straight.forEach((a, i) => {
    for (const b of straight.slice(i + 1)) if (cross(a, b)) found.push([a.text, b.text]);
    for (const b of dots) if (cross(a, b)) found.push([a.text, b.text]);
  });
  return found;
})"""


#: Pairs of texts that cover each other in a chart that is no roofline, and texts that are cut off.
SVG_OVERLAPS = """() => [...document.querySelectorAll("svg.pic:not(.mini)")].flatMap((svg) => {
  const whole = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")];
  const boxes = texts.map((t) => [t.textContent, t.getBoundingClientRect()]);
  const cross = (a, b) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
  const found = boxes.filter(([, b]) => b.left < whole.left - 2 || b.right > whole.right + 2)
    .map(([text]) => [text, "cut off"]);
  boxes.forEach(([text, a], i) => {
    for (const [other, b] of boxes.slice(i + 1)) if (cross(a, b)) found.push([text, other]);
  });
  return found;
})"""


LINES = "[...document.querySelectorAll('.words > p')].map((p) => p.textContent)"

#: Places of the rows that are in the document.
PLACES = """[...document.querySelectorAll('.linked tbody tr[aria-rowindex]')]
  .map((r) => +r.ariaRowIndex)"""


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with chromium() as browser:
        yield Reader(browser)


@pytest.fixture(scope="module")
def axe() -> str:
    from axe_playwright_python.base import AXE_FILE_PATH

    return Path(AXE_FILE_PATH).read_text("utf-8")


@pytest.fixture(scope="module")
def all_pages(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--all-pages"))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_page(
    name: str, reader: Reader, axe: str, tmp_path: Path, all_pages: bool
) -> None:
    record = KINDS[name]()
    tab = reader.open(str(render(record, "html")), tmp_path)
    looks = [(width, scheme) for width in WIDTHS for scheme in ("light", "dark")]
    # axe-core takes longer than all the rest: each kind of page gets one look, all get one by flag.
    looked = set(looks) if all_pages else {looks[list(KINDS).index(name) % len(looks)]}
    for width, scheme in looks:
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=scheme)
        reader.settle()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate(OVERLAPS) == []
        assert tab.evaluate(SVG_OVERLAPS) == []
        if (width, scheme) in looked:
            assert violations(tab, axe) == []
    shown = tab.inner_text("main")
    for line in document(record).answer[:2]:
        assert " ".join(line.split())[:60] in " ".join(shown.split())
    assert reader.complaints == []
    assert [r for r in reader.requests if not r.startswith("file:")] == []


#: Tables that are wider than their window, and tiles that stand over the edge of their treemap.
BEYOND = """() => {
  const tables = [...document.querySelectorAll(".scroll")];
  const wide = tables.filter((e) => e.scrollWidth > e.clientWidth);
  const over = [...document.querySelectorAll(".treemap")].flatMap((map) => {
    const edge = map.getBoundingClientRect();
    return [...map.children].filter((tile) => {
      const box = tile.getBoundingClientRect();
      return box.right > edge.right + 0.5 || box.bottom > edge.bottom + 0.5;
    });
  });
  return [wide.length, over.length];
}"""


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_stands_beyond_the_edge(width: int, reader: Reader, tmp_path: Path) -> None:
    """Columns give way by priority, as in a terminal; all of them are a click away."""
    page = str(render(gambrel.analyze("resnet50", "a100-sxm4-80gb"), "html"))
    tab = reader.open(page, tmp_path)
    tab.set_viewport_size({"width": width, "height": 900})
    tab.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    reader.settle()
    assert tab.evaluate(BEYOND) == [0, 0]
    heads = "[...document.querySelectorAll('.linked th')].map((h) => h.textContent.trim())"
    narrow = tab.evaluate(heads)
    assert {"op", "expected"} <= set(narrow)
    tab.click(".linked .more")
    assert len(tab.evaluate(heads)) > len(narrow)
    assert "shapes" in tab.evaluate(heads)


def test_a_reader_explores(reader: Reader, tmp_path: Path) -> None:
    tab = reader.open(str(render(samples.tiny(), "html")), tmp_path)
    tab.set_viewport_size({"width": 1440, "height": 900})
    names = "[...document.querySelectorAll('.linked tbody tr')].map((r) => r.cells[0].textContent)"
    assert tab.evaluate(names)[:2] == ["layer1.*.conv2 ×4", "fc"]
    scene = "document.querySelector('canvas').scene"
    place = tab.evaluate(f"{scene}.dots.find((d) => d.mark.row === 0)")
    canvas = tab.locator("canvas")
    canvas.hover(position={"x": place["x"], "y": place["y"]})
    for _ in range(20):  # a chart that is drawn meanwhile has its dots elsewhere
        if tab.locator(".tip").count():
            break
        tab.wait_for_timeout(200)
        place = tab.evaluate(f"{scene}.dots.find((d) => d.mark.row === 0)")
        canvas.hover(position={"x": place["x"] + 1, "y": place["y"]})
        canvas.hover(position={"x": place["x"], "y": place["y"]})
    tip = tab.inner_text(".tip")
    for part in ("layer1.*.conv2 ×4", "compute-bound", "231 FLOP/byte", "of its roof"):
        assert part in tip
    canvas.click(position={"x": place["x"], "y": place["y"]})
    assert tab.inner_text("tr.chosen td:first-child") == "layer1.*.conv2 ×4"
    tab.fill(".linked input[type=search]", "LAYER2")
    assert len(tab.evaluate(names)) == 5
    ops = tab.evaluate(f"{scene}.dots.filter((d) => d.mark.row >= 0)")
    assert {d["mark"]["name"][:6] for d in ops} == {"layer2"}
    tab.click("text=clear")
    tab.click(".linked thead button >> nth=0")
    assert tab.evaluate(names) == sorted(tab.evaluate(names))
    span = f"Math.log({scene}.x.high / {scene}.x.low)"
    before = tab.evaluate(span)
    canvas.press("+")
    assert tab.evaluate(span) == pytest.approx(0.6 * before)
    canvas.press("0")
    assert tab.evaluate(span) == pytest.approx(before)


def test_a_figure_explains_itself(reader: Reader, tmp_path: Path) -> None:
    tab = reader.open(str(render(samples.estimated(), "html")), tmp_path)
    tab.click(".figure >> nth=0")
    said = tab.inner_text("dialog")
    for heading in ("formula", "source", "confidence"):
        assert heading in said
    tab.keyboard.press("Escape")
    assert not tab.locator(".said:text-matches('fp|batch')").count()
    numbers = tab.locator(".verdict .said")
    assert numbers.count() >= 3  # the time, its range
    numbers.nth(1).click()
    assert "expected time" in tab.inner_text("dialog")
    tab.keyboard.press("Escape")
    tab.click(".linked tbody tr >> nth=0 >> .num >> nth=0")
    assert "held against" in tab.inner_text("dialog")
    tab.keyboard.press("Escape")


def test_zero_flop_ops_are_one_marker(reader: Reader, tmp_path: Path) -> None:
    tab = reader.open(str(render(samples.tiny(), "html")), tmp_path)
    (left,) = tab.evaluate(
        "document.querySelector('canvas').scene.margins.filter((m) => m.side === 'left')"
    )
    assert "without FLOPs" in left["label"]


def test_hostile_names_are_text(reader: Reader, tmp_path: Path) -> None:
    tab = reader.open(str(render(samples.hostile(), "html")), tmp_path)
    assert tab.evaluate("document.querySelectorAll('main img, main script, main b b').length") == 0
    assert "<script>alert(1)</script>" in tab.inner_text(".linked table")
    assert reader.complaints == []


def test_figures_of_the_page_are_those_of_the_command_line(
    reader: Reader, tmp_path: Path, all_pages: bool
) -> None:
    """Of a few models, or of the whole zoo by flag."""
    sample = ("resnet50", "bert-base-uncased", "llama-3.2-1b-decode")
    for name in [m.name for m in list_models()] if all_pages else sample:
        analysis = gambrel.analyze(name, "h100")
        tab = reader.open(str(render(analysis, "html")), tmp_path)
        lines = [" ".join(line.split()) for line in str(render(analysis, "table")).splitlines()]
        whole = " ".join(lines)
        for line in tab.evaluate(
            "[...document.querySelectorAll('.words > p')].map((p) => p.textContent)"
        ):
            if not line.startswith("Memory"):  # its advice is given on pages unasked
                assert " ".join(line.split()) in whole
        stored = json.loads(str(render(analysis, "json")))["total"]["expected_time_s"]
        shown = tab.inner_text(".figure >> nth=0 >> .big")
        assert shown == document(analysis).figures[0].text
        assert stored == analysis.expected_time_s.value


def test_ten_thousand_ops_scroll(reader: Reader, tmp_path: Path) -> None:
    text = str(render(samples.large(), "html"))
    tab = reader.open(text, tmp_path)
    assert tab.evaluate("document.querySelectorAll('.linked tbody tr').length") < 200
    assert "2,000 of 2,000 rows" in tab.inner_text(".linked output")
    tab.evaluate("document.querySelector('.linked .scroll').scrollTop = 29 * 1500")
    reader.settle()
    rows = tab.evaluate(PLACES)
    assert min(rows) < 1502 < max(rows)
