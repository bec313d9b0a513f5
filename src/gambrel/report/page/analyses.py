"""The page of an analysis: its roofline over folded rows, and how to ask again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from gambrel.analysis.result import Analysis, OpResult
from gambrel.errors import GambrelError
from gambrel.report.builders import analysis as report
from gambrel.report.chart import describe
from gambrel.report.options import Options
from gambrel.report.page.parts import PageParts
from gambrel.report.picture import Picture
from gambrel.report.registry import document
from gambrel.report.terms import range_text
from gambrel.units import format_si

#: Ops up to which advice is given unasked: it takes as long as many analyses.
_QUICK: Final = 1500


def parts(analysis: Analysis, options: Options) -> PageParts:
    """The roofline with a dot a row of the table of ops, and the pictures of its model."""
    rows = report.slowest(analysis)
    advised = options.recommend or (analysis.workload is not None and len(analysis.ops) <= _QUICK)
    return PageParts(
        document=document(analysis, replace(options, recommend=advised)),
        rooflines=(describe(analysis, options.title, levels=True, rows=rows),) if rows else (),
        pictures=tuple(_pictures(analysis)),
        details=tuple(details(rows)),
        commands=commands(analysis),
    )


def details(rows: Sequence[OpResult]) -> Iterator[tuple[str, list[str]]]:
    """What a row says where a reader asks: why its estimate, which roofs, where in the source."""
    estimates = [op.measures.expected_time_s for op in rows]
    yield "range", [range_text(e) if e else "" for e in estimates]
    yield "confidence", [f"{e.confidence}: {e.reason}" if e else "" for e in estimates]
    yield "work", [_work(op) for op in rows]
    yield "traffic", [_traffic(op) for op in rows]
    yield "held against", [_roofs(op) for op in rows]
    yield "framework's op", [op.op for op in rows]
    yield "source line", [op.source for op in rows]
    yield "phase", ["" if op.phase == "forward" else op.phase for op in rows]


def _work(op: OpResult) -> str:
    m = op.measures
    parts = {"matrix": m.matrix_flops, "vector": m.vector_flops}
    return ", ".join(f"{name} {format_si(n, 'FLOP')}" for name, n in parts.items() if n)


def _traffic(op: OpResult) -> str:
    m = op.measures
    return f"{format_si(m.read_bytes, 'B')} read, {format_si(m.write_bytes, 'B')} written"


def _roofs(op: OpResult) -> str:
    m = op.measures
    roofs = [
        f"{w.engine} {w.engine_dtype} {format_si(w.peak_flop_per_s, 'FLOP/s')}"
        for w in m.work
        if w.peak_flop_per_s is not None
    ]
    roofs += [f"memory {format_si(m.peak_byte_per_s, 'B/s')}"] if m.peak_byte_per_s else []
    return ", ".join(roofs)


def _pictures(analysis: Analysis) -> Iterator[Picture]:
    """Drawings of a language model; their module needs numpy and is loaded for those only."""
    if analysis.workload is None:
        return
    if analysis.workload.recipe:
        from gambrel.report.llm_pictures import pictures

        yield from pictures(analysis)
    if analysis.ops and len(analysis.ops) <= _QUICK:
        from gambrel.report import timeline
        from gambrel.report.answers import Memory

        try:
            yield from timeline.pictures(Memory(analysis=analysis), Options())
        except GambrelError:
            return  # e.g. a layout over several devices, whose memory no timeline describes


def commands(analysis: Analysis) -> dict[str, str]:
    """The command and the call that ask the same, as far as the analysis knows its question."""
    model, hardware = analysis.model, analysis.hardware.id
    if not hardware:
        return {}
    name, phase = model.name, ""
    for ending in ("prefill", "decode"):
        if name.endswith(f" {ending}"):
            name, phase = name.removesuffix(f" {ending}"), ending
    words = ["gambrel", "analyze", name, "--hardware", hardware, "--precision", model.precision]
    words += ["--runtime", analysis.runtime] if analysis.runtime else []
    words += ["--phase", phase] if phase else []
    given = {"precision": model.precision, "runtime": analysis.runtime, "phase": phase}
    given = {key: value for key, value in given.items() if value}
    calls = [f"{key}={value!r}" for key, value in given.items()]
    for symbol, value in model.symbols.items():
        words += [f"--{symbol}", str(value)]
        calls.append(f"{'batch_size' if symbol == 'batch' else symbol}={value}")
    call = ", ".join([repr(name), repr(hardware), *calls])
    return {"shell": shlex.join(words), "python": f"import gambrel\n\ngambrel.analyze({call})\n"}
