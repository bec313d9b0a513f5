"""The public functions that judge: limits of a piece of work, a measured time, the gap between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from gambrel.advise.judge.limits import limits_of
from gambrel.advise.judge.records import Gap, Judgement, KernelLimits
from gambrel.advise.judge.ruling import Measured, rule
from gambrel.analysis.analyze import analyze
from gambrel.analysis.question import Question
from gambrel.analysis.result import Analysis
from gambrel.analysis.settings import asked_of, is_language_model
from gambrel.api.analyze import request_of, settings_of, sizes_of
from gambrel.api.faces import asks
from gambrel.api.recorded_kernel import RecordedKernel, recorded_kernel
from gambrel.capture.part import part_of
from gambrel.capture.resolve import resolve_model
from gambrel.device.catalog import index
from gambrel.device.model import Device
from gambrel.device.resolve import asked_device, this_machine
from gambrel.dtypes import GGUF_FORMATS
from gambrel.errors import GambrelError, InputError
from gambrel.runtimes import Runtime, candidates, named
from gambrel.workload import Workload


@asks("judge")
def judge(question: Question) -> Judgement:
    """How far a measured time is from the speed of light of its work, and what that means.

    Returns:
        Ruling, score, headroom, and the limits that they rest on.

    Raises:
        InputError: No time, or more than one source of it.
    """
    sources = [n for n in ("time", "run", "recording") if getattr(question, n) is not None]
    if question.model is None:
        raise InputError("judge needs a reference: a model, a module, file.py:function or an op.")
    if _is_recorded(question) and sources in ([], ["time"]):
        allowed, kernel = _recorded(question, timed=not sources)
        told: dict[str, Any] = {"baseline_s": question.baseline, "whole_s": question.whole}
        if question.time is not None:
            return rule(allowed, Measured(time_s=question.time, origin="as given", **told))
        told |= _from_kernel(kernel, question)
        return rule(allowed, Measured(**told))
    if len(sources) != 1:
        given = " and ".join(f"--{n}" for n in sources) or "none"
        verb = "were" if len(sources) > 1 else "was"
        raise InputError(
            f"judge takes one of --time, --run and --recording; {given} {verb} given. Without a "
            "time, 'gambrel judge REFERENCE --limits' prints what is possible."
        )
    allowed, whole_s, _ = _limits(question)
    return rule(allowed, _measured(question, allowed, whole_s))


@asks("limits")
def limits(question: Question) -> KernelLimits:
    """What a piece of work asks for at the least, and the times that a device allows.

    Returns:
        Compulsory work and traffic, speed of light, I/O lower bounds, the expected library kernel.
    """
    if _is_recorded(question):
        return _recorded(question, timed=False)[0]
    return _limits(question)[0]


@asks("explain-gap")
def explain_gap(question: Question) -> Gap:
    """Why a measured time is above the speed of light, step by step.

    Returns:
        The steps from the speed of light to the measured time.

    Raises:
        InputError: No time.
    """
    from gambrel.advise.judge.gap import gap

    if question.time is None:
        raise InputError("give the measured time, e.g. --time 1.42ms.")
    allowed, whole_s, analyses = _limits(question)
    return gap(rule(allowed, _measured(question, allowed, whole_s)), analyses)


def _is_recorded(question: Question) -> bool:
    """Whether the reference is a kernel of a recording: ``--kernel`` without ``--recording``."""
    return question.kernel is not None and question.recording is None


def _recorded(question: Question, *, timed: bool = True) -> tuple[KernelLimits, RecordedKernel]:
    """The limits of the work that a recorded kernel did."""
    from gambrel.advise.judge.kernel import limits_of_kernel

    kernel = recorded_kernel(Path(str(question.model)), question.kernel, timed=timed)
    named = question.hardware or kernel.device_name or None
    device, _ = asked_device(named, question.peak, question.bandwidth)
    allowed = limits_of_kernel(kernel.launch, device, counters=kernel.counters)
    if kernel.others:
        said = f"{kernel.others:,} launches of this kernel do other work and are left out."
        allowed = structs.replace(allowed, notes=(said, *allowed.notes))
    return allowed, kernel


def _limits(
    question: Question,
) -> tuple[KernelLimits, float | None, tuple[Analysis, ...]]:
    """The limits, the time of the whole or of what is beside the part, and what they rest on."""
    part, whole = _workload(question)
    analyses = _analyses(question, part)
    allowed = limits_of(analyses, _on_measured(question, part))
    whole_s = question.whole
    if whole_s is None and whole is not None:
        expected = _expected(_analyses(question, whole))
        part_s = allowed.library_time_s
        # Of the whole without this part; the measured time is added when it is known.
        rest_s = None if expected is None or part_s is None else max(expected - part_s, 0.0)
        return allowed, rest_s, analyses
    return allowed, whole_s, analyses


def _workload(question: Question) -> tuple[Workload, Workload | None]:
    """What is judged, and the whole that it is a part of."""
    q = question
    asked = request_of(q, sizes_of(q, q.several("batch_size")[0]))
    whole = resolve_model(q.model, asked).workload
    return (whole, None) if q.op is None else (part_of(whole, q.op), whole)


def _analyses(question: Question, workload: Workload) -> tuple[Analysis, ...]:
    """The workload under the runtimes whose kernels people take on the device."""
    device, _ = asked_device(question.hardware, question.peak, question.bandwidth)
    sizes = sizes_of(question, question.several("batch_size")[0])
    chosen = question.several("runtime")[0]
    found = []
    for runtime in [named(chosen, device)] if chosen else _runtimes(device, workload, question):
        own = _under(runtime, question, workload)
        settings = settings_of(
            question,
            sizes={k: v for k, v in sizes.items() if _has(own, k)},
            precision=asked_of(own, question.precision),
            runtime=runtime.id,
        )
        found.append(analyze(own, device, settings))
    return tuple(found)


def _under(runtime: Runtime, question: Question, workload: Workload) -> Workload:
    """The workload with the layers of a runtime, where it is the whole of a language model."""
    asked = request_of(question, sizes_of(question, question.several("batch_size")[0]))
    if question.op is not None or runtime.layers == asked.layers or not is_language_model(workload):
        return workload
    return resolve_model(question.model, structs.replace(asked, layers=runtime.layers)).workload


def _has(workload: Workload, name: str) -> bool:
    return any(symbol.name == name for symbol in workload.symbols)


def _runtimes(device: Device, workload: Workload, question: Question) -> Sequence[Runtime]:
    """All that run there, the device's default first."""
    language = is_language_model(workload)
    asked = workload.precisions or question.precision or workload.asked_precision
    single = asked if not workload.precisions or asked in GGUF_FORMATS else None
    return candidates(device, single, language=language, training=workload.training)


def _on_measured(question: Question, workload: Workload) -> Analysis | None:
    """The same on this machine's measured ceilings, where the device is the one measured."""
    if question.hardware is None or str(question.hardware).strip().lower() == "this":
        return None
    device, _ = asked_device(question.hardware, None, None)
    try:
        own, _ = this_machine()
    except GambrelError:
        return None
    if device.id not in (own.id, own.id.removesuffix("-measured")) or own == device:
        return None
    return _analyses(replace(question, hardware=own), workload)[0]


def _expected(analyses: Sequence[Analysis]) -> float | None:
    times = [a.expected_time_s.value for a in analyses if a.expected_time_s is not None]
    return min(times, default=None)


def _measured(question: Question, allowed: KernelLimits, whole_s: float | None) -> Measured:
    """The time that is judged, from where the question says.

    Args:
        question: With one source of a time.
        allowed: What the device allows.
        whole_s: Time of the whole as given, or of what is beside a part of it.
    """
    beside = question.whole is None and whole_s is not None
    more: dict[str, Any] = {"baseline_s": question.baseline}
    more |= {"rest_s": whole_s} if beside else {"whole_s": whole_s}
    if question.time is not None:
        return Measured(time_s=question.time, origin="as given", **more)
    if question.recording is not None:
        return Measured(**_from_trace(question), **more)
    from gambrel.measure.candidate import try_candidate

    trial = try_candidate(question, allowed)
    return Measured(
        time_s=trial.time_s,
        origin=f"{trial.candidate} run here",
        trial=trial,
        elsewhere=_elsewhere(trial.device, question),
        **more,
    )


def _elsewhere(ran_on: str, question: Question) -> str:
    """What a candidate ran on where that is not the kind of device that was asked about."""
    category = asked_device(question.hardware, question.peak, question.bandwidth)[0].category
    gpu = "gpu" in category.lower()
    if ran_on == "cpu" and category and category != "cpu":
        return "this machine's processor"
    return "this machine's GPU" if ran_on == "cuda" and category and not gpu else ""


def _recorded_elsewhere(
    ran_on: Device | None, question: Question, *, on_processor: bool = False
) -> str:
    """What a recording is from where that is another device than the one that was asked about.

    Only where both are devices of the catalog, or one is a processor and the other is none.
    """
    if question.hardware is None:
        return ""
    asked, _ = asked_device(question.hardware, question.peak, question.bandwidth)
    if (on_processor or (ran_on is not None and ran_on.category == "cpu")) and asked.category:
        own = "a processor" if ran_on is None or ran_on.category != "cpu" else ran_on.id
        return "" if asked.category == "cpu" else own
    if ran_on is None or not {ran_on.id, asked.id} <= index().vendors.keys():
        return ""
    return "" if ran_on.id == asked.id else ran_on.id


def _from_trace(question: Question) -> dict[str, Any]:
    """The median time of a launch of the kernel that is named, or the whole of a saved profile."""
    from gambrel.measure.profile.record import saved_profile

    path = Path(question.recording or "")
    profile = saved_profile(path)
    if profile is not None:
        origin = f"{path.name}, the whole of a run"
        elsewhere = _recorded_elsewhere(profile.hardware, question)
        return {"time_s": profile.totals.plain_s, "origin": origin, "elsewhere": elsewhere}
    return _from_kernel(recorded_kernel(path, question.kernel), question)


def _from_kernel(kernel: RecordedKernel, question: Question) -> dict[str, Any]:
    elsewhere = _recorded_elsewhere(kernel.device, question, on_processor=kernel.on_processor)
    return {"time_s": kernel.time_s, "origin": kernel.origin, "elsewhere": elsewhere}
