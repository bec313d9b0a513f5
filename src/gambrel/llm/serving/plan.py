"""Which devices, layout and batch serve a model best under a target, and why not the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from gambrel.analysis.settings import Settings
from gambrel.device.model import Device
from gambrel.device.roofs import main_memory
from gambrel.errors import DeviceError, InputError
from gambrel.llm.collectives import assumptions as of_layout
from gambrel.llm.collectives import busiest
from gambrel.llm.layouts import candidates, check
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.choice import choose, why_not
from gambrel.llm.serving.evaluate import MOST_DEVICES, Layout, evaluate, refuse
from gambrel.llm.serving.fits import what_fits
from gambrel.llm.serving.question import Engine, Requests, Target
from gambrel.llm.serving.records import Choice, Plan, Point, Refusal
from gambrel.llm.serving.steps import Setup
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import ModelSpec
from gambrel.llm.topology import Topology, topology_for
from gambrel.runtimes import choose as choose_runtime
from gambrel.runtimes import runtime
from gambrel.workload import Workload

#: Prompts from this length on are also split over devices (context parallelism).
_LONG: Final = 32_768
#: Choices that are looked at in full.
BEST: Final = 5


def plan(
    spec: ModelSpec,
    devices: Sequence[Device],
    precisions: Sequence[Precisions],
    requests: Requests,
    *,
    max_devices: int = 8,
    target: Target | None = None,
    engine: Engine | None = None,
    settings: Settings | None = None,
    prices: Mapping[str, float] | None = None,
    topology: str | Topology | None = None,
    shardings: Sequence[Sharding] | None = None,
    top: int = BEST,
) -> Plan:
    """Compares every layout, batch, precision and device, and ranks those that meet the target.

    Args:
        spec: The model.
        devices: Kinds of devices to compare.
        precisions: Number formats to compare.
        requests: What is served.
        max_devices: Most devices, all replicas together.
        target: Limits on the latencies.
        engine: How the serving engine is set up.
        settings: Runtime, calibration and the rest; a runtime of None takes each device's default.
        prices: Device id → price of an hour; of none, or of all devices.
        topology: Node and network; None is the usual node of each device.
        shardings: Layouts of one replica; None: all that the model allows.
        top: How many choices to look at in full.

    Returns:
        The plan; ``best`` is empty when nothing meets the target, ``refused`` then says what is
        nearest.

    Raises:
        InputError: Requests beyond the model's context; a layout that the model cannot have; no
            device.
    """
    target, engine, prices = target or Target(), engine or Engine(), dict(prices or {})
    settings = _checked(settings or Settings())
    _check(spec, devices, requests, max_devices, prices)
    setups: list[Setup] = []
    built: dict[Any, Workload] = {}
    long = requests.new_tokens >= _LONG
    refused: list[Refusal] = []
    for device in devices:
        node = topology_for(device, topology)
        for layout in shardings or candidates(spec, max_devices, context=long):
            check(layout, spec, max_devices)
            for formats in precisions:
                found = _setup(spec, device, node, layout, formats, engine, settings, built)
                (setups if isinstance(found, Setup) else refused).append(found)  # type: ignore[arg-type]
    layouts = [evaluate(setup, requests, target, max_devices) for setup in setups]
    refused += [x.refusal for x in layouts if x.refusal is not None]
    ranked = sorted((x for x in layouts if x.best), key=lambda x: _rank(x, requests, prices))
    ranked, over = _within(ranked, max_devices)
    refused += over
    best = _choices(ranked[:top], requests, prices)
    points = tuple(p for x in layouts for p in x.points if p.devices <= max_devices)
    held = any(x.points for x in layouts)
    return Plan(
        model=spec.name,
        requests=requests,
        target=target,
        engine=engine,
        max_devices=max_devices,
        prices=prices,
        best=best,
        pareto=pareto(points),
        points=points,
        refused=tuple(sorted(refused, key=lambda r: r.missed)),
        would_fit=() if held else what_fits(setups, requests, shardings),
        assumptions=_assumptions(spec, setups, ranked, best, engine),
    )


def pareto(points: Iterable[Point]) -> tuple[Point, ...]:
    """Points that no other beats both per user and per device, fastest for the user first."""
    ordered = sorted(points, key=lambda p: (p.tpot_s, -p.tokens_per_s_per_device))
    front: list[Point] = []
    for point in ordered:
        if not front or point.tokens_per_s_per_device > front[-1].tokens_per_s_per_device:
            front.append(point)
    return tuple(front)


def _check(
    spec: ModelSpec,
    devices: Sequence[Device],
    requests: Requests,
    max_devices: int,
    prices: Mapping[str, float],
) -> None:
    requests.check(spec)
    if not devices:
        raise InputError("a plan needs at least one device.")
    if type(max_devices) is not int or not 1 <= max_devices <= MOST_DEVICES:
        raise InputError(
            f"max_devices={max_devices!r}: give a whole number from 1 to {MOST_DEVICES:,}."
        )
    for name, price in prices.items():
        if not 0 < price < 1e12:
            raise InputError(f"price of {name}={price!r} must be above 0.")
    if prices and set(prices) != {d.id for d in devices}:
        missing = ", ".join(sorted({d.id for d in devices} - set(prices))) or "none"
        raise InputError(f"prices are given for some devices only; missing: {missing}.")
    if not spec.causal or spec.head != "lm":
        raise InputError(f"{spec.name} does not generate tokens: there is nothing to serve so.")
    if any(group.layer.cross is not None for group in spec.layers):
        raise InputError(
            f"{spec.name} reads an encoder's output: serving plans are for decoders; analyze its "
            "steps one by one."
        )


def _checked(settings: Settings) -> Settings:
    """The settings with their runtime by its id; precision and sizes are the plan's.

    Raises:
        UnknownNameError: No such runtime.
    """
    asked = settings.runtime
    name = None if asked is None else runtime(asked).id
    return replace(settings, precision=None, sizes=None, runtime=name)


def _setup(
    spec: ModelSpec,
    device: Device,
    node: Topology,
    layout: Sharding,
    formats: Precisions,
    engine: Engine,
    settings: Settings,
    built: dict[Any, Workload],
) -> Setup | Refusal:
    try:
        memory = main_memory(device)
        if memory is None or memory.byte_per_s is None:
            raise DeviceError("publishes no bandwidth of a memory that could hold the model.")
        placed = node.place(device, layout.devices, busiest(layout))
        chosen = choose_runtime(device, settings.runtime, language=True)
    except (DeviceError, InputError) as error:
        return Refusal(device=device.id, precision=formats.name, sharding=layout, reason=str(error))
    return Setup(
        spec=spec,
        device=device,
        placed=placed,
        topology=node,
        sharding=layout,
        precisions=formats,
        engine=engine,
        settings=replace(settings, runtime=chosen.runtime.id),
        built=built,
    )


def _rank(
    layout: Layout, requests: Requests, prices: Mapping[str, float]
) -> tuple[float, float, float]:
    """Cheapest tokens first where prices are known; fewest devices where a load is given."""
    point = layout.best
    assert point is not None  # the caller has looked
    if prices:
        return (point.cost_per_million(prices[point.device]), point.devices, point.tpot_s)
    if requests.per_s is not None or requests.concurrency is not None:
        return (point.devices, -point.tokens_per_s, point.tpot_s)
    return (-point.tokens_per_s_per_device, point.tpot_s, point.sharding.replica)


def _within(layouts: list[Layout], devices: int) -> tuple[list[Layout], list[Refusal]]:
    """Those that the devices suffice for, and refusals of the others."""
    kept, over = [], []
    for layout in layouts:
        point = layout.best
        assert point is not None  # the caller has looked
        if point.devices <= devices:
            kept.append(layout)
            continue
        reason = f"the load needs {point.devices} devices and there are {devices}."
        over.append(refuse(layout.setup, reason, point.devices / devices - 1))
    return kept, over


def _choices(
    layouts: Sequence[Layout], requests: Requests, prices: Mapping[str, float]
) -> tuple[Choice, ...]:
    found: list[Choice] = []
    for layout in layouts:
        choice = choose(layout, requests, prices)
        if found:
            choice = msgspec.structs.replace(choice, why_not=why_not(choice, found[-1]))
        found.append(choice)
    return tuple(found)


def _assumptions(
    spec: ModelSpec,
    setups: Sequence[Setup],
    ranked: Sequence[Layout],
    best: Sequence[Choice],
    engine: Engine,
) -> tuple[str, ...]:
    found = [
        "TPOT is (total - TTFT) / (output - 1), the mean over an answer; TTFT is prefill + queue.",
        "requests are alike, as many in flight as the batch says: one that ends is replaced at "
        "once.",
        f"chunked prefill is interleaved with decode, up to {engine.step_tokens:,} prompt tokens "
        "per step.",
    ]
    if not engine.host_s:
        found.append("scheduler and sampling on the host take no time besides the device's.")
    if engine.speculation:
        found.append(
            f"{engine.speculation.tokens} drafted tokens are kept with probability "
            f"{engine.speculation.acceptance:g} each: {engine.speculation.tokens_per_step:.3g} "
            "tokens per step."
        )
    if any(s.stages > 1 for s in setups):
        found.append(
            "a pipeline works on as many microbatches as it has stages; the stage with most "
            "layers and the head sets the pace."
        )
    for layout in ranked[:1]:
        found += of_layout(layout.setup.sharding, layout.setup.topology, engine.overlap)
    for choice in best[:1]:
        found += choice.decode.assumptions if choice.decode else ()
    return tuple(dict.fromkeys((*found, *spec.notes)))
