"""CSV: one row an op, base SI units named in the header. Several analyses share one table."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Final

from gambrel.analysis.measures import Measures, State
from gambrel.analysis.result import Analysis, OpResult
from gambrel.report.options import Options
from gambrel.report.terms import DERIVED

_OP: Final = ("name", "kind", "op", "module", "source", "phase", "state", "count", "shapes")
_STORED: Final = (
    "matrix_flops",
    "vector_flops",
    "special_ops",
    "read_bytes",
    "write_bytes",
    "link_bytes",
    "bound",
    "roofline_time_s",
    "time_share",
    "peak_flop_per_s",
    "peak_byte_per_s",
)
#: Column → attribute of the estimate.
_EXPECTED: Final = {
    "expected_time_s": "value",
    "expected_low_s": "low",
    "expected_high_s": "high",
    "expected_launches_s": "launches_s",
    "confidence": "confidence",
}
#: Columns of the file.
HEADER: Final = (
    "model", "hardware", "precision", "sizes", *_OP, *DERIVED, *_STORED, *_EXPECTED
)  # fmt: skip

#: A cell that starts with one of these is a formula to a spreadsheet
#: (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def render(analysis: Analysis, _options: Options | None = None) -> str:
    """Returns one row an op in execution order.

    An unknown figure is an empty cell, an infinite one is ``inf``. Text that a spreadsheet would
    run as a formula is preceded by an apostrophe.
    """
    return render_many([analysis])


def render_many(analyses: Sequence[Analysis], _options: Options | None = None) -> str:
    """Returns the ops of several analyses in one table; the first columns tell them apart."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for analysis in analyses:
        first = [_text(value) for value in _run(analysis)]
        writer.writerows([*first, *_row(op)] for op in analysis.ops)
    return out.getvalue()


def _run(analysis: Analysis) -> tuple[str, str, str, str]:
    sizes = ";".join(f"{name}={value}" for name, value in analysis.model.symbols.items())
    return analysis.model.name, analysis.hardware.name, analysis.model.precision, sizes


def _row(op: OpResult) -> list[str]:
    head = [_text(str(getattr(op, name))) for name in _OP]
    if op.state is State.UNMODELLED:
        return head + [""] * (len(DERIVED) + len(_STORED) + len(_EXPECTED))
    figures = [_figure(op.measures, name) for name in (*DERIVED, *_STORED)]
    expected = op.measures.expected_time_s
    return head + figures + [str(getattr(expected, n, "")) for n in _EXPECTED.values()]


def _figure(measures: Measures, name: str) -> str:
    value = getattr(measures, name)
    if value is None:
        return ""
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return str(value)


def _text(value: str) -> str:
    return f"'{value}" if value.startswith(_FORMULA) else value
