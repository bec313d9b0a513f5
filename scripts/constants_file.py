"""The file of fitted constants: read and written in one place, with rows of figures on a line."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "src/gambrel/analysis/calibration/constants.json"
#: A list of figures or names, which the encoder spreads over lines.
_ROW: Final = re.compile(r"\[\n([^\[\]{}]*?)\n *\]")
#: An object of figures alone, indented by so much.
_FIGURES: Final = re.compile(r"\{\n( *)((?:\"\w+\": (?:-?[\d.e+-]+|null)(?:,\n *)?)+)\n *\}")
WIDTH: Final = 100
#: What may be left out where it is empty.
_OFTEN_EMPTY: Final = frozenset({"note", "by_framework", "inside_by_bin"})


def read() -> dict[str, Any]:
    """The constants by section."""
    content: dict[str, Any] = json.loads(TARGET.read_text(encoding="utf-8"))
    return content


def write(content: dict[str, Any], target: Path = TARGET) -> None:
    """Replaces the file; the error of one framework alone is said once."""
    for one in content.get("sets", ()):
        held = one.get("held_out", {})
        if len(held.get("by_framework", ())) == 1:
            del held["by_framework"]
    spread = json.dumps(_stated(content), indent=1, ensure_ascii=False)
    text = _FIGURES.sub(_filled, _ROW.sub(_joined, spread))
    target.write_text(text + "\n", encoding="utf-8")


def _stated(value: Any) -> Any:
    """Without what says nothing: notes, errors by framework and by size that are empty."""
    if isinstance(value, list | tuple):
        return [_stated(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {k: _stated(v) for k, v in value.items() if v or k not in _OFTEN_EMPTY}


def _joined(row: re.Match[str]) -> str:
    return "[" + " ".join(line.strip() for line in row[1].splitlines()) + "]"


def _filled(found: re.Match[str]) -> str:
    indent = found[1]
    words = [part.strip().replace(": ", ":\0") for part in found[2].split("\n")]
    lines = textwrap.wrap("{" + " ".join(words) + "}", WIDTH - len(indent))
    return f"\n{indent}".join(lines).replace("\0", " ")
