"""The public functions that advise: does it meet its targets, which device, what if."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gambrel.analysis.question import FIELDS, PRINT, TARGETS, Question
from gambrel.analysis.result import Analysis
from gambrel.api.analyze import answers, request_of, settings_of, sizes_of
from gambrel.api.faces import asks
from gambrel.device.modes import with_modes
from gambrel.device.resolve import asked_device, asked_devices, prices_of
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.advise.check import Check, Trial
    from gambrel.advise.compare import Comparison
    from gambrel.advise.fleet import Fleet, Point
    from gambrel.advise.limits import Limit
    from gambrel.advise.recommend import Advice
    from gambrel.advise.select import Selection
    from gambrel.advise.subjects import Subject
    from gambrel.advise.whatif import WhatIf
    from gambrel.workload import Workload

#: Devices from which on ops that share a formula are predicted together.
_MANY: Final = 50


@asks("check")
def check(question: Question) -> Check:
    """Whether a model on a device meets limits, and what would help where it does not.

    Without a runtime every one that runs there is tried, without a batch a throughput is looked for
    at any: a FAIL says that all of them fail.

    Returns:
        The verdict of each limit and overall; for a FAIL, changes that would make it pass.

    Raises:
        InputError: No limit, a limit without a unit, no model or no hardware.
    """
    from gambrel.advise.changes import case_of
    from gambrel.advise.check import check as check_analysis
    from gambrel.advise.check import trials
    from gambrel.advise.fixes import with_fixes

    question, limits = _required(question)
    device, _ = asked_device(question.hardware, question.peak, question.bandwidth)
    subject, _ = _subject(question, question.model, question.batch_size)
    tried = trials(subject, device, question.precision, limits)
    best = tried[0][0]
    chosen = replace(question, runtime=best.runtime, batch_size=_batch(subject, best))
    analysis = answers(chosen)[0]
    found = check_analysis(analysis, limits)
    case = case_of(analysis, settings_of(question).calibration)
    # Where the runtime was left open, all of them have been tried.
    without = () if question.runtime else ("runtime", "fuse", "graphs")
    found = with_fixes(found, case, limits, without)
    notes = (*_tried_note([trial for trial, _ in tried]), *found.notes)
    return msgspec.structs.replace(
        found, tried=tuple(t for t, _ in tried), notes=notes, asked=_stated(question)
    )


def _stated(question: Question) -> dict[str, Any]:
    """What was asked about as texts, without the limits and how to print."""
    from gambrel.analysis.commandline import stated

    return {
        field.name: value if value is True else field.texts(value)
        for field, value in ((FIELDS[n], v) for n, v in stated(question).items())
        if field.group not in (PRINT, TARGETS) and value is not False and value != field.default
    }


def _batch(subject: Subject, best: Trial) -> int | None:
    known = "batch" in subject.fleet().sizes
    return best.batch_size if known else subject.batch


def _tried_note(tried: Sequence[Trial]) -> tuple[str, ...]:
    if len(tried) < 2:
        return ()
    names = ", ".join(sorted({trial.runtime for trial in tried}))
    batches = sorted({trial.batch_size for trial in tried})
    at = f" at batches {batches[0]:,} to {batches[-1]:,}" if len(batches) > 1 else ""
    best = tried[0]
    return (
        f"tried {names}{at}; the best is {best.runtime}"
        + (f" at batch {best.batch_size:,}." if len(batches) > 1 else "."),
    )


def _required(question: Question) -> tuple[Question, tuple[Limit, ...]]:
    """The question with what its requirements file adds, and its limits.

    Raises:
        InputError: No limit, no model or no device.
    """
    from gambrel.advise.limits import LIMITED, parse_limits, read_spec

    q = question
    limits: dict[str, Any] = {}
    if q.spec is not None:
        spec = read_spec(Path(q.spec))
        limits.update(spec.limits)
        own = {
            name: FIELDS[name].read(getattr(spec, key), "check")
            for name, key in (("batch_size", "batch"), ("precision", "precision"))
        }
        given = {"model": spec.model, "hardware": spec.hardware, **own}
        q = replace(q, **{k: v for k, v in given.items() if getattr(q, k) is None})
    asked = {name: getattr(q, name) for name in LIMITED}
    wanted = parse_limits(limits | {k: v for k, v in asked.items() if v is not None})
    if q.model is None or (q.hardware is None and q.peak is None):
        raise InputError(
            f"which {'model' if q.model is None else 'device'}? Name a model and --hardware, or "
            "put model and hardware into the requirements file."
        )
    return q, wanted


@asks("compare")
def compare(question: Question) -> Comparison:
    """Compares models on devices, in precisions and at batches: every combination.

    Returns:
        Rows, best first; unknown figures come last.
    """
    from gambrel.advise.compare import Grid
    from gambrel.advise.compare import compare as compare_all

    q = question
    devices, notes = asked_devices(q.hardware, q.peak, q.bandwidth)
    subjects = []
    for model in q.model:
        for batch in q.several("batch_size"):
            subject, said = _subject(q, model, batch, bulk=len(devices) >= _MANY)
            subjects.append(subject)
            notes += said
    over = Grid(
        subjects=subjects,
        devices=devices,
        precisions=q.several("precision"),
        prices=prices_of(q.prices, devices),
    )
    return compare_all(over, q.metric, tuple(dict.fromkeys(notes)))


@asks("select")
def select(question: Question, kept: MutableMapping[str, Any] | None = None) -> Selection:
    """Ranks the devices on which a model meets limits.

    Returns:
        Devices that meet all limits, best first; unknowns and near misses apart.
    """
    from gambrel.advise.compare import Grid
    from gambrel.advise.limits import LIMITED, parse_limits
    from gambrel.advise.select import select as select_among

    # `kept` holds what earlier questions prepared, for models that cannot change in between.
    q = question
    asked = {name: getattr(q, name) for name in LIMITED}
    limits = parse_limits(asked | {"price": q.max_price})
    named = q.hardware or (None if q.peak is not None else ("all",))
    devices, notes = asked_devices(named, q.peak, q.bandwidth)
    if not q.hardware and not {"power", "energy"}.isdisjoint(x.metric for x in limits):
        devices = with_modes(devices)
    known = {} if kept is None else kept
    open_: dict[str, Any] = dict.fromkeys((*LIMITED, "max_price", "prices", "sort", "hardware"))
    key = repr((replace(q, **open_), None if kept is None else settings_of(q)))
    if key not in known:
        known[key] = _subject(q, q.model, q.batch_size, bulk=len(devices) >= _MANY)
    subject, said = known[key]
    over = Grid(
        subjects=[subject],
        devices=devices,
        precisions=q.several("precision"),
        prices=prices_of(q.prices, devices),
    )
    by = q.sort or ("price" if q.max_price is not None else "latency")
    return select_among(over, limits, by, (*notes, *said))


def _subject(
    question: Question, model: Any, batch: int | None, *, bulk: bool = False
) -> tuple[Subject, list[str]]:
    """The model of a question, and what the user should know of how it was found."""
    from gambrel.advise.subjects import Subject

    notes: list[str] = []
    asked = question.several("runtime")

    def make(size: int | None, layers: str) -> Fleet:
        return _fleet(question, model, size, notes, layers=layers, bulk=bulk)

    names = [] if asked == (None,) else list(asked)
    subject = Subject(make=make, batch=batch, runtimes=names)
    subject.fleet()
    return subject, notes


def _fleet(
    question: Question,
    model: Any,
    batch: int | None,
    notes: list[str],
    *,
    layers: str,
    bulk: bool,
) -> Fleet:
    from gambrel.advise.fleet import Fleet
    from gambrel.capture.resolve import has_parts, resolve_model

    sizes = sizes_of(question, batch)
    request = request_of(question, sizes, precision=None, layers=layers)
    resolved = resolve_model(model, request)
    notes += [note for note in resolved.notes if note not in notes]
    built: dict[str, Workload] = {}
    for precision in question.several("precision"):
        if precision is not None and has_parts(resolved.workload, model, layers, precision):
            workload = resolve_model(
                model, msgspec.structs.replace(request, precision=precision)
            ).workload
            built |= {precision: workload}
    settings = settings_of(question, sizes=sizes, precision=None, runtime=None)
    return Fleet(resolved.workload, settings, bulk=bulk, built=built)


def point_at(question: Question, batch_size: int, like: Analysis) -> Point:
    """A question at another batch, under the runtime and in the format of its answer.

    Args:
        question: Of one device.
        batch_size: The other batch.
        like: The answer at the batch that was asked for.

    Raises:
        GambrelError: The model, the device or the runtime does not take that batch.
    """
    from gambrel.runtimes import runtimes

    q = question
    device, _ = asked_device(q.hardware, q.peak, q.bandwidth)
    runtime = runtimes()[like.runtime]
    precision = q.several("precision")[0]
    fleet = _fleet(q, q.model, batch_size, [], layers=runtime.layers, bulk=False)
    return fleet.on(device, precision, None, runtime.id)


@asks("recommend")
def recommend(question: Question) -> Advice:
    """What to change and by how much it would help: each change applied and analyzed again.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.advise.recommend import advise

    return advise(answers(question)[0], settings_of(question).calibration)


@asks("what-if")
def what_if(question: Question) -> WhatIf:
    """A model on a device as it is and with changes, and where the two differ.

    Raises:
        UnknownNameError: No such change.
        InputError: The model or the device does not take it.
    """
    return what_if_sides(question)[2]


def what_if_sides(question: Question) -> tuple[Analysis, Analysis, WhatIf]:
    """As `what_if`, with the two analyses before it: what a chart of both needs."""
    from gambrel.advise.whatif import what_if as differences

    before = answers(question)[0]
    after = before.with_change(*question.change)
    return before, after, differences(before, after, list(question.change))
