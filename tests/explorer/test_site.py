"""The static site in a browser: Python runs there, and nothing is asked of anybody else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gambrel
from gambrel.report import document
from tests.explorer.site import served
from tests.explorer.test_browser import DRAG, titled
from tests.explorer.test_uploads import CONFIG
from tests.report.browser import Reader, chromium, needs_browser, violations

pytestmark = [pytest.mark.slow, needs_browser]

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_site.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("npm") is None:
        pytest.skip("npm, which brings Pyodide, is not installed")
    folder = tmp_path_factory.mktemp("site") / "site"
    words = ["-o", str(folder), "--models", "resnet50", "--devices", "a100-sxm4-80gb", "--offline"]
    made = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"the registries cannot be reached: {made.stderr.strip()[-200:]}")
    with served(folder) as address:
        yield address


def test_python_answers_in_the_browser(site: str, tmp_path: Path) -> None:
    from axe_playwright_python.base import AXE_FILE_PATH

    with chromium() as browser:
        reader = Reader(browser)
        tab: Any = reader.tab
        tab.goto(site)
        tab.wait_for_selector("html[data-ready]", timeout=30_000)
        axe = Path(AXE_FILE_PATH).read_text("utf-8")
        for width, scheme in ((390, "dark"), (1440, "light")):
            tab.set_viewport_size({"width": width, "height": 900})
            tab.emulate_media(color_scheme=scheme)
            reader.settle()
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert violations(tab, axe) == []
        shown = " ".join(tab.inner_text(".words").split())
        assert document(gambrel.analyze("resnet50", "a100-sxm4-80gb")).answer[0] in shown
        tab.evaluate(DRAG, 10)
        titled(tab, "resnet50", without="batch 1,", seconds=120)
        tab.wait_for_url("**batch_size=*")
        batch = int(tab.url.rpartition("batch_size=")[2])
        analysis = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=batch)
        expected = document(analysis).answer[0]
        assert expected in " ".join(tab.inner_text(".words").split())
        path = tmp_path / "config.json"
        path.write_text(json.dumps(CONFIG))
        tab.set_input_files("input[type=file]", path)
        titled(tab, "llama", seconds=60)
        # Built without numpy, it says so where a question needs it.
        tab.click("nav button:text-is('devices')")
        tab.wait_for_selector("text=needs numpy", timeout=60_000)
        # Once loaded it opens without a network, and answers.
        tab.evaluate("navigator.serviceWorker.ready.then(() => true)")
        reader.context.set_offline(True)
        tab.goto(site)
        tab.wait_for_selector("html[data-ready]", timeout=30_000)
        tab.wait_for_timeout(600)  # meanwhile the page asks for the rest of its first answer
        tab.evaluate(DRAG, 8)
        titled(tab, "resnet50", without="batch 1,", seconds=120)
        assert {r.split("/")[2] for r in reader.requests if r.startswith("http")} == {
            site.split("/")[2]
        }
        assert reader.complaints == []
