"""A real browser for the tests of pages: Debian's or anyone's chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def skipped() -> str:
    """Why there is no browser; empty where there is one."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed (extra 'test')"
    return "" if CHROMIUM else "there is no chromium on this machine"


needs_browser = pytest.mark.skipif(bool(skipped()), reason=skipped())


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser, closed at the end."""
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=quiet)
        try:
            yield browser
        finally:
            browser.close()


class Reader:
    """A reader of pages: what the browser complains about and what it asks the network for."""

    def __init__(self, browser: Any) -> None:
        self.context = browser.new_context()
        self.tab = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", self._heard)
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(" ".join((message.text, message.location["url"])).strip())

    def open(self, text: str, folder: Path) -> Any:
        """Opens a page from a file and waits until it is drawn."""
        path = folder / "page.html"
        path.write_text(text, encoding="utf-8")
        self.complaints.clear()
        self.requests.clear()
        self.tab.goto(path.as_uri())
        self.tab.wait_for_selector("html[data-ready]", timeout=20_000)
        return self.tab

    def settle(self) -> None:
        """Waits for two frames: a change is then laid out and drawn."""
        self.tab.evaluate(
            "() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"
        )


def violations(tab: Any, axe: str) -> list[str]:
    """Serious and critical findings of axe-core."""
    tab.evaluate(axe)
    found = tab.evaluate("() => axe.run({ resultTypes: ['violations'] })")["violations"]
    return [
        f"{v['id']}: {v['nodes'][0]['html'][:120]}"
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
