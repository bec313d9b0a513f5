"""What a plan with separate pools says. Data only; times in s."""

from __future__ import annotations

import msgspec

from gambrel.llm.serving.question import Requests
from gambrel.llm.sharding import Sharding
from gambrel.views import Viewed


class ServingPool(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas that do one thing.

    Attributes:
        device: Id.
        sharding: Of a replica, and the number of replicas as ``data``.
        batch: Requests in flight on a replica.
        requests_per_s: That all of them can serve within the target.
    """

    device: str
    sharding: Sharding
    batch: int
    requests_per_s: float

    @property
    def devices(self) -> int:
        """All of them."""
        return self.sharding.devices


class SplitPlan(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """Prefill and decode on devices of their own.

    Attributes:
        model: Name.
        precision: As the user wrote it.
        runtime: Id of the serving engine.
        mean_of: Where none was named: the engines whose mean steps are; empty for one.
        requests: As asked.
        prefill: The pool that computes prompts.
        decode: The pool that writes answers.
        ttft_s: Mean time to first token at the load that the pool is planned for.
        wait_s: Of it, for other prompts.
        transfer_s: Of it, until keys and values are in the decode pool.
        tpot_s: Time per token after the first.
        requests_per_s: Both pools together.
        tokens_per_s: Output tokens.
        shared_tokens_per_s_per_device: The same where prefill and decode share devices and
            meet the targets; None where these do not.
        cost_per_million: Of output tokens; None without prices.
        assumptions: Printed with every result.
    """

    model: str
    precision: str
    runtime: str
    requests: Requests
    prefill: ServingPool
    decode: ServingPool
    ttft_s: float
    wait_s: float
    transfer_s: float
    tpot_s: float
    requests_per_s: float
    tokens_per_s: float
    shared_tokens_per_s_per_device: float | None = None
    cost_per_million: float | None = None
    mean_of: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """Of both pools."""
        return self.prefill.devices + self.decode.devices

    @property
    def tokens_per_s_per_device(self) -> float:
        """Output tokens."""
        return self.tokens_per_s / self.devices
