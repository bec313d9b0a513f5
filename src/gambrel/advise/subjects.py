"""What is judged: a model at several batches under every runtime that a device has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gambrel.advise.fleet import Fleet, Point
from gambrel.analysis.settings import is_language_model, runs_as_language
from gambrel.device.model import Device
from gambrel.dtypes import single_format
from gambrel.errors import InputError
from gambrel.runtimes import Runtime, candidates, choose, runtime
from gambrel.workload import Workload

#: Batches that are tried where a throughput is wanted at any batch.
LARGEST_BATCH = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A model at a batch under a runtime on a device, before anything is computed.

    Attributes:
        fleet: The model at the batch.
        device: The device.
        precision: Number format; None takes the runtime's own.
        price: What the device costs.
        runtime: Id of the runtime.
    """

    fleet: Fleet
    device: Device
    precision: str | None
    price: float | None
    runtime: str

    @property
    def kind(self) -> tuple[str | None, str]:
        """What contenders at other batches on the device share: number format and runtime."""
        return self.precision, self.runtime

    def point(self) -> Point:
        """What is expected of it."""
        return self.fleet.on(self.device, self.precision, self.price, self.runtime)

    def best_case(self) -> Point:
        """The speed of light of it."""
        return self.fleet.best_case(self.device, self.precision, self.price, self.runtime)


def prepare(contenders: Iterable[Contender]) -> None:
    """Evaluates many at once: their points are at hand then."""
    fleets: dict[int, tuple[Fleet, list[tuple[Device, str | None, str | None]]]] = {}
    for one in contenders:
        asked = fleets.setdefault(id(one.fleet), (one.fleet, []))[1]
        asked.append((one.device, one.precision, one.runtime))
    for fleet, asked in fleets.values():
        fleet.prepare(asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model to be held against devices.

    Attributes:
        make: From a batch (None: as it is) and whose layers of a language model run
            (`Runtime.layers`), to the model at that batch.
        batch: Items at once; None leaves it open.
        runtimes: Names that were asked for; empty tries every one that runs on a device.
        fleets: Those that were made.
        known: Runtimes on devices that were asked for; the device keeps its id from another's.
    """

    make: Callable[[int | None, str], Fleet]
    batch: int | None = None
    runtimes: Sequence[str] = ()
    fleets: dict[tuple[int | None, str], Fleet] = field(default_factory=dict)
    known: dict[tuple[int, str | None], tuple[Device, list[Runtime]]] = field(default_factory=dict)

    def fleet(self, batch: int | None = None, *, layers: str = "code") -> Fleet:
        """The model at a batch; None takes the one that was asked for."""
        key = (batch or self.batch, layers)
        if key not in self.fleets:
            self.fleets[key] = self.make(*key)
        return self.fleets[key]

    def points(
        self, device: Device, precision: str | None, price: float | None = None, batch: int = 0
    ) -> list[Point]:
        """The model on a device, once for each runtime.

        Args:
            device: The device.
            precision: Number format; None takes each runtime's own.
            price: What the device costs.
            batch: Items at once; 0 takes the one that was asked for.

        Raises:
            InputError: A runtime that was asked for does not run there.
        """
        return [one.point() for one in self.contenders(device, precision, price, batch)]

    def contenders(
        self, device: Device, precision: str | None, price: float | None = None, batch: int = 0
    ) -> list[Contender]:
        """As `points`, to be looked at before anything is computed."""
        return [
            Contender(
                fleet=self.fleet(batch or None, layers=runtime.layers),
                device=device,
                precision=precision,
                price=price,
                runtime=runtime.id,
            )
            for runtime in self._runtimes(device, precision)
            if batch <= (runtime.max_batch or batch)
        ]

    def runs(self, device: Device, precision: str | None) -> bool:
        """Whether some runtime on the device takes the number format."""
        try:
            self._runtimes(device, precision)
        except InputError:
            return False
        return True

    def refuse_idle(self, devices: Sequence[Device], precisions: Sequence[str | None]) -> None:
        """Raises InputError where a runtime that was asked for runs on none of the devices."""
        if self.runtimes and not any(self.runs(d, p) for d in devices for p in precisions):
            self._runtimes(devices[0], precisions[0])

    def batches(self) -> Iterator[int]:
        """Powers of two that the model takes; nothing where the batch is not open."""
        symbols = {s.name: s for s in self.fleet().bench.workload.symbols}
        symbol = symbols.get("batch")
        if self.batch is not None or symbol is None:
            return
        batch = 1
        while batch <= min(LARGEST_BATCH, symbol.maximum or LARGEST_BATCH):
            if batch >= symbol.minimum:
                yield batch
            batch *= 2

    def _runtimes(self, device: Device, precision: str | None) -> list[Runtime]:
        key = id(device), precision
        if key not in self.known:
            self.known[key] = device, self._looked_up(device, precision)
        return self.known[key][1]

    def _under(self, name: str) -> Workload:
        """The model with the layers of a runtime."""
        return self.fleet(layers=runtime(name).layers).bench.workload

    def _looked_up(self, device: Device, precision: str | None) -> list[Runtime]:
        workload = self.fleet().bench.workload
        precision = precision or workload.asked_precision
        if self.runtimes:
            return [
                choose(
                    device,
                    name,
                    precision=single_format(precision),
                    language=runs_as_language(self._under(name), name),
                    training=workload.training,
                ).runtime
                for name in self.runtimes
            ]
        language = is_language_model(workload)
        found = _undominated(
            candidates(
                device,
                single_format(precision),
                language=language,
                training=workload.needs_trainer,
            )
        )
        # Of those that nothing is known of, one is enough: their speed of light is the same.
        known = [r for r in found if self.fleet(layers=r.layers).predicts(device, r)]
        return known or list(found[:1])


def _undominated(found: Sequence[Runtime]) -> list[Runtime]:
    """Without those that another one beats on any device: the same kernels, launched by a graph."""
    graphs = [r for r in found if r.graph]
    return [
        r
        for r in found
        if r.graph
        or not any(
            (r.kernels, r.residency, r.constants) == (g.kernels, g.residency, g.constants)
            and r.language is not True
            for g in graphs
        )
    ]


def refuse_empty(subjects: Sequence[Subject], devices: Sequence[Device]) -> None:
    """Raises InputError where there is nothing to hold against each other."""
    if not subjects or not devices:
        raise InputError("name at least one model and one device to compare.")
