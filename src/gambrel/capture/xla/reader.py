"""From a file of StableHLO or HLO to a workload: the ways in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from gambrel.capture.files.archive import check_file
from gambrel.capture.graph.finish import reading
from gambrel.capture.xla.arguments import said
from gambrel.capture.xla.bytecode import MAGIC, text_of
from gambrel.capture.xla.finish import finished
from gambrel.capture.xla.graph import Graph
from gambrel.errors import FileFormatError, require, told
from gambrel.workload import Workload

#: What stands before the bytecode in what jax.export writes.
_HEAD: Final = 4096

#: Constants of a module may be its weights.
_MAX_BYTES: Final = 4 * 2**30
#: Operations of a text, counted before it is parsed: the parsers take 25 µs and more for each.
_MAX_OPERATIONS: Final = 400_000
#: What makes a result: ``%0:2 = ...``, and in HLO a name that begins a line.
_OPERATION: Final = re.compile(r"(?:%[\w.:\-]+|^ *(?:ROOT )?[\w.\-]+) = ", re.MULTILINE)


def read_stablehlo(path: str | Path, sizes: Mapping[str, int | None] | None = None) -> Workload:
    """Reads a module of StableHLO: text, bytecode, or what ``jax.export`` serialized.

    Args:
        path: The file.
        sizes: ``trip`` says how often loops run whose trip count depends on data.

    Raises:
        FileFormatError: It is no such module, damaged or hostile.
        MissingExtraError: JAX, whose MLIR reads it, is not installed.
    """
    path = Path(path)
    require("jaxlib", "jax", "reading StableHLO")
    return _read(path, sizes, "stablehlo", "StableHLO", _record_module)


def read_hlo(path: str | Path, sizes: Mapping[str, int | None] | None = None) -> Workload:
    """Reads the text of an HLO module, as ``--xla_dump_to`` writes it. Needs no package.

    Args:
        path: The file.
        sizes: ``trip`` says how often loops run whose trip count depends on data.

    Raises:
        FileFormatError: It is no such module, damaged or hostile.
    """
    return _read(Path(path), sizes, "hlo", "HLO", _record_text)


def _read(
    path: Path,
    sizes: Mapping[str, int | None] | None,
    family: str,
    origin: str,
    record: Callable[[bytes, Graph, int | None], None],
) -> Workload:
    if check_file(path) > _MAX_BYTES:
        raise FileFormatError(f"{path}: more than {_MAX_BYTES // 2**30} GiB of a program; refused.")
    trips = (sizes or {}).get("trip")
    graph = Graph(family)
    with reading(path, "module", "write it again"):
        record(path.read_bytes(), graph, trips)
        rule = said((*graph.trace.inputs, *graph.trace.stored))
        workload = finished(graph, name=path.stem, origin=origin, trips=trips)
    first = f"{rule[0].upper()}{rule[1:]}."
    return replace(workload, assumptions=(first, *workload.assumptions))


def _record_module(data: bytes, graph: Graph, trips: int | None) -> None:
    from gambrel.capture.xla.stablehlo import ModuleWalker

    context, module = _parsed(data)
    with context:
        ModuleWalker(module, graph, trips).run()


def _parsed(data: bytes) -> tuple[Any, Any]:
    """A module in the context with every dialect that JAX writes."""
    from jaxlib.mlir import ir

    from gambrel.capture.xla.context import make_context

    text = text_of(data) if MAGIC in data[:_HEAD] else data.decode("utf-8", "replace")
    _check_count(text)
    context = make_context()
    said: list[str] = []

    def heard(diagnostic: Any) -> bool:
        try:
            said.append(str(diagnostic.message))
        except Exception:  # of a damaged name that is no UTF-8: the binding's own class
            said.append("a text in it is no UTF-8")
        return True  # nothing is printed

    context.attach_diagnostic_handler(heard)
    try:
        return context, ir.Module.parse(text, context)
    except Exception as error:  # MLIR's own classes
        lines = [*said, *(x.strip() for x in str(error).splitlines() if x.strip())]
        why = told(lines[0][:200]) if lines else type(error).__name__
        raise FileFormatError(f"this is no module of StableHLO that is whole ({why}).") from None


def _record_text(data: bytes, graph: Graph, trips: int | None) -> None:
    from gambrel.capture.xla.hlo import HloWalker, parse

    text = data.decode("utf-8", "replace")
    _check_count(text)
    HloWalker(parse(text), graph, trips).run()


def _check_count(text: str) -> None:
    if sum(1 for _ in islice(_OPERATION.finditer(text), _MAX_OPERATIONS + 1)) > _MAX_OPERATIONS:
        raise FileFormatError(f"more than {_MAX_OPERATIONS:,} operations; refused.")
