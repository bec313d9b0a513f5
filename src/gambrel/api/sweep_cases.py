"""From a question with several values to the work of a sweep: axes, and how a case is opened.

A case is everything of a point that has a name: model, phase, layout, change, runtime, engine,
number format, device. Sizes are axes of their own, evaluated as arrays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from gambrel.analysis.measures import without_formula
from gambrel.analysis.question import Question
from gambrel.analysis.settings import Settings, asked_of, is_language_model, layers_of
from gambrel.analysis.sweep.points import has_spans, is_at_once
from gambrel.analysis.sweep.work import (
    CHUNK,
    FAST,
    SLOW,
    SPANNED,
    SmallerSizes,
    SweepCase,
    SweepWork,
)
from gambrel.analysis.workbench import Machine
from gambrel.api.analyze import request_of, settings_of
from gambrel.capture.resolve import has_parts, resolve_model
from gambrel.device.model import Device
from gambrel.device.resolve import asked_devices
from gambrel.engine.grid import GridAxis, PointGrid, check_count
from gambrel.errors import FileFormatError, GambrelError, InputError, UnknownNameError
from gambrel.ops import is_modelled
from gambrel.runtimes import choose, runtime
from gambrel.workload import Workload

if TYPE_CHECKING:
    from gambrel.advise.changes import Scenario
    from gambrel.llm.spec import ModelSpec

#: The least and the greatest value of a size.
Ranges: TypeAlias = Mapping[str, tuple[int, int]]
#: Fields of the question that are axes of cases, outermost first, and their columns.
_NAMED: Final = {
    "phase": "phase",
    "causal": "causal",
    "tensor": "tensor",
    "change": "change",
    "runtime": "runtime",
    "engine": "engine",
    "precision": "precision",
}
#: Files up to this size are hashed whole; of larger ones size and time of change count.
_HASHED: Final = 256 << 20
#: The alternative that changes nothing.
_UNCHANGED: Final = "none"


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model of a sweep.

    Attributes:
        label: What its column says.
        source: A name or a path, or the workload itself.
    """

    label: str
    source: Any


@dataclass(frozen=True, kw_only=True)
class CaseOpener:
    """Makes the case of some values; pickled without what it has made.

    Attributes:
        question: With one value of everything.
    """

    question: Question
    _workloads: dict[Any, Workload] = field(default_factory=dict, repr=False)
    _settings: dict[Any, Settings] = field(default_factory=dict, repr=False)
    _changed: dict[Any, SweepCase] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_workloads": {}, "_settings": {}, "_changed": {}}

    def __call__(self, values: Mapping[str, Any]) -> SweepCase:
        """The case of one value of each axis."""
        entry, device = values["model"], values["device"]
        asked = dataclasses.replace(
            self.question,
            **{name: values[name] for name in _NAMED if name in values and name != "change"},
        )
        ranges = self._ranges(entry, asked)
        parts = [self._built(entry, device, asked, each) for each in ranges]
        workload, device = parts[-1]
        case = SweepCase(
            labels={"model": entry.label, "device": values["device"].id, **_labels(values)},
            workload=workload,
            smaller=tuple(
                SmallerSizes(name=name, most=most, workload=small)
                for each, (small, _) in zip(ranges[:-1], parts[:-1], strict=True)
                for name, (_, most) in each.items()
            ),
            device=device,
            settings=self._settings_of(asked, workload),
        )
        change = values.get("change", _UNCHANGED)
        return case if change == _UNCHANGED else self._with_change(case, change)

    def _built(
        self, entry: ModelEntry, device: Device, asked: Question, ranges: Ranges
    ) -> tuple[Workload, Device]:
        if asked.tensor is None:
            return self.workload(entry, device, asked, ranges), device
        return self._sharded(entry, device, asked, ranges)

    def _ranges(self, entry: ModelEntry, asked: Question) -> list[Ranges]:
        """Where ops of a model depend on a size: its values, those of the same ops at once."""
        base = entry.source
        if not isinstance(base, Workload):
            plain = request_of(asked, {}).layers
            base = self._resolved(entry, asked, layers=plain, precision=None, ranges={})
        if base is entry.source or not base.recipe:
            return [{}]
        from gambrel.capture.closed_form import positions_of
        from gambrel.llm.limits import is_in_chunks, limits_of, of_same_ops
        from gambrel.llm.recipe import recipe_of

        recipe = recipe_of(base)
        if recipe is None or not limits_of(recipe.spec):
            return [{}]
        name = positions_of(recipe.spec, recipe.phase)
        own = next(s.default for s in base.symbols if s.name == name)
        values = sorted(_sizes(asked).get(name, (own,)))
        if is_in_chunks(recipe.spec):
            return [{name: (value, value)} for value in values]
        return [{name: (each[0], each[-1])} for each in of_same_ops(recipe.spec, values)]

    def workload(
        self, entry: ModelEntry, device: Device, asked: Question, ranges: Ranges
    ) -> Workload:
        """The model as a runtime stores it and in the formats that are built into it."""
        if isinstance(entry.source, Workload):
            return entry.source
        plain = request_of(asked, {}).layers
        base = self._resolved(entry, asked, layers=plain, precision=None, ranges={})
        layers = _layers_of(base, device, asked)
        parts = has_parts(base, entry.source, layers, asked.precision)
        built = asked.precision if parts else None
        # Windows of attention need numbers: sizes that do not vary are those of the analysis.
        own = {s.name: s.default for s in base.symbols if base.recipe and s.name != "batch"}
        return self._resolved(entry, asked, layers=layers, precision=built, own=own, ranges=ranges)

    def _resolved(
        self,
        entry: ModelEntry,
        asked: Question,
        *,
        layers: str,
        precision: str | None,
        ranges: Ranges,
        own: Mapping[str, int] = {},
    ) -> Workload:
        key = entry.label, asked.phase, layers, precision, *own.items(), *ranges.items()
        if key not in self._workloads:
            # What a model is built at, a pipeline's steps, is no axis: one value of it is taken.
            given = _sizes(asked)
            fixed = {name: value for name, value in own.items() if name not in given}
            fixed |= {name: each[0] for name, each in given.items() if len(each) == 1}
            fixed |= {name: most for name, (least, most) in ranges.items() if least == most}
            how = {"precision": precision, "layers": layers, "ranges": ranges}
            request = request_of(asked, fixed, keep_open=True, **how)
            self._workloads[key] = resolve_model(entry.source, request).workload
        return self._workloads[key]

    def _settings_of(self, asked: Question, workload: Workload) -> Settings:
        precision = asked_of(workload, asked.precision)
        key = asked.causal, asked.runtime, asked.engine, precision
        if key not in self._settings:
            known = next(iter(self._settings.values()), None)
            more = {} if known is None else {"calibration": known.calibration}
            self._settings[key] = settings_of(asked, precision=key[-1], **more)
        return self._settings[key]

    def _sharded(
        self, entry: ModelEntry, device: Device, asked: Question, ranges: Ranges
    ) -> tuple[Workload, Device]:
        """The busiest device's share, and the device with the links of its node."""
        from gambrel.capture.closed_form import step_of
        from gambrel.llm.collectives import busiest
        from gambrel.llm.sharded import as_loaded, build_rank
        from gambrel.llm.sharding import Sharding
        from gambrel.llm.topology import topology_for

        node, layout = topology_for(device), Sharding(tensor=asked.tensor)
        key = (
            entry.label,
            asked.phase,
            layout,
            node,
            asked.runtime,
            asked.precision,
            *ranges.items(),
        )
        if key not in self._workloads:
            spec = as_loaded(_spec_of(entry))
            self._workloads[key] = build_rank(
                spec,
                step_of(spec, asked.phase, {}, fixed=False, ranges=ranges),
                spec.precisions(asked.precision),
                layout,
                topology=node,
                runtime=asked.runtime or "",
            )
        return self._workloads[key], node.place(device, layout.devices, busiest(layout))

    def _with_change(self, case: SweepCase, change: str) -> SweepCase:
        key = id(case.workload), case.device.id, change, id(case.settings)
        if key not in self._changed:
            made = _changed(case, case.workload, change)
            self._changed[key] = dataclasses.replace(
                case,
                workload=made.workload,
                smaller=tuple(
                    dataclasses.replace(s, workload=_changed(case, s.workload, change).workload)
                    for s in case.smaller
                ),
                device=made.device,
                settings=made.settings,
            )
        return dataclasses.replace(self._changed[key], labels=case.labels)


def _changed(case: SweepCase, workload: Workload, change: str) -> Scenario:
    """What a change makes of a model of a case; it keeps the runtime."""
    from gambrel.advise.case import with_settings
    from gambrel.advise.changes import Scenario, apply_changes

    plain = Scenario(
        workload=workload,
        device=case.device,
        settings=case.settings,
        default_runtime=case.settings.runtime is None,
    )
    return apply_changes(with_settings(plain, runtime=plain.runtime.id), change.split("+"))


def work_of(question: Question) -> SweepWork:
    """The work that answers a question.

    Raises:
        GambrelError: A model, device, runtime or size that there is not, or too many points.
    """
    devices, _ = asked_devices(question.hardware, question.peak, question.bandwidth)
    sizes = _sizes(question)
    named = {name: tuple(dict.fromkeys(question.several(name))) for name in _NAMED}
    if not question.change:
        named["change"] = (_UNCHANGED,)
    if named["tensor"] != (None,):
        for source in question.several("model"):
            _spec_of(_entry(source, question))
    check_count(
        [
            ("models", len(question.several("model"))),
            *((f"values of {name}", len(values)) for name, values in named.items()),
            ("devices", len(devices)),
            *((f"values of {name}", len(values)) for name, values in sizes.items()),
        ]
    )
    plain = dataclasses.replace(question, **{name: v[0] for name, v in named.items()})
    # What travels to other processes: neither a live model, nor a client.
    names = ("hardware", "model", "save", "scheduler", "inputs", "kwargs")
    opened: dict[str, Any] = dict.fromkeys(names)
    opener = CaseOpener(question=dataclasses.replace(plain, **opened))
    entries = tuple(_entry(source, plain) for source in question.several("model"))
    workloads = [opener.workload(e, devices[0], plain, {}) for e in entries]
    for workload in workloads:
        _check_sizes(workload, sizes)
        _check_changes(workload, question.change)
    for name in named["runtime"]:
        if name is not None:
            runtime(name)
    shown = [
        name for name in _NAMED if name not in ("runtime", "precision") and len(named[name]) > 1
    ]
    return SweepWork(
        cases=PointGrid(
            (
                GridAxis(name="model", values=entries),
                *(GridAxis(name=name, values=values) for name, values in named.items()),
                GridAxis(name="device", values=tuple(devices)),
            )
        ),
        opened=opener,
        sizes=PointGrid(tuple(GridAxis(name=n, values=v) for n, v in sizes.items())),
        size_names=_shown_sizes(workloads, sizes),
        label_names=("model", "device", *shown),
        content=_content(question, entries, devices),
        most_points=_partition(
            workloads, devices, named["runtime"], sum(len(v) > 1 for v in sizes.values())
        ),
        block=CHUNK,
        left_out=tuple(_left_out(workloads)),
    )


def _left_out(workloads: Sequence[Workload]) -> Iterator[str]:
    for workload in workloads:
        count = sum(op.repeat for op in workload.ops if not is_modelled(op.kind))
        if count:
            yield f"{workload.name}: figures leave out {without_formula(count)}."


def _sizes(question: Question) -> dict[str, tuple[int, ...]]:
    given = question.size_values()
    found = {name: v if isinstance(v, tuple) else (v,) for name, v in given.items()}
    if question.batch_size:
        found = {"batch": question.batch_size, **found}
    return {name: tuple(dict.fromkeys(values)) for name, values in found.items()}


def _labels(values: Mapping[str, Any]) -> dict[str, str]:
    """What columns say of the values, besides precision and runtime, which are resolved."""
    return {
        name: "" if values[name] is None else str(values[name])
        for name in _NAMED
        if name in values and name not in ("precision", "runtime")
    }


def _entry(source: Any, question: Question) -> ModelEntry:
    """A text as it is; a live model as the workload that was captured of it."""
    if isinstance(source, (str, Path)):
        return ModelEntry(str(source), str(source))
    request = request_of(question, {}, keep_open=True)
    workload = resolve_model(source, request).workload
    return ModelEntry(workload.name, workload)


def _spec_of(entry: ModelEntry) -> ModelSpec:
    """The architecture that a layout divides.

    Raises:
        InputError: The model is no language model of a configuration.
    """
    from gambrel.llm.known import spec_of
    from gambrel.llm.recipe import recipe_of

    if isinstance(entry.source, Workload):
        recipe = recipe_of(entry.source)
        if recipe is not None:
            return recipe.spec
    else:
        with contextlib.suppress(UnknownNameError, FileFormatError):
            return spec_of(entry.source)
    raise InputError(
        f"{entry.label}: --tensor divides language models that are built from their "
        "configuration; this model is none."
    )


def _layers_of(workload: Workload, device: Device, asked: Question) -> str:
    """Whose layers of a language model run: those of the runtime, or of the device's usual one."""
    language = is_language_model(workload)
    try:
        return layers_of(device, asked.runtime, asked.precision, language=language)
    except GambrelError:
        return "code"


def _check_sizes(workload: Workload, sizes: Mapping[str, Sequence[int]]) -> None:
    """Raises WorkloadError for a size that the model does not take."""
    for name, values in sizes.items():
        workload.resolve_symbols({name: values[0]})
        symbol = next(s for s in workload.symbols if s.name == name)
        for value in values:
            symbol.check(value)


def _check_changes(workload: Workload, changes: Sequence[str]) -> None:
    """Raises InputError for a change of a size: sizes are axes, which it would not move."""
    from gambrel.advise.changes import parse_change

    sizes = {symbol.name for symbol in workload.symbols}
    for change in (one for several in changes for one in several.split("+")):
        name, value = parse_change(change)
        if name in sizes:
            raise InputError(
                f"change {change.strip()!r}: sizes are axes of a sweep; give {name} the values to "
                f"compare, {value} among them."
            )


def _shown_sizes(
    workloads: Sequence[Workload], sizes: Mapping[str, Sequence[int]]
) -> tuple[str, ...]:
    """Sizes that all models have."""
    names = [[s.name for s in workload.symbols] for workload in workloads]
    common = [name for name in names[0] if all(name in own for own in names)]
    return (*common, *(name for name in sizes if name not in common))


def _partition(
    workloads: Sequence[Workload],
    devices: Sequence[Device],
    runtimes: Sequence[str | None],
    varying: int,
) -> int:
    """Points of a partition, by how they are evaluated; of many devices some are looked at.

    Several varying sizes have no spans.
    """
    plain, found = Settings(), FAST
    looked = devices[:: max(1, len(devices) // 16)]
    for device in looked:
        machine = Machine(device, plain)
        for name in runtimes:
            for language in {is_language_model(w) for w in workloads}:
                try:
                    one = choose(device, name, language=language).runtime
                except GambrelError:
                    continue
                if not is_at_once(machine, one):
                    spanned = varying <= 1 and has_spans(machine, one)
                    found = min(found, SPANNED if spanned else SLOW)
    return found


def _content(question: Question, entries: Sequence[ModelEntry], devices: Sequence[Device]) -> bytes:
    """Hash of all that the figures depend on besides version and values of axes."""
    from gambrel.analysis.estimate.store import load as load_calibration

    found = hashlib.sha256()
    for part in _parts(question, entries, devices):
        found.update(part + b"\0")
    found.update(repr(load_calibration()).encode())
    return found.digest()


def _parts(
    question: Question, entries: Sequence[ModelEntry], devices: Sequence[Device]
) -> Iterator[bytes]:
    for device in devices:
        yield msgspec.json.encode(device)
    for entry in entries:
        yield _model_content(entry)
    yield repr(
        (question.sparsity, question.train, question.autocast, question.input_shapes)
    ).encode()


def _model_content(entry: ModelEntry) -> bytes:
    if isinstance(entry.source, Workload):
        return msgspec.msgpack.encode(entry.source)
    path = Path(entry.source)
    try:
        known = path.stat()
        if path.is_file() and known.st_size <= _HASHED:
            return hashlib.sha256(path.read_bytes()).digest()
    except (OSError, ValueError):
        return entry.label.encode()
    return f"{entry.label} {known.st_size} {known.st_mtime_ns}".encode()
