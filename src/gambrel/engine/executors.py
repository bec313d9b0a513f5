"""Who computes the partitions: this process, other processes, a cluster.

The engine is Dask; where the user has chosen a backend of joblib (Ray, Dask, loky), the same tasks
go through it. Every executor gives outcomes in the order in which they end.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from typing import Any, Final

from gambrel.engine.task import PartOutcome, PartTask, run_packed
from gambrel.engine.work import Partition
from gambrel.errors import GambrelError, InputError, first_line, require, shown

#: Partitions under way for each worker, and at least: the next ones wait there already.
_AHEAD, _LEAST_AHEAD = 4, 8
#: Of a cluster of local processes: what dask does many times a second to watch itself, for a
#: dashboard that there is not, would take six percent of two processors.
_UNWATCHED: Final = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


class VanishedError(GambrelError):
    """The scheduler or its workers went away while a run was under way."""


def outcomes(
    task: PartTask, todo: Sequence[Partition], *, jobs: int = 1, scheduler: Any = None
) -> Iterator[PartOutcome]:
    """Computes partitions.

    Args:
        task: What they are computed from.
        todo: Which.
        jobs: Local processes; 1 computes here.
        scheduler: Address of a ``dask.distributed`` scheduler, a client of one, ``"joblib"`` for
            the backend that `joblib.parallel_config` has chosen, or ``"joblib:NAME"``.

    Raises:
        InputError: The scheduler cannot be reached.
        VanishedError: It, or its workers, went away.
    """
    if isinstance(scheduler, str) and scheduler.partition(":")[0] == "joblib":
        yield from _through_joblib(task, todo, jobs, scheduler.partition(":")[2])
    elif scheduler is not None or jobs > 1:
        _check(scheduler)
        require("distributed", "sweep", "--scheduler" if scheduler is not None else "--jobs")
        with client_of(jobs, scheduler) as client:
            yield from _through_dask(task, todo, client)
    else:
        for part in todo:
            yield task.run(part)


def _check(scheduler: Any) -> None:
    """Refuses what is neither an address nor a client.

    Raises:
        InputError: It is something else.
    """
    address = isinstance(scheduler, str) and scheduler.strip()
    client = hasattr(scheduler, "scheduler_info") and hasattr(scheduler, "submit")
    if scheduler is not None and (isinstance(scheduler, type) or not (address or client)):
        raise InputError(
            f"scheduler: {shown(scheduler)} is neither an address such as tcp://10.0.0.1:8786 nor "
            "a dask.distributed client."
        )


@contextmanager
def client_of(jobs: int, scheduler: Any = None) -> Iterator[Any]:
    """A client of a scheduler, or of as many local processes while it lasts.

    Args:
        jobs: Local processes, where there is no scheduler.
        scheduler: Its address, or a client of it.

    Raises:
        InputError: Nothing answers at the address.
    """
    import dask
    from distributed import Client

    if scheduler is not None and not isinstance(scheduler, str):
        yield scheduler
        return
    _quiet()
    with dask.config.set({"distributed.comm.timeouts.connect": "10s"}):
        if scheduler is None:
            with _local(jobs) as client:
                yield client
            return
        try:
            client = Client(scheduler, timeout=10)
        except (OSError, ValueError) as error:
            raise InputError(
                f"no dask scheduler answers at {scheduler}: {first_line(error)}. "
                "Start one with: dask scheduler"
            ) from None
        try:
            yield client
        finally:
            client.close(timeout=2)


def _quiet() -> None:
    """What a vanished scheduler means is said once, by the error.

    Dask sets the level of each of its loggers by itself.
    """
    import logging

    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _local(jobs: int) -> Iterator[Any]:
    """Processes of this machine, each with one thread."""
    import logging

    import dask
    from distributed import Client, LocalCluster

    with dask.config.set(_UNWATCHED):
        cluster = LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            # Any free port: others may have clusters here as well.
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
        with cluster, Client(cluster) as client:
            yield client


def _through_dask(task: PartTask, todo: Sequence[Partition], client: Any) -> Iterator[PartOutcome]:
    """Keeps the workers busy, with a bounded number of partitions under way."""
    from distributed import as_completed

    packed = pickle.dumps(task)
    name = hashlib.sha256(packed).hexdigest()[:16]
    # Not as a keyword of map: dask stores large ones under their bare name, for all runs alike.
    compute = partial(run_packed, packed=packed)
    waiting = iter(todo)

    def submitted(count: int) -> list[Any]:
        some = list(islice(waiting, count))
        # The keys say what is computed, so that nothing is computed twice on one scheduler.
        keys = [f"gambrel-{name}-{part.key}" for part in some]
        return client.map(compute, some, key=keys, retries=2) if some else []

    ahead = max(_LEAST_AHEAD, _AHEAD * _workers(client))
    try:
        done = as_completed(submitted(ahead))
        for future in done:
            one = future.result()
            future.release()
            # In batches: a graph of one task costs the scheduler as much as one of many.
            if done.count() <= ahead // 2:
                done.update(submitted(ahead - done.count()))
            yield one
    except GambrelError:
        raise
    except Exception as error:
        # A connection that is refused or closed is the scheduler's; other OSErrors are the disk's.
        if _is_dask(error) or isinstance(error, (ConnectionError, TimeoutError)):
            # A task that dask cancels says its key, which tells nobody anything.
            cancelled = "cancelled" in type(error).__name__.lower()
            said = "the connection was lost" if cancelled else first_line(error)
            raise VanishedError(said) from None
        raise


def _workers(client: Any) -> int:
    found = client.scheduler_info(n_workers=-1).get("workers", {})
    return sum(int(worker.get("nthreads", 1)) for worker in found.values())


def _is_dask(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("distributed", "dask", "asyncio", "tornado")


def _through_joblib(
    task: PartTask, todo: Sequence[Partition], jobs: int, backend: str
) -> Iterator[PartOutcome]:
    require("joblib", "sweep", "--scheduler joblib")
    from joblib import parallel_config

    packed = pickle.dumps(task)
    try:
        with parallel_config(backend=backend) if backend else nullcontext():
            yield from _in_parallel(partial(run_packed, packed=packed), todo, jobs)
    except ValueError as error:
        raise InputError(f"joblib: {first_line(error)}.") from None


def _in_parallel(
    compute: Callable[[Partition], PartOutcome], todo: Sequence[Partition], jobs: int
) -> Iterator[PartOutcome]:
    """Outcomes as they come; of a backend that gives them together (Ray), some at a time."""
    from joblib import Parallel, delayed, effective_n_jobs
    from joblib.parallel import get_active_backend

    workers = jobs if jobs > 1 else None
    backend, _ = get_active_backend()
    if getattr(backend, "supports_return_generator", False):
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered")
        yield from parallel(delayed(compute)(part) for part in todo)
        return
    at_once = _AHEAD * effective_n_jobs(workers or -1)
    for start in range(0, len(todo), at_once):
        some = todo[start : start + at_once]
        yield from Parallel(n_jobs=workers)(delayed(compute)(part) for part in some)
