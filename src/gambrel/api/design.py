"""Devices that do not exist yet: a specification with parameters under models."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from gambrel.advise.design.axes import design_axes
from gambrel.advise.design.layers import ModelLayers, model_layers, together
from gambrel.advise.design.points import design_points
from gambrel.advise.design.record import DesignStudy, FusionDepth
from gambrel.advise.design.spec import DesignSpec, read_spec, spec_path
from gambrel.advise.design.stacks import fusion_depth
from gambrel.advise.design.study import DesignProbe, device_values, totals
from gambrel.advise.design.work import DesignWork
from gambrel.analysis.question import Question
from gambrel.analysis.sweep.record import Sweep
from gambrel.api.analyze import request_of
from gambrel.api.faces import asks
from gambrel.api.sweep import computed
from gambrel.capture.resolve import resolve_model
from gambrel.engine.grid import PointGrid, check_count
from gambrel.engine.run import Told
from gambrel.engine.tables import Words, length, plain, take
from gambrel.errors import InputError, UnknownNameError

#: What one run of each of several models is called.
TOGETHER: Final = "all models"


@asks("design")
def design(question: Question, told: Told | None = None) -> DesignStudy:
    """Sweeps the parameters of a device that does not exist yet under one or more models.

    Returns:
        Time, energy and area of every design, the front, and the fastest design within the
        budgets layer by layer.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    work = design_work(question)
    q = _with_defaults(question, work)
    models = tuple(model.name for model in work.models)
    return _study(work, computed(q, work, models, told))


def design_work(question: Question) -> DesignWork:
    """The work that answers a question.

    Raises:
        GambrelError: The specification, a model or an axis cannot be used.
    """
    path = spec_path(str(question.device_file))
    spec = read_spec(path)
    axes = design_axes(spec, question.axes)
    models = tuple(_models(question, spec))
    check_count([("models", len(models)), *((f"values of {a.name}", len(a.values)) for a in axes)])
    content = hashlib.sha256(path.read_bytes())
    for model in models:
        content.update(repr(model).encode())
    return DesignWork(spec=spec, models=models, grid=PointGrid(axes), content=content.digest())


def _models(question: Question, spec: DesignSpec) -> Iterator[ModelLayers]:
    """The layers of each model; of several also those of all together."""
    given = question.size_values()
    if any(isinstance(value, tuple) for value in given.values()):
        raise InputError("design takes one value of each size; sweep the device with --sweep.")
    precision, sums = spec.names["precision"], spec.names["accumulate"]
    found = []
    for source in question.several("model"):
        workload = resolve_model(source, request_of(question, given, keep_open=True)).workload
        known = {symbol.name for symbol in workload.symbols}
        unknown = [name for name in given if name not in known]
        if unknown and len(question.several("model")) == 1:
            raise UnknownNameError("size", unknown[0], tuple(sorted(known)))
        sizes = {name: value for name, value in given.items() if name in known}
        found.append(model_layers(workload, sizes, precision, sums))
    yield from found
    if len(found) > 1:
        yield together(tuple(found), TOGETHER)


def _with_defaults(question: Question, work: DesignWork) -> Question:
    """Budgets are kept, and the front is over whatever is known, unless the user says otherwise."""
    spec, where, pareto = work.spec, question.where, question.pareto
    if where is None and (spec.area.limit is not None or spec.power.limit is not None):
        where = "within"
    if not pareto:
        known = {
            "latency": True,
            "energy": {"mac_pj", "sram_pj_per_byte"} <= _figures(work),
            "area": bool(spec.area.parts),
        }
        pareto = tuple(name for name, holds in known.items() if holds)
    return dataclasses.replace(question, where=where, pareto=pareto)


def _figures(work: DesignWork) -> set[str]:
    return set(design_points(work.spec, work.values(0, 1), 1).energy)


def _study(work: DesignWork, found: Sweep) -> DesignStudy:
    chosen = _chosen(work, found)
    whole = work.models[-1]
    probe = DesignProbe(work.spec, chosen)
    single = work.models[:-1] or work.models
    layers = [layer for model in single for layer in probe.layers(model)]
    return DesignStudy(
        name=work.spec.name,
        about=work.spec.about,
        sweep=found,
        chosen=chosen,
        device=device_values(work.spec, chosen),
        totals=totals(work.spec, chosen, work.models),
        layers=tuple(sorted(layers, key=lambda layer: -layer.array_time_s)),
        sensitivities=probe.sensitivities(whole),
        fusion=tuple(_fusion(single, probe)),
        assumptions=tuple(_assumptions(work)),
        warnings=tuple(_warnings(work, found)),
    )


def _fusion(models: tuple[ModelLayers, ...], probe: DesignProbe) -> Iterator[FusionDepth]:
    for model in models:
        found = fusion_depth(model.name, model.chain, probe.room)
        if found is not None:
            yield found


def _chosen(work: DesignWork, found: Sweep) -> dict[str, Any]:
    """Parameters of the fastest point that is kept, under all models together."""
    chosen: dict[str, Any] = dict(work.spec.parameters)
    table = found.front if found.front is not None and length(found.front) else found.table
    if not length(table):
        return chosen
    models = table["model"]
    assert isinstance(models, Words)  # a column of texts
    rows = take(table, models.texts() == work.models[-1].name)
    if length(rows):
        first = int(np.argmin(np.asarray(rows["array_time_s"])))
        for axis in work.grid.axes:
            chosen[axis.name] = plain(take({"v": rows[axis.name]}, [first])["v"])[0]
    return chosen


def _assumptions(work: DesignWork) -> Iterator[str]:
    spec = work.spec
    yield (
        "Times are those of an ideal schedule: each layer takes what its slowest resource takes, "
        "and layers run one after another."
    )
    if "vector" not in spec.formulas:
        yield "The rate of element-wise work is not stated; that work takes no time here."
    if "sram_bandwidth" not in spec.formulas:
        yield "The bandwidth of the buffers is not stated; it limits nothing here."
    if "static_w" not in spec.energy:
        yield "Static power is not stated; the energy is that of work and traffic."
    yield from (f"Energy: {text}." for text in spec.energy_sources)
    for label, budget in (("Area", spec.area), ("Power", spec.power)):
        yield from (f"{label} of {part.name}: {part.source}." for part in budget.parts)


def _warnings(work: DesignWork, found: Sweep) -> Iterator[str]:
    if not found.rows:
        yield (
            f"none of the {found.points:,} points is kept; what follows is the design with the "
            "parameters as the file has them."
        )
    for model in work.models[: len(work.models) - 1] or work.models:
        if model.coverage < 1:
            yield f"{model.name}: {model.coverage:.1%} of the ops have a formula."
        if model.shaped_share < 1:
            yield (
                f"{model.name}: of {1 - model.shaped_share:.1%} of the matrix work the form is not "
                "modelled; it takes the time of a full array."
            )
