"""Answers that rest on one analysis of a model on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel.analysis.measures import Bound, Estimate, Limiter
from gambrel.analysis.result import Analysis
from gambrel.chat.answers.analyses import advice_of, analyses_of
from gambrel.chat.answers.base import Answer, More
from gambrel.chat.command import ANOTHER, TOP, command_of
from gambrel.chat.frame import Frame
from gambrel.report.options import Options
from gambrel.report.terms import title
from gambrel.units import format_capacity, format_number, format_percent, format_si

if TYPE_CHECKING:
    from gambrel.advise.recommend import Advice


def answer(frame: Frame, options: Options) -> Answer:
    """Analyzes the model on the device and says what was asked for."""
    if frame.intent == "recommend":
        return advised(frame, options)
    analyses = analyses_of(frame)
    body = "\n".join(_BODIES.get(frame.intent, _lines)(a, frame, options) for a in analyses)
    improvable = frame.intent == "bound" and len(analyses) == 1 and _improvable(analyses[0])
    return Answer(
        frame=frame,
        sentence=" ".join(_premise(a, frame) + _SENTENCES[frame.intent](a) for a in analyses),
        body=body,
        command=command_of(frame),
        data=lambda: _json(analyses, recommend=frame.intent == "bound"),
        notes=_notes(analyses),
        later=partial(_more, analyses[0], options) if improvable else None,
    )


def _more(a: Analysis, options: Options) -> More:
    """The recommendations: many analyses more."""
    from gambrel.report import render

    found = advice_of(a)
    return More(
        body=str(render(found, "table", replace(options, top=TOP))),
        extra={"advice": msgspec.to_builtins(found)},
    )


def advised(frame: Frame, options: Options) -> Answer:
    """What to change, each change analyzed again."""
    from gambrel.report import render

    analyses = analyses_of(frame)[:1]
    found = advice_of(analyses[0])
    return Answer(
        frame=frame,
        sentence=_advice_sentence(analyses[0], found),
        body=str(render(found, "table", options)),
        command=command_of(frame),
        data=lambda: _json(analyses, recommend=True),
        notes=_notes(analyses),
        extra={"advice": msgspec.to_builtins(found)},
    )


def _notes(analyses: Sequence[Analysis]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for a in analyses for n in (*a.assumptions, *a.warnings)))


def _json(analyses: Sequence[Analysis], *, recommend: bool) -> str:
    from gambrel.report import render

    return str(render(tuple(analyses), "json", Options(recommend=recommend)))


def _verdict(a: Analysis) -> str:
    return f"{a.bound.value}-bound" if a.bound else "of unknown bound"


def _bound(a: Analysis) -> str:
    parts = [f"{title(a)} is {_verdict(a)}: {_against_ridge(a)}."]
    if a.roofline_time_s is not None:
        parts.append(
            f"At the bound, {format_si(a.roofline_time_s, 's')}, compute is used to "
            f"{format_percent(a.compute_utilization)} and memory to "
            f"{format_percent(a.memory_utilization)}."
        )
    parts += _op_by_op(a)
    if a.limited_by is Limiter.LAUNCHES and a.expected_time_s is not None:
        share = format_percent(a.expected_time_s.launches_share)
        expected = format_si(a.expected_time_s.value, "s")
        parts.append(
            f"In practice starting kernels takes {share} of the {expected} expected: it runs "
            f"overhead-bound.{_saved(a)}"
        )
    return " ".join(parts)


def _saved(a: Analysis) -> str:
    """What the next runtime would take instead."""
    found = a.launch_saving()
    if found is None or found.runtime_time_s is None or found.runtime_gain is None:
        return ""
    return (
        f" As {found.runtime} it is expected to take {format_si(found.runtime_time_s.value, 's')}, "
        f"{format_number(found.runtime_gain, 3)}× as fast, with {found.runtime_launches:,} kernels."
    )


def _against_ridge(a: Analysis) -> str:
    """Intensity against the ridge point; and what decides where the two disagree with the bound."""
    own = f"its arithmetic intensity is {format_number(a.arithmetic_intensity)} FLOP/byte"
    if a.ridge_point is None:
        return f"{own}, and the ridge point of the device is unknown"
    below = a.arithmetic_intensity < a.ridge_point
    said = (
        f"{own}, {'below' if below else 'above'} the ridge point of {format_number(a.ridge_point)}"
    )
    agree = a.bound is (Bound.MEMORY if below else Bound.COMPUTE)
    if a.bound is None or agree:
        return said
    busiest = max(a.total.times, key=lambda t: t.time_s)
    return f"{said}; summed over the ops, {busiest.resource} is nevertheless the busiest resource"


def _op_by_op(a: Analysis) -> list[str]:
    """Where most of the time lies in ops of another bound than the whole has."""
    if a.bound is None or not a.bound_shares:
        return []
    name, share = max(a.bound_shares.items(), key=lambda item: item[1])
    if name == a.bound.value:
        return []
    return [
        f"Op by op, however, {format_percent(share)} of the bound time goes into {name}-bound "
        "ops; only the sum keeps the other resource busier."
    ]


def _intensity(a: Analysis) -> str:
    return (
        f"{title(a)}: {format_number(a.arithmetic_intensity)} FLOP/byte "
        f"({format_si(a.flops, 'FLOP')} for {format_si(a.traffic_bytes, 'B')} of {a.runtime} "
        f"traffic). {_ridge_sentence(a)}"
    )


def _ridge_sentence(a: Analysis) -> str:
    if a.ridge_point is None:
        return "The ridge point of the device is unknown."
    side = "below" if a.arithmetic_intensity < a.ridge_point else "above"
    return f"That is {side} the ridge point of {format_number(a.ridge_point)}: {_verdict(a)}."


def expected_text(time: Estimate | None) -> str:
    """``"745.7 µs (511 µs to 1.42 ms)"``, or that nothing is known."""
    if time is None:
        return "unknown"
    low, high = format_si(time.low, "s", 3), format_si(time.high, "s", 3)
    return f"{format_si(time.value, 's')} ({low} to {high}), {time.confidence} confidence"


def _latency(a: Analysis) -> str:
    bound = f"no run is faster than the bound of {format_si(a.roofline_time_s, 's')}"
    if a.roofline_time_s is None:
        bound = "no bound is known either"
    if a.expected_time_s is None:
        return f"{title(a)}: no expected time is known for this device; {bound}."
    share = format_percent(a.expected_time_s.launches_share)
    return (
        f"{title(a)}: expected {expected_text(a.expected_time_s)}; {bound}. "
        f"Starting kernels takes {share} of the expected time."
    )


def _memory(a: Analysis) -> str:
    need, capacity = a.footprint.total_bytes, a.footprint.capacity_bytes
    text = f"{title(a)} needs {format_capacity(need)}"
    fits = {
        True: f"it fits into the {format_capacity(capacity)} of the device",
        False: f"it does NOT fit into the {format_capacity(capacity)} of the device",
        None: "the capacity of the device is unknown",
    }[a.footprint.fits]
    return f"{text}: {fits}."


def _energy(a: Analysis) -> str:
    found = a.energy
    if found is None or found.energy_j is None:
        why = found.reason if found else "no constants serve this device"
        return f"{title(a)}: the energy is unknown ({why})."
    return (
        f"{title(a)}: about {format_si(found.energy_per_inference_j, 'J', 3)} an inference, "
        f"{format_si(found.average_power_w, 'W', 3)} on average while it runs "
        f"({found.confidence} confidence; an estimate that leaves parts out)."
    )


def _power(a: Analysis) -> str:
    found, cap = a.energy, a.hardware.tdp_w
    limit = f"at most its TDP of {format_si(cap, 'W')}" if cap else "its TDP is unknown"
    if found is None or found.average_power_w is None:
        why = f" ({found.reason})" if found and found.reason else ""
        return f"{title(a)}: the average power is unknown{why}; {limit}."
    return (
        f"{title(a)}: at least about {format_si(found.average_power_w, 'W', 3)} while it runs, "
        f"an estimate of {found.confidence} confidence that leaves parts out; {limit}."
    )


def _utilization(a: Analysis) -> str:
    text = (
        f"{title(a)}: at the bound, compute {format_percent(a.compute_utilization)}, memory "
        f"{format_percent(a.memory_utilization)} of peak."
    )
    if a.expected_time_s is None or not a.roofline_time_s:
        return text
    times = format_number(a.expected_time_s.value / a.roofline_time_s, 3)
    return f"{text} The expected time is {times}× the bound, so a real run uses that much less."


def _why(a: Analysis) -> str:
    shares = sorted(a.bound_shares.items(), key=lambda item: -item[1])
    spent = ", ".join(f"{format_percent(share)} in {name}-bound ops" for name, share in shares)
    groups = ", ".join(
        f"{g.name} {format_percent(g.measures.time_share)} "
        f"(intensity {format_number(g.measures.arithmetic_intensity)})"
        for g in a.by_kind[:3]
    )
    overhead = ""
    if a.limited_by is Limiter.LAUNCHES and a.expected_time_s is not None:
        share = format_percent(a.expected_time_s.launches_share)
        overhead = (
            f" Of the expected time {share} goes into starting kernels ({a.launches} of them)."
            f"{_saved(a)}"
        )
    shown = " ".join(_op_by_op(a)) or f"Of the bound time it spends {spent}."
    return (
        f"{title(a)} is {_verdict(a)} because {_against_ridge(a)}. {shown} By kind: "
        f"{groups}.{overhead}"
    )


def _premise(a: Analysis, frame: Frame) -> str:
    """That a question why takes for granted what is not so."""
    if frame.intent != "why" or not frame.term or a.bound is None:
        return ""
    in_practice = f"{a.limited_by.value}-bound" if a.limited_by else ""
    if frame.term in {_verdict(a), in_practice}:
        return ""
    return f"It is not {frame.term} here: "


def _ops(a: Analysis) -> str:
    from gambrel.report.builders.analysis import slowest
    from gambrel.report.text import clean

    ranked = slowest(a)[:3]
    if not ranked:
        return f"{title(a)} has no op that costs anything."
    told = ", ".join(
        f"{clean(op.name)}{f' ×{op.count:,}' if op.count > 1 else ''} "
        f"({format_percent(op.measures.time_share)})"
        for op in ranked
    )
    return f"{title(a)}: most of the bound time takes {told}."


#: What the first recommendation is the best of.
_GROUPS: Final = {
    "software": "the largest gain with the same model and batch",
    "batch": "the largest gain, with a larger batch that takes longer itself",
    "retrain": "the largest gain, only after retraining",
    "replace": "the largest gain, with another model or device",
}


def _advice_sentence(a: Analysis, found: Advice) -> str:
    if found.stop:
        return found.stop
    if not found.recommendations:
        return f"{title(a)}: no change of the catalogue makes an item 5 % faster."
    best = found.recommendations[0]
    singles = (r for r in found.recommendations if len(r.changes) == 1)
    single = next((r for r in singles if not r.change.startswith(ANOTHER)), best)
    text = (
        f"{title(a)}: {_GROUPS[best.effort]}, {best.gain:.2f}× per item "
        f"({format_si(best.time_before_s, 's', 3)} to {format_si(best.time_after_s, 's', 3)}, "
        f"{best.time_kind}), comes from {best.change}"
    )
    if single is not best:
        text += f"; the best single change is {single.change}, {single.gain:.2f}×"
    return f"{text}."


def _improvable(a: Analysis) -> bool:
    """Whether there is a time to improve on."""
    return a.workload is not None and a.roofline_time_s is not None


_SENTENCES: Final[dict[str, Callable[[Analysis], str]]] = {
    "bound": _bound,
    "intensity": _intensity,
    "latency": _latency,
    "memory": _memory,
    "energy": _energy,
    "power": _power,
    "utilization": _utilization,
    "why": _why,
    "ops": _ops,
}

#: Labels of the summary that stand below the sentence.
_LABELS: Final[dict[str, tuple[str, ...]]] = {
    "intensity": ("Work", "Traffic", "Intensity", "Roofline"),
    "latency": ("Expected", "Roofline", "Speed of light"),
    "memory": ("Memory", "Model"),
    "energy": ("Energy", "Expected"),
    "power": ("Energy", "Expected"),
    "utilization": ("Utilization", "Rate", "Expected"),
    "bound": ("Precision", "Roofline", "Expected"),
}


def _lines(a: Analysis, frame: Frame, options: Options) -> str:
    from gambrel.report.blocks import FactList
    from gambrel.report.builders.figures_of import facts
    from gambrel.report.terminal import render_block

    wanted = _LABELS[frame.intent]
    found = dict(facts(a))
    rows = tuple((label, found[label]) for label in wanted if label in found)
    return render_block(FactList(items=rows), options)


def _kinds(a: Analysis, _frame: Frame, options: Options) -> str:
    from gambrel.report.builders.analysis import kinds_table
    from gambrel.report.terminal import render_block

    return render_block(kinds_table(a), options)


def _slowest(a: Analysis, _frame: Frame, options: Options) -> str:
    from gambrel.report.builders.analysis import ops_table
    from gambrel.report.terminal import render_block

    return render_block(ops_table(a), replace(options, top=2 * TOP))


_BODIES: Final[dict[str, Callable[[Analysis, Frame, Options], str]]] = {
    "why": _kinds,
    "ops": _slowest,
}
