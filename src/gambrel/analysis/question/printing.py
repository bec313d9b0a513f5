"""How much of an answer is shown."""

from __future__ import annotations

from dataclasses import dataclass

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import DESIGN, PLANS, PRINT, RUNS, SERVE_PLAN, field


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PrintFields:
    """How much of an answer is shown."""

    layouts: int = field(
        *(
            f.whole("layouts"),
            PRINT,
            SERVE_PLAN,
            "Number of layouts to evaluate in full.",
            "--layouts",
        ),
        default=5,
    )
    top: int = field(
        *(
            f.whole("rows", 0),
            PRINT,
            f"{RUNS} {PLANS} {DESIGN} import",
            "Rows per table; 0 shows all.",
        ),
        *("--top",),
        default=10,
        absent=dict.fromkeys(("python", "page"), "records are returned whole"),
    )
