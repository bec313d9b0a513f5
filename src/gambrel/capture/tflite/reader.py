"""From a TFLite file to a workload: the way in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gambrel.capture.files.dynamic import DataTrips
from gambrel.capture.graph.finish import finish, reading
from gambrel.capture.graph.writer import Writer
from gambrel.capture.tflite.model_file import open_model
from gambrel.capture.tflite.walk import SubgraphWalker
from gambrel.workload import Workload


def read_tflite(path: str | Path, sizes: Mapping[str, int | None] | None = None) -> Workload:
    """Reads the workload of a TFLite model. Weights are not read.

    Args:
        path: The file.
        sizes: ``trip``: how often loops run whose end depends on data.

    Raises:
        FileFormatError: It is no TFLite model, damaged or hostile.
        MissingExtraError: The package tflite is not installed.
    """
    path = Path(path)
    with reading(path, "TFLite model", "convert it again"):
        model, _data = open_model(path)
        writer = Writer("tflite")
        trips = DataTrips((sizes or {}).get("trip"))
        walker = SubgraphWalker(model, writer, trips)
        walker.run()
        writer.trace.read_stored = walker.stored_value
        return finish(writer.trace, name=path.stem, origin="TFLite", symbols=trips.symbols)
