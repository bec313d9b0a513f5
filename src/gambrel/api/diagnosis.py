"""A recorded run diagnosed, beside what is expected of its model where one is named."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from gambrel.analysis.question import Question
from gambrel.analysis.result import Analysis
from gambrel.device.resolve import asked_device
from gambrel.errors import InputError
from gambrel.traces.diagnose import Diagnosis, DiagnosisItem, diagnose
from gambrel.units import format_percent, format_si

if TYPE_CHECKING:
    from gambrel.measure.profile.record import Profile


def diagnosed(question: Question, paths: Sequence[Path]) -> Diagnosis:
    """What makes a run slow.

    Args:
        question: With a device and a model, where the user named them.
        paths: A trace, a file of a profiler, or a profile that gambrel saved; with logs of clocks
            and power beside it.
    """
    from gambrel.measure.profile.record import saved_profile

    device = None
    if question.hardware is not None or question.peak is not None:
        device, _ = asked_device(question.hardware, question.peak, question.bandwidth)
    profile = saved_profile(paths[0]) if len(paths) == 1 else None
    if profile is None:
        found = diagnose(paths, device, model=_text(question.model))
    else:
        found = _of_profile(profile, paths[0])
    if question.model is None:
        return found
    notes = (*found.notes, *_expected(question, paths))
    return msgspec.structs.replace(found, notes=notes)


def _text(model: object) -> str:
    """A model as it stands on a command line; empty for one that does not."""
    return str(model) if isinstance(model, str | Path) else ""


def _of_profile(profile: Profile, path: Path) -> Diagnosis:
    """The ops of a profile that are furthest above their roofline, and what is between them."""
    totals = profile.totals
    between = max(totals.plain_s - totals.ops_s - totals.unmatched_s, 0.0)
    command = shlex.join(["gambrel", "compare-runs", str(path), str(path)])
    items = [
        DiagnosisItem(
            cause=point.name,
            saves_s=max((point.time_s or 0.0) - (point.roofline_time_s or 0.0), 0.0),
            saves_share=None,
            evidence=f"{format_si(point.time_s, 's')}, roofline "
            f"{format_si(point.roofline_time_s, 's')}",
            change=point.reason or f"{point.bound}-bound",
            command=command,
        )
        for point in profile.ops
        if point.time_s is not None
    ]
    items.append(
        DiagnosisItem(
            cause="between the ops",
            saves_s=between,
            saves_share=None,
            evidence=f"{format_si(between, 's')} of a step in no op",
            change="torch.compile, larger batches, less Python in the loop",
            command=command,
        )
    )
    whole = totals.plain_s
    ranked = sorted(items, key=lambda item: -(item.saves_s or 0.0))[:10]
    kept = [
        msgspec.structs.replace(i, saves_share=(i.saves_s or 0.0) / whole)
        for i in ranked
        if whole and (i.saves_s or 0.0) >= 0.03 * whole
    ]
    return Diagnosis(source=path.name, whole_s=whole, items=tuple(kept))


#: Share of the recorded time that ops of the model must explain, for it to be that model.
_SAME_MODEL: Final = 0.5


def _expected(question: Question, paths: Sequence[Path]) -> list[str]:
    """What one step of the model is expected to take, and whether the recording is of it."""
    from gambrel.api.analyze import answers

    if question.hardware is None and question.peak is None:
        raise InputError("--model needs a device: give --hardware, or --peak and --bandwidth.")
    analysis = answers(replace(question))[0]
    notes = [
        f"one run of {analysis.model.name} on {analysis.hardware.id} is expected to take "
        f"{analysis.expected_time_s or 'an unknown time'}; speed of light "
        f"{format_si(analysis.sol_time_s, 's')}."
    ]
    share = _share(analysis, paths)
    if share is not None and share < _SAME_MODEL:
        notes.insert(
            0,
            f"this may be a recording of another model, batch or phase: only "
            f"{format_percent(share)} of its time met an op of {analysis.model.name} of the same "
            "work.",
        )
    return notes


def _share(analysis: Analysis, paths: Sequence[Path]) -> float | None:
    """Share of the recorded time that met an op of a model of the same work."""
    from gambrel.analysis.samples import place
    from gambrel.analysis.samples.join import join
    from gambrel.measure.profile.record import is_of
    from gambrel.traces import read

    if is_of(paths[0]):
        return None
    standing = place(read(list(paths)), analysis.hardware)
    return join(standing, analysis).coverage_work
