"""The public functions that analyze: each takes a question, calls one function, returns its result.

Keywords, their types and their meaning: `gambrel.analysis.question`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gambrel.analysis.question import Question
from gambrel.analysis.result import Analysis
from gambrel.api.faces import asks
from gambrel.device.resolve import Hardware, asked_device, resolve_hardware
from gambrel.errors import InputError
from gambrel.fileio import path_of

if TYPE_CHECKING:
    from gambrel.analysis.estimate import Set
    from gambrel.analysis.settings import Settings
    from gambrel.capture.resolve import Request
    from gambrel.workload import Workload


@asks("analyze")
def analyze(question: Question, /, **chosen: Any) -> Analysis:
    """Analyzes a model on a device.

    Returns:
        The analysis.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    batches = question.several("batch_size")
    if len(batches) > 1:
        raise InputError(f"batch_size={batches}: analyze takes one; gambrel.sweep takes several.")
    return answers(question, **chosen)[0]


def answers(question: Question, **chosen: Any) -> tuple[Analysis, ...]:
    """One analysis for each batch; the model is captured once where its sizes are symbolic.

    Args:
        question: Of the verb ``analyze``.
        **chosen: Settings that no user chooses, e.g. ``levels=False``.
    """
    from gambrel.analysis.analyze import analyze as analyze_workload
    from gambrel.analysis.settings import asked_of, is_language_model, layers_of
    from gambrel.capture.resolve import resolve_model

    q = question
    device, device_notes = asked_device(q.hardware, q.peak, q.bandwidth)
    sizes = [sizes_of(q, batch) for batch in q.several("batch_size")]
    request = request_of(q, sizes[0])
    found = [resolve_model(q.model, request)]
    language = is_language_model(found[0].workload)
    layers = layers_of(device, q.runtime, q.several("precision")[0], language=language)
    if layers != request.layers:
        request = replace(request, layers=layers)
        found = [resolve_model(q.model, request)]
    for wanted in sizes[1:]:
        known = _fits(found[0].workload, wanted)
        found.append(found[0] if known else resolve_model(q.model, replace(request, sizes=wanted)))
    return tuple(
        _with_notes(
            analyze_workload(
                model.workload,
                device,
                settings_of(
                    q, sizes=wanted, precision=asked_of(model.workload, q.precision), **chosen
                ),
            ),
            (*model.notes, *device_notes),
        )
        for model, wanted in zip(found, sizes, strict=True)
    )


def request_of(question: Question, sizes: Mapping[str, Any], **more: Any) -> Request:
    """How the model of a question becomes a workload."""
    from gambrel.capture.resolve import Request
    from gambrel.runtimes import runtime

    q = question
    named = q.several("runtime")[0]
    return Request(
        **{
            "inputs": q.inputs,
            "kwargs": q.kwargs,
            "input_shapes": q.input_shapes,
            "phase": q.phase,
            "train": q.train,
            "autocast": q.autocast,
            "trust": q.trust,
            "sizes": sizes,
            "precision": q.several("precision")[0],
            "layers": "code" if named is None else runtime(named).layers,
            **more,
        }
    )


def settings_of(question: Question, **chosen: Any) -> Settings:
    """Settings of a question, with the constants that this machine's user has calibrated."""
    from gambrel.analysis.estimate.store import load as load_calibration
    from gambrel.analysis.settings import Settings
    from gambrel.ops import Conventions

    q = question
    own = {
        "precision": q.several("precision")[0],
        "sparsity": q.sparsity,
        "engine": q.engine,
        "conventions": Conventions(causal=q.causal),
        "runtime": q.several("runtime")[0],
        "warm": q.warm,
        "calibration": load_calibration(),
    }
    return Settings(**{**own, **chosen})


def sizes_of(question: Question, batch: int | None) -> dict[str, int]:
    """The sizes of one analysis, by symbol.

    Raises:
        InputError: A size with several values, or one that is given twice.
    """
    sizes = question.size_values()
    several = next((name for name, value in sizes.items() if isinstance(value, tuple)), None)
    if several is not None:
        raise InputError(f"{several}: give one value here; gambrel.sweep takes several.")
    return sizes if batch is None else {"batch": batch, **sizes}


def _fits(workload: Workload, sizes: Mapping[str, int | None]) -> bool:
    """Whether a workload can be evaluated at other sizes, rather than captured again for them."""
    fixed = {s.name: s.default for s in workload.symbols if s.minimum == s.maximum}
    return all(sizes.get(name, value) == value for name, value in fixed.items())


def _with_notes(analysis: Analysis, notes: Sequence[str]) -> Analysis:
    """The same analysis with sentences about how model and device were found put first."""
    if not notes:
        return analysis
    return replace(analysis, assumptions=(*notes, *analysis.assumptions))


def calibrate(
    file: str | PathLike[str], hardware: Hardware | None = None, name: str = "own"
) -> tuple[tuple[Set, ...], Path]:
    """Fits expected times to measured kernels of a device and stores the constants.

    From then on every analysis on this machine uses them for that device.

    Args:
        file: A CSV; its columns are described in docs/estimates.md.
        hardware: The device; None takes the one that the file names.
        name: To store under; replaces one of that name.

    Returns:
        The constants, and where they are stored.

    Raises:
        FileFormatError: The file cannot be used; nothing is stored.
    """
    from gambrel.analysis.estimate import packaged, store, user

    path = path_of(file, "file")
    device = resolve_hardware(user.device_name(path) if hardware is None else hardware)[0]
    sets = user.fit(path, user.read(path, device), device, packaged())
    return sets, store.save(name, sets)


def load(path: str | PathLike[str]) -> Analysis:
    """Reads an analysis that `Analysis.save` wrote as JSON; it equals the one that was saved.

    Raises:
        FileFormatError: The file is no such analysis.
    """
    from gambrel.report import load_analysis

    return load_analysis(path_of(path))


def load_model(model: Any, **asked: Any) -> Workload:
    """The workload that a model stands for.

    Args:
        model: As for `analyze`.
        **asked: What else `analyze` takes of the model: inputs, batch_size, phase, train, ...

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    from gambrel.analysis.question import ask
    from gambrel.capture.resolve import resolve_model

    question = ask("analyze", {"model": model, **asked})
    sizes = sizes_of(question, question.several("batch_size")[0])
    return resolve_model(question.model, request_of(question, sizes)).workload
