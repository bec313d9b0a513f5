"""The explorer in a real browser: what a person does with it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gambrel
from gambrel.explorer.server import ExplorerServer
from gambrel.report import document
from tests.capture.onnx import models as onnx
from tests.capture.weights.models import llama_metadata, llama_tensors, write_model
from tests.explorer.test_uploads import CONFIG
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


def test_a_sentence_says_why_and_follows_the_hand(tab: Any) -> None:
    tab.wait_for_selector(".why")
    assert tab.inner_text(".why").startswith("Batch 1: limited by the host (")
    most = tab.evaluate("() => document.querySelector('.slider input[type=range]').max")
    tab.evaluate(DRAG, most)
    tab.wait_for_function(
        "() => /^Batch [0-9,]{3,}: limited by compute/.test("
        "document.querySelector('.why').textContent)"
    )
    # The chart of all batches and its sentences stand right below.
    tab.wait_for_function("() => document.querySelector('.lead figure, .lead svg')")
    assert "memory-bound at every batch" in tab.inner_text(".lead")


def test_values_near_the_hand_are_asked_ahead(tab: Any) -> None:
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.post_data or ""))

    def asked(batch: str) -> int:
        """How often a short answer for a batch was asked for."""
        return sum(f'"batch_size":"{batch}"' in s and '"brief":true' in s for s in sent)

    # A page that rests asks on its own: it is opened where its requests are heard. The hand may
    # come before the answer is read; it is not asked for again.
    with tab.expect_response(lambda r: '"batch_size":"2"' in (r.request.post_data or "")):
        tab.reload()
        tab.hover(".slider input[type=range]")
    tab.evaluate(DRAG, 1)
    titled(tab, "batch 2")
    analysis = gambrel.analyze("resnet18", "a100-sxm4-80gb", batch_size=2)
    assert tab.inner_text(".verdict") == document(analysis).answer[0]
    # The table follows the chart, with the same answer.
    (table,) = document(analysis).sections[0].blocks
    heads = "[...document.querySelectorAll('.linked th')].map((h) => h.innerText.trim())"
    shown = tab.evaluate(heads)  # columns give way where the page is narrow
    assert {"op", "roofline", "expected", "share"} <= set(shown)
    row = [column.cells[0] for column in table.columns if column.title in shown]
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


def written(folder: Path, form: str) -> list[Path]:
    """A small model in a form that people have; what is over 4 MiB is sent in part."""
    folder.mkdir(exist_ok=True)
    config = folder / "config.json"
    config.write_text(json.dumps(CONFIG))
    if form == "gguf":
        return [write_model(folder / "tiny.gguf", llama_metadata(), llama_tensors())]
    if form == "onnx":
        product = onnx.node("MatMul", "x w", "y")
        ends = [onnx.value("x", [1, 1200])], [onnx.value("y", [1, 1200])]
        return [onnx.save(folder / "net.onnx", [product], *ends, [onnx.array("w", 1200, 1200)])]
    if form == "safetensors":
        head = {"lm_head.weight": {"dtype": "BF16", "shape": [100, 64], "data_offsets": [0, 12800]}}
        large = {"x.weight": {"dtype": "I8", "shape": [6 << 20], "data_offsets": [12800, 6304256]}}
        text = json.dumps(head | large).encode()
        path = folder / "model.safetensors"
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(6304256))
        return [path, config]
    return [config]


@pytest.mark.parametrize(
    ("form", "title"),
    [("config", "llama"), ("safetensors", "llama"), ("gguf", "Tiny Llama"), ("onnx", "net")],
)
def test_a_model_of_each_form_is_dropped(tab: Any, tmp_path: Path, form: str, title: str) -> None:
    paths = written(tmp_path / "model", form)
    tab.set_input_files("input[type=file]", paths)
    titled(tab, title, without="resnet18")
    name = tab.input_value("input[list] >> nth=0")
    assert name in {path.name for path in paths}
    assert tab.query_selector(".problem") is None


def test_a_recommendation_keeps_what_it_promises(tab: Any, address: str) -> None:
    from playwright.sync_api import expect

    tab.wait_for_selector(".change", timeout=30_000)
    read = "(all) => all.map((e) => [e.querySelector('.name').innerText, e.innerText])"
    offered = tab.eval_on_selector_all(".change", read)
    assert len(offered) > 3
    for name, text in offered:
        gain = float(text.removeprefix(name).partition("×")[0])
        tab.goto("about:blank")
        tab.goto(address)
        tab.wait_for_selector(".change", timeout=30_000)
        tab.click("text=pin as A")
        tab.click(f".change:has(.name:text-is('{name}'))")
        expect(tab.locator(".verdict")).to_contain_text(f"{gain:.2f}×", timeout=30_000)
        assert tab.query_selector(".problem") is None


def test_layouts_are_slid(tab: Any) -> None:
    from playwright.sync_api import expect

    tab.fill("input[list] >> nth=0", "llama-3.1-8b")
    tab.keyboard.press("Enter")
    titled(tab, "llama-3.1-8b")
    tab.click("nav >> text=serving")
    slider = ".slider:has-text('tensor') input[type=range]"
    tab.wait_for_selector(slider, timeout=30_000)
    place = "(e) => { e.value = 2; e.dispatchEvent(new Event('input', { bubbles: true })); }"
    tab.eval_on_selector(slider, place)
    command = tab.locator("text=copy as command")
    expect(command).to_have_attribute("title", re.compile("--tensor 2"), timeout=60_000)
    assert "TP2" in tab.inner_text("main")


def test_tabs_ask_other_questions(tab: Any) -> None:
    tab.click("nav >> text=targets")
    tab.wait_for_selector(".verdict:has-text('PASS')", timeout=30_000)
    assert "--latency 10ms" in str(tab.get_attribute("text=copy as command", "title"))
