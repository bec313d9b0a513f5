"""From a Core ML model to a workload: the way in."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gambrel.capture.coreml.blobs import read_blob
from gambrel.capture.coreml.model_file import file_of_package, is_package, open_program
from gambrel.capture.coreml.walk import BlockWalker
from gambrel.capture.graph.finish import finish, reading
from gambrel.capture.graph.writer import Writer
from gambrel.workload import Workload


def read_coreml(path: str | Path) -> Workload:
    """Reads the workload of a Core ML model. Weights are not read and need not be there.

    Args:
        path: An ``.mlpackage`` folder, or the ``.mlmodel`` in it.

    Raises:
        FileFormatError: It is no ML program, damaged or hostile.
    """
    path = Path(path)
    with reading(path, "Core ML model", "convert it again"):
        file = file_of_package(path) if is_package(path) else path
        program = open_program(file)
        writer = Writer("coreml")
        writer.trace.read_stored = partial(read_blob, file.parent / "weights" / "weight.bin")
        BlockWalker(writer).run(program)
        return finish(writer.trace, name=path.stem, origin="Core ML")
