"""The file of fitted constants: read and written in one place, with rows of figures on a line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "src/gambrel/analysis/calibration/constants.json"
#: A list of figures or names, which the encoder spreads over lines.
_ROW: Final = re.compile(r"\[\n([^\[\]{}]*?)\n *\]")


def read() -> dict[str, Any]:
    """The constants by section."""
    content: dict[str, Any] = json.loads(TARGET.read_text(encoding="utf-8"))
    return content


def write(content: dict[str, Any], target: Path = TARGET) -> None:
    """Replaces the file."""
    spread = json.dumps(content, indent=1, ensure_ascii=False)
    text = _ROW.sub(_joined, spread)
    target.write_text(text + "\n", encoding="utf-8")


def _joined(row: re.Match[str]) -> str:
    return "[" + " ".join(line.strip() for line in row[1].splitlines()) + "]"
