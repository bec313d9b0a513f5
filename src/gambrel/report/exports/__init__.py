"""An analysis in the formats of other tools: one table.

export(analysis, "trace.json")             -> the predicted timeline, for Perfetto and Chrome
export(analysis, "model.onnx")             -> the graph with the figures of every op, for Netron
export(analysis, "layers.yaml", "zigzag")  -> loop nests of convolutions and GEMMs
export(analysis, "trace.et")               -> a Chakra execution trace, for network simulators
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gambrel.analysis.result import Analysis
from gambrel.errors import InputError, UnknownNameError, cut
from gambrel.report.files import replace_file

if TYPE_CHECKING:
    from gambrel.advise.design.record import DesignStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """A format of another tool.

    Attributes:
        name: As the user writes it.
        about: One line: what it is, and what opens it.
        suffixes: Of files, lower case.
        place: ``module:function`` below this package: from an analysis to the file's content.
    """

    name: str
    about: str
    suffixes: tuple[str, ...]
    place: str

    def content(self, analysis: Analysis) -> bytes:
        """The file of an analysis."""
        return _called(self.place, analysis)


#: All formats by name.
EXPORTERS: Final[dict[str, Exporter]] = {
    e.name: e
    for e in (
        Exporter(
            name="perfetto",
            about="predicted timeline as a Chrome trace: ui.perfetto.dev, chrome://tracing",
            suffixes=(".json",),
            place="trace:chrome_trace",
        ),
        Exporter(
            name="onnx",
            about="graph whose nodes carry FLOP, bytes, bound and times: Netron",
            suffixes=(".onnx",),
            place="graph:annotated_graph",
        ),
        Exporter(
            name="timeloop",
            about="one problem for each distinct convolution or GEMM: Timeloop",
            suffixes=(".yaml", ".yml"),
            place="loops:timeloop_problems",
        ),
        Exporter(
            name="zigzag",
            about="convolutions and GEMMs in order: ZigZag, Stream",
            suffixes=(".yaml", ".yml"),
            place="loops:zigzag_workload",
        ),
        Exporter(
            name="chakra",
            about="execution trace with predicted durations: ASTRA-sim and others",
            suffixes=(".et",),
            place="chakra:execution_trace",
        ),
    )
}


#: Formats of a design: the accelerator of another explorer.
ACCELERATORS: Final = {
    "timeloop": "hardware:timeloop_architecture",
    "zigzag": "hardware:zigzag_accelerator",
}


def exporter_of(target: Path, to: str | None) -> Exporter:
    """The format of a file: the one that is named, else the one that its suffix stands for.

    Raises:
        UnknownNameError: No such format.
        InputError: The suffix stands for none or for several.
    """
    if to is not None:
        if to not in EXPORTERS:
            raise UnknownNameError("export format", to, tuple(EXPORTERS))
        return EXPORTERS[to]
    suffix = target.suffix.lower()
    fitting = [e for e in EXPORTERS.values() if suffix in e.suffixes]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = " or ".join(e.name for e in fitting)
        raise InputError(f"{cut(str(target))} can be {names}; choose with --to (in Python to=).")
    known = ", ".join(EXPORTERS)
    raise InputError(
        f"{cut(str(target))}: no export format has the ending {suffix or '(none)'!r}; "
        f"choose with --to: {known}."
    )


def export(analysis: Analysis | DesignStudy, target: str | Path, to: str | None = None) -> Path:
    """Writes an analysis, or the accelerator of a design, for another tool, complete or not at all.

    Args:
        analysis: With its workload; or a design.
        target: The file.
        to: One of `EXPORTERS`, by default the one of the file's suffix; of a design one of
            `ACCELERATORS`.

    Returns:
        The file.

    Raises:
        GambrelError: No such format, no such folder, or nothing of the kind in the model.
    """
    path = Path(target)
    if isinstance(analysis, Analysis):
        content = exporter_of(path, to).content(analysis)
    else:
        content = _accelerator(analysis, to)
    replace_file(path, content)
    return path


def _accelerator(study: DesignStudy, to: str | None) -> bytes:
    if to not in ACCELERATORS:
        if to is None:
            known = " or ".join(ACCELERATORS)
            raise InputError(f"a design is exported for {known}; choose with --to (in Python to=).")
        raise UnknownNameError("export format of a design", to, tuple(ACCELERATORS))
    return _called(ACCELERATORS[to], study)


def _called(place: str, record: Any) -> bytes:
    """What a function of this package makes of a record."""
    module, _, name = place.partition(":")
    function = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    made: bytes = function(record)
    return made
