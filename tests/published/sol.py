"""The speed of light of a published row."""

from __future__ import annotations

from functools import cache

import gambrel

from .models import is_language_model, subject_of
from .rows import Row

#: Batches that a submitter may have used, where the source does not say.
BATCHES = (1, 64, 4096)


def sol_s(row: Row) -> float | None:
    """Seconds that no run of the row's workload can beat, for an item where a rate is published.

    Args:
        row: A row.

    Returns:
        None where the device publishes no roof that counts.
    """
    if row.note.startswith("training"):
        return _training_s(row)
    case = (row.model, row.device, row.precision)
    if row.quantity == "latency_s":
        seconds = _run_s(*case, row.batch, row.sizes)
        return None if seconds is None else seconds / row.devices
    times = [(batch, _run_s(*case, batch, row.sizes)) for batch in BATCHES]
    return min((seconds / batch for batch, seconds in times if seconds), default=None)


@cache
def _run_s(model: str, device: str, precision: str, batch: int | None, sizes: str) -> float | None:
    chosen = {name: int(n) for name, _, n in (pair.partition("=") for pair in sizes.split())}
    subject = subject_of(model, batch, sizes)
    if not isinstance(subject, str) and not subject.symbols:
        batch, chosen = None, {}
    phase = "decode" if "context" in chosen else "prefill"
    question = {
        "batch_size": batch,
        "sizes": chosen,
        "phase": phase if is_language_model(subject) else None,
    }
    return gambrel.analyze(subject, device, precision=precision, **question).sol_time_s


def _training_s(row: Row) -> float:
    """Seconds per token on one device: the model's FLOPs on its fastest engine."""
    plan = gambrel.train_plan(
        subject_of(row.model, None, ""),
        row.device,
        seq=row.numbers["seq"],
        sequences=row.batch or 1,
        precision=row.precision,
    )
    work = plan.passes.total.work
    return plan.model_flops / max(w.peak_flop_per_s for w in work if w.work_class == "matrix")
