"""A point in full: ranges, where the time goes, energy, cost, and why the next one loses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from gambrel import roofline
from gambrel.analysis.analyze import analyze
from gambrel.analysis.measures import Estimate
from gambrel.analysis.result import Analysis
from gambrel.device.model import Device
from gambrel.llm.adapters import PART
from gambrel.llm.kv import room
from gambrel.llm.serving.commands import commands
from gambrel.llm.serving.evaluate import Layout
from gambrel.llm.serving.question import Requests
from gambrel.llm.serving.records import Choice, OperatingPoint
from gambrel.llm.serving.steps import Setup, decode_step, prompt_step, tokens_per_step
from gambrel.llm.serving.timing import FIRST_WAVE
from gambrel.llm.sharding import Sharding
from gambrel.llm.step import ForwardPass
from gambrel.runtimes import on_device, runtimes
from gambrel.units import format_number, format_si

#: Kind of op → what a reader calls its share of the time.
_CLASSES = {
    "matmul": "GEMMs",
    "grouped_matmul": "experts",
    "attention": "attention",
    "collective": "communication",
    PART: "LoRA adapters",
}


#: Part of the kernels' range that a token needs: kernels of one class are off together in their own
#: measurements, tokens of 1,185 served runs less so; 94 % of them lie inside.
_TOKEN_RANGE = 0.6
#: Measured over expected time of a token in runs that fill the devices, the slow end of nine in ten
#: at least: of dense models divided over devices that wait for each other (TensorRT-LLM 0.14 and
#: 0.20, the quantiles of one hold 90 % of the other), and both ends of mixtures in nvfp4, whose
#: kernels were measured in an edition that is a year younger (TensorRT-LLM 1.0 on B200, GB200 and
#: RTX PRO 6000; benchmarks/accuracy/tensorrt_llm.py).
_DIVIDED = (1.0, 1.5)
_MIXED_NVFP4 = (0.75, 1.85)
#: From this share of a step on, what the host takes makes an estimate less sure.
_HOST_MATTERS = 0.1
#: Measured over expected TTFT of served runs, the ends of nine in ten; with the quantiles of the
#: other models 87 % of a model's runs lie inside (`benchmarks/served.py`).
_TTFT_RANGE = (0.68, 3.84)
#: The same of requests alone, which wait for nothing (`benchmarks/front_ends.py`).
_TTFT_ALONE = (0.68, 1.6)


def choose(layout: Layout, requests: Requests, prices: Mapping[str, float], name: str) -> Choice:
    """Analyzes the steps of a layout's best point op by op; ``name`` is the model's in commands."""
    point, setup = layout.best, layout.setup
    assert point is not None  # only layouts with a best point get here
    micro = -(-point.batch // (setup.stages * setup.sharding.attention_data))
    decoding, prompt = _steps(setup, micro, requests)
    roofline_s, per_token = decoding.roofline_time_s, setup.stages / tokens_per_step(setup)
    price, fitting = prices.get(point.device), point.memory.max_sequences
    tpot = _scaled(decoding.expected_time_s, prompt.expected_time_s, point)
    if tpot is not None and decoding.expected_time_s is not None:
        tpot = _without_host(tpot, _hidden(decoding.expected_time_s, setup, micro))
    return Choice(
        point=point,
        tpot=_among(tpot, setup, micro, requests.mean_context),
        ttft=first_token(
            prompt.expected_time_s,
            point.ttft_s,
            setup,
            requests.new_tokens,
            point.batch - 1,
            wave=requests.arriving == "closed",
        ),
        roofline_tpot_s=None if roofline_s is None else roofline_s * per_token,
        bound=None if decoding.bound is None else decoding.bound.value,
        limited_by=None if decoding.limited_by is None else decoding.limited_by.value,
        shares=_shares(decoding),
        max_batch=None if fitting is None else fitting * setup.sharding.attention_data,
        max_context=requests.longest if requests.source_tokens else _max_context(setup, point),
        energy_j_per_token=_energy(decoding, prompt, point.batch, point.sharding, requests),
        energy=decoding.energy,
        cost_per_million=None if price is None else point.cost_per_million(price),
        commands=_commands(setup, point, requests, name),
        decode=decoding,
        prefill=prompt,
    )


def _commands(
    setup: Setup, point: OperatingPoint, requests: Requests, name: str
) -> tuple[str, ...]:
    own = setup.precisions == setup.spec.precisions()
    return commands(
        name,
        point.sharding,
        setup.engine,
        longest=None if requests.source_tokens else requests.longest,
        most=point.batch,
        formats=None if own else setup.precisions,
        experts=bool(setup.spec.mixtures),
        first=setup.settings.runtime or "",
        there=_engines(setup.device),
    )


def _engines(device: Device) -> tuple[str, ...]:
    """What may run there; of a device of two numbers nobody knows."""
    there = runtimes().values() if device.category == "custom" else on_device(device, language=True)
    return tuple(r.id for r in there)


def _max_context(setup: Setup, point: OperatingPoint) -> int | None:
    """Tokens of a request that fit when as many are in flight."""
    if point.memory.capacity_bytes is None:
        return None
    return room(
        setup.spec,
        setup.precisions,
        free_bytes=point.memory.free_bytes,
        batch_size=max(1, -(-point.batch // setup.sharding.attention_data)),
        context=1,
        policy=setup.engine.policy,
        sharding=setup.sharding,
    ).context


def why_not(choice: Choice, better: Choice) -> str:
    """Why the choice ranked before is better, in one sentence."""
    a, b = choice.point, better.point
    ahead = _ahead(choice, better)
    causes = []
    if a.memory.weights_bytes > 1.05 * b.memory.weights_bytes and a.batch_limit == "memory":
        causes.append(f"its weights leave room for {a.batch} requests per replica, not {b.batch}")
    elif a.batch_limit in ("tpot", "ttft") and a.batch / a.sharding.replica < (
        b.batch / b.sharding.replica
    ):
        causes.append(
            f"its {a.batch_limit.upper()} allows {a.batch / a.sharding.replica:.3g} requests per "
            f"device, not {b.batch / b.sharding.replica:.3g}"
        )
    grown = {
        name: share * a.tpot_s - better.shares.get(name, 0.0) * b.tpot_s
        for name, share in choice.shares.items()
    }
    name = max(grown, key=lambda key: grown[key], default="")
    now, then = (x.shares.get(name, 0.0) for x in (choice, better))
    if grown.get(name, 0.0) > 0.02 * b.tpot_s and now - then > 0.01:
        causes.append(f"{name}: {now:.0%} of its decode step, not {then:.0%}")
    if not causes and a.interference_s > 1.1 * b.interference_s:
        causes.append("chunked prefill interleaved with decode holds its answers up longer")
    if not causes:
        causes.append(
            f"a token takes {format_si(a.tpot_s, 's', 3)} with "
            f"{a.batch / a.sharding.replica:.3g} requests per device in flight, not "
            f"{format_si(b.tpot_s, 's', 3)} with {b.batch / b.sharding.replica:.3g}"
        )
    return f"{ahead}: {'; '.join(causes)}."


def _ahead(choice: Choice, better: Choice) -> str:
    a, b = choice.point, better.point
    if choice.cost_per_million is not None and better.cost_per_million is not None:
        costs = [format_number(x.cost_per_million or 0.0) for x in (choice, better)]
        if costs[0] != costs[1]:
            return f"a million tokens cost {costs[0]}, not {costs[1]}"
    if a.devices != b.devices:
        return f"it takes {a.devices} devices, not {b.devices}"
    rates = [format_number(x.tokens_per_s_per_device) for x in (a, b)]
    if rates[0] != rates[1]:
        return f"{rates[0]} tokens/s per device, not {rates[1]}"
    return f"TPOT {format_si(a.tpot_s, 's', 3)}, not {format_si(b.tpot_s, 's', 3)}"


class Mean(NamedTuple):
    """A replica with a mean number of requests in flight.

    Attributes:
        step: Of a decode step; its range is that of the time spent in steps and prompts. None
            where no expected time is known.
        prompt: The step of a prompt; None where no expected time is known.
        energy_j_per_token: Of an output token, all devices of the replica; None where a constant
            is unknown.
    """

    step: Estimate | None
    prompt: Estimate | None
    energy_j_per_token: float | None


def mean(setup: Setup, batch: float, requests: Requests) -> Mean:
    """What is known of a replica with so many requests in flight, of mean lengths."""
    groups = setup.stages * setup.sharding.attention_data
    micro = max(1, round(batch / groups))
    decoding, prompt = _steps(setup, micro, requests)
    energy = _energy(decoding, prompt, micro * groups, setup.sharding, requests)
    step, first = decoding.expected_time_s, prompt.expected_time_s
    if step is None:
        return Mean(None, first, energy)
    of_prompts = 0.0
    if first is not None and not requests.source_tokens:
        share = requests.new_tokens / (_prompt_tokens(prompt) or requests.new_tokens)
        of_prompts = first.value * share * micro
    of_steps = step.value * requests.output_tokens
    ends = _ends(step, first, roofline.ratio(of_prompts, of_prompts + of_steps))
    low, high = _of_whole_runs(ends, setup)
    ranged = msgspec.structs.replace(step, low=step.value * low, high=step.value * high)
    ranged = _without_host(ranged, _hidden(step, setup, micro))
    return Mean(_among(ranged, setup, micro, requests.mean_context), first, energy)


def _hidden(step: Estimate, setup: Setup, micro: int) -> float:
    """Share of a step that the host takes, and that no device may have to wait for.

    Versions of vLLM up to 0.19 take 1.4 ms and more. Of 0.30 seven of eight runs of an 8B model on
    an H100 leave 0.7 ms or less beside the kernels: it schedules a step while the one before runs
    (medians of whole runs, tgarg01/silybench-data). Without graphs hosts differ by half in how long
    they launch kernels (a 14B model in 4 bits on an A100: 20.6 ms where 26.7 are expected,
    vllm-project/vllm issue 20469).
    """
    if setup.engine.host_s is not None:
        return 0.0
    host_s = setup.host_s + setup.request_host_s * micro * setup.stages
    launched = setup.overhead.floor_s - step.value if setup.engine.eager else 0.0
    waits = max(0.0, launched)
    return roofline.ratio(host_s + waits / 2, step.value + host_s + waits)


def _without_host(estimate: Estimate, hidden: float) -> Estimate:
    """The near end without the time of the host; where that is much, nothing is sure of it."""
    found = msgspec.structs.replace(estimate, low=estimate.low * (1 - hidden))
    if hidden < _HOST_MATTERS or found.confidence == "low":
        return found
    reason = f"engines differ in what the host takes of a step, {hidden:.0%} here; {found.reason}"
    return msgspec.structs.replace(found, confidence="medium", reason=reason)


def _of_whole_runs(ends: tuple[float, float], setup: Setup) -> tuple[float, float]:
    """The ends of a token's range in a run that fills the devices."""
    spec, precisions = setup.spec, setup.precisions
    known = []
    if setup.sharding.tensor > 1:
        known.append(_DIVIDED)
    if spec.mixtures and (precisions.experts or precisions.weights) == "nvfp4":
        known.append(_MIXED_NVFP4)
    lows, highs = zip(ends, *known, strict=True)
    return min(lows), max(highs)


def _steps(setup: Setup, micro: int, requests: Requests) -> tuple[Analysis, Analysis]:
    """A decode step and the step of a prompt, op by op."""
    step = decode_step(setup, requests.mean_context, micro, requests.source_tokens)
    first = prompt_step(requests, most=setup.engine.step_tokens)
    return _analyze(setup, step), _analyze(setup, first)


def _analyze(setup: Setup, step: ForwardPass) -> Analysis:
    return analyze(setup.workload(step), setup.placed, setup.settings)


def _shares(analysis: Analysis) -> dict[str, float]:
    """Share of the expected time (else of the roofline) by class of op, largest first."""
    seconds: dict[str, float] = {}
    for op in analysis.ops:
        m = op.measures
        value = m.expected_time_s.value if m.expected_time_s else m.roofline_time_s or 0.0
        kind = PART if op.module.endswith(f".{PART}") else op.kind
        name = _CLASSES.get(kind, "norms and other small ops")
        seconds[name] = seconds.get(name, 0.0) + value
    whole = sum(seconds.values())
    ranked = sorted(seconds.items(), key=lambda item: -item[1])
    return {name: value / whole for name, value in ranked} if whole else {}


def _scaled(
    step: Estimate | None, prompt: Estimate | None, point: OperatingPoint
) -> Estimate | None:
    """The range of a token: that of the decode step and that of the prompts between, by share."""
    if step is None:
        return None
    waiting = point.interference_s / point.tpot_s if point.tpot_s else 0.0
    low, high = _ends(step, prompt, waiting)
    return msgspec.structs.replace(
        step,
        value=point.tpot_s,
        low=point.tpot_s * low,
        high=point.tpot_s * high,
        launches_s=point.tpot_s * (1 - waiting) * step.launches_share,
        host_s=point.tpot_s * (1 - waiting) * step.host_share,
    )


def _ends(step: Estimate, prompt: Estimate | None, share: float) -> tuple[float, float]:
    """Both ends of a range over its value, where prompts take a share of the time.

    Kernels of which little is known may all be off by as much.
    """
    part = 1.0 if step.confidence == "low" else _TOKEN_RANGE
    other = prompt or step
    low = (1 - share) * step.low / step.value + share * other.low / other.value
    high = (1 - share) * step.high / step.value + share * other.high / other.value
    return 1 + part * (low - 1), 1 + part * (high - 1)


def _among(estimate: Estimate | None, setup: Setup, micro: int, context: int) -> Estimate | None:
    """The range over all engines, where none was named."""
    if estimate is None or setup.mix is None:
        return estimate
    least, most = setup.mix.spread(micro, context)
    return msgspec.structs.replace(
        estimate,
        low=estimate.low * least,
        high=estimate.high * most,
    )


def first_token(
    prompt: Estimate | None,
    value: float,
    setup: Setup,
    tokens: float,
    others: float,
    *,
    wave: bool = False,
) -> Estimate | None:
    """The TTFT with the range of served runs, whose queues differ; that of the prompt if wider.

    The near end has no front end where none was asked: other servers in front of the same engine
    need a few milliseconds. Nor does the host launch every kernel of a prompt there: newer engines
    replay prompts as graphs (14 ms for 128 tokens of an 8B model on an H100 under vLLM 0.30). A
    benchmark of twice as many requests for each slot has half the share of the first wave.

    Args:
        prompt: Of the prompt's step on the device.
        value: The TTFT.
        setup: The layout.
        tokens: Of the prompt.
        others: Requests in flight beside it.
        wave: Whether the value has the share of a first wave in it.
    """
    if prompt is None or not prompt.value:
        return None
    scaled = prompt.times(value / prompt.value)
    added, asked = setup.overhead, setup.engine.frontend_s is not None
    spare = 0.0 if asked else added.frontend.seconds(tokens, others)
    beside = others / setup.sharding.attention_data
    floor = float(added.floor(tokens + beside, min(beside, 1.0)))
    spare += max(0.0, floor - prompt.value)
    if wave:
        spare += FIRST_WAVE / 2 * beside / 2 * prompt.value
    least, most = _TTFT_RANGE if others else _TTFT_ALONE
    low, high = max(value - spare, prompt.low) * least, value * most
    return msgspec.structs.replace(
        scaled, low=min(scaled.low, low), high=max(scaled.high, high), confidence="low"
    )


def _energy(
    decoding: Analysis, prompt: Analysis, batch: int, sharding: Sharding, requests: Requests
) -> float | None:
    """Energy of an output token: its share of a decode step and of its prompt, all devices.

    Each device of a replica runs a step for every microbatch, that is for ``batch / stages``
    tokens; a prompt keeps all devices busy but those that attend to other sequences.
    """
    if decoding.energy is None or prompt.energy is None:
        return None
    step, first = decoding.energy.energy_j, prompt.energy.energy_j
    if step is None or first is None:
        return None
    per_step = batch / sharding.pipeline
    prompts = 1.0
    if not requests.source_tokens:
        prompts = requests.new_tokens / (_prompt_tokens(prompt) or requests.new_tokens)
    of_prompt = sharding.replica / sharding.attention_data * first * prompts
    return sharding.replica * step / per_step + of_prompt / requests.output_tokens


def _prompt_tokens(prompt: Analysis) -> int:
    """Tokens of the analyzed prefill step: rows of the look-up."""
    workload = prompt.workload
    if workload is None:
        return 0
    rows = next((op.sizes.get("rows") for op in workload.ops if op.kind == "embedding"), 0)
    return rows if isinstance(rows, int) else 0
