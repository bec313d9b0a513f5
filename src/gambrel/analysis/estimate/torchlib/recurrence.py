"""Recurrent layers: time steps, layers and directions one after another."""

from __future__ import annotations

from gambrel import roofline
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Chip, Constants
from gambrel.ops.base import Size, distinct_bytes, product
from gambrel.roofline import maximum


def step(c: Constants, machine: Chip, task: Task) -> Size:
    """Seconds of a time step of one layer, all directions.

    A step is a small matrix multiplication and the cell's arithmetic, each waiting for the one
    before. Larger layers are limited by reading the weights of the step, or by its arithmetic.
    """
    view = task.view
    directions, layers, steps = view.size("directions", 1), view.size("layers", 1), view.size("seq")
    parts = steps * layers
    weights = distinct_bytes(view.inputs[1:]) / layers
    read = roofline.seconds(weights, c["weights"] * machine.byte_per_s)
    flops = task.matrix_flops / parts
    peak = task.matrix_peak or machine.vector_flop_per_s
    worked = roofline.seconds(flops, c["compute"] * peak) if peak else 0.0
    return maximum(maximum(directions * c["step_s"], read), worked)


def recurrent(c: Constants, machine: Chip, task: Task) -> Size:
    """All steps."""
    view = task.view
    return step(c, machine, task) * product((view.size("seq"), view.size("layers", 1)))
