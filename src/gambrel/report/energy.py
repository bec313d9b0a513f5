"""The energy estimate in words: always called an estimate, with its bound and what it lacks."""

from __future__ import annotations

from typing import Final

from gambrel.analysis.needs import EnergyEstimate
from gambrel.analysis.result import Analysis
from gambrel.units import format_number, format_si

#: Figures of `EnergyEstimate` that follow from its stored fields; written beside them.
DERIVED: Final = ("average_power_w", "energy_per_inference_j", "inferences_per_j")


def energy_lines(analysis: Analysis) -> list[tuple[str, str]]:
    """Returns (label, text) pairs for the summary; none when no estimate was asked for."""
    found = analysis.energy
    return [] if found is None else [("Energy", _sentence(found))]


def _sentence(found: EnergyEstimate) -> str:
    parts = [_value(found)]
    if found.energy_upper_bound_j is not None:
        time = f"{found.time_kind} time"
        parts.append(f"at most {format_si(found.energy_upper_bound_j, 'J')} (TDP × {time})")
    if found.energy_j is not None:
        parts.append(f"{format_si(found.average_power_w, 'W', 3)} on average")
        each = format_si(found.energy_per_inference_j, "J", 3)
        parts.append(f"{each} an inference, {format_number(found.inferences_per_j, 3)} for 1 J")
    if found.unverified:
        parts.append(f"not compared with its source: {'; '.join(found.unverified)}")
    return " · ".join(parts)


def _value(found: EnergyEstimate) -> str:
    shares = {
        "static": found.static_j,
        "arithmetic": found.compute_j,
        "memory": found.memory_j,
    }
    listed = ", ".join(f"{name} {format_si(j, 'J', 3)}" for name, j in shares.items())
    if found.energy_j is None:
        return f"unknown ({found.reason}; {listed})"
    capped = ", capped by TDP" if found.capped else ""
    return (
        f"{format_si(found.energy_j, 'J')} estimated ({listed}{capped}), "
        f"{found.confidence} confidence"
    )
