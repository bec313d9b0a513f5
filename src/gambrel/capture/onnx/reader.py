"""From an ONNX file to a workload: the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from gambrel.capture.files.dynamic import MAX_SYMBOLS, DataTrips, DynamicSize, lifted
from gambrel.capture.graph.finish import reading
from gambrel.capture.onnx.builder import Builder
from gambrel.capture.onnx.dimensions import OpenInputs, open_inputs
from gambrel.capture.onnx.edges import Trace
from gambrel.capture.onnx.folding import read_range
from gambrel.capture.onnx.model_file import open_model
from gambrel.capture.onnx.passes import refine
from gambrel.capture.onnx.walk import Walker
from gambrel.errors import FileFormatError, WorkloadError
from gambrel.workload import Symbol, Workload
from gambrel.workload.parameters import mention_unread
from gambrel.workload.prune import drop_unused_outputs

#: Strides divide image sides: at multiples of these the sizes are polynomials.
_STEPS: Final = (1, 32)


def read_onnx(path: str | Path, sizes: Mapping[str, int | None] | None = None) -> Workload:
    """Reads the workload of an ONNX model. Weights and external data are not read.

    Args:
        path: The file; data of its own beside it need not be there.
        sizes: Values of open dimensions, by name.

    Raises:
        FileFormatError: It is no ONNX model, damaged or hostile.
        MissingExtraError: The package onnx is not installed.
    """
    path = Path(path)
    advice = "export it again, or check it with onnx.checker.check_model"
    with reading(path, "ONNX model", advice):
        model = open_model(path)
        inputs = open_inputs(model.graph, sizes or {})
        return mention_unread(_workload(model, inputs, path, sizes or {}))


def trace_model(
    model: Any,
    inputs: OpenInputs,
    values: Mapping[str, int],
    trips: DataTrips,
    path: Path | None = None,
) -> Trace:
    """The steps of a model at given sizes, decompositions recognised.

    Args:
        model: An ``onnx.ModelProto``.
        inputs: With their open sizes.
        values: Of these.
        trips: Of loops whose end depends on data.
        path: The file of the model, where masks of attention may be looked up.
    """
    trace = Walker(model, inputs.at(values), trips).run()
    if path is not None:
        trace.read_stored = partial(read_range, path)
    refine(trace)
    return trace


def _workload(
    model: Any, inputs: OpenInputs, path: Path, chosen: Mapping[str, int | None]
) -> Workload:
    producer = f"{model.producer_name} {model.producer_version}".strip()[:60]
    origin = f"ONNX, {producer}" if producer else "ONNX"

    trips = DataTrips(chosen.get("trip"))

    def at(values: Mapping[str, int]) -> Workload:
        trace = trace_model(model, inputs, values, trips, path)
        return drop_unused_outputs(Builder().build(trace, name=path.stem, origin=origin))

    hints = {d.name: d.hint for d in inputs.sizes}
    built = _open(inputs.sizes, hints, at, chosen)
    if "trip" not in hints:
        built = replace(built, symbols=(*built.symbols, *trips.symbols))
    if not inputs.defaulted:
        return built
    said = ", ".join(f"{n}={hints[n]}" for n in inputs.defaulted)
    sentence = f"The file leaves sizes open; {said} (choose with --size NAME=N)."
    return replace(built, assumptions=(*built.assumptions, sentence))


def _open(
    sizes: tuple[DynamicSize, ...],
    hints: Mapping[str, int],
    at: Callable[[Mapping[str, int]], Workload],
    chosen: Mapping[str, int | None],
) -> Workload:
    """The workload over its open sizes; at their values where they follow no polynomial."""
    first = at(hints)
    if not sizes:
        return first
    # Sizes that the user chose are the ones to keep open, the batch before the others.
    order = sorted(sizes, key=lambda d: (d.name != "batch", chosen.get(d.name) is None))
    for free in (order[:MAX_SYMBOLS], order[:1]):
        rest = [d for d in sizes if d not in free]
        for step in _STEPS:
            if any(d.hint % step for d in free if d.name != "batch"):
                continue
            try:
                found = lifted(free, hints, at, step)
            except (WorkloadError, FileFormatError):
                continue
            return replace(found, symbols=(*found.symbols, *map(_fixed, rest)))
    return replace(first, symbols=tuple(map(_fixed, sizes)))


def _fixed(d: DynamicSize) -> Symbol:
    """A size at its value: for another the file is read again."""
    return Symbol(name=d.name, default=d.hint, minimum=d.hint, maximum=d.hint, about=d.about)
