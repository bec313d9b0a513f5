"""A Kineto trace as samples: kernels joined with the ops that launched them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from gambrel.analysis.samples import Known, Sample, Samples
from gambrel.errors import FileFormatError
from gambrel.traces.kineto.activity import time_of
from gambrel.traces.kineto.columns import TraceColumns
from gambrel.traces.kineto.events import Rest
from gambrel.traces.kineto.join import cpu_samples, gpu_samples
from gambrel.traces.kineto.stream import EventStream

FORMAT: Final = "PyTorch trace"


def read(path: Path) -> Samples:
    """Reads a trace, ``.json`` or ``.json.gz``, in pieces.

    Raises:
        FileFormatError: Not readable, truncated, or without kernels and ops.
    """
    stream, columns = EventStream(path), TraceColumns()
    for events in stream.pieces():
        columns.add(events)
    on_gpu = bool(columns.kernels or columns.copies)
    if not on_gpu and not columns.ops:
        raise FileFormatError(
            f"{path}: the trace has neither kernels nor ops with a duration. Of rocprof import "
            "results.csv, of JAX and TensorFlow the .xplane.pb beside it."
        )
    launches, added = gpu_samples(columns) if on_gpu else cpu_samples(columns)
    names = _devices(stream.rest)
    return Samples(
        format=FORMAT,
        sources=(str(path),),
        launches=tuple(launches),
        device_name=names[0] if len(names) == 1 else "",
        on_processor=not on_gpu,
        notes=(*_notes(launches, names, on_gpu), *_rank(stream.rest), *added),
        skipped={"events without a usable time": columns.skipped} if columns.skipped else {},
        spans=time_of(columns) if on_gpu else {},
    )


def _devices(rest: Rest) -> list[str]:
    return list(dict.fromkeys(str(d.name) for d in rest.devices or [] if d.name))


def _rank(rest: Rest) -> list[str]:
    """Which of several processes wrote the trace."""
    try:
        found = msgspec.json.decode(rest.distributed, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    rank, size = found.get("rank"), found.get("world_size")
    if not isinstance(rank, int) or not isinstance(size, int) or size < 2:
        return []
    return [f"rank {rank} of {size} processes"]


def _notes(launches: Sequence[Sample], names: Sequence[str], on_gpu: bool) -> list[str]:
    times = np.array([s.time_s or 0.0 for s in launches])
    known = np.array([s.state is Known.COUNTED for s in launches], dtype=bool)
    share = float(times[known].sum() / times.sum()) if times.sum() else 0.0
    notes = [
        "work and DRAM bytes follow from the shapes of the ops, not from counters: bytes are the "
        f"compulsory ones; they cover {share:.1%} of the time"
    ]
    if len(names) > 1:
        notes.append(f"several devices: {', '.join(names)}")
    if not on_gpu:
        notes.append("the trace has no GPU kernels; times are those of the CPU ops")
    return notes
