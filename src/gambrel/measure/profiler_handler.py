"""A handler for ``torch.profiler``: every trace that it writes says what its ops could be."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gambrel.errors import FileFormatError, InputError, require


def profiler_handler(
    folder: Any, device: Any = None, *, tensorboard: bool = False
) -> Callable[[Any], None]:
    """For ``torch.profiler.profile(on_trace_ready=gambrel.profiler_handler("traces", "h100"))``.

    A cycle that cannot be annotated (recorded without shapes, without an op) is written as torch
    recorded it, with a warning: a profiler never ends a training run.

    Args:
        folder: Where annotated traces are written, one for each cycle of the profiler's schedule.
        device: Whose speed of light counts: a name, a `Device` or measured peaks; None leaves
            shares out. Record with ``record_shapes=True``.
        tensorboard: Write each cycle's achieved FLOP/s, bytes/s and share of the speed of light
            there too, as scalars by step.

    Raises:
        InputError: The folder cannot be made.
        MissingExtraError: TensorBoard is asked for and not installed.
    """
    from gambrel.device.resolve import resolve_hardware
    from gambrel.traces.annotate import annotate

    if tensorboard:
        require("tensorboard", "tensorboard", "writing scalars for TensorBoard")
    place = Path(folder)
    chosen = None if device is None else resolve_hardware(device)[0]
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {place}: {error.strerror}.") from None

    def write(profiler: Any) -> None:
        """Exports the trace and adds to it."""
        number = sum(1 for _ in place.glob(f"trace-{os.getpid()}-*.json"))
        target = place / f"trace-{os.getpid()}-{number}.json"
        with tempfile.TemporaryDirectory(dir=place) as scratch:
            raw = Path(scratch) / "raw.json"
            profiler.export_chrome_trace(str(raw))
            try:
                added = annotate(raw, target, chosen)
            except FileFormatError as error:
                raw.replace(target)
                why = str(error).removeprefix(f"{raw}: ")
                warnings.warn(f"{target.name} is not annotated: {why}", stacklevel=2)
                return
        if tensorboard:
            _write_scalars(place, added.figures, int(getattr(profiler, "step_num", number)))

    return write


def _write_scalars(folder: Path, figures: dict[str, float], step: int) -> None:
    """One point of each figure, in an event file of TensorBoard."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(log_dir=str(folder)) as writer:
        for name, value in figures.items():
            writer.add_scalar(f"gambrel/{name}", value, step)
