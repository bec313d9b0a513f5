"""``gambrel explore``: a model under a roofline, live in a browser."""

from __future__ import annotations

import sys
import threading
from typing import Any, Final

import click

from gambrel.cli.command import OTHER, command, flag, loose, option
from gambrel.errors import InputError

#: What a page opens with where nothing is named.
_FIRST: Final = {"model": "resnet50", "hardware": "a100-sxm4-80gb"}
#: Fields of the first question; the page has controls for all of them.
_FIELDS: Final = (
    *("model", "batch_size", "seq", "context", "image", "phase"),
    *("hardware", "peak", "bandwidth", "precision", "runtime"),
)


@command(
    "explore",
    *map(loose, _FIELDS),
    option(
        *("--port",),
        help="0 takes a free one. [0]",
        type=click.IntRange(0, 65535),
        default=0,
        metavar="N",
    ),
    flag("--no-browser", help="Print the address only.", section=OTHER),
    flag("--trust", help="Let models be code (file.py:function), run here.", section=OTHER),
    examples="""
  gambrel explore
  gambrel explore resnet50 --hardware a100
  gambrel explore llama-3.1-8b --hardware h100,h200
  gambrel explore --no-browser --port 8080
""",
)
def explore(port: int, no_browser: bool, trust: bool, **given: Any) -> None:
    """Open a page with controls: choose a model and devices, drag a size, see what changes."""
    from gambrel.explorer.server import ExplorerServer

    asked = {name: value for name, value in given.items() if value is not None}
    own_roof = {"peak", "bandwidth"} & set(asked)
    asked = {k: v for k, v in _FIRST.items() if k == "model" or not own_roof} | asked
    named = any(value is not None for value in given.values())
    server = ExplorerServer({"verb": "analyze", "given": asked}, port, trust=trust)
    if named and (refusal := server.refusal()):
        server.close()
        raise InputError(refusal)
    print(f"open {server.address}\nEnd with Ctrl+C.", file=sys.stderr, flush=True)
    threading.Thread(target=server.first_page, daemon=True).start()
    try:
        if not no_browser:
            _open(server.address)
        server.serve_forever()
    except KeyboardInterrupt:
        print("", file=sys.stderr)
    finally:
        server.close()


def _open(address: str) -> None:
    """The browser of this desktop; where there is none the printed address has to do."""
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
