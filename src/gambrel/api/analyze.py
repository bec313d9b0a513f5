"""The public functions: parse a question, call one function, return its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gambrel.analysis.result import Analysis
from gambrel.device.resolve import Hardware, checked_sizes, listed_hardware, resolve_hardware
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.analysis.estimate import Set
    from gambrel.analysis.sweep import Sweep
    from gambrel.workload import Workload


def analyze(
    model: Any,
    hardware: Hardware,
    inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    precision: str | None = None,
    seq: int | None = None,
    context: int | None = None,
    image: int | None = None,
    phase: str | None = None,
    train: bool = False,
    sparsity: bool = False,
    engine: str | None = None,
    causal: str = "half",
    trust: bool = False,
    sizes: Mapping[str, int] | None = None,
    runtime: str | None = None,
    warm: bool = False,
) -> Analysis:
    """Analyzes a model on a device.

    Args:
        model: A name (``"resnet50"``), a file (``.pt2``, ``.pt``, ``config.json``), a
            ``torch.nn.Module`` with ``inputs``, or a `Workload`.
        hardware: A name or alias (``"h100"``), the path of a device TOML, or a `Device`.
        inputs: Example inputs of a live module: one tensor or a tuple. Shapes matter, values not.
        kwargs: Keyword arguments of a live module.
        batch_size: Items at once.
        precision: Number format, e.g. ``"fp16"``; for the ``config.json`` of a language model part
            by part as well, e.g. ``"w4a16,kv=fp8"``. Default: the model's own; for an architecture
            from the zoo, the one that the device's engine is made for.
        seq: Tokens, for models with a sequence.
        context: Cached tokens, for decode.
        image: Image side in pixels, for models whose image size may vary.
        phase: ``"prefill"`` or ``"decode"``, for language models.
        train: Include backward and optimizer step (live modules).
        sparsity: Use the structured-sparsity peaks.
        engine: Hold matrix work against this engine only (``"matrix"``, ``"dla"``, ...).
        causal: ``"half"`` counts S(S+1)/2 pairs of causal attention, ``"full"`` all S².
        trust: Allow a file to run code (TorchScript, pickled modules).
        sizes: Further sizes by symbol name.
        runtime: How the model is executed (``"pytorch"``, ``"tensorrt"``, ``"vllm"``, ...; see
            ``gambrel runtimes list``); None takes what people use on the device.
        warm: For the traffic of memory levels: the caches hold what an earlier run of the same
            model left; otherwise they are empty at the start.

    Returns:
        The analysis.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    question = Question(
        model=model,
        hardware=hardware,
        batches=(batch_size,),
        precision=precision,
        sizes={"seq": seq, "context": context, "image": image, **(sizes or {})},
        inputs=inputs,
        kwargs=kwargs,
        phase=phase,
        train=train,
        sparsity=sparsity,
        engine=engine,
        causal=causal,
        trust=trust,
        runtime=runtime,
        warm=warm,
    )
    return answer(question)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything that `analyze` may be asked; several batches give one analysis each.

    Attributes:
        batches: Batch sizes; None is the model's default.
        sizes: Other sizes by symbol name; None is the model's default.
        input_shapes: Shapes of example inputs, for a model given as ``file.py:function``.

    The other attributes are the arguments of `analyze`.
    """

    model: Any
    hardware: Hardware
    batches: tuple[int | None, ...] = (None,)
    precision: str | None = None
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    inputs: Any = None
    kwargs: Mapping[str, Any] | None = None
    input_shapes: tuple[tuple[int, ...], ...] = ()
    phase: str | None = None
    train: bool = False
    sparsity: bool = False
    engine: str | None = None
    causal: str = "half"
    trust: bool = False
    runtime: str | None = None
    warm: bool = False


def answer(question: Question) -> tuple[Analysis, ...]:
    """One analysis for each batch; the model is captured once where its sizes are symbolic."""
    from gambrel.analysis.analyze import analyze as analyze_workload
    from gambrel.analysis.estimate.store import load as load_calibration
    from gambrel.analysis.settings import Settings, is_language_model
    from gambrel.capture.resolve import Request, resolve_model
    from gambrel.ops import Conventions
    from gambrel.runtimes import choose, runtime

    q = question
    if q.causal not in {"half", "full"}:
        raise InputError(f"causal={q.causal!r}: use 'half' or 'full'.")
    device, device_notes = resolve_hardware(q.hardware)
    sizes = [checked_sizes({"batch": batch}) | checked_sizes(q.sizes) for batch in q.batches]
    request = Request(
        inputs=q.inputs,
        kwargs=q.kwargs,
        input_shapes=q.input_shapes,
        phase=q.phase,
        train=q.train,
        trust=q.trust,
        sizes=sizes[0],
        precision=q.precision,
        served=q.runtime is not None and runtime(q.runtime).served,
    )
    found = [resolve_model(q.model, request)]
    language = is_language_model(found[0].workload)
    if q.runtime is None and choose(device, language=language).runtime.served:
        request = replace(request, served=True)
        found = [resolve_model(q.model, request)]
    for wanted in sizes[1:]:
        known = _fits(found[0].workload, wanted)
        found.append(found[0] if known else resolve_model(q.model, replace(request, sizes=wanted)))
    settings = Settings(
        precision=q.precision,
        sparsity=q.sparsity,
        engine=q.engine,
        conventions=Conventions(causal=q.causal),
        runtime=q.runtime,
        warm=q.warm,
        calibration=load_calibration(),
    )
    return tuple(
        _with_notes(
            analyze_workload(
                model.workload,
                device,
                replace(settings, sizes=wanted, precision=model.workload.precisions or q.precision),
            ),
            (*model.notes, *device_notes),
        )
        for model, wanted in zip(found, sizes, strict=True)
    )


def _fits(workload: Workload, sizes: Mapping[str, int | None]) -> bool:
    """Whether a workload can be evaluated at other sizes, rather than captured again for them."""
    fixed = {s.name: s.default for s in workload.symbols if s.minimum == s.maximum}
    return all(sizes.get(name, value) == value for name, value in fixed.items())


def _with_notes(analysis: Analysis, notes: Sequence[str]) -> Analysis:
    """The same analysis with sentences about how model and device were found put first."""
    if not notes:
        return analysis
    return msgspec.structs.replace(analysis, assumptions=(*notes, *analysis.assumptions))


def sweep(
    model: Any,
    hardware: Hardware | Sequence[Hardware],
    *,
    precision: str | Sequence[str] = "fp16",
    phase: str | None = None,
    runtime: str | None = None,
    **sizes: int | Sequence[int],
) -> Sweep:
    """Analyzes every combination of devices, precisions and sizes as array arithmetic.

    Args:
        model: As for `analyze`.
        hardware: One device or several.
        precision: One number format or several; of a language model's ``config.json`` part by part
            as well, e.g. ``"w4a16,kv=fp8"``.
        phase: For language models.
        runtime: As for `analyze`.
        **sizes: Values by symbol, e.g. ``batch=range(1, 257)``, ``seq=[128, 2048]``.

    Returns:
        One row per combination.
    """
    from gambrel.analysis.estimate.store import load as load_calibration
    from gambrel.analysis.settings import Settings
    from gambrel.analysis.sweep import joined
    from gambrel.analysis.sweep import sweep as sweep_workload
    from gambrel.capture.resolve import Request, resolve_model

    devices = [resolve_hardware(h)[0] for h in listed_hardware(hardware)]
    values = {k: [v] if isinstance(v, int) else list(v) for k, v in sizes.items()}
    asked = [precision] if isinstance(precision, str) else list(precision)
    settings = Settings(runtime=runtime, calibration=load_calibration())
    if not str(model).endswith(".json"):
        workload = resolve_model(model, Request(phase=phase, keep_open=True)).workload
        return sweep_workload(workload, devices, asked, values, settings)
    # The formats of a configuration's parts are built into its workload: one for each.
    built = [
        (p, resolve_model(model, Request(phase=phase, keep_open=True, precision=p)).workload)
        for p in asked
    ]
    parts = [sweep_workload(w, devices, [w.precisions or p], values, settings) for p, w in built]
    return (
        joined(parts) if parts else sweep_workload(resolve_model(model).workload, devices, [], {})
    )


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

    device = resolve_hardware(user.device_name(Path(file)) if hardware is None else hardware)[0]
    sets = user.fit(Path(file), user.read(Path(file), device), device, packaged())
    return sets, store.save(name, sets)


def load(path: str | PathLike[str]) -> Analysis:
    """Reads an analysis that `Analysis.save` wrote as JSON; it equals the one that was saved.

    Raises:
        FileFormatError: The file is no such analysis.
    """
    from gambrel.report import load_analysis

    return load_analysis(Path(path))


def load_model(model: Any, **request: Any) -> Workload:
    """The workload that a model stands for; see `analyze` for what ``model`` may be."""
    from gambrel.capture.resolve import Request, resolve_model

    return resolve_model(model, Request(**request)).workload
