"""Answers that judge, rank or change: check, select, compare, what-if."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gambrel.chat.answers.analyses import analyses_of, subjects_of
from gambrel.chat.answers.base import Answer, More
from gambrel.chat.command import ANOTHER, TOP, command_of
from gambrel.chat.frame import Frame
from gambrel.report.options import Options
from gambrel.units import format_capacity, format_number, format_si

if TYPE_CHECKING:
    from gambrel.advise.check import Check
    from gambrel.advise.compare import Comparison
    from gambrel.advise.select import Candidate, Selection
    from gambrel.advise.whatif import WhatIf


def answer(frame: Frame, options: Options) -> Answer:
    """Calls the function of the API that the frame asks for."""
    return _BY_INTENT[frame.intent](frame, replace(options, top=TOP))


def _several(frame: Frame) -> dict[str, Any]:
    return {
        "sizes": dict(frame.sizes),
        "phase": frame.phase or None,
        "runtime": frame.runtime or None,
    }


def _single(frame: Frame) -> dict[str, Any]:
    return _several(frame) | {
        "batch_size": frame.batch[0] if frame.batch else None,
        "precision": frame.precision[0] if frame.precision else None,
    }


def _check(frame: Frame, options: Options) -> Answer:
    from gambrel.api.advise import check
    from gambrel.report import render

    found = check(
        frame.models[0],
        frame.hardware[0],
        **dict(frame.limits),
        **_single(frame),
    )
    return _helped(
        Answer(
            frame=frame,
            sentence=_check_sentence(found),
            body=str(render(found, "table", options)),
            command=command_of(frame),
            data=lambda: str(render(found, "json")),
        ),
        found,
        options,
    )


def _helped(base: Answer, found: Check, options: Options) -> Answer:
    """A MARGINAL verdict on time has no fixes: what would make room is what to change."""
    from gambrel.chat.answers.of_analysis import advised

    timed = {"latency", "throughput"} & {c.metric for c in found.constraints}
    if found.verdict.value != "MARGINAL" or not timed:
        return base
    asked = replace(base.frame, intent="recommend", limits=())

    def later() -> More:
        more = advised(asked, options)
        return More(body=more.body, sentence=_room(found, more), extra=more.extra)

    return replace(base, also=(command_of(asked),), later=later)


def _room(found: Check, more: Answer) -> str:
    """Single changes that bring the expected latency below its limit, fastest first."""
    limit = next((c.limit for c in found.constraints if c.metric == "latency"), None)
    if limit is None:
        return f"To gain room: {more.sentence}"
    after = {
        r["change"]: r["latency_after_s"]
        for r in more.extra["advice"]["recommendations"]
        if len(r["changes"]) == 1 and r["latency_after_s"] <= limit
    }
    after = {c: t for c, t in after.items() if not c.startswith(ANOTHER)}
    if not after:
        return "No single change of the catalogue brings the expected latency below the limit."
    told = ", ".join(
        f"{format_si(t, 's', 3)} with {c}" for c, t in sorted(after.items(), key=lambda i: i[1])[:3]
    )
    return f"The expected latency would be {told}."


_VERDICTS: Final = {
    "PASS": "Yes",
    "MARGINAL": "Perhaps",
    "FAIL": "No",
    "UNKNOWN": "Not known",
}


def _check_sentence(found: Check) -> str:
    from gambrel.report.builders.check import limit_text, range_text, value_text

    parts = []
    for c in found.constraints:
        spread = range_text(c.figure)
        within = f" ({spread})" if spread else ""
        gap = ""
        if c.headroom is not None:
            gap = f", {-c.headroom:.0%} beyond it" if c.headroom < 0 else f", {c.headroom:.0%} free"
        parts.append(f"{limit_text(c)}: {c.verdict.value}, {value_text(c.figure)}{within}{gap}")
    text = (
        f"{_VERDICTS[found.verdict.value]}: {found.model} on {found.hardware}, {found.precision}. "
    )
    text += "; ".join(parts) + "."
    return text + _fix_sentence(found)


def _fix_sentence(found: Check) -> str:
    """The best fix of this model on this device; else that only another of them comes closer."""
    if not found.fixes:
        return ""
    own = (f for f in found.fixes if not any(c.startswith(ANOTHER) for c in f.changes))
    fix = next(own, None)
    if fix is not None:
        return f" With {' + '.join(fix.changes)} it would be {fix.verdict.value}."
    fix = found.fixes[0]
    return (
        f" No change to this model on this device meets it; {' + '.join(fix.changes)} would be "
        f"{fix.verdict.value}."
    )


def _select(frame: Frame, options: Options) -> Answer:
    from gambrel.analysis.question import ask
    from gambrel.api.advise import select
    from gambrel.report import render

    asked = _single(frame) | {"precision": frame.precision or None}
    given = {
        "model": frame.models[0],
        "hardware": frame.hardware or None,
        "sort": frame.metrics[0] if frame.metrics else None,
        **dict(frame.limits),
        **asked,
    }
    found = select.answer(ask("select", given), subjects_of(frame.models[0]))
    return Answer(
        frame=frame,
        sentence=_select_sentence(found),
        body=str(render(found, "table", options)),
        command=command_of(frame),
        data=lambda: str(render(found, "json")),
    )


def _select_sentence(found: Selection) -> str:
    limits = ", ".join(limit.text for limit in found.limits)
    head = f"For {found.model} with {limits}: "
    if found.meets:
        names = ", ".join(_candidate(c, found) for c in found.meets[:3])
        return f"{head}{_meeting(found)}, best {found.sort} first: {names}."
    if found.unknown:
        names = ", ".join(_candidate(c, found) for c in found.unknown[:3])
        return (
            f"{head}no device is known to meet all limits. Of {len(found.unknown)} a needed figure "
            f"is unknown, so none of them is a pass; the least open: {names}."
        )
    if found.near:
        names = ", ".join(_candidate(c, found) for c in found.near[:3])
        return f"{head}no device meets all limits; closest: {names}."
    return f"{head}no device meets all limits, nor comes within 25 % of them."


def _meeting(found: Selection) -> str:
    """How many surely meet the limits, and how many only may."""
    sure = sum(c.verdict.value == "PASS" for c in found.meets)
    open_ = len(found.meets) - sure
    if not open_:
        return f"{sure} devices PASS"
    from gambrel.advise.select import expected_beyond

    beyond = sum(map(expected_beyond, found.meets))
    missed = f"; {beyond} of these miss one by the expected value" if beyond else ""
    return (
        f"{sure} devices PASS, {open_} are MARGINAL (a limit lies within the range of its figure"
        f"{missed})"
    )


def _candidate(c: Candidate, found: Selection) -> str:
    from gambrel.report.builders.check import value_text

    metrics = dict.fromkeys((*(x.metric for x in found.limits), found.sort))
    told = ", ".join(f"{m} {value_text(c.row.figures[m])}" for m in metrics if m in c.row.figures)
    return f"{c.row.hardware} ({told}; {c.verdict.value})"


def _compare(frame: Frame, options: Options) -> Answer:
    from gambrel.api.advise import compare
    from gambrel.report import render

    command = command_of(frame)
    metrics = {}
    if "--metric" in command:
        metrics = {"metric": tuple(command[command.index("--metric") + 1].split(","))}
    found = compare(
        frame.models,
        frame.hardware,
        precision=frame.precision or None,
        batch_size=frame.batch or None,
        **metrics,
        **_several(frame),
    )
    return Answer(
        frame=frame,
        sentence=_compare_sentence(found),
        body=str(render(found, "table", options)),
        command=command,
        data=lambda: str(render(found, "json")),
    )


def _compare_sentence(found: Comparison) -> str:
    from gambrel.report.builders.check import range_text, value_text

    metric = found.metrics[0]
    told = []
    for row in found.rows[:4]:
        figure = row.figures[metric]
        spread = range_text(figure)
        batch = f", batch {row.sizes['batch']}" if "batch" in row.sizes else ""
        fits = "; does NOT fit" if row.fits is False else ""
        within = f" ({spread})" if spread else ""
        told.append(
            f"{row.model} on {row.hardware} in {row.precision}{batch}: {metric} "
            f"{value_text(figure)}{within}{fits}"
        )
    if len(found.rows) == 1:
        return f"{told[0]}."
    return f"Best {metric} first. {'; '.join(told)}."


def _what_if(frame: Frame, options: Options) -> Answer:
    from gambrel.advise.whatif import what_if
    from gambrel.report import render

    before, changes = analyses_of(frame)[0], list(frame.changes)
    found = what_if(before, before.with_change(*changes), changes)
    return Answer(
        frame=frame,
        sentence=_what_if_sentence(found),
        body=str(render(found, "table", options)),
        command=command_of(frame),
        data=lambda: str(render(found, "json")),
    )


def _what_if_sentence(found: WhatIf) -> str:
    before, after = found.before, found.after
    head = f"{found.model} on {before.hardware} with {' + '.join(found.changes)}: "
    if found.gain is None:
        return f"{head}the gain is unknown."
    speed = f"{found.gain:.3g}× faster" if found.gain >= 1 else f"{1 / found.gain:.3g}× slower"
    kind = found.gain_kind
    times = [getattr(p.total, f"{kind}_time_s") for p in (before, after)]
    was, then = (format_si(getattr(t, "value", t), "s") for t in times)
    intensity = [p.total.arithmetic_intensity for p in (before, after)]
    bounds = [p.total.bound.value if p.total.bound else "unknown" for p in (before, after)]
    changed = (
        f"stays {bounds[0]}-bound"
        if bounds[0] == bounds[1]
        else f"turns from {bounds[0]}- to {bounds[1]}-bound"
    )
    moved = " to ".join(format_number(i) for i in intensity)
    needs = dict.fromkeys(format_capacity(p.memory_bytes) for p in (before, after))
    memory = " to ".join(needs) if len(needs) > 1 else f"stays {next(iter(needs))}"
    fits = " It would NOT fit." if after.fits is False else ""
    return (
        f"{head}{speed} per item by the {kind} time, {was} to {then} a batch. It {changed}; "
        f"intensity {moved} FLOP/byte; memory {memory}.{fits}"
    )


_BY_INTENT: Final[dict[str, Callable[[Frame, Options], Answer]]] = {
    "check": _check,
    "select": _select,
    "compare": _compare,
    "throughput": _compare,
    "what_if": _what_if,
}
