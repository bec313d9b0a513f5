"""Answers that rest on one analysis of a model on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel.analysis.measures import Bound
from gambrel.analysis.result import Analysis
from gambrel.chat.answers.base import Answer
from gambrel.chat.answers.plans import first_token
from gambrel.chat.answers.results import advice_of, analyses_of
from gambrel.chat.command import ANOTHER
from gambrel.chat.frame import Frame
from gambrel.report.blocks import Block, DataTable, figures, seconds, words
from gambrel.report.builders.analysis import answer as lead
from gambrel.report.builders.analysis import kinds_table, limited_share, ops_table, slowest
from gambrel.report.builders.analysis import light as _light
from gambrel.report.terms import LIMITERS, estimate_text, limiter_of, title, utilization_text
from gambrel.report.text import clean
from gambrel.units import format_capacity, format_number, format_percent, format_si

if TYPE_CHECKING:
    from gambrel.advise.recommend import Advice, Recommendation


def answer(frame: Frame) -> Answer:
    """Analyzes the model on the device and says what was asked for."""
    if frame.intent == "recommend":
        return advised(frame)
    analyses = analyses_of(frame)
    improvable = frame.intent == "bound" and len(analyses) == 1 and _improvable(analyses[0])
    sentence = " ".join(_premise(a, frame) + _said(frame)(a) for a in analyses)
    if frame.term == "TTFT" and len(analyses) == 1:
        sentence += first_token(frame)
    return Answer(
        frame=frame,
        sentence=sentence,
        record=_record(analyses),
        blocks=tuple(_BLOCKS[frame.intent](a) for a in analyses if frame.intent in _BLOCKS),
        later=(lambda: (_recommended(frame, analyses[0]),)) if improvable else None,
    )


def _said(frame: Frame) -> Callable[[Analysis], str]:
    """The sentence of a question."""
    light = frame.intent == "latency" and frame.term == "speed of light"
    return _speed_of_light if light else _SENTENCES[frame.intent]


def _speed_of_light(a: Analysis) -> str:
    """The limit first, then what is expected."""
    light = _light(a)
    time, _, _ = lead(a)
    return f"{title(a)}: {light}. Under {a.runtime_name}: {_line(time)}.{_too_large(a)}"


def _record(analyses: Sequence[Analysis]) -> object:
    from gambrel.report.answers import Analyses

    return analyses[0] if len(analyses) == 1 else Analyses(analyses=tuple(analyses))


def advised(frame: Frame) -> Answer:
    """What to change, each change analyzed again."""
    analysis = analyses_of(frame)[0]
    found = advice_of(analysis)
    return replace(_recommended(frame, analysis), sentence=_best(analysis, found), record=analysis)


def _recommended(frame: Frame, analysis: Analysis) -> Answer:
    """The recommendations: many analyses more."""
    found = advice_of(analysis)
    table = changes_table(found.recommendations)
    return Answer(frame=frame, sentence=found.stop, record=found, blocks=(table,))


def changes_table(changes: Sequence[Recommendation]) -> DataTable:
    """Changes, those with an expected gain first."""
    known = sorted(changes, key=lambda r: r.time_kind != "expected")
    return DataTable(
        heading="Recommendations" if known else "",
        columns=(
            words("change", (r.change for r in known), minimum=20),
            figures("gain per item", (r.gain for r in known), lambda v: f"{v:.2f}×"),
            figures("before", (r.time_before_s for r in known), seconds),
            figures("after", (r.time_after_s for r in known), seconds),
            words("time", (r.time_kind for r in known), priority=1),
            words("asks for", (r.effort for r in known), priority=2),
        ),
        note="" if known else "No change of the catalogue makes an item 5 % faster.",
    )


def _verdict(a: Analysis) -> str:
    return f"{a.bound.value}-bound" if a.bound else "of unknown bound"


def _bound(a: Analysis) -> str:
    if a.bound is None and a.expected_time_s is not None:  # what is known comes first
        own = f"its arithmetic intensity is {format_number(a.arithmetic_intensity)} FLOP/byte"
        return f"{_latency(a)} The roofline's verdict is unknown, as a roof is; {own}."
    used = f" Utilization: {utilization_text(a.total)}." if a.roofline_time_s else ""
    found = f"{title(a)} is {_verdict(a)}: {_against_ridge(a)}.{used} {_in_practice(a)}"
    return f"{found}{_too_large(a)}"


def _in_practice(a: Analysis) -> str:
    """What limits a run, and how long it takes."""
    limiter, share = limiter_of(a), limited_share(a)
    if a.expected_time_s is None or limiter is None:
        return f"In practice: {_line(lead(a)[0])}."
    taken = "" if share is None else f" ({format_percent(share)} of the time)"
    return (
        f"In practice it is limited by {LIMITERS[limiter]}{taken}: under {a.runtime_name} it is "
        f"expected to take {estimate_text(a.expected_time_s)}; speed of light "
        f"{format_si(a.sol_time_s, 's')}."
    )


def _line(text: str) -> str:
    """``"Expected: 3 ms"`` → ``"expected 3 ms"``, for the middle of a sentence."""
    label, _, rest = text.partition(": ")
    return f"{label[:1].lower()}{label[1:]} {rest}".strip()


def _against_ridge(a: Analysis) -> str:
    """Intensity against the ridge point; and what decides where the two disagree with the bound."""
    own = f"its arithmetic intensity is {format_number(a.arithmetic_intensity)} FLOP/byte"
    if a.ridge_point is None:
        return f"{own}, and the ridge point of the device is unknown"
    below = a.arithmetic_intensity < a.ridge_point
    side = "below" if below else "above"
    said = f"{own}, {side} the ridge point of {format_number(a.ridge_point)}"
    if a.bound is None or a.bound is (Bound.MEMORY if below else Bound.COMPUTE):
        return said
    busiest = max(a.total.times, key=lambda t: t.time_s)
    return f"{said}; summed over the ops, {busiest.resource} is nevertheless the busiest resource"


def _intensity(a: Analysis) -> str:
    side = "of an unknown ridge point"
    if a.ridge_point is not None:
        below = "below" if a.arithmetic_intensity < a.ridge_point else "above"
        side = f"{below} the ridge point of {format_number(a.ridge_point)}"
    return (
        f"{title(a)}: {format_number(a.arithmetic_intensity)} FLOP/byte "
        f"({format_si(a.flops, 'FLOP')} for {format_si(a.traffic_bytes, 'B')} of DRAM traffic "
        f"under {a.runtime_name}), {side}: {_verdict(a)}."
    )


def _latency(a: Analysis) -> str:
    time, limits, _ = lead(a)
    if a.expected_time_s is None:
        limits = f"{_verdict(a).capitalize()}; speed of light {format_si(a.sol_time_s, 's')}"
    said = _line(limits)
    text = f"{title(a)} under {a.runtime_name}: {_line(time)}. {said[:1].upper()}{said[1:]}."
    return f"{text}{_too_large(a)}"


def _too_large(a: Analysis) -> str:
    """That it would not run at all; nothing where it fits or that is unknown."""
    if a.footprint.fits is not False:
        return ""
    own = format_capacity(a.footprint.total_bytes)
    capacity = format_capacity(a.footprint.capacity_bytes)
    return f" It needs {own} and does NOT fit into the {capacity} of the device."


def _memory(a: Analysis) -> str:
    capacity = format_capacity(a.footprint.capacity_bytes)
    fits = {
        True: f"it fits into the {capacity} of the device",
        False: f"it does NOT fit into the {capacity} of the device",
        None: "the capacity of the device is unknown",
    }[a.footprint.fits]
    return f"{title(a)} needs {format_capacity(a.footprint.total_bytes)}: {fits}."


def _energy(a: Analysis) -> str:
    found = a.energy
    if found is None or found.energy_j is None:
        why = found.reason if found else "no constants serve this device"
        return f"{title(a)}: the energy is unknown ({why})."
    return (
        f"{title(a)}: about {format_si(found.energy_per_inference_j, 'J', 3)} per inference, "
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
    text = f"{title(a)}: {utilization_text(a.total)}."
    if a.expected_time_s is None or not a.roofline_time_s:
        return text
    times = format_number(a.expected_time_s.value / a.roofline_time_s, 3)
    return (
        f"{text} The time expected under {a.runtime_name} is {times}× the roofline, so a real run "
        "utilizes that much less."
    )


def _why(a: Analysis) -> str:
    shares = sorted(a.bound_shares.items(), key=lambda item: -item[1])
    spent = ", ".join(f"{format_percent(share)} in {name}-bound ops" for name, share in shares)
    groups = ", ".join(
        f"{g.name} {format_percent(g.measures.time_share)} "
        f"(intensity {format_number(g.measures.arithmetic_intensity)})"
        for g in a.by_kind[:3]
    )
    return (
        f"{title(a)} is {_verdict(a)} because {_against_ridge(a)}. Of the roofline time it spends "
        f"{spent}; by kind: {groups}. {_in_practice(a)}"
    )


def _premise(a: Analysis, frame: Frame) -> str:
    """That a question why takes for granted what is not so."""
    if frame.intent != "why" or not frame.term or a.bound is None:
        return ""
    in_practice = f"{limiter_of(a)}-bound".replace("launches", "launch")
    if frame.term in {_verdict(a), in_practice, in_practice.replace("launch", "overhead")}:
        return ""
    return f"It is not {frame.term} here: "


def _ops(a: Analysis) -> str:
    ranked = slowest(a)[:3]
    if not ranked:
        return f"{title(a)} has no op that costs anything."
    names = (f"{clean(op.name)}{f' ×{op.count:,}' if op.count > 1 else ''}" for op in ranked)
    return f"{title(a)} under {a.runtime_name}: {', '.join(names)} take longest."


#: What the first recommendation is the best of.
_GROUPS: Final = {
    "software": "the largest gain with the same model and batch",
    "batch": "the largest gain, with a larger batch that takes longer itself",
    "retrain": "the largest gain, only after retraining",
    "replace": "the largest gain, with another model or device",
}


def _best(a: Analysis, found: Advice) -> str:
    if found.stop or not found.recommendations:
        return found.stop or f"{title(a)}: no change of the catalogue makes an item 5 % faster."
    best = found.recommendations[0]
    singles = (r for r in found.recommendations if len(r.changes) == 1)
    single = next((r for r in singles if not r.change.startswith(ANOTHER)), best)
    other = f"; the best single change is {single.change}, {single.gain:.2f}×"
    return (
        f"{title(a)}: {_GROUPS[best.effort]}, {best.gain:.2f}× per item "
        f"({format_si(best.time_before_s, 's', 3)} to {format_si(best.time_after_s, 's', 3)}, "
        f"{best.time_kind}), comes from {best.change}{other if single is not best else ''}."
    )


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
_BLOCKS: Final[dict[str, Callable[[Analysis], Block]]] = {
    "why": lambda a: msgspec.structs.replace(kinds_table(a), all=False),
    "ops": ops_table,
}
