"""Asks every worker of a fleet to measure its devices, and times them by one clock.

Workers of one host take turns, because they share its memory and its power; hosts run side by side.
A worker that dies, hangs or fails is a line of the report, never the end of the run.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from gambrel.engine.executors import client_of
from gambrel.errors import InputError, require
from gambrel.measure.fleet.neighbours import Remote, linked
from gambrel.measure.fleet.probe import FleetEffort, checkup, clocks, devices_here
from gambrel.measure.fleet.records import Checkup
from gambrel.measure.fleet.retest import Key, confirmed, key_of

#: Called with what is done, all of it, and the last one's name.
Told: TypeAlias = Callable[[int, int, str], None]
#: Hosts that are asked at the same time.
MOST_HOSTS: Final = 256
#: Seconds that any worker may take to answer at all, besides the measurement.
PATIENCE_S: Final = 120.0


Ask: TypeAlias = Callable[[Remote], Sequence[Checkup]]


class _Clocks(NamedTuple):
    """What both sides' clocks said around one question, s.

    Attributes:
        asked: The asker's, before.
        got: The asker's, after.
        there: The worker's, in between.
        ahead_s: How far its wall clock is ahead.
    """

    asked: float
    got: float
    there: float
    ahead_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FleetAsker:
    """How the workers of a fleet are asked.

    Attributes:
        effort: How long each device is measured.
        patience_s: Longest silence of a worker.
        at_once: Hosts that are measured at the same time.
        links: Whether workers are measured in pairs as well.
        told: Takes the progress.
    """

    effort: FleetEffort
    patience_s: float = PATIENCE_S
    at_once: int = MOST_HOSTS
    links: bool = False
    told: Told | None = None

    def measured(self, workers: Sequence[Remote]) -> list[Checkup]:
        """Every device of every worker; what seems slow is measured again beside its peers."""
        by_name = {worker.name: worker for worker in workers}
        first = self._each([(worker, self._devices) for worker in workers])
        found = [one for some in first for one in some]
        if self.links:
            found = linked(
                workers,
                found,
                seconds=self.effort.seconds,
                patience_s=self.patience_s,
                at_once=self.at_once,
            )

        def again(some: list[Checkup]) -> dict[Key, Checkup]:
            jobs = [(by_name[c.worker], partial(self._again, device=c.device)) for c in some]
            return {key_of(one): one for said in self._each(jobs) for one in said}

        return confirmed(found, again)

    def _each(self, jobs: Sequence[tuple[Remote, Ask]]) -> list[Sequence[Checkup]]:
        """Asks in order: workers of one host in turns, hosts side by side."""
        by_host: dict[str, list[int]] = {}
        for index, (worker, _) in enumerate(jobs):
            by_host.setdefault(worker.host, []).append(index)
        found: dict[int, Sequence[Checkup]] = {}

        def of_host(own: Sequence[int]) -> None:
            for index in own:
                worker, ask = jobs[index]
                found[index] = ask(worker)
                if self.told is not None:
                    self.told(len(found), len(jobs), worker.name)

        most = max(1, min(self.at_once, len(by_host)))
        with ThreadPoolExecutor(max_workers=most) as pool:
            list(pool.map(of_host, by_host.values()))
        return [found[index] for index in range(len(jobs))]

    def _devices(self, worker: Remote) -> list[Checkup]:
        try:
            devices = worker.ask(devices_here, timeout_s=self.patience_s)
        except Exception as error:  # whatever a worker raises is what the report says of it
            return [_silent(worker, "all", error, self.patience_s)]
        return [one for device in devices for one in self._again(worker, device)]

    def _again(self, worker: Remote, device: str) -> list[Checkup]:
        try:
            return [self._one(worker, device)]
        except Exception as error:  # as above
            return [_silent(worker, device, error, self.patience_s)]

    def _one(self, worker: Remote, device: str) -> Checkup:
        longest = self.patience_s + 10 * self.effort.seconds
        before = self._clocks(worker)
        found: Checkup = worker.ask(checkup, device, self.effort, worker.name, timeout_s=longest)
        after = self._clocks(worker)
        return msgspec.structs.replace(
            found,
            claimed_s=after.there - before.there,
            waited_s=after.got - before.asked,
            waited_least_s=after.asked - before.got,
            ahead_s=after.ahead_s,
        )

    def _clocks(self, worker: Remote) -> _Clocks:
        asked, wall = time.monotonic(), time.time()
        there, wall_there = worker.ask(clocks, self.effort, timeout_s=self.patience_s)
        got = time.monotonic()
        return _Clocks(asked, got, there, wall_there - (wall + time.time()) / 2)


def _silent(worker: Remote, device: str, error: Exception, patience_s: float) -> Checkup:
    if isinstance(error, TimeoutError):
        said = f"no answer within {patience_s:.0f} s."
    else:
        said = f"{type(error).__name__}: {error}".rstrip(".") + "."
    return Checkup(worker=worker.name, host=worker.host, device=device, problem=said)


@dataclasses.dataclass(frozen=True, slots=True)
class DaskRemote:
    """A worker of a dask scheduler.

    Attributes:
        client: Of the scheduler.
        name: Address of the worker.
        host: Its host.
    """

    client: Any
    name: str
    host: str

    def ask(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Any:
        """Runs it on this worker and no other."""
        future = self.client.submit(
            function, *args, workers=[self.name], allow_other_workers=False, pure=False
        )
        try:
            return future.result(timeout=timeout_s)
        finally:
            future.cancel()


@contextmanager
def workers_of(scheduler: str) -> Iterator[list[Remote]]:
    """The workers of a dask scheduler.

    Raises:
        InputError: Nothing answers there, or it has no workers.
    """
    require("distributed", "sweep", "--scheduler")
    with client_of(1, scheduler) as client:
        known = client.scheduler_info(n_workers=-1).get("workers", {})
        if not known:
            raise InputError(f"the scheduler at {scheduler} has no workers.")
        yield [
            DaskRemote(client, address, str(about.get("host", address)))
            for address, about in sorted(known.items())
        ]
