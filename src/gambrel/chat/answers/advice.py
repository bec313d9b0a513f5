"""Answers that judge, rank or change: check, select, compare, what-if."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel.chat.answers.base import Answer
from gambrel.chat.answers.results import advice_of, analyses_of, result_of
from gambrel.chat.command import ANOTHER
from gambrel.chat.frame import Frame
from gambrel.report import document
from gambrel.report.builders.check import range_text, value_text
from gambrel.report.terms import LIMITERS, limiter_of
from gambrel.units import format_capacity, format_number, format_si

if TYPE_CHECKING:
    from gambrel.advise.check import Check
    from gambrel.advise.compare import Comparison, Row
    from gambrel.advise.judge.records import Judgement
    from gambrel.advise.select import Candidate, Selection
    from gambrel.advise.whatif import WhatIf
    from gambrel.analysis.result import Analysis


def answer(frame: Frame) -> Answer:
    """Calls the function of the API that the frame asks for."""
    return _BY_INTENT[frame.intent](frame, result_of(frame))


#: Verdict → the answer to "can it?".
_VERDICTS: Final = {"PASS": "Yes", "MARGINAL": "Perhaps", "FAIL": "No", "UNKNOWN": "Not known"}
_PROOFS: Final = {"sol": ", the limit is beyond the speed of light", "expected": ""}


def _check(frame: Frame, found: Check) -> Answer:
    tables = sorted(document(found).tables[1:], key=lambda table: table.heading == "Tried")
    return Answer(
        frame=frame,
        sentence=_check_sentence(found),
        record=found,
        blocks=tuple(tables),
        later=_room_for(frame, found),
    )


def _judge(frame: Frame, found: Judgement) -> Answer:
    shown = document(found)
    sentence = ". ".join((f"{shown.title}: {shown.answer[0]}", *shown.answer[1:]))
    return Answer(frame=frame, sentence=f"{sentence}.", record=found)


def _check_sentence(found: Check) -> str:
    proof = _PROOFS.get(found.proof or "", "")
    lines = "; ".join(document(found).answer[1:])
    return (
        f"{_VERDICTS[found.verdict.value]} ({found.verdict.value}{proof}): {found.model} on "
        f"{found.hardware}, {found.precision}, under {found.runtime}. {lines}."
        f"{_fix_sentence(found)}"
    )


def _fix_sentence(found: Check) -> str:
    """The best fix of this model on this device; else what only comes closer."""
    if not found.fixes:
        return ""
    own = [f for f in found.fixes if not any(c.startswith(ANOTHER) for c in f.changes)]
    fix = (own or found.fixes)[0]
    changes = " + ".join(fix.changes)
    if fix.verdict.value == "FAIL":
        return f" No change of the catalogue meets it; {changes} comes closest."
    if own:
        return f" With {changes} it would be {fix.verdict.value}."
    return (
        f" No change to this model on this device meets it; {changes} would be {fix.verdict.value}."
    )


def _room_for(frame: Frame, found: Check) -> Callable[[], tuple[Answer, ...]] | None:
    """A MARGINAL verdict on time has no fixes: what would make room is what to change."""
    timed = {"latency", "throughput"} & {c.metric for c in found.constraints}
    if found.verdict.value != "MARGINAL" or not timed:
        return None
    batch = found.sizes.get("batch")
    asked = replace(
        frame,
        intent="recommend",
        limits=(),
        runtime=(found.runtime,),
        batch=(batch,) if batch and "throughput" in timed else frame.batch,
    )
    return lambda: (_room(asked, found),)


def _room(frame: Frame, found: Check) -> Answer:
    """Single changes that bring the expected latency below its limit, fastest first."""
    from gambrel.chat.answers.analysis import advised, changes_table

    more = advised(frame)
    limit = next((c.limit for c in found.constraints if c.metric == "latency"), None)
    if limit is None:
        return replace(more, sentence=f"To gain room: {more.sentence}")
    changes = [
        r
        for r in advice_of(analyses_of(frame)[0]).recommendations
        if len(r.changes) == 1
        and r.latency_after_s <= limit
        and not r.change.startswith(ANOTHER)
        and r.time_kind == "expected"
    ]
    fastest = sorted(changes, key=lambda r: r.latency_after_s)
    told = ", ".join(f"{format_si(r.latency_after_s, 's', 3)} with {r.change}" for r in fastest[:3])
    sentence = f"More room: the expected latency would be {told}."
    if not told:
        sentence = "No single change of the catalogue brings the expected latency below the limit."
    return replace(more, sentence=sentence, blocks=(changes_table(fastest),) if fastest else ())


def _select(frame: Frame, found: Selection) -> Answer:
    tables = tuple(t for t in document(found).tables if t.rows)
    return Answer(frame=frame, sentence=_select_sentence(found), record=found, blocks=tables)


def _select_sentence(found: Selection) -> str:
    limits = ", ".join(limit.text for limit in found.limits)
    head = f"For {found.model} with {limits}: "
    if found.meets:
        return f"{head}{_meeting(found)}. Best {found.sort}: {_candidate(found.meets[0], found)}."
    if found.unknown:
        return (
            f"{head}no device is known to meet all limits. Of {len(found.unknown)} a needed figure "
            "is unknown, so none of them is a pass; the least open: "
            f"{_candidate(found.unknown[0], found)}."
        )
    if found.near:
        return f"{head}no device meets all limits; closest: {_candidate(found.near[0], found)}."
    return f"{head}no device meets all limits, nor comes within 25 % of them."


def _meeting(found: Selection) -> str:
    """How many surely meet the limits, and how many only may."""
    from gambrel.advise.verdict import expected_beyond

    sure = sum(c.verdict.value == "PASS" for c in found.meets)
    if sure == len(found.meets):
        return f"{sure} devices PASS"
    beyond = sum(expected_beyond(one.verdict, one.constraints) for one in found.meets)
    missed = f"; {beyond} of these miss one by the expected value" if beyond else ""
    return (
        f"{len(found.meets)} may meet them: {sure} devices PASS, the others are MARGINAL (a limit "
        f"lies within the range of its figure{missed})"
    )


def _candidate(c: Candidate, found: Selection) -> str:
    metrics = dict.fromkeys((*(x.metric for x in found.limits), found.sort))
    told = ", ".join(f"{m} {value_text(c.row.figures[m])}" for m in metrics if m in c.row.figures)
    return f"{c.row.hardware} ({told}; {c.verdict.value})"


def _compare(frame: Frame, found: Comparison) -> Answer:
    table = msgspec.structs.replace(document(found).tables[0], note="") if found.rows else None
    several = len(found.rows) > 1 and frame.hardware != ("all",)
    timed = several and found.metrics[0] in {"latency", "throughput"}
    timed = timed and all(row.figures[found.metrics[0]].known for row in found.rows[:2])
    return Answer(
        frame=frame,
        sentence=_compare_sentence(found),
        record=found,
        blocks=(table,) if table else (),
        later=(lambda: _reasons(frame, found.rows)) if timed else _larger(frame, found),
    )


def _larger(frame: Frame, found: Comparison) -> Callable[[], tuple[Answer, ...]] | None:
    """A throughput without a batch is that of the smallest: what larger ones reach."""
    if frame.intent != "throughput" or frame.batch or frame.phase or len(found.rows) != 1:
        return None
    from gambrel.chat.answers.batches import answer as batches

    row = found.rows[0]
    asked = replace(
        frame, intent="batch", precision=(row.precision,), runtime=(row.runtime,), metrics=()
    )
    return lambda: (replace(batches(asked), blocks=()),)


def _compare_sentence(found: Comparison) -> str:
    metric, rows = found.metrics[0], found.rows
    told = []
    for row in rows[:4]:
        spread = range_text(row.figures[metric])
        batch = f", batch {row.sizes['batch']}" if "batch" in row.sizes else ""
        within = f" ({spread})" if spread else ""
        told.append(
            f"{row.model} on {row.hardware} in {row.precision}{batch}, {row.runtime}: {metric} "
            f"{value_text(row.figures[metric])}{within}"
            f"{'; does NOT fit' if row.fits is False else ''}"
        )
    first = f"Best {metric} first. " if len(rows) > 1 else ""
    return f"{first}{'; '.join(told)}."


def _reasons(frame: Frame, rows: Sequence[Row]) -> tuple[Answer, ...]:
    """Why the first row is ahead of the second: what limits each, and their roofs."""
    frames = [_alone(frame, row) for row in rows[:2]]
    first, second = (analyses_of(own)[0] for own in frames)
    why = f"Why {_name(first, second)}: {_roofs(first, second)}; {_roofs(second, first)}."
    return (
        Answer(frame=frames[0], sentence=why, record=first),
        Answer(frame=frames[1], sentence="", record=second),
    )


def _alone(frame: Frame, row: Row) -> Frame:
    """The question about one row of a comparison."""
    return replace(
        frame,
        intent="latency",
        models=(row.model.removesuffix(f"-{frame.phase}"),),
        hardware=(row.hardware,),
        precision=(row.precision,),
        runtime=(row.runtime,),
        batch=(row.sizes["batch"],) if "batch" in row.sizes else (),
        metrics=(),
    )


def _name(a: Analysis, other: Analysis) -> str:
    """What tells two analyses apart."""
    for one, two in (
        (a.hardware.id, other.hardware.id),
        (a.model.name, other.model.name),
        (a.runtime_name, other.runtime_name),
        (a.model.precision, other.model.precision),
    ):
        if one != two:
            return str(one)
    return f"batch {a.model.symbols.get('batch', 1)}"


def _roofs(a: Analysis, other: Analysis) -> str:
    """What limits one of two analyses, and the rates that it is held against."""
    limiter = limiter_of(a)
    told = _name(a, other)
    named = "" if told in {a.hardware.id, a.model.name} else f" ({told})"
    limits = f"limited by {LIMITERS[limiter]}" if limiter else "limited by something unknown"
    work = _held(a.flops, "FLOP", a.total.peak_flop_per_s)
    traffic = _held(a.traffic_bytes, "B", a.total.peak_byte_per_s)
    return (
        f"{a.model.name} on {a.hardware.id}{named} is {limits}, roofline "
        f"{format_si(a.roofline_time_s, 's', 3)} for {work} and {traffic}"
    )


def _held(amount: float | None, unit: str, rate: float | None) -> str:
    """An amount and its roof, where that is published."""
    roof = "" if rate is None else f" at {format_si(rate, f'{unit}/s', 3)}"
    return f"{format_si(amount, unit, 3)}{roof}"


def _what_if(frame: Frame, found: WhatIf) -> Answer:
    tables = tuple(msgspec.structs.replace(t, all=False) for t in document(found).tables[1:2])
    return Answer(frame=frame, sentence=_what_if_sentence(found), record=found, blocks=tables)


def _what_if_sentence(found: WhatIf) -> str:
    sides = (found.before, found.after)
    head = f"{found.model} on {found.before.hardware} with {' + '.join(found.changes)}: "
    if found.gain is None:
        return f"{head}the gain is unknown."
    speed = f"{found.gain:.3g}× faster" if found.gain >= 1 else f"{1 / found.gain:.3g}× slower"
    times = [getattr(p.total, f"{found.gain_kind}_time_s") for p in sides]
    shown = " to ".join(format_si(getattr(t, "value", t), "s") for t in times)
    bounds = [p.total.bound.value if p.total.bound else "unknown" for p in sides]
    changed = (
        f"stays {bounds[0]}-bound"
        if bounds[0] == bounds[1]
        else f"turns from {bounds[0]}- to {bounds[1]}-bound"
    )
    moved = " to ".join(format_number(p.total.arithmetic_intensity) for p in sides)
    needs = dict.fromkeys(format_capacity(p.memory_bytes) for p in sides)
    memory = " to ".join(needs) if len(needs) > 1 else f"stays {next(iter(needs))}"
    fits = " It would NOT fit." if found.after.fits is False else ""
    return (
        f"{head}{speed} per item by the {found.gain_kind} time, {shown} per batch. It {changed}; "
        f"intensity {moved} FLOP/byte; memory {memory}.{fits}"
    )


_BY_INTENT: Final[dict[str, Callable[..., Answer]]] = {
    "check": _check,
    "judge": _judge,
    "select": _select,
    "compare": _compare,
    "throughput": _compare,
    "what_if": _what_if,
}
