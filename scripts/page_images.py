"""Writes the screenshots of docs/images: pages of a few results, light and dark, as small PNG.

python scripts/page_images.py        # needs chromium, playwright and Pillow
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from PIL import Image

import gambrel
from gambrel.report import render

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "images"
#: Bytes of a picture at most.
MOST: Final = 150_000
sys.path.insert(0, str(ROOT))


def pages() -> Iterator[tuple[str, int, str, Callable[[], Any]]]:
    """Name, width, colour scheme and result of each picture."""
    yield "page-analysis", 1440, "light", lambda: gambrel.analyze("resnet50", "a100")
    yield "page-dark", 1440, "dark", lambda: gambrel.analyze("bert-base-uncased", "h100")
    yield "page-narrow", 390, "light", lambda: gambrel.analyze("resnet50", "a100")
    yield "page-comparison", 1440, "light", comparison
    yield "page-serving", 1440, "light", serving


def comparison() -> Any:
    devices = ["l4", "t4", "a100", "h100", "hailo-8", "jetson-orin-nano", "coral-edge-tpu"]
    return gambrel.compare("resnet50", devices, metric=["latency", "power", "throughput"])


def serving() -> Any:
    wanted = {"input": "1k", "output": "256", "ttft": "1s", "tpot": "30ms"}
    return gambrel.serve_plan("llama-3.1-8b", ["h200", "h100"], **wanted)


def small(shot: bytes) -> bytes:
    """The picture with as many colours as fit."""
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    for colors in (128, 64, 32):
        out = io.BytesIO()
        picture.quantize(colors, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() <= MOST:
            break
    return out.getvalue()


def main() -> None:
    from tests.report.browser import Reader, chromium

    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        reader = Reader(browser)
        for name, width, scheme, make in pages():
            reader.tab.set_viewport_size({"width": width, "height": 900})
            reader.tab.emulate_media(color_scheme=scheme)
            tab = reader.open(str(render(make(), "html")), Path(folder))
            reader.settle()
            keep(name, tab)
        reader.tab.set_viewport_size({"width": 1440, "height": 900})
        reader.tab.emulate_media(color_scheme="light")
        explorer(reader.tab)


def explorer(tab: Any) -> None:
    """The live page after a size was dragged, what stood before pinned."""
    import threading

    from gambrel.explorer.server import ExplorerServer

    asked = {"model": "resnet50", "hardware": "a100-sxm4-80gb", "batch_size": "32"}
    server = ExplorerServer({"verb": "analyze", "given": asked})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tab.goto(server.address)
    tab.wait_for_selector(".change", timeout=60_000)
    keep("page-explore", tab)
    server.shutdown()
    server.close()


def keep(name: str, tab: Any) -> None:
    content = small(tab.screenshot())
    (FOLDER / f"{name}.png").write_bytes(content)
    print(f"{name}.png: {len(content):,} bytes")


if __name__ == "__main__":
    main()
