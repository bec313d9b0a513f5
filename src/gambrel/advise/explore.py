"""Tries changes: each is applied and the result analyzed, once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from gambrel.advise.changes import CATALOGUE, Scenario, apply_changes, parse_change
from gambrel.advise.fleet import Fleet, Point
from gambrel.analysis.workbench import Workbench
from gambrel.errors import GambrelError

Changes = tuple[str, ...]


class Explorer:
    """Remembers what was tried on one case.

    Args:
        case: The question as it stands.
    """

    def __init__(self, case: Scenario) -> None:
        self.case = case
        self._cases: dict[Changes, Scenario | None] = {(): case}
        self._points: dict[Changes, Point | None] = {}
        self._fleets: dict[Hashable, Fleet] = {}
        self._benches: dict[Hashable, Workbench] = {}

    @property
    def start(self) -> Point:
        """The case as it stands."""
        return self._point(self.case)

    def tried(self, changes: Changes) -> Point | None:
        """The case with changes; None where model or device do not take them."""
        if changes not in self._points:
            self._points[changes] = self._try(changes)
        return self._points[changes]

    def proposals(self, name: str) -> Iterator[str]:
        """The changes of one kind that are worth trying, as texts."""
        kind = CATALOGUE[name]
        for value in kind.propose(self.case):
            yield f"{name}={value}" if kind.takes_value else name

    def _try(self, changes: Changes) -> Point | None:
        try:
            case = self._changed(changes)
            return None if case is None else self._point(case)
        except GambrelError:
            return None

    def _point(self, case: Scenario) -> Point:
        """The case held against its device; what can be shared between cases is made once."""
        settings = case.settings
        shared = replace(settings, precision=None, runtime=None)
        bench = (id(case.workload), repr((shared.sizes, shared.conventions)))
        key = (*bench, shared.sparsity, shared.engine, shared.warm)
        if key not in self._fleets:  # cases are kept, so that no id comes again
            known = self._benches.get(bench)
            self._fleets[key] = Fleet(case.workload, shared, bench=known)
            self._benches[bench] = self._fleets[key].bench
        return self._fleets[key].on(case.device, settings.precision, runtime=settings.runtime)

    def _changed(self, changes: Changes) -> Scenario | None:
        if changes not in self._cases:
            before = self._changed(changes[:-1])
            self._cases[changes] = None if before is None else apply_changes(before, changes[-1:])
        return self._cases[changes]


def kinds_of(changes: Changes) -> frozenset[str]:
    """Names of the kinds of change: two of one kind exclude each other."""
    names = {parse_change(text)[0] for text in changes}
    # Both choose the format of the weights.
    return frozenset({*names, "weights"} if "precision" in names else names)
