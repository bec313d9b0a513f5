"""The file of fitted constants: read and written in one place, with rows of figures on a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "src/gambrel/analysis/calibration/constants.json"
WIDTH: Final = 120
#: A set for all frameworks describes their average unless it says whose kernels.
_ANY: Final = "any"
#: What may be left out where it is empty.
_OFTEN_EMPTY: Final = frozenset(
    {
        *("note", "by_framework", "inside_by_bin", "softmax_per_s", "softmax_share"),
        *("handed_per_s", "attention_high", "call_s", "cores", "flight", "kept_bytes", "models"),
        *("streamed", "width"),
        *("room_bytes", "outside_high"),
        *("held_out", "unpack", "error"),
        *("attention_flop_per_s", "cache_byte_per_s", "prompt_start_s"),
    }
)


def read() -> dict[str, Any]:
    """The constants by section."""
    content: dict[str, Any] = json.loads(TARGET.read_text(encoding="utf-8"))
    return content


def write(content: dict[str, Any], target: Path = TARGET) -> None:
    """Replaces the file; the error of one framework alone is said once.

    A set for any framework serves the one whose kernels it describes: that one's is left out where
    it says the same.
    """
    served = [s | {"framework": s["describes"]} for s in content["sets"] if _of_one(s)]
    content["sets"] = [s for s in content["sets"] if s not in served]
    for one in content["sets"]:
        if one.get("describes") == _ANY:
            del one["describes"]
        held = one.get("held_out", {})
        if len(held.get("by_framework", ())) == 1:
            del held["by_framework"]
    target.write_text(_text(_stated(content), 0) + "\n", encoding="utf-8")


def _of_one(one: dict[str, Any]) -> bool:
    return bool(one["framework"] == _ANY and one.get("describes", _ANY) != _ANY)


def _stated(value: Any) -> Any:
    """Without what says nothing: notes, errors by framework and by size that are empty."""
    if isinstance(value, list | tuple):
        return [_stated(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {k: _stated(v) for k, v in value.items() if v or k not in _OFTEN_EMPTY}


def _text(value: Any, depth: int) -> str:
    """JSON with what fits on a line on one, a space for each level."""
    if isinstance(value, float):
        return _number(value)
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    start, end = "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, dict):
        pieces = [f"{json.dumps(k)}: {_text(v, depth + 1)}" for k, v in value.items()]
    else:
        pieces = [_text(v, depth + 1) for v in value]
    lines = _packed(pieces, WIDTH - depth - 1)
    if len(lines) == 1 and "\n" not in lines[0]:
        return f"{start}{lines[0]}{end}"
    inner = "\n" + " " * (depth + 1)
    return start + inner + f",{inner}".join(lines) + "\n" + " " * depth + end


def _number(value: float) -> str:
    """The shortest of its forms: ``4.116e11`` for ``411600000000.0``."""
    digits, power = f"{value:.15e}".split("e")
    short = f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
    usual = json.dumps(value)
    return short if float(short) == value and len(short) < len(usual) else usual


def _packed(pieces: list[str], width: int) -> list[str]:
    """The pieces by lines: neighbours share one as long as they fit and take no line break."""
    lines: list[str] = []
    for piece in pieces:
        whole = "\n" not in piece and lines and "\n" not in lines[-1]
        if whole and len(lines[-1]) + len(piece) + 2 <= width:
            lines[-1] += f", {piece}"
        else:
            lines.append(piece)
    return lines
