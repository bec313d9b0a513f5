"""The public functions that simulate serving: requests one by one, and the time of any step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel import roofline
from gambrel.analysis.question import Question, ask
from gambrel.api.analyze import settings_of
from gambrel.api.faces import asks
from gambrel.api.plans import (
    check_longest,
    degrees_of,
    engine_of,
    name_of,
    served_spec,
    topology_of,
    unread_of,
    with_devices,
)
from gambrel.device.resolve import asked_device, prices_of
from gambrel.errors import DeviceError, InputError, UnknownNameError
from gambrel.llm.collectives import assumptions as of_layout
from gambrel.llm.layouts import candidates, check, of_degrees
from gambrel.llm.serving import arrivals
from gambrel.llm.serving.choice import Mean, first_token, mean
from gambrel.llm.serving.commands import commands
from gambrel.llm.serving.fleet import TRIED, Load, Server, fewest, meets, server
from gambrel.llm.serving.outcomes import Attempt, Outcome, Simulation
from gambrel.llm.serving.place import averaged, place, runtime_of
from gambrel.llm.serving.plan import check_generates, of_engine
from gambrel.llm.serving.question import Requests, Target
from gambrel.llm.serving.replica import Request
from gambrel.llm.serving.steps import Setup
from gambrel.llm.serving.timer import StepTimes, tables
from gambrel.llm.serving.trace import read_trace
from gambrel.llm.sharding import Sharding
from gambrel.llm.topology import topology_for
from gambrel.runtimes import runtime

#: Requests for each slot of a closed loop, and requests that come by themselves.
_PER_SLOT, _COUNT = 10, 10_000
_PERCENTILES: Final = (50, 90, 99)


@asks("serve-sim")
def serve_sim(question: Question) -> Simulation:
    """Simulates the serving of requests one by one: percentiles, goodput, queue, over time.

    Returns:
        What the requests see, on the replicas asked for, or else on the fewest devices that meet
        the targets.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    q = with_devices(question)
    _check(q)
    load, target = _load(q), Target(ttft_s=q.ttft, tpot_s=q.tpot)
    limited = q.ttft is not None or q.tpot is not None
    servers, reasons = _servers(q)
    tried: Any = ()
    if q.replicas is None and limited:
        one, count, tried = fewest(servers, load, target, q.percentile, q.max_devices)
        if one is None:
            one, count = _nearest(servers, q.max_devices)
    else:
        one, count = _nearest(servers, q.max_devices)
        count = q.replicas or count
    result, count = _served(one, count, load, target, q)
    setup = one.setup
    usual = _mean(setup, result, count)
    return Simulation(
        model=setup.spec.name,
        device=setup.device.id,
        precision=setup.precisions.name,
        runtime=setup.settings.runtime or "",
        mean_of=setup.mean_of,
        sharding=_with_replicas(setup.sharding, count),
        load=load.about,
        target=target,
        percentile=q.percentile,
        met=meets(result, target, q.percentile) if limited else None,
        outcome=result,
        price_per_hour=prices_of(q.prices, [setup.device]).get(setup.device.id),
        paced=q.trace is not None or q.rate is not None,
        step=usual.step,
        ttft=first_token(
            usual.prompt,
            result.ttft.mean_s,
            setup,
            roofline.ratio(result.input_tokens_per_s, result.requests_per_s),
            max(0.0, result.requests_per_s * result.total.mean_s / count - 1),
        ),
        energy_j_per_token=usual.energy_j_per_token,
        tried=(*tried, *reasons),
        tried_with=min(TRIED, result.requests) if tried else 0,
        commands=_commands(setup, count, q),
        assumptions=_assumptions(one, q),
    )


class StepTimer(StepTimes):
    """Times of any step of a model on a device, for simulators that call them millions of times.

    Tables are made once (0.1 s); a call takes microseconds. It can be pickled.

    Args:
        model: A name, a ``config.json``, its folder, or a `gambrel.llm.spec.ModelSpec`.
        device: Name, file or `Device`.
        runtime: The serving engine; None takes the mean of those that were measured on the device.
        layout: Degrees of parallelism, e.g. ``{"tensor": 4}``, or a `Sharding`; None is one device.
        precision: Number formats; None is the checkpoint's.
        longest: Tokens of the longest request; None: the model's context, at most 131,072.
        **more: As for `gambrel.serve_sim`: ``step_tokens``, ``host``, ``topology`` ...

    Raises:
        GambrelError: As `gambrel.serve_sim`.

    Attributes:
        mean_of: Where no engine is named: those whose mean the times are; empty for one.
    """

    def __init__(
        self,
        model: Any,
        device: Any,
        runtime: str | None = None,
        layout: Sharding | dict[str, int] | None = None,
        *,
        precision: str | None = None,
        longest: int | None = None,
        **more: Any,
    ) -> None:
        given = {"model": model, "hardware": device, "runtime": runtime, "precision": precision}
        question = ask("serve-sim", given | more)
        split = layout if isinstance(layout, Sharding) else Sharding(**(layout or {}))
        setup = setups_of(question, [split])[0][0]
        super().__init__(tables(setup, longest=longest))
        self.mean_of = setup.mean_of
        engine = f"mean of {', '.join(self.mean_of)}" if self.mean_of else setup.settings.runtime
        self.description = (
            f"{setup.spec.name} on {split.devices} x {setup.device.id}, {split}, {engine}"
        )

    def __repr__(self) -> str:
        return f"StepTimer({self.description})"


def _check(q: Question) -> None:
    asked_device(q.hardware, q.peak, q.bandwidth)  # names a device that there is not
    if q.percentile not in _PERCENTILES:
        raise InputError(f"percentile={q.percentile}: give 50, 90 or 99.")
    if q.trace is not None:
        for name in ("rate", "concurrency", "arrivals", "input", "output"):
            if getattr(q, name) is not None:
                raise InputError(f"{name}: the trace has the requests; leave {name} out.")
        return
    for name, example in (("input", "2k"), ("output", "500")):
        if getattr(q, name) is None:
            raise InputError(
                f"serve-sim needs --trace FILE, or --input and --output, e.g. --{name} {example}."
            )
    if q.arrivals == "offline":
        _check_offline(q)
    elif q.arrivals != "burst" and q.rate is None and q.concurrency is None:
        raise InputError("serve-sim needs --rate, e.g. 20/s, or --concurrency, e.g. 64.")
    if q.rate is not None and q.concurrency is not None:
        raise InputError("give either a rate or a concurrency: requests come or are replaced.")


def _check_offline(q: Question) -> None:
    for name, instead in (("rate", ""), ("concurrency", "; --max-requests limits them")):
        if getattr(q, name) is not None:
            raise InputError(
                f"{name}: offline, all requests wait from the start{instead}; leave {name} out."
            )


def _load(q: Question) -> Load:
    """The requests that are asked for."""
    if q.trace is not None:
        return _traced(q)
    Requests(input_tokens=q.input, output_tokens=q.output, arrivals=q.arrivals, per_s=q.rate)
    lengths = arrivals.Lengths(
        input_tokens=q.input, output_tokens=q.output, least=q.shortest or 1.0
    )
    whole = Requests(input_tokens=q.input, output_tokens=q.output)
    whole.check(_spec(q))
    check_longest(q, whole.longest)
    many = "" if q.shortest == 1 else f", lengths from {q.shortest:.0%} of these"
    shape = f"{q.input:,} tokens in, {q.output:,} out{many}"
    if q.rate is not None:
        count, rate = q.requests or _COUNT, q.rate
        return Load(
            about=f"{count:,} requests at random, {rate:g}/s, {shape}",
            open=lambda: arrivals.poisson(lengths, rate, count, q.seed),
        )
    slots = q.concurrency or 1
    if q.arrivals in ("burst", "offline"):
        together = q.requests or q.concurrency
        if together is None:
            raise InputError(f"arrivals={q.arrivals}: give --requests, e.g. 1000.")
        what = "in a batch job" if q.arrivals == "offline" else "at once"
        return Load(
            about=f"{together:,} requests {what}, {shape}",
            open=lambda: arrivals.burst(lengths, together, q.seed),
        )
    count = q.requests or _PER_SLOT * slots
    return Load(
        about=f"{count:,} requests, {slots:,} in flight, {shape}",
        lengths=lambda: lengths.draw(count, q.seed),
        slots=slots,
    )


def _traced(q: Question) -> Load:
    path, own = Path(str(q.trace)), _spec(q).max_context
    longest = min((n for n in (own, q.longest) if n is not None), default=None)

    def requests() -> Iterator[Request]:
        return islice(read_trace(path, longest=longest), q.requests)

    return Load(about=f"requests of {path.name}", open=requests)


def _spec(q: Question) -> Any:
    return served_spec(q)


def setup_of(q: Question, sharding: Sharding, built: Any = None) -> Setup:
    """One layout of one replica, checked.

    Raises:
        GambrelError: It cannot be.
    """
    spec, device = _spec(q), asked_device(q.hardware, q.peak, q.bandwidth)[0]
    check_generates(spec)
    if any(group.layer.cross is not None for group in spec.layers):
        raise InputError(
            f"{spec.name} reads an encoder's output: serve-plan answers for such models, steps one "
            "by one are for decoders."
        )
    check(sharding, spec, max(q.max_devices or 1, sharding.devices))
    settings = settings_of(q, precision=None)
    name = None if settings.runtime is None else runtime(settings.runtime).id
    try:
        return place(
            spec,
            device,
            sharding,
            spec.precisions(q.precision),
            node=topology_for(device, topology_of(q.topology)),
            engine=engine_of(q),
            settings=replace(settings, precision=None, sizes=None, runtime=name),
            built=built,
        )
    except DeviceError as error:
        raise DeviceError(f"{device.id}, {sharding}: {error}") from None


def setups_of(q: Question, layouts: Sequence[Sharding]) -> tuple[list[Setup], list[Attempt]]:
    """The layouts that can be, by the mean of the engines where none is named, and the others.

    Raises:
        GambrelError: None can be.
    """
    device = asked_device(q.hardware, q.peak, q.bandwidth)[0]
    runtime_of(device, q.runtime, _spec(q).precisions(q.precision))
    setups: list[Setup] = []
    refused: list[Attempt] = []
    built: dict[Any, Any] = {}
    for layout in layouts:
        try:
            setups.append(setup_of(q, layout, built))
        except UnknownNameError:
            raise
        except (InputError, DeviceError) as error:
            if len(layouts) == 1:
                raise
            refused.append(Attempt(sharding=layout, reason=str(error)))
    if not setups:
        raise InputError(f"no layout holds the model: {refused[0].reason}")
    named = settings_of(q, precision=None).runtime is not None
    return setups if named else averaged(setups), refused


def _servers(q: Question) -> tuple[list[Server], list[Attempt]]:
    """The layout that was asked for, or all that hold the model, and why others cannot."""
    layouts: Sequence[Sharding]
    if degrees := degrees_of(q):
        layouts = of_degrees(_spec(q), q.max_devices, degrees)
    else:
        every = candidates(_spec(q), q.max_devices)
        layouts = [s for s in every if s.data == 1 and s.context == 1]
    setups, refused = setups_of(q, layouts)
    servers: list[Server] = []
    for setup in setups:
        try:
            servers.append(server(setup, cached_share=q.hit_rate))
        except InputError as error:
            if degrees and len(layouts) == 1:
                raise
            refused.append(Attempt(sharding=setup.sharding, reason=str(error)))
    if not servers:
        raise InputError(f"no layout holds the model: {refused[-1].reason}")
    return servers, refused


def _served(
    one: Server, count: int, load: Load, target: Target, q: Question
) -> tuple[Outcome, int]:
    """All requests; with other replicas where a search by the first of them does not hold."""
    result = one.run(load, count, target)
    if q.replicas is not None or (q.ttft is None and q.tpot is None):
        return result, count
    most = q.max_devices // one.setup.sharding.devices
    if meets(result, target, q.percentile):
        while count > 1 and result.requests > TRIED:
            fewer = one.run(load, count - 1, target)
            if not meets(fewer, target, q.percentile):
                break
            result, count = fewer, count - 1
        return result, count
    while count < most and not meets(result, target, q.percentile):
        count = min(most, count + max(1, count // 16))
        result = one.run(load, count, target)
    return result, count


def _mean(setup: Setup, outcome: Outcome, replicas: int) -> Mean:
    """A replica at mean lengths and the mean number of requests in flight."""
    spent = outcome.activity
    busy = sum(spent.busy_share) * replicas
    if not busy:
        return Mean(None, None, None)
    totals = (outcome.input_tokens_per_s, outcome.tokens_per_s)
    lengths = [max(1, round(roofline.ratio(total, outcome.requests_per_s))) for total in totals]
    requests = Requests(input_tokens=lengths[0], output_tokens=lengths[1])
    return mean(setup, sum(spent.running) / busy, requests)


def _nearest(servers: list[Server], max_devices: int) -> tuple[Server, int]:
    """The smallest layout that holds the model, as often as there is room."""
    one = min(servers, key=lambda s: s.setup.sharding.devices)
    return one, max(1, max_devices // one.setup.sharding.devices)


def _with_replicas(sharding: Sharding, count: int) -> Sharding:
    return msgspec.structs.replace(sharding, data=count)


def _commands(setup: Setup, replicas: int, q: Question) -> tuple[str, ...]:
    return commands(
        name_of(q, setup.spec),
        _with_replicas(setup.sharding, replicas),
        setup.engine,
        longest=q.longest,
        most=q.max_requests,
        formats=None if setup.precisions == setup.spec.precisions() else setup.precisions,
        experts=bool(setup.spec.mixtures),
        first=setup.settings.runtime or "",
    )


def _assumptions(one: Server, q: Question) -> tuple[str, ...]:
    said = [
        *unread_of(q),
        "requests go to the replicas in turn, first come first served; chunked prefill of up to "
        f"{one.limits.step_tokens:,} tokens per step shares steps with decode.",
        "a request waits until the cache has room for its whole answer."
        if one.limits.reserves
        else "when the cache is full, the request that came last is preempted and computed again.",
        *of_engine(one.setup),
        *of_layout(one.setup.sharding, one.setup.topology, one.setup.engine.overlap),
    ]
    if q.hit_rate:
        said.append(f"{q.hit_rate:.0%} of every prompt is in a prefix cache and not computed.")
    return tuple(said)
