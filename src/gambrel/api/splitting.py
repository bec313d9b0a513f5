"""The public function that plans prefill and decode on devices of their own."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from gambrel import roofline
from gambrel.analysis.question import Question
from gambrel.api.analyze import settings_of
from gambrel.api.faces import asks
from gambrel.api.plans import (
    degrees_of,
    engine_of,
    served_spec,
    topology_of,
    with_devices,
)
from gambrel.api.serving import setups_of
from gambrel.device.resolve import asked_device, prices_of
from gambrel.errors import InputError
from gambrel.llm.layouts import candidates, of_degrees
from gambrel.llm.serving.plan import of_engine, plan
from gambrel.llm.serving.question import Requests, Target
from gambrel.llm.serving.split import split
from gambrel.llm.serving.split_records import SplitPlan
from gambrel.llm.serving.steps import Setup
from gambrel.llm.topology import topology_for


@asks("serve-split")
def serve_split(question: Question) -> SplitPlan:
    """Plans prefill and decode on pools of their own: layouts, how many of each, TTFT, TPOT.

    Returns:
        The pools with the fewest devices for a rate, else with most tokens per second of a device;
        beside it what shared devices reach.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    q = with_devices(question)
    requests = Requests(
        input_tokens=q.input, output_tokens=q.output, cached_tokens=q.cached, per_s=q.rate
    )
    spec = served_spec(q)
    requests.check(spec)
    if requests.output_tokens < 2:
        raise InputError("output=1: the prefill pool gives the first token, so nothing is decoded.")
    target = Target(ttft_s=q.ttft, tpot_s=q.tpot)
    other = q if q.prefill_hardware is None else replace(q, hardware=q.prefill_hardware)
    ahead, behind = _setups(other), _setups(q)
    found = split(ahead, behind, requests, target, max_devices=q.max_devices)
    return msgspec.structs.replace(
        found,
        shared_tokens_per_s_per_device=_together(q, requests, target),
        cost_per_million=_cost(q, other, found),
        assumptions=(
            "requests come at random; a prompt waits as with one server of constant service time.",
            "keys and values cross after the prompt, not layer by layer; decode steps hold no "
            "prompts.",
            _crossing(q, other, found),
            *of_engine(behind[0]),
            *spec.notes,
        ),
    )


def _crossing(q: Question, other: Question, found: SplitPlan) -> str:
    """Over what keys and values cross."""
    device = asked_device(other.hardware, other.peak, other.bandwidth)[0]
    node = topology_for(device, topology_of(q.topology))
    if node.network_byte_per_s is not None:
        return f"keys and values cross the network of {node.name}."
    size = node.devices_per_node
    apart = found.prefill.device != found.decode.device or (size or 0) < found.devices
    more = "; these pools lie in several nodes, so that it takes longer" if apart else ""
    return f"keys and values cross the link within a node, as no network was given{more}."


def _setups(q: Question) -> list[Setup]:
    """Layouts of a replica: those asked for, or all without a pipeline."""
    spec = served_spec(q)
    if degrees := degrees_of(q):
        return setups_of(q, of_degrees(spec, q.max_devices, degrees))[0]
    every = candidates(spec, q.max_devices)
    shared = [s for s in every if s.data == s.context == s.pipeline == 1]
    return setups_of(q, shared)[0]


def _together(q: Question, requests: Requests, target: Target) -> float | None:
    """Tokens per second of a device where both share devices."""
    spec = served_spec(q)
    found = plan(
        spec,
        [asked_device(q.hardware, q.peak, q.bandwidth)[0]],
        [spec.precisions(q.precision)],
        requests,
        max_devices=q.max_devices,
        target=target,
        engine=engine_of(q),
        settings=settings_of(q, precision=None),
        topology=topology_of(q.topology),
        top=1,
    )
    return found.best[0].point.tokens_per_s_per_device if found.best else None


def _cost(q: Question, other: Question, found: SplitPlan) -> float | None:
    devices = [asked_device(x.hardware, x.peak, x.bandwidth)[0] for x in (other, q)]
    prices = prices_of(q.prices, devices)
    if not prices:
        return None
    pools = (found.prefill, found.decode)
    missing = [p.device for p in pools if p.device not in prices]
    if missing:
        raise InputError(f"prices are given for some devices only; missing: {missing[0]}.")
    hourly = sum(prices[p.device] * p.devices for p in pools)
    return float(hourly * roofline.seconds(1e6, found.tokens_per_s) / 3600)
