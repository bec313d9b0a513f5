"""`RooflineAnalyzer`: a live model, profiled under the ceilings of this machine."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gambrel.analysis.analyze import analyze
from gambrel.analysis.estimate.store import load as load_calibration
from gambrel.analysis.result import Analysis, OpResult
from gambrel.analysis.roofs import roofs_of
from gambrel.analysis.settings import Settings
from gambrel.capture.torch import capture
from gambrel.device.model import CeilingKind, Device
from gambrel.errors import DeviceError, InputError, MissingExtraError
from gambrel.measure.counters import count
from gambrel.measure.gpu.precision import tf32_allowed
from gambrel.measure.peaks import check_effort
from gambrel.measure.profile import compiling
from gambrel.measure.profile.join import join
from gambrel.measure.profile.kernels import join_kernels
from gambrel.measure.profile.memory import others_on, peak_of
from gambrel.measure.profile.modules import ModulePoint, modules
from gambrel.measure.profile.points import RooflinePoint, Totals, points, steady, totals
from gambrel.measure.profile.published import with_published
from gambrel.measure.profile.record import Profile, ProfileComparison, to_json
from gambrel.measure.profile.rows import as_run, join_name, rows_of
from gambrel.measure.profile.run import (
    Runs,
    as_call,
    forward_explained,
    moved,
    placed,
    run,
    tensors_in,
)
from gambrel.measure.profile.step import PreparedStep, Training, step_of
from gambrel.measure.records import HardwarePeaks
from gambrel.report import replace_file
from gambrel.report.answers import Profiled
from gambrel.report.options import Options

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from gambrel.report.chart import RooflineChart
    from gambrel.workload import Workload


#: Steps that run under hardware counters, where there are any.
_COUNTED = 2
#: Columns of printed tables: all of theirs, in a notebook as well.
_WIDE = 160


class Printed(str):
    """A text that was printed: a notebook shows it no second time."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        """Shows nothing."""


class RooflineAnalyzer:
    """Measures where a model's time goes and sets each op under the roofs.

    Attributes:
        results: One `RooflinePoint` an op, in execution order; empty before `profile`.
        totals: End-to-end time, sum of the parts, gap and cost of the instruments; None before.
        analysis: The computed side: the same ops with bound and expected time; None before.
        unmatched: Calls that the profiler saw and the capture has not, with their seconds.
    """

    def __init__(
        self,
        model: Any,
        sample: Any,
        peaks: HardwarePeaks | Device | str | None = None,
        *,
        kwargs: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Takes a model and what it is called with.

        Args:
            model: A ``torch.nn.Module``.
            sample: A tensor, a tuple of positional arguments, or a mapping of keyword ones.
            peaks: Measured peaks, a `Device`, its name or file; None measures this machine when
                needed.
            kwargs: More keyword arguments.
            clock: Seconds.

        Raises:
            InputError: It is no module.
            MissingExtraError: torch is not installed.
        """
        try:
            import torch
        except ImportError:
            raise MissingExtraError("torch", "torch", "profiling a model") from None
        if not isinstance(model, torch.nn.Module):
            raise InputError(
                f"cannot profile a {type(model).__name__}; give a torch.nn.Module and a sample."
            )
        self._model = model
        self._sample = sample
        self._kwargs = dict(kwargs or {})
        self._peaks = peaks
        self._clock = clock
        self.results: list[RooflinePoint] = []
        self._rows: tuple[OpResult, ...] = ()
        self.totals: Totals | None = None
        self.analysis: Analysis | None = None
        self.unmatched: tuple[tuple[str, float], ...] = ()

    @property
    def peaks(self) -> HardwarePeaks | Device | str | None:
        """What the ops are held against; None before they were measured."""
        return self._peaks

    def profile(
        self,
        device: object = "cpu",
        *,
        warmup: int = 5,
        steps: int = 20,
        train: bool = False,
        optimizer: Any = None,
        loss: Callable[[Any], Any] | None = None,
    ) -> None:
        """Runs the model and fills `results`.

        A forward pass runs the model as it is (its training flag decides about dropout), without
        gradients. The model goes back to the device where it was, with the weights, gradients and
        buffers that it had. Of a model that ``torch.compile`` made, the kernels are measured; it is
        compiled once more, so that its own kernels appear in the profile.

        Args:
            device: As torch names it.
            warmup: Steps thrown away.
            steps: Steps measured, without instruments; as many, or fewer of a model with very many
                ops, are profiled.
            train: Profile training steps: forward, loss, backward, optimizer, in training mode.
            optimizer: With ``train``: ``"adamw"`` (the default), ``"adam"``, ``"sgd"``,
                ``"sgd_momentum"``, ``"none"``, a class of ``torch.optim`` or an instance, whose
                settings are used and which is not stepped itself.
            loss: With ``train``: a scalar from the outputs; by default their ``loss`` or sum.

        Raises:
            InputError: Steps below 1, or the model fails.
            DeviceError: There is no such device, or the peaks are those of another kind.
            CaptureError: The model cannot be captured.
        """
        name = str(device)
        check_effort(steps, warmup)
        _check_device(name)
        self._check_peaks(name)
        training = Training(optimizer=optimizer, loss=loss) if train else None
        source, compiler = compiling.split(self._model)
        workload = _captured(source, self._sample, self._kwargs, training, name)
        roofs = self._roofs(name)
        runtime = "pytorch" if compiler is None else "torch-compile"
        settings = Settings(warm=True, runtime=runtime, calibration=load_calibration())
        computed = analyze(workload, roofs, settings)
        if _is_measured(roofs):
            computed = with_published(computed, workload, settings, roofs)
        model = self._model if compiler is None else compiling.again(source, compiler)
        others = self._others(source, name)
        with placed(source, name), forward_explained(workload.name, name):
            args, kwargs = as_call(self._sample, name)
            kwargs |= moved(self._kwargs, name)
            with step_of(model, args, kwargs, training) as step:
                measure = partial(run, step.run, name, warmup=warmup, steps=steps)
                runs = measure(ops=len(computed.ops), clock=self._clock)
                if name.startswith("cpu"):
                    runs = _with_counts(runs, step, (args, kwargs))
                elif runs.peak_bytes is not None:
                    runs = replace(runs, peak_bytes=runs.peak_bytes - others)
        self._keep(computed, runs, fused=compiler is not None)

    def summary(self, top: int = 10, *, by: str = "op") -> str:
        """Prints the ops that take longest, and the whole; returns the text.

        Args:
            top: Rows; 0 shows all.
            by: ``"op"`` (with ``torch.compile``: kernel) or ``"module"``, where every module
                counts with all that runs inside it.

        Raises:
            InputError: Another ``by``, or nothing was profiled yet.
        """
        if by not in {"op", "module"}:
            raise InputError(f"by={by!r}: give 'op' or 'module'.")
        from gambrel.report import render

        shown = Profiled(profile=self.record, by=by)
        text = str(render(shown, "table", Options(width=_WIDE, top=top)))
        print(text)
        return Printed(text)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        if not self.results:
            return {"text/plain": repr(self)}
        from gambrel.report.notebook import mimebundle

        return mimebundle(Profiled(profile=self.record)) | {"text/plain": repr(self)}

    def to_dataframe(self) -> Any:
        """The ops with their times as a ``pandas.DataFrame``, base SI units."""
        return Profiled(profile=self.record).to_dataframe()

    def compare(self, top: int = 10) -> ProfileComparison:
        """Prints measured beside expected and roofline times, op by op and in total.

        Args:
            top: Rows; 0 shows all.

        Returns:
            The same as data; as a string it is what was printed.
        """
        self._done()
        compared = ProfileComparison(points=tuple(self.results))
        print(compared.text(top))
        return compared

    def calibrate(self, name: str = "profile") -> Path:
        """Fits expected times to this profile; every analysis of this device uses them then.

        Classes of ops with at least four rows are fitted; those with fewer stay as they were. Only
        an eager forward pass can calibrate.

        Args:
            name: To store under; replaces what had it.

        Returns:
            Where they are stored.

        Raises:
            InputError: Nothing was profiled yet, or training steps or kernels of a compiler were.
        """
        from gambrel.analysis.estimate.store import save_probed
        from gambrel.measure.calibrate import fit_rows, rows_of_profile
        from gambrel.workload.formats import in_format

        analysis = self._done()[0]
        if analysis.workload is None or analysis.model.training or analysis.runtime != "pytorch":
            raise InputError("only the profile of an eager forward pass can calibrate.")
        workload = in_format(analysis.workload, analysis.model.precision)
        rows = rows_of_profile(workload, self.results, analysis.hardware)
        return save_probed(name, fit_rows(analysis.hardware, rows, "a profile"))

    def chart(self, title: str | None = None) -> RooflineChart:
        """What every renderer draws: roofs, and each row at its measured rate."""
        from gambrel.report.profile_chart import chart_of_profile

        return chart_of_profile(self.by_row(), self.results, self._done()[1], title)

    def roofline(self, options: Options | None = None) -> str:
        """The chart for a terminal."""
        from gambrel.report.plot_terminal import draw

        return draw(self.chart(), options or Options())

    def plot(self, title: str | None = None) -> go.Figure:
        """The measured points under the roofs, as a plotly Figure."""
        from gambrel.report.plot_interactive import figure
        from gambrel.report.profile_chart import picture

        return figure(picture(self.chart(title), self.results))

    @property
    def modules(self) -> tuple[ModulePoint, ...]:
        """Measured time by module, parents before children; empty before `profile`."""
        return modules(self.results)

    @property
    def record(self) -> Profile:
        """The profile as one record, as `save` writes it."""
        analysis, whole = self._done()
        return Profile(
            model=analysis.model,
            hardware=analysis.hardware,
            totals=whole,
            ops=tuple(self.results),
            modules=self.modules,
            unmatched=self.unmatched,
            runtime=analysis.runtime,
        )

    def to_json(self) -> str:
        """The profile as JSON, base SI units."""
        return to_json(self.record)

    def to_html(self, title: str | None = None) -> str:
        """The profile as a page that opens offline: the chart, modules, ops and doubts."""
        from gambrel.report import render

        return str(render(self._shown(), "html", Options(title=title)))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes `to_json` to a file."""
        replace_file(Path(path), self.to_json().encode())

    def _shown(self) -> Profiled:
        return Profiled(profile=self.record, analysis=self.by_row())

    def by_row(self) -> Analysis:
        """The analysis with a row a result: kernels, or an optimizer's updates, as one."""
        return msgspec.structs.replace(self._done()[0], ops=self._rows)

    def _others(self, source: Any, name: str) -> int:
        """Bytes on the device that are neither the model's nor the sample's."""
        if name.startswith("cpu"):
            return 0
        given = tensors_in((self._sample, self._kwargs))
        return others_on(name, (*source.parameters(), *source.buffers(), *given))

    def _done(self) -> tuple[Analysis, Totals]:
        if self.analysis is None or self.totals is None:
            raise InputError("nothing was profiled yet; call profile(device=...) first.")
        return self.analysis, self.totals

    def _keep(self, computed: Analysis, runs: Runs, *, fused: bool) -> None:
        roofs = roofs_of(computed.hardware)
        rows = rows_of(computed.ops, roofs)
        gpu = bool(runs.device)
        if fused:
            rows, joined, kept = join_kernels(runs.steps, rows, roofs, device=gpu)
            runs = replace(
                runs,
                instrumented_s=tuple(runs.instrumented_s[i] for i in kept),
                device=tuple(runs.device[i] for i in kept) if gpu else (),
            )
        else:
            rows = as_run(rows, runs.steps[-1], roofs, device=gpu)
            names = [join_name(row) for row in rows]
            joined = tuple(join(step, names, device=gpu) for step in runs.steps)
        kept_steps = steady(runs.instrumented_s)
        fp32 = gpu and computed.model.precision == "fp32"
        tf32 = tf32_allowed() if fp32 else frozenset[str]()
        found = points(rows, computed.hardware, joined, kept_steps, tf32)
        whole = totals(runs, joined, found)
        predicted = computed.footprint.total_bytes
        self.analysis = computed
        self.results = list(found)
        self._rows = tuple(rows)
        total = computed.total
        self.totals = msgspec.structs.replace(
            whole,
            predicted_bytes=predicted,
            computed_flops=total.matrix_flops + total.vector_flops,
            computed_bytes=total.traffic_bytes,
        )
        self.unmatched = joined[-1].unmatched
        self._warn()

    def _warn(self) -> None:
        high = [p for p in self.results if p.utilization is not None and p.utilization > 1]
        if high:
            worst = max(high, key=lambda p: p.utilization or 0.0)
            warnings.warn(
                f"{len(high)} of {len(self.results)} ops lie above the roof, most {worst.name} "
                f"with {worst.utilization:.0%}: {worst.reason}.",
                stacklevel=3,
            )

    def _check_peaks(self, name: str) -> None:
        if isinstance(self._peaks, HardwarePeaks):
            measured = self._peaks.device.partition(":")[0]
            if measured != name.partition(":")[0]:
                raise DeviceError(
                    f"the peaks are those of {self._peaks.device}, and the model is to run on "
                    f"{name}; measure that device, or leave peaks out."
                )

    def _roofs(self, name: str) -> Device:
        if isinstance(self._peaks, Device):
            return self._peaks
        if isinstance(self._peaks, str):
            from gambrel.device.resolve import resolve_hardware

            return resolve_hardware(self._peaks)[0]
        if self._peaks is None:
            from gambrel.measure.peaks import measure_peaks

            self._peaks = measure_peaks(name)
        device: Device = self._peaks.to_device()
        return device


def _is_measured(device: Device) -> bool:
    """Whether its compute roofs are what was attained here, not what a maker publishes."""
    kinds = {ceiling.kind for ceiling in device.ceilings}
    return kinds == {CeilingKind.MEASURED}


def _with_counts(runs: Runs, step: PreparedStep, call: tuple[Any, ...]) -> Runs:
    """The runs with what one more step keeps in memory, and what counters of the processor say."""
    held = (*step.held(), *tensors_in(call))
    peak, counted = peak_of(step.run, held), count(step.run, _COUNTED)
    return replace(runs, peak_bytes=peak, counted=counted)


def _check_device(name: str) -> None:
    family = name.partition(":")[0]
    if family == "cuda":
        from gambrel.measure.gpu import index_of

        index_of(name)
    elif family != "cpu":
        raise InputError(
            f"cannot profile on {name!r}; give cpu, cuda or cuda:N (AMD's GPUs are cuda to torch). "
            "For any other device predict: 'gambrel analyze'."
        )


def _captured(
    model: Any, sample: Any, kwargs: Mapping[str, Any], training: Training | None, device: str
) -> Workload:
    if training is None:
        return capture(model, sample, kwargs, device=device)
    kept = [(p, p.grad) for p in model.parameters()]
    try:
        return capture(
            model,
            sample,
            kwargs,
            train=True,
            optimizer=training.optimizer,
            loss=training.loss,
            device=device,
        )
    finally:
        for parameter, gradient in kept:
            parameter.grad = gradient
