"""Launches put together while a file is read; very many are added up, so that memory is bounded."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from msgspec.structs import force_setattr

from gambrel.analysis.samples import Sample
from gambrel.analysis.samples.aggregate import merge

#: Launches that are kept one by one; beyond, those of one kernel and launch shape are added up.
MOST_SINGLE: Final = 200_000


class LaunchList:
    """The launches of one file.

    Attributes:
        launches: In the order recorded; added up where there were too many.
        count: Launches that were put in.
    """

    def __init__(self) -> None:
        self.launches: list[Sample] = []
        self.count = 0
        self._limit = MOST_SINGLE

    def extend(self, samples: Iterable[Sample]) -> None:
        """Puts launches in."""
        before = len(self.launches)
        self.launches += samples
        self.count += len(self.launches) - before
        if len(self.launches) > self._limit:
            self.launches = _add_up(self.launches)
            self._limit = max(2 * len(self.launches), MOST_SINGLE)

    def name_origin(self, origin: str) -> None:
        """Says where the launches up to now come from, once others come from elsewhere."""
        for sample in self.launches:
            force_setattr(sample, "origin", origin)  # nobody else has seen them yet

    def notes(self) -> tuple[str, ...]:
        """A sentence where launches were added up."""
        if len(self.launches) == self.count:
            return ()
        return (f"{self.count:,} launches; those of one kernel and shape are added up",)


def _add_up(launches: Iterable[Sample]) -> list[Sample]:
    """One sample for all launches that no report by launch shape would tell apart."""
    groups: dict[Hashable, list[Sample]] = {}
    for s in launches:
        groups.setdefault((s.name, s.grid, s.block, s.group, s.range, s.origin), []).append(s)
    return [merge(group, group[0].name) for group in groups.values()]
