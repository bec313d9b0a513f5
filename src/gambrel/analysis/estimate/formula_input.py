"""What the formula of an op is asked with on a device."""

from __future__ import annotations

from typing import Any

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate import forms
from gambrel.analysis.estimate.features import Rule, Task
from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.estimate.kinship import Chosen
from gambrel.ops.base import Size, minimum
from gambrel.roofline import maximum


class Predicted(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one execution, for scalars or arrays.

    Attributes:
        seconds: Expected time, never below the bound.
        launch: Share of it that is the kernel launch.
        latency: Beside it, the time until the kernel starts that a queue hides.
        floor: The bound: the roofline, but for algorithms with less arithmetic than counted.
    """

    seconds: Size
    launch: Size
    latency: Size = 0.0
    floor: Size = 0.0


class FormulaInput(msgspec.Struct, frozen=True, kw_only=True):
    """What the formula of an op is asked with on a device.

    Attributes:
        rule: The formula.
        chosen: Its constants.
        machine: The device.
        task: The op.
    """

    rule: Rule
    chosen: Chosen
    machine: Chip
    task: Task

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal on devices that differ in numbers alone."""
        task = self.task
        return (
            id(self.rule),
            *self.chosen.constants,
            task.scheme,
            task.compiled,
            task.direct_peak is None,
        )

    def predicted(self, roofline_time_s: Size) -> Predicted:
        """The time of one execution; over arrays of every one."""
        c, form = self.chosen.constants, self.rule.form
        launch = forms.launch(c, self.machine) if "launch" in c else c.get("base_s", 0.0)
        latency: Size = 0.0
        work = alone = self.rule.seconds(c, self.machine, self.task)
        if "launch" in c:
            work = work + launch
        elif form.startswith("torch_"):
            if c.get("start_s"):  # of kernels measured one at a time, each on an idle device
                work = self.rule.seconds(c | {"start_s": 0.0}, self.machine, self.task)
            latency = alone - work
            work = maximum(work, launch)  # the shortest kernel
        floor = self._floor(roofline_time_s)
        seconds = maximum(work, floor)
        # Steps that wait for each other keep nothing busy: they only wait.
        start = work if form == "torch_recurrent" else minimum(launch, seconds)
        return Predicted(seconds=seconds, launch=start, latency=latency, floor=floor)

    def _floor(self, roofline_time_s: Size) -> Size:
        """The roofline with the arithmetic that the least algorithm needs, and all traffic."""
        if self.rule.share is None:
            return roofline_time_s
        share = self.rule.share(self.chosen.constants, self.machine, self.task)
        if share == 1:
            return roofline_time_s
        moving = roofline.seconds(self.task.traffic_bytes, self.machine.byte_per_s)
        return minimum(roofline_time_s, maximum(moving, roofline_time_s * share))
