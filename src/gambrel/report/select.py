"""A selection of devices for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from gambrel.advise.select import Candidate, Selection, expected_beyond
from gambrel.advise.verdict import Constraint, Verdict
from gambrel.report.advice_json import document
from gambrel.report.check import value_text
from gambrel.report.layout import Column, line, listed, show, table
from gambrel.report.options import Options

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Shown beside what was limited.
_ALWAYS = ("latency", "power", "memory")


def render(found: Selection, options: Options | None = None) -> str:
    """What meets the limits, then what is not known, then near misses."""
    options = options or Options()
    limits = ", ".join(limit.text for limit in found.limits)
    blocks: list[Sequence[RenderableType]] = [
        [line((f"{found.model}: {limits}", "bold"))],
        _group("Meets all limits", found, found.meets, options),
        _group("Not known", found, found.unknown, options),
        _group("Near misses (25 % or less)", found, found.near, options),
        [line(_failed(found))],
        listed("Notes", (*_formats(found), *found.notes)),
    ]
    return show(blocks, options)


def to_json(found: Selection) -> str:
    """The selection as JSON text."""
    return document("gambrel/selection", found)


def _group(
    title: str, found: Selection, members: Sequence[Candidate], options: Options
) -> list[RenderableType]:
    if not members:
        return [line((f"{title}: none", "bold"))]
    shown = members[: options.top] if options.top else members
    head = line((f"{title}: {len(members)}", "bold"), f", best {found.sort} first")
    beyond = sum(map(expected_beyond, members))
    if beyond:
        head = line(
            (f"{title}: {len(members)}", "bold"),
            f", best {found.sort} first; of these {beyond} only at the good end of the range: the "
            "expected value misses",
        )
    if members is found.unknown:
        head = line(
            (f"{title}: {len(members)}", "bold"), ", first where least would have to come true"
        )
    parts: list[RenderableType] = [head, table(_columns(found, shown), options.columns)]
    if len(shown) < len(members):
        parts.append(line(f"and {len(members) - len(shown)} more; --top 0 shows all."))
    return parts


def _columns(found: Selection, shown: Sequence[Candidate]) -> list[Column]:
    limited = [limit.metric for limit in found.limits]
    metrics = dict.fromkeys((*limited, found.sort, *_ALWAYS))
    open_ = all(c.verdict is Verdict.UNKNOWN for c in shown)
    return [
        Column(title="device", cells=tuple(c.row.hardware for c in shown), align="left"),
        Column(title="format", cells=tuple(c.row.precision for c in shown), align="left"),
        *(
            Column(
                title=metric,
                cells=tuple(value_text(c.row.figures[metric]) for c in shown),
                priority=0 if metric in limited else 3,
            )
            for metric in metrics
        ),
        Column(
            title="verdict",
            cells=tuple(c.verdict.value for c in shown),
            align="left",
            priority=3 if open_ else 1,
        ),
        Column(
            title="would meet with" if open_ else "why",
            cells=tuple(map(_why, shown)),
            align="left",
            priority=2,
            minimum=16,
        ),
    ]


def _why(candidate: Candidate) -> str:
    """What keeps it from a PASS, in few words; JSON has the sentences."""
    if candidate.met_if:
        return candidate.met_if
    return ", ".join(_SAID[c.verdict](c) for c in candidate.constraints if c.verdict in _SAID)


def _missed(c: Constraint) -> str:
    return c.metric if c.headroom is None else f"{c.metric} by {-c.headroom:.0%}"


def _near(c: Constraint) -> str:
    if c.headroom is None or c.headroom >= 0:
        return f"{c.metric} within its range"
    return f"{c.metric} expected {-c.headroom:.0%} beyond"


_SAID: Final[dict[Verdict, Callable[[Constraint], str]]] = {
    Verdict.UNKNOWN: lambda c: f"{c.metric} open",
    Verdict.FAIL: _missed,
    Verdict.MARGINAL: _near,
}


def _failed(found: Selection) -> str:
    if not found.failed:
        return "No device misses a limit by more than 25 %."
    return f"{len(found.failed)} devices miss a limit by more than 25 %."


def _formats(found: Selection) -> list[str]:
    everyone = (*found.meets, *found.unknown, *found.near)
    if all(c.row.precision_reason == "as asked" for c in everyone):
        return []
    return ["each device in the format that its engine is made for; choose with --precision."]
