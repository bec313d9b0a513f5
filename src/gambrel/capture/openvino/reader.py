"""From an OpenVINO IR to a workload: the way in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from gambrel.capture.files.dynamic import DataTrips, over_batch
from gambrel.capture.graph.finish import finish, reading
from gambrel.capture.graph.writer import Writer
from gambrel.capture.onnx.folding import read_range
from gambrel.capture.openvino.model_file import IrLayer, open_model
from gambrel.capture.openvino.walk import LayerWalker
from gambrel.workload import Workload


def read_openvino(path: str | Path, sizes: Mapping[str, int | None] | None = None) -> Workload:
    """Reads the workload of an OpenVINO IR.

    The .bin beside it need not be there: masks of attention alone are looked up in it.

    Args:
        path: The .xml file.
        sizes: ``batch``, where the file leaves it open; ``trip``: how often loops run whose end
            stands in the data.

    Raises:
        FileFormatError: It is no IR, damaged, hostile, or leaves other sizes open.
    """
    path = Path(path)
    given = dict(sizes or {})
    with reading(path, "OpenVINO IR", "save it again with openvino.save_model"):
        layers = open_model(path)

        def at(values: Mapping[str, int]) -> Workload:
            return _workload(layers, path, values["batch"], given.get("trip"))

        batch = given.get("batch") or 1
        first = at({"batch": batch})
        return over_batch(at, batch, first.symbols) if _is_open(layers) else first


def _is_open(layers: list[IrLayer]) -> bool:
    shapes = (s for layer in layers if layer.kind == "Parameter" for s, _ in layer.outputs.values())
    return any(-1 in shape for shape in shapes)


def _workload(layers: list[IrLayer], path: Path, batch: int, trips: int | None) -> Workload:
    writer = Writer("openvino")
    counted = DataTrips(trips)
    LayerWalker(writer, batch, counted).run(layers)
    writer.trace.read_stored = partial(read_range, path.with_suffix(".bin"))
    return finish(writer.trace, name=path.stem, origin="OpenVINO IR", symbols=counted.symbols)
