"""`RooflineAnalyzer`: a live model, profiled under the ceilings of this machine."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gambrel._version import __version__
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.result import Analysis
from gambrel.capture.torch import capture
from gambrel.device.model import Device
from gambrel.errors import DeviceError, InputError, MissingExtraError
from gambrel.measure.profile import text
from gambrel.measure.profile.join import join, short_name
from gambrel.measure.profile.points import RooflinePoint, Totals, points, steady, totals
from gambrel.measure.profile.run import Runs, as_call, forward_explained, moved, placed, run
from gambrel.measure.records import HardwarePeaks

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCHEMA_VERSION = 1


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
            peaks: Measured peaks, a `Device` or its name; None measures this machine when needed.
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
        self.totals: Totals | None = None
        self.analysis: Analysis | None = None
        self.unmatched: tuple[tuple[str, float], ...] = ()

    @property
    def peaks(self) -> HardwarePeaks | Device | str | None:
        """What the ops are held against; None before they were measured."""
        return self._peaks

    def profile(self, device: object = "cpu", *, warmup: int = 5, steps: int = 20) -> None:
        """Runs the model and fills `results`.

        The model runs as it is (its training flag decides about dropout), without gradients. It
        goes back to the device where it was, with the buffers that it had.

        Args:
            device: As torch names it.
            warmup: Steps thrown away.
            steps: Steps measured, without instruments; as many, or fewer of a model with very many
                ops, are profiled.

        Raises:
            InputError: Steps below 1, or the model fails.
            DeviceError: There is no such device, or the peaks are those of another kind.
            CaptureError: The model cannot be captured.
        """
        name = str(device)
        _check(warmup, steps)
        _check_device(name)
        self._check_peaks(name)
        workload = capture(self._model, self._sample, self._kwargs)
        roofs = self._roofs(name)
        computed = analyze(workload, roofs, Settings(warm=True))
        names = [short_name(op.op) for op in computed.ops]
        with placed(self._model, name), forward_explained(workload.name, name):
            args, kwargs = as_call(self._sample, name)
            kwargs |= moved(self._kwargs, name)
            runs = run(
                lambda: self._model(*args, **kwargs),
                name,
                warmup=warmup,
                steps=steps,
                ops=len(names),
                clock=self._clock,
            )
        self._keep(computed, names, runs)

    def summary(self, top: int = 10) -> str:
        """Prints the ops that take longest, and the whole; returns the text.

        Args:
            top: Rows; 0 shows all.
        """
        said = text.summary(self.results, self._done()[1], top)
        print(said)
        return said

    def compare(self, top: int = 10) -> str:
        """Prints measured beside expected and bound times; returns the text."""
        self._done()
        said = text.comparison(self.results, top)
        print(said)
        return said

    def plot(self, title: str | None = None) -> go.Figure:
        """The measured points under the roofs, as a plotly Figure."""
        from gambrel.measure.profile.chart import plot

        return plot(self._done()[0], tuple(self.results), title)

    def to_json(self) -> str:
        """The profile as JSON, base SI units."""
        analysis, whole = self._done()
        record = {
            "schema_version": SCHEMA_VERSION,
            "gambrel_version": __version__,
            "units": {"flops": "FLOP", "traffic_bytes": "byte", "time_s": "s"},
            "model": analysis.model,
            "hardware": analysis.hardware,
            "totals": msgspec.to_builtins(whole)
            | {"gap_s": whole.gap_s, "instrumentation_s": whole.instrumentation_s},
            "no_bound_share": text.no_bound_share(self.results),
            "unmatched": [{"name": n, "time_s": t} for n, t in self.unmatched],
            "ops": [_finite(p) for p in self.results],
        }
        return msgspec.json.format(msgspec.json.encode(record), indent=2).decode()

    def save(self, path: str | PathLike[str]) -> None:
        """Writes `to_json` to a file."""
        target = Path(path)
        draft = target.with_name(target.name + ".tmp")
        draft.write_text(self.to_json(), encoding="utf-8")
        draft.replace(target)

    def _done(self) -> tuple[Analysis, Totals]:
        if self.analysis is None or self.totals is None:
            raise InputError("nothing was profiled yet; call profile(device=...) first.")
        return self.analysis, self.totals

    def _keep(self, computed: Analysis, names: list[str], runs: Runs) -> None:
        joined = [join(step, names) for step in runs.steps]
        found = points(computed, joined, steady(runs.instrumented_s))
        whole = totals(runs, joined, found)
        predicted = computed.footprint.total_bytes
        self.analysis = computed
        self.results = list(found)
        self.totals = msgspec.structs.replace(whole, predicted_bytes=predicted)
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
            from gambrel.device.lookup import find

            return find(self._peaks).device
        if self._peaks is None:
            from gambrel.measure.peaks import measure_peaks

            self._peaks = measure_peaks(name)
        device: Device = self._peaks.to_device()
        return device


def _check(warmup: int, steps: int) -> None:
    for label, value, least in (("warmup", warmup, 0), ("steps", steps, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{label}={value!r}: give a whole number of at least {least}.")


def _check_device(name: str) -> None:
    family = name.partition(":")[0]
    if family == "cuda":
        from gambrel.measure.gpu import index_of

        index_of(name)
    elif family != "cpu":
        raise InputError(f"cannot profile on {name!r}; give cpu, cuda or cuda:N.")


def _finite(point: RooflinePoint) -> dict[str, object]:
    """An infinite intensity has no place in JSON: it is null there."""
    plain = msgspec.structs.asdict(point)
    return {k: None if v in (float("inf"), float("-inf")) else v for k, v in plain.items()}
