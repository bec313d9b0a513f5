"""What a simulation of serving says. Data only; times in s."""

from __future__ import annotations

import msgspec

from gambrel import roofline
from gambrel.analysis.measures import Estimate
from gambrel.llm.serving.question import Target
from gambrel.llm.sharding import Sharding
from gambrel.views import Viewed


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Of a latency, over requests; s."""

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What the replicas did over time, one number for each interval.

    Attributes:
        start_s: Of the interval.
        busy_share: Share of the time in which steps ran.
        running: Requests in flight, mean.
        waiting: Requests in the queue, mean.
        cache: Share of the cache in use, mean.
        tokens_per_s: Output tokens.
        input_tokens_per_s: Tokens of prompts.
    """

    start_s: tuple[float, ...]
    busy_share: tuple[float, ...]
    running: tuple[float, ...]
    waiting: tuple[float, ...]
    cache: tuple[float, ...]
    tokens_per_s: tuple[float, ...]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests of a run saw.

    Attributes:
        requests: That were served.
        duration_s: From the first arrival to the last token.
        ttft: Time to the first token.
        tpot: Time per token after the first; of requests with two tokens or more.
        total: From arrival to the last token.
        requests_per_s: Served.
        tokens_per_s: Output tokens.
        attained: Share of requests that met the target; None without one.
        goodput_per_s: Requests per second that met it.
        preemptions: Times that a request gave its place up.
        most_waiting: Longest queue of a replica.
        utilization: Share of the time in which steps ran, mean over replicas.
        activity: Over time, all replicas.
    """

    requests: int
    duration_s: float
    ttft: Spread
    tpot: Spread | None
    total: Spread
    requests_per_s: float
    tokens_per_s: float
    input_tokens_per_s: float
    attained: float | None
    goodput_per_s: float | None
    preemptions: int
    most_waiting: int
    utilization: float
    activity: Activity

    def reached(self, percentile: int) -> tuple[float, float]:
        """TTFT and TPOT at a percentile (50, 90 or 99)."""
        name = f"p{percentile}_s"
        return getattr(self.ttft, name), getattr(self.tpot, name) if self.tpot else 0.0


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that was tried.

    Attributes:
        sharding: With the number of replicas as ``data``.
        ttft_s: At the percentile; None where it cannot run.
        tpot_s: Likewise.
        met: Whether it meets the target.
        reason: Why it cannot run; empty where it can.
    """

    sharding: Sharding
    ttft_s: float | None = None
    tpot_s: float | None = None
    met: bool = False
    reason: str = ""


class Simulation(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """What users see of a deployment under a load.

    Attributes:
        model: Name.
        device: Id.
        precision: As the user wrote it.
        runtime: Id of the serving engine.
        mean_of: Where none was named: the engines whose mean steps are; empty for one.
        sharding: Of a replica, and the number of replicas as ``data``.
        load: The requests, in words.
        target: Latencies that are to be met.
        percentile: At which they are.
        met: Whether they are; None without a target.
        outcome: What the requests saw.
        price_per_hour: Of a device; None where none was given.
        tried: Layouts that a search has tried.
        tried_with: How many of the requests it tried them with; 0 without a search.
        step: A decode step at the mean number of requests in flight; its range is that of the time
            spent in steps and prompts. None where no expected time is known.
        paced: Whether requests come at times of their own, which set the rate; else the next comes
            when one ends, or all are there from the start, and the steps set it.
        ttft: The mean time to the first token with its range; None where no expected time is known.
        energy_j_per_token: Of an output token, all devices while they run, at the mean number of
            requests in flight; None where a constant is unknown.
        commands: How to start it, for each engine.
        assumptions: Printed with every result.
    """

    model: str
    device: str
    precision: str
    runtime: str
    sharding: Sharding
    load: str
    target: Target
    percentile: int
    met: bool | None
    outcome: Outcome
    price_per_hour: float | None = None
    paced: bool = False
    step: Estimate | None = None
    ttft: Estimate | None = None
    energy_j_per_token: float | None = None
    mean_of: tuple[str, ...] = ()
    tried: tuple[Attempt, ...] = ()
    tried_with: int = 0
    commands: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """All of them."""
        return self.sharding.devices

    @property
    def cost_per_million(self) -> float | None:
        """Cost of 1e6 output tokens; None without a price."""
        if self.price_per_hour is None:
            return None
        hours: float = roofline.seconds(1e6, self.outcome.tokens_per_s) / 3600
        return float(self.price_per_hour * self.devices * hours)
