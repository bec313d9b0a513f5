"""A question, and a kind of change to it: what the catalogue is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

from gambrel.analysis.analyze import analyze
from gambrel.analysis.estimate import Calibration
from gambrel.analysis.result import Analysis
from gambrel.analysis.settings import (
    ASKED,
    Settings,
    asked_of,
    is_language_model,
    layers_of,
    resolved,
)
from gambrel.device.model import Device
from gambrel.dtypes import FLOATING, PRECISIONS
from gambrel.errors import InputError
from gambrel.ops import Conventions
from gambrel.runtimes import Runtime
from gambrel.views import view
from gambrel.workload import Workload
from gambrel.workload.formats import to_edit

#: A change of ops and tensors.
Edit: TypeAlias = Callable[[Workload], Workload]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A question: a model on a device under settings.

    Attributes:
        workload: The model.
        device: The machine.
        settings: Sizes, precision and runtime (None chooses one) and the rest.
        default_runtime: The runtime is the device's default: another device takes its own.
        edits: Changes of ops and tensors that led to the workload, in their order.
        unedited: The model before them; None where there are none.
    """

    workload: Workload
    device: Device
    settings: Settings
    default_runtime: bool = False
    edits: tuple[Edit, ...] = ()
    unedited: Workload | None = None

    @property
    def precision(self) -> str:
        """The number format that it runs in."""
        return resolved(self.workload, self.device, self.settings).precision

    @property
    def form(self) -> Workload:
        """The ops that the model has in that format."""
        return to_edit(self.workload, self.precision)

    @property
    def by_part(self) -> bool:
        """Whether the model was built with number formats part by part, and runs in them."""
        return bool(self.workload.precisions) and self.precision == self.workload.precisions

    @property
    def dtype(self) -> str:
        """The number format of its matrix work; of most of it where parts differ."""
        if not self.by_part:
            return self.precision
        tensors, counted = self.workload.tensors, Counter[str]()
        for op in self.workload.ops:
            if op.kind in {"matmul", "grouped_matmul"}:
                dtype = str(op.attrs.get("compute_dtype") or tensors[op.inputs[0]].dtype)
                counted[dtype] += op.repeat
        return max(counted, key=lambda name: counted[name], default=self.workload.dtype)

    @property
    def runtime(self) -> Runtime:
        """How it is executed."""
        return resolved(self.workload, self.device, self.settings).runtime.runtime

    @property
    def sizes(self) -> dict[str, int]:
        """Every symbol with its value."""
        return self.workload.resolve_symbols(self.settings.sizes or {})

    def analyzed(self) -> Analysis:
        """The answer."""
        return analyze(self.workload, self.device, self.settings)


class Effort(IntEnum):
    """What a change asks of a user, the least first.

    Attributes:
        SOFTWARE: The same weights at the same batch: every run is faster.
        BATCH: More items at once: more of them a second, each batch takes longer.
        RETRAIN: Other weights: training again, and the accuracy that is left is not known.
        REPLACE: Another model or device in place of the user's: not combined with others.
    """

    SOFTWARE = 0
    BATCH = 1
    RETRAIN = 2
    REPLACE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of change.

    Attributes:
        name: Before the ``=``.
        about: What it is and what it costs; one sentence for a user.
        example: How to write it.
        apply: From a case and the text after the ``=`` to the changed case.
        propose: Values worth trying on a case, none where it does not apply.
        takes_value: Whether an ``=`` must follow.
        effort: What it asks of a user.
    """

    name: str
    about: str
    example: str
    apply: Callable[[Scenario, str], Scenario]
    propose: Callable[[Scenario], Iterable[str]]
    takes_value: bool = True
    effort: Effort = Effort.SOFTWARE


def case_of(analysis: Analysis, calibration: Calibration | None = None) -> Scenario:
    """The question that an analysis answers, to ask it again with changes.

    Args:
        analysis: Of a workload.
        calibration: Constants of the expected time; None for those that come with gambrel.

    Raises:
        InputError: The analysis carries no workload.
    """
    if analysis.workload is None:
        raise InputError(f"{analysis.model.name}: this analysis has no workload to change.")
    model = analysis.model
    known = model.precision in FLOATING or model.precision in PRECISIONS
    asked = known and model.precision_reason.startswith(ASKED)
    settings = Settings(
        precision=view("formats", analysis.workload) or (model.precision if asked else None),
        sizes=dict(model.symbols),
        sparsity=analysis.sparsity,
        engine=analysis.engine or None,
        conventions=Conventions(**analysis.conventions),
        runtime=analysis.runtime,
        warm=analysis.warm,
        calibration=calibration,
    )
    return Scenario(
        workload=analysis.workload,
        device=analysis.hardware,
        settings=settings,
        default_runtime=analysis.runtime_reason != "as asked",
    )


def as_built(case: Scenario) -> Scenario:
    """The case with its model as device, runtime, number formats and sizes have it built.

    Engines run layers of their own, and a language model has formats part by part: a changed
    question gets the answer that `gambrel analyze` gives to it. Edits are made again on what is
    built; where that has nothing to edit, the edited model stays.
    """
    settings, asked = case.settings, case.settings.precision
    language = is_language_model(case.workload)
    try:
        layers = layers_of(case.device, settings.runtime, asked, language=language)
    except InputError:
        return case  # refused where it is analyzed, unless another change makes it possible
    sizes = settings.sizes or {}
    source = case.unedited or case.workload
    base = made = view("variant", source, precision=asked, layers=layers, sizes=sizes)
    if case.edits:
        if base == source:
            return case
        try:
            for edit in case.edits:
                made = view("edited", edit(made))
        except InputError:
            return case
        case = replace(case, unedited=base)
    return with_settings(replace(case, workload=made), precision=asked_of(made, asked))


def with_settings(case: Scenario, **settings: object) -> Scenario:
    """The same model and device under other settings."""
    return replace(case, settings=replace(case.settings, **settings))  # type: ignore[arg-type]


def edited(case: Scenario, edit: Edit) -> Scenario:
    """The case with other ops or tensors: how the model was made describes it no longer."""
    return replace(
        case,
        workload=view("edited", edit(case.form)),
        edits=(*case.edits, edit),
        unedited=case.unedited or case.workload,
    )


def on_workload(edit: Edit) -> Callable[[Scenario, str], Scenario]:
    """A change of the model alone that takes no value."""
    return lambda case, _: edited(case, edit)


def where(applies: Callable[[Scenario], bool]) -> Callable[[Scenario], Iterable[str]]:
    """The one proposal of a change that takes no value."""
    return lambda case: [""] if applies(case) else []


def none_proposed(_: Scenario) -> Iterable[str]:
    """For changes that a user may ask for and that are not worth trying unasked."""
    return ()
