"""The public functions that advise: will it do, which device, what if.

As in `gambrel.api.analyze`, each parses a question, calls one function and returns its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gambrel.analysis.result import Analysis
from gambrel.api.analyze import analyze
from gambrel.device.model import Device
from gambrel.device.resolve import Hardware, checked_sizes, listed_hardware, resolve_hardware
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.advise.check import Check
    from gambrel.advise.compare import Comparison
    from gambrel.advise.fleet import Fleet
    from gambrel.advise.select import Selection
    from gambrel.advise.whatif import WhatIf
    from gambrel.analysis.settings import Settings
    from gambrel.workload import Workload


#: Devices from which on ops that share a formula are predicted together.
_MANY: Final = 50


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
    from gambrel.advise.changes import case_of
    from gambrel.advise.check import check as check_analysis
    from gambrel.advise.fixes import with_fixes
    from gambrel.advise.limits import parse_limits, read_spec
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
    runtime: str | None = None,
    sparsity: bool = False,
    engine: str | None = None,
    train: bool = False,
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
        runtime: As for `analyze`, and so are sparsity, engine, train and trust.
        sparsity: Products with weights meet the sparse peaks.
        engine: Hold matrix work against this one only.
        train: Include backward and optimizer.
        trust: Allow a file to run code.

    Returns:
        Rows, best first; unknown figures come last.
    """
    from gambrel.advise.compare import Field
    from gambrel.advise.compare import compare as compare_all

    devices, notes = _several(hardware)
    request = {"phase": phase, "train": train, "trust": trust}
    settings = {"runtime": runtime, "sparsity": sparsity, "engine": engine}
    several = [precision] if isinstance(precision, str) or precision is None else list(precision)
    fleets = []
    for one in model if isinstance(model, (list, tuple)) else [model]:
        for batch in batch_size if isinstance(batch_size, Sequence) else [batch_size]:
            asked = {"batch": batch, **(sizes or {})}
            bulk = len(devices) >= _MANY
            fleet, said = _fleet(one, asked, request, settings, several, bulk=bulk)
            fleets.append(fleet)
            notes += said
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
    runtime: str | None = None,
    sparsity: bool = False,
    engine: str | None = None,
    train: bool = False,
    trust: bool = False,
    fleets: dict[str, tuple[Fleet, Sequence[str]]] | None = None,
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
        runtime: As for `analyze`, and so are sparsity, engine, train and trust.
        sparsity: Products with weights meet the sparse peaks.
        engine: Hold matrix work against this one only.
        train: Include backward and optimizer.
        trust: Allow a file to run code.
        fleets: What earlier questions prepared, used again where only the limits differ; models
            that can change in between (files, modules) must not be asked with it.

    Returns:
        Devices that meet all limits, best first; unknowns and near misses apart.
    """
    from gambrel.advise.compare import Field
    from gambrel.advise.limits import parse_limits
    from gambrel.advise.select import select as select_among

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
    request = {"phase": phase, "train": train, "trust": trust}
    settings = {"runtime": runtime, "sparsity": sparsity, "engine": engine}
    several = [precision] if isinstance(precision, str) or precision is None else list(precision)
    bulk = len(devices) >= _MANY
    kept = {} if fleets is None else fleets
    own = None if fleets is None else _settings().calibration
    key = repr((model, asked, request, settings, several, bulk, own))
    if key not in kept:
        kept[key] = _fleet(model, asked, request, settings, several, bulk=bulk)
    fleet, said = kept[key]
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
    found = [resolve_hardware(h) for h in listed_hardware(hardware)]
    return [device for device, _ in found], [note for _, notes in found for note in notes]


def _fleet(
    model: Any,
    sizes: Mapping[str, int | None],
    request: Mapping[str, Any],
    settings: Mapping[str, Any],
    precisions: Sequence[str | None],
    *,
    bulk: bool = False,
) -> tuple[Fleet, Sequence[str]]:
    from gambrel.advise.fleet import Fleet
    from gambrel.capture.resolve import Request, resolve_model

    asked = checked_sizes(sizes)
    found = resolve_model(model, Request(**request, sizes=asked))
    built: dict[str, Workload] = {}
    for precision in precisions if str(model).endswith(".json") else ():
        if precision is not None:
            own = Request(**request, sizes=asked, precision=precision)
            workload = resolve_model(model, own).workload
            built |= {precision: workload} if workload.precisions else {}
    chosen = _settings(sizes=asked, **settings)
    return Fleet(found.workload, chosen, bulk=bulk, built=built), found.notes


def _settings(**chosen: Any) -> Settings:
    """Settings with the constants that this machine's user has calibrated."""
    from gambrel.analysis.estimate.store import load as load_calibration
    from gambrel.analysis.settings import Settings

    return Settings(calibration=load_calibration(), **chosen)


def _prices(
    prices: Mapping[str, str | float] | None, devices: Sequence[Device]
) -> Mapping[str, float]:
    from gambrel.advise.limits import parse_value

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
    from gambrel.advise.whatif import what_if as differences

    changes = [change] if isinstance(change, str) else list(change)
    before = analyze(model, hardware, **question)
    after = before.with_change(*changes)
    return before, after, differences(before, after, changes)
