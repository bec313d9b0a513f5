"""A handler for ``torch.profiler``: every trace that it writes says what its ops could be."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gambrel.errors import InputError


def profiler_handler(folder: Any, device: Any = None) -> Callable[[Any], None]:
    """For ``torch.profiler.profile(on_trace_ready=gambrel.profiler_handler("traces", "h100"))``.

    Args:
        folder: Where annotated traces are written, one for each cycle of the profiler's schedule.
        device: Whose speed of light counts: a name, a `Device` or measured peaks; None leaves
            shares out. Record with ``record_shapes=True``.

    Raises:
        InputError: The folder cannot be made.
    """
    from gambrel.device.resolve import resolve_hardware
    from gambrel.traces.annotate import annotate

    place = Path(folder)
    chosen = None if device is None else resolve_hardware(device)[0]
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {place}: {error.strerror}.") from None

    def write(profiler: Any) -> None:
        """Exports the trace and adds to it."""
        number = sum(1 for _ in place.glob("trace-*.json"))
        with tempfile.TemporaryDirectory() as scratch:
            raw = Path(scratch) / "raw.json"
            profiler.export_chrome_trace(str(raw))
            annotate(raw, place / f"trace-{os.getpid()}-{number}.json", chosen)

    return write
