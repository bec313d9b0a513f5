"""The page in a real browser: hovering, selecting, filtering, sorting, zooming. Needs chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gambrel
from gambrel.analysis.result import Analysis
from gambrel.report import render
from gambrel.report.level_points import level_chart
from tests.report import samples
from tests.report.kinds import KINDS

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]

#: Acts on the page as a reader would and reports what it shows.
ACT = """
<script>
const out = {};
const click = (e) => e.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const pointer = (type, x, y) => chart.svg.dispatchEvent(
  new PointerEvent(type, { clientX: x, clientY: y, bubbles: true, pointerId: 1 }));
const shownRows = () => [...document.querySelectorAll("#table tbody tr")]
  .map((r) => r.cells[0].textContent);
const shownDots = () => chart.dots.filter((d) => d.style.visibility !== "hidden").length;
const found = () => document.getElementById("found").textContent;
try {
  out.rows = shownRows();
  out.dots = chart.dots.length;
  const [x, y] = chart.place(chart.data.points[0]), r = chart.svg.getBoundingClientRect();
  pointer("pointermove", r.left + x, r.top + y);
  out.tip = document.getElementById("tip").innerText;
  pointer("pointerdown", r.left + x, r.top + y);
  pointer("pointerup", r.left + x, r.top + y);
  out.rowOfDot = document.querySelector("#table tr.on").cells[0].textContent;
  click(document.querySelectorAll("#table tbody tr")[1]);
  out.dotOfRow = chart.data.points[chart.dots.findIndex((d) => d.classList.contains("on"))].name;
  const search = document.getElementById("search");
  search.value = "LAYER2";
  search.dispatchEvent(new Event("input"));
  out.searched = shownRows();
  out.searchedDots = shownDots();
  search.value = "";
  search.dispatchEvent(new Event("input"));
  click(document.querySelectorAll("#legend .group")[1].querySelector(".toggle"));
  out.withoutKind = [found(), shownDots()];
  click(document.querySelectorAll("#legend .group")[1].querySelector(".toggle"));
  click(document.querySelectorAll("#table thead button")[0]);
  out.byName = shownRows();
  const before = chart.view.x[1] - chart.view.x[0];
  chart.svg.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
  out.zoomed = (chart.view.x[1] - chart.view.x[0]) / before;
  chart.svg.dispatchEvent(new KeyboardEvent("keydown", { key: "0" }));
  out.reset = chart.view.x[1] - chart.view.x[0] === before;
  click(document.querySelector("button.levels"));
  out.levels = [document.querySelectorAll("#chart circle.level").length,
    document.querySelectorAll("#chart path.level").length,
    document.querySelector("button.levels").getAttribute("aria-pressed")];
  click(document.querySelector("button.levels"));
  out.levelsOff = document.querySelectorAll("#chart .level").length;
  out.levelsHidden = document.querySelector("button.levels").hidden;
  const others = document.querySelectorAll("#compare button");
  if (others.length) click(others[1]);
  out.opened = document.getElementById("subtitle").textContent;
  out.device = document.querySelector("#device table").innerText;
  out.injected = document.querySelectorAll("main img, main script, main b b").length;
} catch (error) { out.error = `${error} ${error.stack}`; }
document.title = "RESULT " + JSON.stringify(out);
</script></body>
"""


def act(text: str, folder: Path, script: str = ACT) -> dict[str, Any]:
    """What the page shows when acted upon."""
    # The policy would refuse the added script, as it should.
    text = re.sub(r"<meta http-equiv[^>]*>", "", text).replace("</body>", script)
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
    command += [
        "--disable-sync",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1300,1200",
    ]
    command += ["--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    result = re.search(r"<title>RESULT (.*?)</title>", done.stdout, re.DOTALL)
    assert result, done.stderr[-500:]
    shown: dict[str, Any] = json.loads(html.unescape(result.group(1)))
    assert "error" not in shown, shown["error"]
    return shown


def test_a_reader_explores(tmp_path: Path) -> None:
    shown = act(str(render(samples.tiny(), "html")), tmp_path)
    assert shown["dots"] == len(shown["rows"]) == 12
    assert shown["rows"][:2] == ["layer1.*.conv2", "fc"]
    for part in ("layer1.*.conv2", "924 MFLOP", "231 FLOP/byte (ridge 100)", "9.24 µs (28.7%)"):
        assert part in shown["tip"]
    assert shown["rowOfDot"] == "layer1.*.conv2"
    assert shown["dotOfRow"] == "fc"
    assert sorted(shown["searched"]) == [
        "layer2.0.cat",
        "layer2.0.downsample",
        "layer2.0.mystery",
        "layer2.0.on_chip",
        "layer2.0.softmax",
    ]
    assert shown["searchedDots"] == 5
    # The three convolutions take 2.36 + 9.24 + 1.5 of 32.202 µs: 40.7 %.
    assert shown["withoutKind"] == ["9 of 12 rows, 59.3% of the bound time", 9]
    assert shown["byName"] == sorted(shown["rows"])
    assert shown["zoomed"] == pytest.approx(0.6)
    assert shown["reset"] is True
    assert "DRAM capacity\t16 GiB" in shown["device"]
    assert "L1 bandwidth\tunknown" in shown["device"]


def test_levels_are_switched_on_and_off(tmp_path: Path) -> None:
    analysis = gambrel.analyze("resnet18", "a100-sxm4-80gb")
    shown = act(str(render(analysis, "html")), tmp_path)
    found = level_chart(analysis)
    assert found is not None
    dots = sum(1 for p in found.points for x in p.intensities if x is not None)
    # Three more dots explain the colours; the whole model is a star at each level.
    assert shown["levels"] == [dots + 3, 3, "true"]
    assert shown["levelsOff"] == 0
    assert not shown["levelsHidden"]
    assert act(str(render(samples.tiny(), "html")), tmp_path)["levelsHidden"]


def test_several_analyses(tmp_path: Path) -> None:
    batches: list[Analysis] = [samples.build(batch=b) for b in (1, 8)]
    shown = act(str(render(batches, "html")), tmp_path)
    assert shown["opened"] == "memory-bound · tinynet, batch 8, image 224, fp16 on Round 100"


def test_hostile_names_are_text(tmp_path: Path) -> None:
    shown = act(str(render(samples.hostile(), "html")), tmp_path)
    assert shown["injected"] == 0
    assert "<script>alert(1)</script>" in shown["rows"]
    assert any("\\u202e" in name for name in shown["rows"])


def test_two_thousand_ops(tmp_path: Path) -> None:
    shown = act(str(render(samples.large(), "html")), tmp_path)
    assert shown["dots"] == 2000
    assert len(shown["rows"]) == 200  # the rest is made when scrolled to


#: Sorts the table of ops by its change, both ways, and filters it.
SORT = """
<script>
const out = {};
const table = [...document.querySelectorAll("table")].at(-1);
const heading = [...table.querySelectorAll("thead button")].find((b) => b.textContent === "change");
const column = () => [...table.tBodies[0].rows].map((r) => r.cells[2].dataset.value);
heading.click();
out.falling = column();
heading.click();
out.rising = column();
const field = table.parentElement.previousElementSibling;
field.value = "CONV1";
field.dispatchEvent(new Event("input"));
out.shown = [...table.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.cells[0].textContent);
out.titles = document.querySelectorAll("figure svg title").length;
document.title = "RESULT " + JSON.stringify(out);
</script></body>
"""


def test_tables_of_a_plain_page_sort_and_filter(tmp_path: Path) -> None:
    record = KINDS["Changed"]()
    shown = act(str(render(record, "html")), tmp_path, SORT)
    values = [float(v) for v in shown["falling"]]
    assert len(values) == len(record.found.ops)
    assert values == sorted(values, reverse=True)
    assert [float(v) for v in shown["rising"]] == sorted(values)
    assert shown["shown"]
    assert all("conv1" in name for name in shown["shown"])
    assert shown["titles"] > len(record.after.ops)  # each dot says what it is, and so do the roofs
