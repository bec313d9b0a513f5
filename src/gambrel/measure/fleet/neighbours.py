"""The links between the hosts of a fleet: every host is measured with both of its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec

from gambrel.measure.fleet.links import all_reduce, free_port, pairs
from gambrel.measure.fleet.records import Checkup, FleetFigure


class Remote(Protocol):
    """A worker that can be asked."""

    @property
    def name(self) -> str:
        """Of the worker."""
        ...

    @property
    def host(self) -> str:
        """Its address; workers of one host take turns."""
        ...

    def ask(self, function: Callable[..., Any], *args: Any, timeout_s: float) -> Any:
        """The function's result there; raises what it raised, or TimeoutError."""
        ...


def linked(
    workers: Sequence[Remote],
    checkups: Sequence[Checkup],
    *,
    seconds: float,
    patience_s: float,
    at_once: int,
) -> list[Checkup]:
    """The checkups with an all-reduce of each host with the better of its two neighbours.

    One worker stands for its host: its first GPU where it and its neighbour have one, else its
    processor.

    Args:
        workers: All of them.
        checkups: Of their devices.
        seconds: For each pair.
        patience_s: Longest silence of a worker.
        at_once: Hosts that are measured at the same time.
    """
    devices = {(c.worker, c.device) for c in checkups if c.figures}
    hosts = {w.host: w for w in reversed(workers) if (w.name, "cpu") in devices}
    best: dict[tuple[str, str], FleetFigure] = {}

    def measure(pair: tuple[Remote, Remote]) -> None:
        has_gpus = all((worker.name, "cuda:0") in devices for worker in pair)
        device = "cuda:0" if has_gpus else "cpu"
        figure = _of_pair(*pair, device=device, seconds=seconds, patience_s=patience_s)
        for key in ((worker.name, device) for worker in pair):
            known = best.get(key)
            if figure is not None and (known is None or known.value < figure.value):
                best[key] = figure

    ordered = [hosts[name] for name in sorted(hosts)]
    for group in pairs(ordered):
        with ThreadPoolExecutor(max_workers=max(1, min(at_once // 2, len(group)))) as pool:
            list(pool.map(measure, group))
    return [
        msgspec.structs.replace(c, figures=(*c.figures, best[c.worker, c.device]))
        if (c.worker, c.device) in best
        else c
        for c in checkups
    ]


def _of_pair(
    first: Remote, second: Remote, *, device: str, seconds: float, patience_s: float
) -> FleetFigure | None:
    """The rate that the first worker measured; None where one of them did not answer."""
    longest = patience_s + 10 * seconds
    try:
        port = first.ask(free_port, timeout_s=patience_s)

        def part(rank: int, worker: Remote) -> Any:
            given = (rank, first.host, port, seconds, device)
            return worker.ask(all_reduce, *given, timeout_s=longest)

        with ThreadPoolExecutor(max_workers=2) as pool:
            said = [pool.submit(part, rank, one) for rank, one in enumerate((first, second))]
            figures: list[FleetFigure] = [one.result() for one in said]
    except Exception:  # a host without links is compared by what it has
        return None
    return figures[0]
