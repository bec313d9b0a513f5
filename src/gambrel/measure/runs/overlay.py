"""A saved profile, or what another profiler recorded, laid over an analysis."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from gambrel.analysis.overlay import Overlay, times_by_name
from gambrel.analysis.result import Analysis
from gambrel.errors import FileFormatError
from gambrel.measure.profile.points import main_flops
from gambrel.measure.profile.record import Profile, is_of, saved_profile

#: Share of the ops below which a reader is told why the others have no measured time.
_FEW: Final = 0.5
#: Share of the roofline time whose ops must have kernels for these to be a whole run.
_WHOLE: Final = 0.9


def is_measured(path: Path) -> bool:
    """Whether a file is a saved profile or a profiler's recording, by its beginning."""
    from gambrel.capture.files.identify import identify
    from gambrel.traces.formats import FORMATS
    from gambrel.traces.source import decode, read_head

    if is_of(path):
        return True
    try:
        identify(path)
    except FileFormatError:
        head = read_head(path)
        text = decode(head)
        return any(known.sniff(head, text) for known in FORMATS)
    return False


def overlaid(analysis: Analysis, path: Path) -> Overlay:
    """Lays the measured times of a file over an analysis.

    Raises:
        FileFormatError: The file holds no measured times.
    """
    profile = saved_profile(path)
    if profile is None and is_of(path, "gambrel/analysis"):
        raise FileFormatError(
            f"{path.name} holds the expected times of an analysis; give measured ones: "
            "'gambrel profile --save', or the trace of a profiler."
        )
    return (
        _recorded(analysis, path) if profile is None else of_profile(analysis, profile, path.name)
    )


def of_profile(analysis: Analysis, profile: Profile, label: str) -> Overlay:
    """A profile of the same model, op by op."""
    times = times_by_name(analysis.ops, ((p.name, p.flops, p.time_s) for p in profile.ops))
    ran = main_flops(profile.ops)
    made = Overlay(
        analysis=analysis,
        label=label,
        hardware=profile.hardware.name,
        measured_time_s=profile.totals.plain_s,
        times_s=times,
    )
    return _noted(made, profile.hardware.id, _other_work(analysis.total.flops, ran))


def _other_work(expected: int, ran: int) -> str:
    """What the two amounts of work say about the sizes of the run."""
    if not expected or not ran or abs(expected - ran) <= expected // 50:
        return ""
    ratio = ran / expected if ran > expected else expected / ran
    more = "more" if ran > expected else "less"
    return f"the run has {ratio:.3g} times {more} work than this page: choose its batch and sizes"


def _recorded(analysis: Analysis, path: Path) -> Overlay:
    """Kernels of a profiler, each at the ops of its kind and work."""
    from gambrel.analysis.samples import place
    from gambrel.analysis.samples.join import join, op_times
    from gambrel.traces import read
    from gambrel.traces.devices import catalog_device, chip_of, roofs_for

    samples = read(path, chip=chip_of(analysis.hardware))
    device, _ = roofs_for(samples, analysis.hardware)
    standing = place(samples, device)
    joined = join(standing, analysis)
    whole = joined.measured_time_s if joined.coverage_ops >= _WHOLE else None
    notes = [f"times are of one run; the recording holds {joined.runs:g}, by its launches"]
    if whole is None:
        notes.append(
            f"kernels were recorded for ops with {joined.coverage_ops:.0%} of the roofline time: "
            "the time of the whole run is unknown"
        )
    own = catalog_device(samples)
    made = Overlay(
        analysis=analysis,
        label=path.name,
        hardware=samples.device_name or (own.name if own else ""),
        measured_time_s=whole or None,
        times_s=op_times(standing, analysis),
        notes=tuple(notes),
    )
    return _noted(made, own.id if own else analysis.hardware.id, "")


def _noted(made: Overlay, device: str, other_work: str) -> Overlay:
    notes = list(made.notes)
    if made.hardware and device != made.analysis.hardware.id:
        notes.append(
            f"measured on {made.hardware}, expected for {made.analysis.hardware.name}: the "
            "difference is not that of the prediction alone"
        )
    if made.matched < _FEW * len(made.times_s):
        why = other_work or "its ops have other names or other work than those of this model"
        notes.append(f"{made.matched:,} of {len(made.times_s):,} ops were matched: {why}")
    elif other_work:
        notes.append(other_work)
    return msgspec.structs.replace(made, notes=tuple(notes))
