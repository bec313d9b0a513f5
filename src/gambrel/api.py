"""The public functions: parse a question, call one function, return its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from gambrel.analysis.result import Analysis
from gambrel.device.model import Device
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.analysis.advise.check import Check
    from gambrel.analysis.advise.compare import Comparison
    from gambrel.analysis.advise.fleet import Fleet
    from gambrel.analysis.advise.select import Selection
    from gambrel.analysis.advise.whatif import WhatIf
    from gambrel.analysis.analyze import Settings
    from gambrel.analysis.estimate import Set
    from gambrel.analysis.sweep import Sweep
    from gambrel.measure.records import HardwarePeaks
    from gambrel.workload import Workload

Hardware: TypeAlias = "str | PathLike[str] | Device | HardwarePeaks"


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
    stack: str = "eager",
    framework: str = "any",
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
        precision: Number format, e.g. ``"fp16"``. Default: the model's own; for an architecture
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
        stack: How ops become kernels: ``"eager"`` (one each), ``"compiled"`` (element-wise chains
            and reductions fuse), ``"epilogue"`` (and run inside matmuls and convolutions) or
            ``"ideal"`` (one kernel for all).
        framework: Whose kernels the expected time describes: ``"any"`` (an average), ``"vllm"``,
            ``"sglang"`` or ``"trtllm"``.
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
        stack=stack,
        framework=framework,
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
    stack: str = "eager"
    framework: str = "any"
    warm: bool = False


def answer(question: Question) -> tuple[Analysis, ...]:
    """One analysis for each batch; the model is captured once where its sizes are symbolic."""
    from gambrel.analysis.analyze import Settings
    from gambrel.analysis.analyze import analyze as analyze_workload
    from gambrel.analysis.estimate.store import load as load_calibration
    from gambrel.capture.resolve import Request, resolve_model
    from gambrel.ops import Conventions

    q = question
    if q.causal not in {"half", "full"}:
        raise InputError(f"causal={q.causal!r}: use 'half' or 'full'.")
    device, device_notes = resolve_hardware(q.hardware)
    sizes = [_checked({"batch": batch}) | _checked(q.sizes) for batch in q.batches]
    request = Request(
        inputs=q.inputs,
        kwargs=q.kwargs,
        input_shapes=q.input_shapes,
        phase=q.phase,
        train=q.train,
        trust=q.trust,
        sizes=sizes[0],
    )
    found = [resolve_model(q.model, request)]
    for wanted in sizes[1:]:
        known = _fits(found[0].workload, wanted)
        found.append(found[0] if known else resolve_model(q.model, replace(request, sizes=wanted)))
    settings = Settings(
        precision=q.precision,
        sparsity=q.sparsity,
        engine=q.engine,
        conventions=Conventions(causal=q.causal),
        stack=q.stack,
        framework=q.framework,
        warm=q.warm,
        calibration=load_calibration(),
    )
    return tuple(
        _with_notes(
            analyze_workload(model.workload, device, replace(settings, sizes=wanted)),
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
    **sizes: int | Sequence[int],
) -> Sweep:
    """Analyzes every combination of devices, precisions and sizes as array arithmetic.

    Args:
        model: As for `analyze`.
        hardware: One device or several.
        precision: One number format or several.
        phase: For language models.
        **sizes: Values by symbol, e.g. ``batch=range(1, 257)``, ``seq=[128, 2048]``.

    Returns:
        One row per combination.
    """
    from gambrel.analysis.sweep import sweep as sweep_workload
    from gambrel.capture.resolve import Request, resolve_model

    workload = resolve_model(model, Request(phase=phase)).workload
    several = _listed(hardware)
    return sweep_workload(
        workload,
        [resolve_hardware(h)[0] for h in several],
        [precision] if isinstance(precision, str) else list(precision),
        {k: [v] if isinstance(v, int) else list(v) for k, v in sizes.items()},
    )


def check(
    model: Any = None,
    hardware: Hardware | None = None,
    *,
    latency: str | float | None = None,
    throughput: str | float | None = None,
    power: str | float | None = None,
    energy: str | float | None = None,
    memory: str | float | None = None,
    spec: str | PathLike[str] | None = None,
    **question: Any,
) -> Check:
    """Whether a model on a device meets limits, and what would help where it does not.

    Args:
        model: As for `analyze`; None takes the one of the requirements file.
        hardware: As for `analyze`; None takes the one of the requirements file.
        latency: At most, for the whole batch: ``"10ms"``, or a number in s.
        throughput: At least, items a second: ``"30fps"``, or a number.
        power: At most: ``"15W"``, or a number in W.
        energy: At most, per item: ``"500mJ"``, or a number in J.
        memory: At most: ``"4GiB"``, or a number in bytes.
        spec: A requirements file (TOML, see docs/advise.md); arguments given here win.
        **question: Any other argument of `analyze`.

    Returns:
        The verdict of each limit and overall; for a FAIL, changes that would make it pass.

    Raises:
        InputError: No limit, a limit without a unit, no model or no hardware.
    """
    from gambrel.analysis.advise.changes import case_of
    from gambrel.analysis.advise.check import check as check_analysis
    from gambrel.analysis.advise.fixes import with_fixes
    from gambrel.analysis.advise.limits import parse_limits, read_spec
    from gambrel.analysis.estimate.store import load as load_calibration

    limits: dict[str, str | float | None] = {}
    if spec is not None:
        required = read_spec(Path(spec))
        limits.update(required.limits)
        model, hardware = model or required.model, hardware or required.hardware
        for name in ("batch_size", "precision"):
            question[name] = question.get(name) or getattr(required, name.removesuffix("_size"))
    given = {
        "latency": latency,
        "throughput": throughput,
        "power": power,
        "energy": energy,
        "memory": memory,
    }
    wanted = parse_limits(limits | {k: v for k, v in given.items() if v is not None})
    if model is None or hardware is None:
        raise InputError(
            f"which {'model' if model is None else 'device'}? Name a model and --hardware, or put "
            "model and hardware into the requirements file."
        )
    analysis = analyze(model, hardware, **question)
    case = case_of(analysis, load_calibration())
    return with_fixes(check_analysis(analysis, wanted), case, wanted)


def compare(
    model: Any,
    hardware: Hardware | Sequence[Hardware] | None,
    *,
    metric: str | Sequence[str] = ("latency", "throughput", "power", "efficiency", "memory"),
    precision: str | Sequence[str] | None = None,
    batch_size: int | Sequence[int] | None = None,
    prices: Mapping[str, str | float] | None = None,
    sizes: Mapping[str, int | None] | None = None,
    phase: str | None = None,
    stack: str = "eager",
    trust: bool = False,
) -> Comparison:
    """Compares models on devices, in precisions and at batches: every combination.

    Args:
        model: As for `analyze`, or a list of them.
        hardware: As for `analyze`, or a list of them; None takes the whole catalog.
        metric: What to compare; the first one orders the rows.
        precision: One or several number formats; None takes each device's own.
        batch_size: One or several; None takes each model's own.
        prices: Device → price, in any one currency.
        sizes: Other sizes by symbol name.
        phase: For language models.
        stack: As for `analyze`.
        trust: As for `analyze`.

    Returns:
        Rows, best first; unknown figures come last.
    """
    from gambrel.analysis.advise.compare import Field
    from gambrel.analysis.advise.compare import compare as compare_all

    devices, notes = _several(hardware)
    fleets = []
    for one in model if isinstance(model, (list, tuple)) else [model]:
        for batch in batch_size if isinstance(batch_size, Sequence) else [batch_size]:
            asked = {"batch": batch, **(sizes or {})}
            fleet, said = _fleet(one, asked, phase=phase, stack=stack, trust=trust)
            fleets.append(fleet)
            notes += said
    several = [precision] if isinstance(precision, str) or precision is None else list(precision)
    over = Field(
        fleets=fleets, devices=devices, precisions=several, prices=_prices(prices, devices)
    )
    metrics = [metric] if isinstance(metric, str) else list(metric)
    return compare_all(over, metrics, tuple(dict.fromkeys(notes)))


def select(
    model: Any,
    hardware: Hardware | Sequence[Hardware] | None = None,
    *,
    latency: str | float | None = None,
    throughput: str | float | None = None,
    power: str | float | None = None,
    energy: str | float | None = None,
    memory: str | float | None = None,
    max_price: str | float | None = None,
    prices: Mapping[str, str | float] | None = None,
    sort: str | None = None,
    precision: str | Sequence[str] | None = None,
    batch_size: int | None = None,
    sizes: Mapping[str, int | None] | None = None,
    phase: str | None = None,
    stack: str = "eager",
    trust: bool = False,
) -> Selection:
    """Ranks the devices on which a model meets limits.

    Args:
        model: As for `analyze`.
        hardware: Devices to choose from; None takes the whole catalog.
        latency: As for `check`, and so are the other limits.
        throughput: At least.
        power: At most.
        energy: At most, per item.
        memory: At most.
        max_price: At most, in the currency of ``prices``.
        prices: Device → price; a device without one is unknown where a price is limited.
        sort: Metric that ranks; None takes the price where one is limited, else latency.
        precision: One or several number formats, of which each device takes the best that it has
            an engine for; None takes each device's own.
        batch_size: Items at once.
        sizes: Other sizes by symbol name.
        phase: For language models.
        stack: As for `analyze`.
        trust: As for `analyze`.

    Returns:
        Devices that meet all limits, best first; unknowns and near misses apart.
    """
    from gambrel.analysis.advise.compare import Field
    from gambrel.analysis.advise.limits import parse_limits
    from gambrel.analysis.advise.select import select as select_among

    limits = parse_limits(
        {
            "latency": latency,
            "throughput": throughput,
            "power": power,
            "energy": energy,
            "memory": memory,
            "price": max_price,
        }
    )
    devices, notes = _several(hardware)
    asked = {"batch": batch_size, **(sizes or {})}
    fleet, said = _fleet(model, asked, phase=phase, stack=stack, trust=trust)
    several = [precision] if isinstance(precision, str) or precision is None else list(precision)
    over = Field(
        fleets=[fleet], devices=devices, precisions=several, prices=_prices(prices, devices)
    )
    by = sort or ("price" if max_price is not None else "latency")
    return select_among(over, limits, by, (*notes, *said))


def _several(
    hardware: Hardware | Sequence[Hardware] | None,
) -> tuple[Sequence[Device], list[str]]:
    """Devices with what the user should know of the choice; None is the whole catalog."""
    from gambrel.device.catalog import list_devices

    if hardware is None:
        return list_devices(), []
    found = [resolve_hardware(h) for h in _listed(hardware)]
    return [device for device, _ in found], [note for _, notes in found for note in notes]


def _fleet(
    model: Any, sizes: Mapping[str, int | None], *, phase: str | None, stack: str, trust: bool
) -> tuple[Fleet, Sequence[str]]:
    from gambrel.analysis.advise.fleet import Fleet
    from gambrel.capture.resolve import Request, resolve_model

    asked = _checked(sizes)
    found = resolve_model(model, Request(phase=phase, trust=trust, sizes=asked))
    return Fleet(found.workload, _settings(sizes=asked, stack=stack)), found.notes


def _settings(**chosen: Any) -> Settings:
    """Settings with the constants that this machine's user has calibrated."""
    from gambrel.analysis.analyze import Settings
    from gambrel.analysis.estimate.store import load as load_calibration

    return Settings(calibration=load_calibration(), **chosen)


def _prices(
    prices: Mapping[str, str | float] | None, devices: Sequence[Device]
) -> Mapping[str, float]:
    from gambrel.analysis.advise.limits import parse_value

    own = {device.id: device.id for device in devices}
    return {
        own.get(name) or resolve_hardware(name)[0].id: parse_value("price", value)
        for name, value in (prices or {}).items()
    }


def what_if(model: Any, hardware: Hardware, change: str | Sequence[str], **question: Any) -> WhatIf:
    """A model on a device as it is and with changes, and where the two differ.

    Args:
        model: As for `analyze`.
        hardware: As for `analyze`.
        change: One or several, e.g. ``"precision=int8"``, ``"fuse"``, ``"batch=8"``,
            ``"hardware=h200"``; docs/advise.md lists them.
        **question: Any other argument of `analyze`.

    Raises:
        UnknownNameError: No such change.
        InputError: The model or the device does not take it.
    """
    return what_if_sides(model, hardware, change, **question)[2]


def what_if_sides(
    model: Any, hardware: Hardware, change: str | Sequence[str], **question: Any
) -> tuple[Analysis, Analysis, WhatIf]:
    """As `what_if`, with the two analyses before it: what a chart of both needs."""
    from gambrel.analysis.advise.whatif import what_if as differences

    changes = [change] if isinstance(change, str) else list(change)
    before = analyze(model, hardware, **question)
    after = before.with_change(*changes)
    return before, after, differences(before, after, changes)


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


def _listed(hardware: Hardware | Sequence[Hardware]) -> list[Hardware]:
    if isinstance(hardware, Sequence) and not isinstance(hardware, str):
        return list(hardware)
    return [hardware]


def resolve_hardware(hardware: Hardware) -> tuple[Device, tuple[str, ...]]:
    """A device from a name, a TOML file or itself, with what the user should know of the choice.

    ``"this"`` is this machine as `gambrel.measure_peaks` found it; measured peaks are a device too.

    Raises:
        UnknownNameError: No such device; the closest names are given.
        InputError: ``"this"`` before anything was measured.
        FileFormatError: The file is no device description.
    """
    from gambrel.device.files import load_file
    from gambrel.device.lookup import find

    if isinstance(hardware, Device):
        return hardware, ()
    measured = getattr(hardware, "to_device", None)
    if measured is not None:
        return measured(), ()
    text = str(hardware)
    if text.strip().lower() == "this":
        from gambrel.measure.this import this_device

        return this_device()
    if text.endswith(".toml"):
        return load_file(Path(text)), ()
    match = find(text)
    return match.device, (match.note,) if match.note else ()


def _checked(sizes: Mapping[str, int | None]) -> dict[str, int | None]:
    for name, value in sizes.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name}={value!r}: give a whole number of at least 1.")
    return {k: v for k, v in sizes.items() if v is not None}
