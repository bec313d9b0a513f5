"""What ``perf stat`` prints for people, as the fields that ``perf stat -x`` writes."""

from __future__ import annotations

import re
from typing import Final

_TITLE: Final = "Performance counter stats for"
#: Stands for the event of the line ``... seconds time elapsed``.
ELAPSED: Final = "seconds-time-elapsed"
_UNIT: Final = r"msec|ns|[KMG]i?B|B|[Bb]ytes|Joules|Watts"
_SPACES: Final = r" \u00a0\u2009\u202f"
_VALUE: Final = (
    r"<not counted>|<not supported>"
    rf"|\d{{1,3}}(?:[.,'{_SPACES}]\d{{3}})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?"
)
#: A processor, socket or time before the value stands apart by more than one space, or by its name.
_LINE: Final = re.compile(
    rf"(?:.*\s{{2,}}|[A-Z]+\d\S*\s+(?:\d+\s+)?)??(?P<value>{_VALUE})\s+"
    rf"(?:(?P<unit>{_UNIT})\s+)?(?P<event>[A-Za-z]\S*)(?:\s+\(msec\))?"
)
_LAPSED: Final = re.compile(
    rf"(?P<value>{_VALUE})\s+(?:\+-\s+\S+\s+)?seconds time elapsed\b.*", re.IGNORECASE
)
_SHARE: Final = re.compile(r"\((\d+[.,]?\d*)%\)\s*$")
#: Longer lines are no rows.
_LONGEST: Final = 1_000


def is_perf_text(text: str) -> bool:
    """Whether text has the title of what ``perf stat`` prints."""
    return _TITLE in text


def text_cells(row: str) -> list[str]:
    """Value, unit, event, time counted and share of a printed line; empty for any other line.

    Args:
        row: Such as ``"  26,554,473      cycles:u      #  2.9 GHz      (49.77%)"``.
    """
    if len(row) > _LONGEST:
        return []
    line = row.strip()
    lapsed = _LAPSED.fullmatch(line)
    if lapsed is not None:
        return [lapsed["value"], "seconds", ELAPSED, "", "100"]
    share = _SHARE.search(line)
    found = _LINE.fullmatch(_SHARE.sub("", line.partition("#")[0]).strip())
    if found is None:
        return []
    return [found["value"], found["unit"] or "", found["event"], "", share[1] if share else "100"]
