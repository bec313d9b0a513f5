"""How a field of the question is declared, and the verbs that share fields."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from gambrel.analysis.fields import Field, FieldType

MODEL, DEVICE, HOW = "Model", "Device", "How it runs"
REQUESTS: Final = "Requests"
TARGETS, PLAN, LISTED, PRINT = "Targets", "Deployment", "Which to list", "What to print"
SWEPT = "The sweep"
JUDGED: Final = "What is judged"
#: Questions about one model on one device, and about many.
ONE: Final = "analyze recommend check what-if"
MANY: Final = "compare select sweep"
#: Questions about a measured time and what it could be.
JUDGE: Final = "judge"
GAP: Final = "explain-gap"
JUDGING: Final = f"{JUDGE} limits {GAP}"
RUNS: Final = f"{ONE} {MANY} {JUDGING}"
PLANS: Final = "serve-plan serve-sim serve-split train-plan train-search"
SERVE: Final = "serve-plan serve-sim serve-split"
SERVE_PLAN: Final = "serve-plan"
SERVE_SIM: Final = "serve-sim"
#: Of one pool of devices.
SERVED: Final = f"{SERVE_PLAN} {SERVE_SIM}"
SPLIT: Final = "serve-split"
DESIGN: Final = "design"
#: Questions with several points.
POINTS: Final = f"sweep {DESIGN}"
TRAIN: Final = "train-plan"
TRAIN_SEARCH: Final = "train-search"
#: Of one layout, and of all.
TRAINS: Final = f"{TRAIN} {TRAIN_SEARCH}"
LIMITED: Final = "check select"
ALL: Final = f"{RUNS} {PLANS} kv-cache import"
#: Questions about what is known.
LOOK: Final = "devices device models runtimes runtime explain"
#: Every question.
VERBS: Final = tuple(f"{ALL} {LOOK} {DESIGN}".split())
OBJECT: Final = dict.fromkeys(("cli", "mcp", "page"), "an object in memory")
CODE: Final = dict.fromkeys(
    ("mcp", "page"), "code runs only where the server was started with --trust"
)


def field(
    kind: FieldType,
    group: str,
    verbs: str,
    help: str,
    *flags: str,
    default: Any = None,
    **more: Any,
) -> Any:
    """A field of the question, as the verbs that have it show it."""
    sets = {k: frozenset(more.pop(k, "").split()) for k in ("several", "required")}
    rest = {"absent": {}, "default": default, **more, **sets}
    field = Field(
        kind=kind, group=group, verbs=frozenset(verbs.split()), help=help, flags=flags, **rest
    )
    return dataclasses.field(default=default, metadata={"field": field})
