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
from typing import Any, Final, Protocol

import msgspec

from gambrel.errors import InputError, require
from gambrel.measure.fleet.probe import FleetEffort, checkup, devices_here
from gambrel.measure.fleet.records import Checkup

#: Hosts that are asked at the same time.
_HOSTS: Final = 256
#: Seconds that any worker may take to answer at all, besides the measurement.
PATIENCE_S: Final = 120.0


class Remote(Protocol):
    """A worker that can be asked."""

    @property
    def name(self) -> str:
        """Of the worker."""
        ...

    @property
    def host(self) -> str:
        """Workers of one host take turns."""
        ...

    def ask(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Any:
        """The function's result there; raises what it raised, or TimeoutError."""
        ...


def measured(
    workers: Sequence[Remote],
    effort: FleetEffort,
    *,
    patience_s: float = PATIENCE_S,
    told: Callable[[int, int, str], None] | None = None,
) -> list[Checkup]:
    """Every device of every worker.

    Args:
        workers: All of them.
        effort: How long each device is measured.
        patience_s: Longest silence of a worker.
        told: Called with the workers done, all of them, and the last one's name.
    """
    by_host: dict[str, list[Remote]] = {}
    for worker in workers:
        by_host.setdefault(worker.host, []).append(worker)
    found: dict[str, list[Checkup]] = {}

    def of_host(own: Sequence[Remote]) -> None:
        for worker in own:
            found[worker.name] = list(_devices(worker, effort, patience_s))
            if told is not None:
                told(len(found), len(workers), worker.name)

    with ThreadPoolExecutor(max_workers=min(_HOSTS, max(1, len(by_host)))) as pool:
        list(pool.map(of_host, by_host.values()))
    return [one for worker in workers for one in found[worker.name]]


def _devices(worker: Remote, effort: FleetEffort, patience_s: float) -> Iterator[Checkup]:
    try:
        devices = worker.ask(devices_here, timeout_s=patience_s)
    except Exception as error:  # whatever a worker raises is what the report says of it
        yield _silent(worker, "all", error, patience_s)
        return
    for device in devices:
        try:
            yield _one(worker, device, effort, patience_s)
        except Exception as error:  # as above
            yield _silent(worker, device, error, patience_s)


def _one(worker: Remote, device: str, effort: FleetEffort, patience_s: float) -> Checkup:
    began = time.monotonic()
    longest = patience_s + 10 * effort.seconds
    found: Checkup = worker.ask(checkup, device, effort, worker.name, timeout_s=longest)
    waited = time.monotonic() - began
    before = time.time()
    there: float = worker.ask(time.time, timeout_s=patience_s)
    middle = (before + time.time()) / 2
    return msgspec.structs.replace(found, waited_s=waited, ahead_s=there - middle)


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
    from distributed import Client

    try:
        client = Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise InputError(f"no dask scheduler answers at {scheduler}: {error}.") from None
    try:
        known = client.scheduler_info(n_workers=-1).get("workers", {})
        if not known:
            raise InputError(f"the scheduler at {scheduler} has no workers.")
        yield [
            DaskRemote(client, address, str(about.get("host", address)))
            for address, about in sorted(known.items())
        ]
    finally:
        client.close(timeout=2)
