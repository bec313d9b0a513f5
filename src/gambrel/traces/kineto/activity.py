"""What the devices of a trace did: compute, communication, copies, idle time."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import numpy as np

from gambrel.traces.kineto.columns import Floats, Ints, TraceColumns
from gambrel.traces.kineto.spans import covered

_US: Final = 1e-6
_COMMUNICATION: Final = re.compile(r"nccl|rccl|oneccl|hccl|mscclpp", re.IGNORECASE)
_COMPUTE, _COMM, _COPY = 0, 1, 2


@lru_cache(maxsize=65536)
def is_communication(name: str) -> bool:
    """Whether a kernel's name is that of a collective library."""
    return _COMMUNICATION.search(name) is not None


def time_of(columns: TraceColumns) -> dict[str, float]:
    """Seconds by what the devices did; overlaps count once on each device."""
    kernels, copies = columns.kernels, columns.copies
    comm = np.array([is_communication(n) for n in columns.names.values()], dtype=np.int64)
    kinds = np.concatenate(
        (comm[np.array(kernels.names, dtype=np.int64)], np.full(len(copies), _COPY))
    )
    devices = np.array([*kernels.keys, *copies.keys], dtype=np.int64)
    starts = np.concatenate((kernels.starts, copies.starts))
    ends = np.concatenate((kernels.ends, copies.ends))
    found: dict[str, float] = {}
    for device in np.unique(devices):
        mine = devices == device
        for name, span_us in _split(kinds[mine], starts[mine], ends[mine]).items():
            found[name] = found.get(name, 0.0) + span_us * _US
    found["launch calls"] = _launch_calls(columns) * _US
    return {name: seconds for name, seconds in found.items() if seconds}


def _launch_calls(columns: TraceColumns) -> float:
    named = np.array(["aunch" in n for n in columns.names.values()], dtype=bool)
    mine = named[np.array(columns.launches.names, dtype=np.int64)]
    return covered(columns.launches.starts[mine], columns.launches.ends[mine])


def _split(kinds: Ints, starts: Floats, ends: Floats) -> dict[str, float]:
    """Microseconds of one device by activity; communication that nothing hides is exposed."""

    def spent(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
        return covered(starts[mask], ends[mask])

    busy = covered(starts, ends)
    return {
        "compute": spent(kinds == _COMPUTE),
        "communication": spent(kinds == _COMM),
        "copy": spent(kinds == _COPY),
        "exposed communication": busy - spent(kinds != _COMM),
        "idle": float(ends.max() - starts.min()) - busy,
    }
