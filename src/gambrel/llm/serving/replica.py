"""One replica of a serving engine, run event by event.

The rules are those that the large engines share. A step holds one token of every request that
decodes and, first come first served, chunks of waiting prompts: at most ``step_tokens`` tokens of
both, ``most`` requests, and what the cache has room for. A prompt's last chunk gives its first
token. Some engines admit a request only where its whole answer has room. In the others, when the
cache is full, the request that came last gives its place up, goes to the head of the queue, and
computes its prompt and the tokens so far again. Requests pass the front end before
they queue; how long that takes differs from one to the next (exponential, where there is a seed),
so that answers that end together are not followed by prompts that come together.

Steps without a prompt are alike until a request ends, the cache is full or the next request comes;
they are taken together, each at its own context, so that a request costs a handful of events
whatever the length of its answer.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Final, TypeAlias

import msgspec

from gambrel.errors import InputError
from gambrel.llm.serving.activity import BLOCK, ActivityLog
from gambrel.llm.serving.timer import StepTimes
from gambrel.runtimes import FrontEnd
from gambrel.units import format_capacity

#: Seconds at which it comes, tokens of the prompt, tokens of the answer.
Request: TypeAlias = tuple[float, int, int]
_NEVER: Final = math.inf


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica can hold and do in a step.

    Attributes:
        cache_bytes: For all requests in flight.
        token_bytes: Of one token of one request.
        request_bytes: Of a request, whatever its length: half a page, recurrent states.
        most: Requests in flight.
        step_tokens: Tokens of a step.
        reserves: Whether a request is admitted only with room for its whole answer.
        frontend: Of a request, outside of the steps; a mean.
        cached_share: Part of every prompt that a prefix cache holds: not computed again.
        stages: Pipeline stages that a prompt passes.
        swap_s: Of a cached token, until it is back from the host's memory; 0 where it stays.
    """

    cache_bytes: float
    token_bytes: float
    request_bytes: float
    most: int
    step_tokens: int
    reserves: bool = False
    frontend: FrontEnd = FrontEnd()
    cached_share: float = 0.0
    stages: int = 1
    swap_s: float = 0.0


class _Job:
    """A request inside the engine."""

    __slots__ = (
        *("came", "done", "end", "entered", "first", "left", "output", "prompt", "start", "tokens"),
    )

    start: int  # decode steps that the engine had run when it joined; not set before

    def __init__(self, came: float, tokens: int, output: int) -> None:
        self.came = came
        self.entered = False  # the front end
        self.first = -1.0  # seconds of the first token
        self.tokens = self.prompt = tokens  # to be computed, with the answer after a preemption
        self.output = self.left = output  # tokens of the answer
        self.done = 0  # of the prompt
        self.end = -1  # decode step of its last token; below 0 while it does not decode


class Replica:
    """An engine that is offered requests and runs.

    Args:
        times: Of its steps.
        limits: What it can hold.
        following: Closed loop: where the next request comes from when one ends.
        seed: Of the times in the front end; None: each request takes the mean.

    Attributes:
        now: Seconds.
        came: When each finished request came, s.
        ttft: Time to the first token, s.
        tpot: Time per token after the first, s; NaN for answers of one token.
        total: From arrival to the last token, s.
        outputs: Tokens of its answer.
        inputs: Tokens of all their prompts.
        preemptions: Requests that gave their place up.
        most_waiting: Longest queue.
        timeline: What it did.
    """

    def __init__(
        self,
        times: StepTimes,
        limits: Limits,
        following: Iterator[tuple[int, int]] | None = None,
        seed: int | None = None,
    ) -> None:
        self.now = 0.0
        self.came, self.ttft, self.tpot, self.total = (array("d") for _ in range(4))
        self.outputs = array("l")
        self.inputs = self.preemptions = self.most_waiting = 0
        self.timeline = ActivityLog()
        self._note = self.timeline.events.extend
        self._times, self._limits, self._following = times, limits, following
        self._floor = times.floor
        self._token, self._each = limits.token_bytes, limits.request_bytes
        self._capacity = limits.cache_bytes
        self._frontend, self._swap = limits.frontend, limits.swap_s
        self._random = Random(seed) if seed is not None and limits.frontend != FrontEnd() else None
        # Heap: when it comes, then when the front end is done with it; number, job.
        self._coming: list[tuple[float, int, _Job]] = []
        self._entered = 0  # in the front end
        self._waiting: deque[_Job] = deque()
        self._running: list[_Job] = []  # as they joined; may hold some that ended
        self._ends: list[tuple[int, int, _Job]] = []  # heap: decode step, number, job
        self._steps = self._offered = self._joined = self._batch = 0
        self._held = self._promised = 0  # tokens in the cache, and at the ends of those answers

    def offer(self, request: Request) -> None:
        """A request that comes; in order of time.

        Raises:
            InputError: The cache could not hold it alone.
        """
        came, tokens, output = request
        if (tokens + output) * self._token + self._each > self._capacity:
            raise InputError(
                f"a request of {tokens:,} tokens in and {output:,} out needs "
                f"{format_capacity(self._used(tokens + output, 1))} of cache, and a replica has "
                f"{format_capacity(self._limits.cache_bytes)}."
            )
        self._offered += 1
        heapq.heappush(self._coming, (came, self._offered, _Job(came, tokens, output)))

    def _arrive(self) -> None:
        """The first of those that come enters the front end, or leaves it and waits for a step."""
        came, number, job = self._coming[0]
        if job.entered:
            heapq.heappop(self._coming)
            self._entered -= 1
            self._waiting.append(job)
            return
        job.entered = True
        others = self._entered + len(self._waiting) + self._batch
        before = self._frontend.seconds(job.tokens, others)
        if self._random is not None:
            before = self._random.expovariate(1 / before)
        if self._swap:  # the cached part comes back first
            before += int(job.tokens * self._limits.cached_share) * self._swap
        self._entered += 1
        heapq.heapreplace(self._coming, (came + before, number, job))

    def run(self, until: float = _NEVER) -> None:
        """Runs all steps that begin before a time."""
        coming, waiting = self._coming, self._waiting
        token, each, capacity = self._token, self._each, self._capacity
        while self.now < until:
            while coming and coming[0][0] <= self.now:
                self._arrive()
            batch = self._batch
            if batch > 1 and (self._held + batch) * token + batch * each > capacity:
                self._make_room()
            if waiting:
                if len(waiting) > self.most_waiting:
                    self.most_waiting = len(waiting)
                chunks = self._admitted()
                if chunks:
                    self._mixed(chunks)
                    continue
            horizon = coming[0][0] if coming and coming[0][0] < until else until
            if self._batch:
                self._decode(horizon)
            elif horizon == _NEVER:
                return
            else:
                self.now = horizon

    def _admitted(self) -> list[tuple[_Job, int]]:
        """Chunks of waiting prompts for the next step."""
        limits, batch = self._limits, self._batch
        token, each = self._token, self._each
        room = limits.step_tokens - batch
        held = self._promised if limits.reserves else self._held + batch
        free = self._capacity - held * token - batch * each
        seats = limits.most - batch
        chunks: list[tuple[_Job, int]] = []
        for job in self._waiting:
            if room <= 0 or seats <= len(chunks):
                break
            need = (job.prompt + (job.left if limits.reserves else 1)) * token + each
            if need > free:
                break
            free -= need
            if not job.done:
                job.done = int(job.prompt * limits.cached_share)
            chunk = min(room, job.prompt - job.done)
            chunks.append((job, chunk))
            room -= chunk
        return chunks

    def _used(self, tokens: int, requests: int) -> float:
        return tokens * self._token + requests * self._each

    def _prompts(self, chunks: list[tuple[_Job, int]]) -> float:
        """Seconds of the chunks of a step."""
        times = self._times
        if len(chunks) == 1:
            job, chunk = chunks[0]
            return times.chunk(chunk, job.done) if job.done else times.whole(chunk)
        linear, attention = 0, 0.0
        for job, chunk in chunks:
            linear += chunk
            attention += times.attention(chunk, job.done)
        return times.linear(linear) + attention

    def _mixed(self, chunks: list[tuple[_Job, int]]) -> None:
        """A step with prompts; those that decode get a token as well."""
        times, batch = self._times, self._batch
        seconds = prompts = self._prompts(chunks)
        if batch:
            seconds += times.uniform(batch, self._held / batch)
        least = self._floor(batch + sum(chunk for _, chunk in chunks), alone=not batch)
        if seconds < least:
            seconds = least
        start, self.now = self.now, self.now + seconds
        late = self.now + (self._limits.stages - 1) * prompts
        if batch:
            self._steps += 1
            self._held += batch
            if self._ends[0][0] <= self._steps:
                self._finish()
        joined = 0
        for job, chunk in chunks:
            job.done += chunk
            if job.done == job.prompt:
                self._waiting.popleft()  # chunks are of the first in the queue, in order
                self._join(job, late)
                joined += 1
        now = self._batch
        running = now if now > batch else batch
        share = (self._held * self._token + now * self._each) / self._capacity
        self._note((start, self.now, running, len(self._waiting), share, batch + joined))

    def _join(self, job: _Job, at: float) -> None:
        """The prompt is computed: its next token is there."""
        if job.first < 0:
            job.first = at
        job.left -= 1
        if not job.left:
            self._end(job)
            return
        job.start, job.end = self._steps, self._steps + job.left
        self._held += job.prompt + 1
        self._promised += job.tokens + job.output
        self._batch += 1
        self._joined += 1
        self._running.append(job)
        heapq.heappush(self._ends, (job.end, self._joined, job))

    def _decode(self, horizon: float) -> None:
        """Steps without prompts until a request ends, comes, or the cache is full."""
        batch, held = self._batch, self._held
        steps = self._ends[0][0] - self._steps
        growth = batch * self._token
        if growth:
            room = (self._capacity - held * self._token - batch * self._each) / growth
            if room < steps:
                steps = max(1, int(room))
        mean = held / batch
        of_none, of_token, until = self._times.line(batch, mean)
        if steps > until - mean:  # beyond it another line holds
            steps = max(1, math.ceil(until - mean))
        seconds = of_none + of_token * (mean + 0.5 * steps)
        start, left = self.now, horizon - self.now
        if steps > 1 and seconds * steps > left:
            fitting = math.ceil(left / seconds)
            steps = fitting if 1 < fitting < steps else steps if fitting > 1 else 1
            seconds = of_none + of_token * (mean + 0.5 * steps)
        self.now = start + seconds * steps
        self._steps += steps
        self._held = held + steps * batch
        if self._ends[0][0] <= self._steps:
            self._finish()
        share = (self._held * self._token + self._batch * self._each) / self._capacity
        self._note((start, self.now, batch, len(self._waiting), share, steps * batch))

    def _finish(self) -> None:
        """Takes out those whose last token is there."""
        ends, steps = self._ends, self._steps
        while ends and ends[0][0] <= steps:
            end, _, job = heapq.heappop(ends)
            if job.end == end:  # else it was preempted in between
                job.end = -1
                self._batch -= 1
                self._held -= job.prompt + 1 + (steps - job.start)
                self._promised -= job.tokens + job.output
                self._end(job)
        if len(self._running) > 2 * self._batch + 64:
            self._running = [job for job in self._running if job.end >= 0]

    def _end(self, job: _Job) -> None:
        now = self.now if self.now > job.first else job.first
        self.came.append(job.came)
        self.ttft.append(job.first - job.came)
        later = job.output - 1
        self.tpot.append((now - job.first) / later if later else math.nan)
        self.total.append(now - job.came)
        self.outputs.append(job.output)
        self.inputs += job.tokens
        if len(self.timeline.events) > BLOCK:
            self.timeline.add_up()
        if self._following is not None:
            following = next(self._following, None)
            if following is not None:
                self.offer((now, *following))

    def _make_room(self) -> None:
        """Preempts those that came last until every request has room for a token."""
        while self._batch > 1:
            if self._used(self._held + self._batch, self._batch) <= self._capacity:
                return
            job = self._running.pop()
            if job.end < 0:
                continue
            written = self._steps - job.start
            job.end = -1
            self._batch -= 1
            self._held -= job.prompt + 1 + written
            self._promised -= job.tokens + job.output
            job.left -= written
            job.prompt, job.done = job.tokens + job.output - job.left, 0
            self._waiting.appendleft(job)
            self.preemptions += 1
