"""What is asked of a deployment: the requests, the target, the engine."""

from __future__ import annotations

from typing import Final

import msgspec

from gambrel.errors import InputError
from gambrel.llm.adapters import Adapters
from gambrel.llm.kv import Policy
from gambrel.llm.spec import ModelSpec

_LONGEST: Final = 1 << 30


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """The requests: all alike.

    Attributes:
        input_tokens: Tokens of a prompt.
        output_tokens: Tokens of an answer.
        cached_tokens: Of the prompt, those whose keys and values are cached (a shared prefix).
        concurrency: Requests in flight at once, all replicas together; None: as many as fit the
            target.
        per_s: Requests that arrive in a second; None: as many as can be served.
        arrivals: ``"closed"``, ``"burst"``, ``"poisson"`` or ``"offline"``, see
            `gambrel.llm.serving.timing`; None: at random where ``per_s`` is given, else closed.
        source_tokens: Tokens that an encoder reads of each request; 0 without one.

    Raises:
        InputError: A number out of range.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    concurrency: int | None = None
    per_s: float | None = None
    arrivals: str | None = None
    source_tokens: int = 0

    def __post_init__(self) -> None:
        for name, least in (("input_tokens", 1), ("output_tokens", 1), ("cached_tokens", 0)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= _LONGEST:
                raise InputError(f"{name}={value!r}: give a whole number of at least {least}.")
        if self.concurrency is not None and (
            type(self.concurrency) is not int or self.concurrency < 1
        ):
            raise InputError(
                f"concurrency={self.concurrency!r}: give a whole number of at least 1."
            )
        if self.cached_tokens >= self.input_tokens:
            raise InputError(
                f"cached_tokens={self.cached_tokens}: at least one of the {self.input_tokens} "
                f"tokens of the prompt is new; at most {self.input_tokens - 1}."
            )
        if self.arrivals == "poisson" and self.per_s is None:
            raise InputError("arrivals at random need a rate of requests, e.g. 20/s.")
        if self.arrivals == "offline" and self.per_s is not None:
            raise InputError("offline, all requests are there from the start: leave the rate out.")
        if self.per_s is not None and not 0 < self.per_s < 1e12:
            raise InputError(f"requests per second={self.per_s!r} must be above 0.")

    @property
    def arriving(self) -> str:
        """How requests come."""
        return self.arrivals or ("closed" if self.per_s is None else "poisson")

    @property
    def new_tokens(self) -> int:
        """Tokens of a prompt that must be computed."""
        return self.input_tokens - self.cached_tokens

    @property
    def prompt_tokens(self) -> int:
        """Tokens of a prompt that count toward those of a step: an encoder's come before them."""
        return max(self.new_tokens, self.source_tokens)

    def decoded(self, spec: ModelSpec) -> Requests:
        """The requests as the decoder sees them: of an encoder's text only a first token.

        An encoder of sounds has a length of its own; the prompt is the decoder's then.
        """
        if all(group.layer.cross is None for group in spec.layers):
            return self
        fronts = [e.front for e in spec.encoders if e.front is not None and e.projector is None]
        if fronts:
            return msgspec.structs.replace(self, source_tokens=fronts[0].tokens)
        return msgspec.structs.replace(
            self, source_tokens=self.input_tokens, input_tokens=1, cached_tokens=0
        )

    @property
    def mean_context(self) -> int:
        """Tokens that a generated token sees on average."""
        return self.input_tokens + max(1, self.output_tokens // 2)

    @property
    def longest(self) -> int:
        """Tokens of a request at its end."""
        return self.input_tokens + self.output_tokens

    def check(self, spec: ModelSpec) -> None:
        """Refuses requests longer than the model's context.

        Raises:
            InputError: How long they are, the model's limit, and what fits.
        """
        limit = spec.max_context
        if limit is None or self.longest <= limit:
            return
        fits = (
            f"with {self.input_tokens:,} in, at most {limit - self.input_tokens:,} out"
            if self.input_tokens < limit
            else f"with {self.output_tokens:,} out, a prompt of at most "
            f"{limit - self.output_tokens:,}"
            if self.output_tokens < limit
            else f"{limit:,} in all"
        )
        raise InputError(
            f"input + output = {self.longest:,} tokens is beyond max_position_embeddings="
            f"{limit:,} of {spec.name}; {fits}."
        )


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies that a user of the service is to see at most (SLO); None is no limit.

    Attributes:
        ttft_s: Seconds to the first token, mean.
        tpot_s: Seconds for each further token, mean.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft_s", "tpot_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e9:
                raise InputError(f"{name.removesuffix('_s')}={value!r} s must be above 0.")


class Speculation(msgspec.Struct, frozen=True, kw_only=True):
    """Drafting tokens and checking them in one step.

    Attributes:
        tokens: Drafted in a step.
        acceptance: Probability that a drafted token is kept, given that those before it were.
        draft: The model that drafts; None: the model's own multi-token-prediction layer.

    Raises:
        InputError: No token, or a probability outside of 0 to 1.
    """

    tokens: int
    acceptance: float
    draft: ModelSpec | None = None

    def __post_init__(self) -> None:
        if type(self.tokens) is not int or not 1 <= self.tokens <= 64:
            raise InputError(f"drafted tokens={self.tokens!r}: give 1 to 64.")
        if not 0 <= self.acceptance <= 1:
            raise InputError(f"acceptance={self.acceptance!r}: a probability from 0 to 1.")

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a step yields on average: 1 + a + a² + ... + a^tokens.

        Leviathan et al., "Fast inference from transformers via speculative decoding", 2023, eq. 1.
        """
        return sum(self.acceptance**i for i in range(self.tokens + 1))


#: Most prompt tokens of a step where neither user nor engine says how many.
STEP_TOKENS: Final = 8192


class ServingEngine(msgspec.Struct, frozen=True, kw_only=True):
    """How the serving engine is set up; which one it is stands in the settings.

    Attributes:
        utilization: Share of a device's memory that the engine may use; None: what it takes by
            itself.
        policy: How pages of the cache are reserved.
        step_tokens: Most prompt tokens of one step; longer prompts are cut into chunks, shorter
            ones share a step.
        unset: Of ``step_tokens`` and ``max_requests``, those that the engine sets by itself on the
            device, where that is known (`gambrel.runtimes.model.OwnLimits`).
        overlap: Share of communication hidden behind computation; an assumption, 0 is none.
        host_s: Seconds that a step takes on the host besides the device, not overlapped; None:
            what was measured of the runtime.
        frontend_s: Seconds of a request outside of the steps; None: what was measured of the
            runtime's own server.
        speculation: None: one token per step.
        max_requests: Most requests in flight on a replica; None: what memory holds.
        routing_skew: Exponent of a Zipf distribution of tokens over experts; 0 is uniform.
        lora: Adapters beside the weights; None without.
        host_cache_bytes: Host memory that keeps cached prefixes, of a replica; None: they stay on
            the devices.
        eager: Whether no step is replayed as a graph.
        offline: Whether requests are handed over in the engine's own process and answers as a
            whole: no front end.

    Raises:
        InputError: A share outside of 0 to 1, or no token.
    """

    utilization: float | None = None
    policy: Policy = Policy()
    step_tokens: int = STEP_TOKENS
    unset: tuple[str, ...] = ()
    overlap: float = 0.0
    host_s: float | None = None
    frontend_s: float | None = None
    speculation: Speculation | None = None
    max_requests: int | None = None
    routing_skew: float = 0.0
    lora: Adapters | None = None
    host_cache_bytes: float | None = None
    offline: bool = False
    eager: bool = False

    def __post_init__(self) -> None:
        if self.utilization is not None and not 0 < self.utilization <= 1:
            raise InputError(f"utilization={self.utilization!r}: a share above 0, at most 1.")
        if not 0 <= self.overlap <= 1:
            raise InputError(f"overlap={self.overlap!r}: a share from 0 to 1.")
        if type(self.step_tokens) is not int or self.step_tokens < 1:
            raise InputError(f"step_tokens={self.step_tokens!r}: give a whole number.")
        if self.host_s is not None and not 0 <= self.host_s < 1e3:
            raise InputError(f"host time={self.host_s!r} s must be 0 or more.")
        if self.frontend_s is not None and not 0 <= self.frontend_s < 1e3:
            raise InputError(f"front end={self.frontend_s!r} s must be 0 or more.")
        if self.frontend_s and self.offline:
            raise InputError("offline, requests pass no front end: leave it out.")
