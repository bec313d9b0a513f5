"""A whole training run: so many tokens, step after step."""

from __future__ import annotations

import msgspec


class TrainingRun(msgspec.Struct, frozen=True, kw_only=True):
    """How long a training run takes when every step is like the one that was predicted.

    Restarts, evaluation and checkpoints are not in it.

    Attributes:
        tokens: Of the whole run.
        devices: That work on it.
        steps: Optimizer steps.
        expected_time_s: Of the run.
        expected_low_s: Lower end of its range.
        expected_high_s: Upper end.
        device_time_s: Expected time summed over the devices.
    """

    tokens: float
    devices: int
    steps: float
    expected_time_s: float
    expected_low_s: float
    expected_high_s: float
    device_time_s: float


def run_of(
    tokens: float, tokens_per_step: float, devices: int, step_s: tuple[float, float, float]
) -> TrainingRun:
    """The run of equal steps.

    Args:
        tokens: Of the run.
        tokens_per_step: Of an optimizer step over all devices.
        devices: Of the job.
        step_s: Expected seconds of a step, and the two ends of its range.
    """
    steps = tokens / tokens_per_step
    time_s, low_s, high_s = (steps * seconds for seconds in step_s)
    return TrainingRun(
        tokens=tokens,
        devices=devices,
        steps=steps,
        expected_time_s=time_s,
        expected_low_s=low_s,
        expected_high_s=high_s,
        device_time_s=time_s * devices,
    )
