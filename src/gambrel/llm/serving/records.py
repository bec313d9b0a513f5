"""What a plan says. Data only; times in s, memory in bytes."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from gambrel.analysis.measures import Estimate
from gambrel.analysis.needs import EnergyEstimate
from gambrel.analysis.result import Analysis
from gambrel.llm.serving.question import Requests, ServingEngine, Target
from gambrel.llm.sharding import Sharding
from gambrel.views import Viewed, view

#: Requests that a device without a known capacity, or a model without a cache, may hold.
_ANY: Final = 1 << 16


class ServingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one device.

    Attributes:
        capacity_bytes: Of the device; None when unknown.
        usable_bytes: The share of it that the engine may use; None when unknown.
        weights_bytes: Weights and what is stored beside them.
        activations_bytes: Intermediates of the largest step.
        sequence_bytes: Cache that one request reserves at its end.
        max_sequences: Requests that fit, on this device; None when the capacity is unknown or a
            request reserves nothing.
    """

    capacity_bytes: int | None
    usable_bytes: float | None
    weights_bytes: float
    activations_bytes: float
    sequence_bytes: float
    max_sequences: int | None

    @property
    def limit(self) -> int:
        """The most requests that are tried."""
        return _ANY if self.max_sequences is None else self.max_sequences

    @property
    def free_bytes(self) -> float:
        """What is left for the cache; negative when not even the weights fit, infinite: unknown."""
        usable = math.inf if self.usable_bytes is None else self.usable_bytes
        return usable - self.weights_bytes - self.activations_bytes


class OperatingPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One way to serve: a device, a layout, formats, and how many requests are in flight.

    Attributes:
        device: Id.
        precision: As the user wrote it.
        sharding: Of one replica, and the number of replicas as ``data``.
        batch: Requests in flight, one replica.
        runtime: Id of the serving engine.
        mean_of: Where none was named: the engines whose mean the decode step is; empty for one.
        tpot_s: Time per output token after the first, (total - TTFT) / (output - 1).
        sol_tpot_s: Speed of light of a token: no run with this layout, this batch and a microbatch
            per stage is faster; None where no roof is known.
        interference_s: Part of ``tpot_s`` in which chunked prefill of other requests runs.
        ttft_s: Time to first token: prefill + queue.
        sol_ttft_s: Speed of light of a prompt alone.
        prefill_s: A prompt alone.
        queue_s: Waiting before it, by the queueing model of docs/llm.md.
        burst_ttft_s: Mean when all requests in flight arrive together.
        requests_per_s: All replicas.
        tokens_per_s: Output tokens, all replicas.
        memory: Of one device.
        batch_limit: Why no more are in flight: ``memory``, ``tpot``, ``ttft``, ``concurrency``,
            ``max_requests``, ``throughput``; ``capacity``: how much memory there is is unknown, so
            the fewest that come near the best rate.
    """

    device: str
    precision: str
    sharding: Sharding
    batch: int
    runtime: str
    tpot_s: float
    sol_tpot_s: float | None
    interference_s: float
    ttft_s: float
    sol_ttft_s: float | None
    prefill_s: float
    queue_s: float
    burst_ttft_s: float
    requests_per_s: float
    tokens_per_s: float
    memory: ServingMemory
    batch_limit: str = ""
    mean_of: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """All of them."""
        return self.sharding.devices

    @property
    def tokens_per_s_per_device(self) -> float:
        """Output tokens."""
        return self.tokens_per_s / self.devices

    @property
    def tokens_per_s_per_user(self) -> float:
        """While its answer is written; infinite for answers of one token."""
        return 1 / self.tpot_s if self.tpot_s else float("inf")

    def cost_per_million(self, price_per_hour: float) -> float:
        """Cost of 1e6 output tokens when a device costs ``price_per_hour``."""
        return price_per_hour * self.devices / 3600 / self.tokens_per_s * 1e6


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A point that meets the target, with its ranges and where its time goes.

    Attributes:
        point: The point.
        tpot: Its time per output token with range and confidence; None where nothing is known of
            the device but its roofs.
        ttft: Likewise; the range is that of the prefill, the queue scales with it.
        roofline_tpot_s: A token's decode steps by the roofline, kernel by kernel, without
            interference.
        bound: The roofline's verdict on a decode step: ``memory``, ``compute`` or ``network``; None
            where a roof that could decide is unknown.
        limited_by: What takes the largest share of its expected time: one of these, ``launches`` or
            ``host``; None without an expected time.
        shares: Share of the decode step's expected time by class of op.
        max_batch: Requests that fit into one replica at their full length; None when unknown.
        max_context: Tokens of a request that fit with as many in flight as the point has, at most
            the model's own limit; None when unknown.
        energy_j_per_token: For an output token, all devices; None where a constant is unknown.
        energy: Of one device's decode step, with sources.
        cost_per_million: Of output tokens, in the currency of the price; None without a price.
        commands: How to start it, for each engine.
        why_not: Why the one ranked before it is better; empty for the first.
        decode: The analysis of the decode step of one device.
        prefill: The analysis of a prompt on one device.
    """

    point: OperatingPoint
    tpot: Estimate | None
    ttft: Estimate | None
    roofline_tpot_s: float | None
    bound: str | None
    limited_by: str | None
    shares: dict[str, float]
    max_batch: int | None = None
    max_context: int | None = None
    energy_j_per_token: float | None = None
    energy: EnergyEstimate | None = None
    cost_per_million: float | None = None
    commands: tuple[str, ...] = ()
    why_not: str = ""
    decode: Analysis | None = None
    prefill: Analysis | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that cannot be, or does not meet the target, and why.

    Attributes:
        device: Id.
        precision: As the user wrote it.
        sharding: Of one replica.
        reason: One sentence.
        missed: Share by which the target is missed at the best; infinite where it cannot run.
        proof: ``"sol"`` where no run could meet the target (it is below the speed of light),
            ``"expected"`` where the expected times miss it; empty where speed is not the reason.
    """

    device: str
    precision: str
    sharding: Sharding
    reason: str
    missed: float = float("inf")
    proof: str = ""


class Plan(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The answer.

    Attributes:
        model: Name.
        requests: As asked.
        target: As asked.
        engine: As asked, with the limits that it sets by itself on the first device.
        max_devices: As asked.
        prices: Device → price of an hour, as given.
        best: Choices, best first.
        pareto: Points of which no other has both more tokens/s per user and per device; fastest
            for the user first.
        points: All points that were compared.
        refused: What cannot run or meets no target, the nearest first.
        would_fit: Where no layout holds the model: what would, a sentence each.
        assumptions: Printed with every result.
    """

    model: str
    requests: Requests
    target: Target
    engine: ServingEngine
    max_devices: int
    prices: dict[str, float]
    best: tuple[Choice, ...]
    pareto: tuple[OperatingPoint, ...]
    points: tuple[OperatingPoint, ...]
    refused: tuple[Refusal, ...]
    assumptions: tuple[str, ...]
    would_fit: tuple[str, ...] = ()

    def __repr__(self) -> str:
        if not self.best:
            return f"<Plan: {self.model}: nothing meets the target, {len(self.refused)} refused>"
        first = self.best[0].point
        return (
            f"<Plan: {self.model}: best of {len(self.points):,} points {first.devices} x "
            f"{first.device}, {first.tokens_per_s_per_device:,.0f} tokens/s per device>"
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain data, without the analyses of single steps, for JSON."""
        found: dict[str, Any] = view("envelope", self)
        return found
