"""The explorer in a real browser: what a person does with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gambrel
from gambrel.explorer.server import ExplorerServer
from gambrel.report import document
from tests.report.browser import Reader, chromium, needs_browser, violations

pytestmark = [pytest.mark.slow, needs_browser]

STATE = {"verb": "analyze", "given": {"model": "resnet18", "hardware": "a100-sxm4-80gb"}}
DRAG = """(place) => {
  const slider = document.querySelector(".slider input[type=range]");
  slider.value = place;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with chromium() as browser:
        yield Reader(browser)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ExplorerServer(STATE)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.address
    server.shutdown()
    thread.join()
    server.close()


@pytest.fixture
def tab(reader: Reader, address: str) -> Any:
    reader.complaints.clear()
    reader.tab.goto("about:blank")
    reader.tab.goto(address)
    reader.tab.wait_for_selector("html[data-ready]", timeout=30_000)
    yield reader.tab
    assert reader.complaints == []
    assert {r for r in reader.requests if not r.startswith("http://127.0.0.1")} <= {"about:blank"}


def titled(tab: Any, text: str, *, without: str = "", seconds: float = 30) -> None:
    """Waits until the title of the page has a text, or has it no more."""
    from playwright.sync_api import expect

    title = expect(tab.locator("h1"))
    if without:
        title.not_to_contain_text(without, timeout=1000 * seconds)
    title.to_contain_text(text, timeout=1000 * seconds)


def test_a_drag_changes_the_answer_and_the_address(tab: Any) -> None:
    before = tab.inner_text(".figure .note >> nth=0")
    assert "token" not in tab.url
    tab.evaluate(DRAG, 10)
    titled(tab, "resnet18, batch", without="batch 1,")
    assert tab.inner_text(".figure .note >> nth=0") != before
    tab.wait_for_url("**batch_size=*")
    shown = tab.inner_text("h1")
    tab.reload()
    titled(tab, shown)


def test_values_near_the_hand_are_asked_ahead(tab: Any) -> None:
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.post_data or ""))

    def asked(batch: str) -> int:
        """How often a short answer for a batch was asked for."""
        return sum(f'"batch_size":"{batch}"' in s and '"brief":true' in s for s in sent)

    with tab.expect_response(lambda r: '"batch_size":"2"' in (r.request.post_data or "")):
        tab.hover(".slider input[type=range]")
    tab.wait_for_timeout(50)  # the answer is read
    tab.evaluate(DRAG, 1)
    titled(tab, "batch 2")
    analysis = gambrel.analyze("resnet18", "a100-sxm4-80gb", batch_size=2)
    assert tab.inner_text(".verdict") == document(analysis).answer[0]
    # The table follows the chart, with the same answer.
    (table,) = document(analysis).sections[0].blocks
    row = [column.cells[0] for column in table.columns]
    expect = "() => document.querySelector('.linked tbody tr:not(.gap)').innerText"
    tab.wait_for_function(f"(text) => ({expect})() === text", arg="\t".join(row))
    assert asked("2") == 1


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_controls_can_be_used_by_everybody(tab: Any, reader: Reader, width: int) -> None:
    from axe_playwright_python.base import AXE_FILE_PATH

    tab.set_viewport_size({"width": width, "height": 900})
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        reader.settle()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(tab, Path(AXE_FILE_PATH).read_text("utf-8")) == []
    tab.emulate_media(color_scheme="light")
    tab.set_viewport_size({"width": 1440, "height": 900})


def test_pin_and_apply(tab: Any) -> None:
    tab.click("text=pin as A")
    tab.evaluate(DRAG, 12)
    titled(tab, "A to B")
    tab.click("text=unpin")
    tab.wait_for_selector(".change", timeout=30_000)
    tab.click(".change:has(.name:text-is('fuse'))")
    titled(tab, "fuse")
    tab.wait_for_url("**change=fuse*")
    tab.click("[aria-label='undo fuse']")
    titled(tab, "resnet18", without="fuse")


def test_a_model_is_dropped_and_what_is_wrong_is_said(tab: Any, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing")
    tab.set_input_files("input[type=file]", path)
    tab.wait_for_selector(".problem", timeout=30_000)
    assert "notes.txt" in tab.inner_text(".problem")


def test_tabs_ask_other_questions(tab: Any) -> None:
    tab.click("nav >> text=targets")
    tab.wait_for_selector(".verdict:has-text('PASS')", timeout=30_000)
    assert "--latency 10ms" in str(tab.get_attribute("text=copy as command", "title"))
