"""A recorded run diagnosed, beside what is expected of its model where one is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from gambrel.analysis.question import Question
from gambrel.device.resolve import asked_device
from gambrel.errors import InputError
from gambrel.traces.diagnose import Diagnosis, DiagnosisItem, diagnose
from gambrel.units import format_si


def diagnosed(question: Question, path: Path) -> Diagnosis:
    """What makes a run slow.

    Args:
        question: With a device and a model, where the user named them.
        path: A trace, a file of a profiler, or a profile that gambrel saved.
    """
    from gambrel.measure.profile.record import is_profile

    device = None
    if question.hardware is not None or question.peak is not None:
        device, _ = asked_device(question.hardware, question.peak, question.bandwidth)
    data = _json_head(path)
    found = _of_profile(path) if is_profile(data) else diagnose(path, device)
    if question.model is None:
        return found
    return msgspec.structs.replace(found, notes=(*found.notes, _expected(question)))


def _json_head(path: Path) -> object:
    """A small JSON file as data; None for anything else."""
    if path.suffix != ".json" or not path.is_file() or path.stat().st_size > 64 << 20:
        return None
    try:
        return msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError:
        return None


def _of_profile(path: Path) -> Diagnosis:
    """The ops of a profile that are furthest above their roofline, and what is between them."""
    from gambrel.measure.profile.record import from_data

    profile = from_data(msgspec.json.decode(path.read_bytes()), path)
    totals = profile.totals
    between = max(totals.plain_s - totals.ops_s - totals.unmatched_s, 0.0)
    items = [
        DiagnosisItem(
            cause=point.name,
            saves_s=max((point.time_s or 0.0) - (point.roofline_time_s or 0.0), 0.0),
            saves_share=None,
            evidence=f"{format_si(point.time_s, 's')}, roofline "
            f"{format_si(point.roofline_time_s, 's')}",
            change=point.reason or f"{point.bound}-bound",
            command="gambrel judge MODEL --op NAME --time TIME",
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
            command="gambrel profile MODEL --compile --compare",
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


def _expected(question: Question) -> str:
    """What one step of the model is expected to take."""
    from gambrel.api.analyze import answers

    if question.hardware is None and question.peak is None:
        raise InputError("--model needs a device: give --hardware, or --peak and --bandwidth.")
    analysis = answers(replace(question))[0]
    return (
        f"one run of {analysis.model.name} on {analysis.hardware.id} is expected to take "
        f"{analysis.expected_time_s or 'an unknown time'}; speed of light "
        f"{format_si(analysis.sol_time_s, 's')}."
    )
