"""A selection of devices: what meets the limits, then what is not known, then near misses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from gambrel.advise.limits import format_metric
from gambrel.advise.select import Candidate, Selection
from gambrel.advise.verdict import Constraint, Verdict, expected_beyond
from gambrel.analysis.settings import ASKED
from gambrel.report.blocks import (
    Column,
    DataTable,
    Document,
    KeyFigure,
    Notes,
    section,
    sections,
    words,
)
from gambrel.report.builders.check import value_text
from gambrel.report.builders.comparison import best_figures, doubtful, runtime_column, under
from gambrel.report.options import Options
from gambrel.report.text import cut
from gambrel.units import format_count

_OVER: Final = "Design power above the limit, nothing known below it"
#: Shown beside what was limited.
_ALWAYS: Final = ("latency", "power", "memory")


#: How many of those that are not known are listed, without ``--verbose``.
_FEW: Final = 5


def document(found: Selection, options: Options) -> Document:
    """The best device leads."""
    limits = ", ".join(limit.text for limit in found.limits)
    whole = options.verbose or options.on_page or not options.top
    groups = (
        _group("Meets all limits", found, found.meets),
        _few(_group("Not known", found, found.unknown), whole),
        _group("Near misses (25 % or less)", found, found.near),
    )
    return Document(
        title=f"{found.model}: {limits}",
        answer=_answer(found),
        style="total" if found.meets else "warning",
        sections=sections(
            *(section(group) for group in groups),
            section(_group(_OVER, found, found.over_power), folded="" if whole else "all devices"),
            section(
                Notes(
                    heading="Notes",
                    items=(*doubtful(c.row for c in found.meets), *_formats(found), *found.notes),
                )
            ),
        ),
        figures=tuple(_key_figures(found)),
    )


def _key_figures(found: Selection) -> tuple[KeyFigure, ...]:
    """The best of each metric among the devices that meet the limits."""
    metrics = tuple(dict.fromkeys((found.sort, *(limit.metric for limit in found.limits))))
    sure = [c for c in found.meets if c.verdict is Verdict.PASS] or found.meets
    return tuple(best_figures([c.row for c in sure], metrics))


def _answer(found: Selection) -> tuple[str, str]:
    counted = (
        f"{len(found.meets)} meet all limits, {len(found.unknown)} not known, "
        f"{format_count(len(found.near), 'near miss', 'near misses')}; {_failed(found)}"
    )
    if not found.meets:
        return "No device is known to meet all limits.", counted
    best = found.meets[0]
    shown = ", ".join(
        f"{limit.metric} {value_text(best.row.figures[limit.metric])}" for limit in found.limits
    )
    what = f"{best.row.hardware}, {best.row.precision}{under(best.row)}"
    return f"Best {found.sort}: {what}: {shown}", counted


def _group(title: str, found: Selection, members: Sequence[Candidate]) -> DataTable:
    if not members:
        return DataTable(columns=(), heading=title, note="None.")
    order = f"best {found.sort} first"
    if members is found.over_power:
        return DataTable(
            heading=f"{title}: {len(members)}", columns=tuple(_columns(found, members)), all=True
        )
    beyond = sum(expected_beyond(m.verdict, m.constraints) for m in members)
    if beyond:
        order += f"; of these {beyond} only at the good end of the range: the expected value misses"
    if members is found.unknown:
        order = "first where least would have to come true"
    return DataTable(
        heading=f"{title}: {len(members)}, {order}", columns=tuple(_columns(found, members))
    )


def _columns(found: Selection, shown: Sequence[Candidate]) -> list[Column]:
    limited = [limit.metric for limit in found.limits]
    metrics = dict.fromkeys((*limited, found.sort, *_ALWAYS))
    open_ = all(c.verdict is Verdict.UNKNOWN for c in shown)
    return [
        words("device", (c.row.hardware for c in shown), "hardware"),
        words("format", (c.row.precision for c in shown), "precision"),
        *runtime_column([c.row for c in shown]),
        *(
            Column(
                title=metric,
                key=metric,
                cells=tuple(value_text(c.row.figures[metric]) for c in shown),
                values=tuple(c.row.figures[metric].value for c in shown),
                priority=0 if metric in limited else 3,
            )
            for metric in metrics
        ),
        words("verdict", (c.verdict.value for c in shown), "verdict", priority=3 if open_ else 1),
        words(
            "would meet with" if open_ else "why",
            map(_why, shown),
            "reason",
            priority=2,
            minimum=24,
            shorten=cut,
        ),
    ]


def _few(table: DataTable, whole: bool) -> DataTable:
    """The first of a long table, with a line about the others."""
    others = table.rows - _FEW
    if whole or others <= 0:
        return replace(table, all=True)
    few = tuple(column.first(_FEW) for column in table.columns)
    return replace(table, columns=few, note=f"{others} more; --verbose shows all.")


def rows(found: Selection) -> DataTable:
    """All candidates in one table, those that meet the limits first."""
    every = (*found.meets, *found.unknown, *found.near, *found.over_power)
    return DataTable(columns=tuple(_columns(found, every)))


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
    verb = "misses" if len(found.failed) == 1 else "miss"
    missed = f"{format_count(len(found.failed), 'device')} {verb} a limit by more than 25 %"
    if found.refused:
        missed += f", {len(found.refused):,} cannot run it as asked"
    if not found.over_power:
        return f"{missed}."
    limit = next(x for x in found.limits if x.metric == "power")
    return (
        f"{missed}; {len(found.over_power):,} more may draw over "
        f"{format_metric('power', limit.value)}: only the thermal design power is known."
    )


def _formats(found: Selection) -> list[str]:
    everyone = (*found.meets, *found.unknown, *found.near)
    if all(c.row.precision_reason.startswith(ASKED) for c in everyone):
        return []
    return ["each device in the format that its engine is made for, because none was given."]
