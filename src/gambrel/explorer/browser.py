"""The desk of Python in a browser: texts in, texts out."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from gambrel.explorer.desk import Desk

_DESK: Final = Desk(Path("/files"))


def answer(request: str) -> str:
    """The answer to a request, both as JSON; ``missing`` names a package that it needs."""
    try:
        made = _DESK.answer(msgspec.json.decode(request))
    except ModuleNotFoundError as error:
        made = {"missing": (error.name or "").partition(".")[0]}
    return msgspec.json.encode(made).decode()
