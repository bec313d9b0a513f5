"""Kinds of DRAM by name: the bandwidth of one unit and the energy of an access."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gambrel.analysis.energy_constants import technology_energy
from gambrel.errors import UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class DramKind:
    """One unit of DRAM: a channel, a package or a stack.

    Attributes:
        name: As designs name it.
        about: What one unit is.
        pins: Data pins.
        bit_per_s_per_pin: Data rate.
        technology: As the table of energies names it.
        source: Of width and rate.
    """

    name: str
    about: str
    pins: int
    bit_per_s_per_pin: float
    technology: str
    source: str

    @property
    def byte_per_s(self) -> float:
        """Peak bandwidth of a unit."""
        return self.pins * self.bit_per_s_per_pin / 8

    @property
    def j_per_byte(self) -> float | None:
        """Energy of an access; None where none is published."""
        found = technology_energy(self.technology)
        return None if found is None else found.value


@lru_cache(maxsize=1)
def dram_kinds() -> dict[str, DramKind]:
    """All kinds by name."""
    rows = tomllib.loads((Path(__file__).with_name("drams.toml")).read_text("utf-8"))["kinds"]
    return {name: DramKind(name=name, **row) for name, row in rows.items()}


def dram_kind(name: str) -> DramKind:
    """One of them.

    Raises:
        UnknownNameError: There is none of that name.
    """
    kinds = dram_kinds()
    if name.lower() not in kinds:
        raise UnknownNameError("kind of DRAM", name, tuple(kinds))
    return kinds[name.lower()]
