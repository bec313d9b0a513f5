"""A plan as plain data for JSON: the same names as the records, a map of units beside them."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from gambrel.llm.serving.records import Choice, Plan, Point

SCHEMA_VERSION: Final = 2

UNITS: Final = {
    "tpot_s": "s",
    "ttft_s": "s",
    "prefill_s": "s",
    "queue_s": "s",
    "interference_s": "s",
    "burst_ttft_s": "s",
    "sol_tpot_s": "s",
    "sol_ttft_s": "s",
    "roofline_tpot_s": "s",
    "tokens_per_s": "token/s",
    "tokens_per_s_per_device": "token/s",
    "tokens_per_s_per_user": "token/s",
    "requests_per_s": "1/s",
    "capacity_bytes": "byte",
    "usable_bytes": "byte",
    "weights_bytes": "byte",
    "activations_bytes": "byte",
    "sequence_bytes": "byte",
    "energy_j_per_token": "J",
    "cost_per_million": "currency of the price per 1e6 output tokens",
}


def plain(plan: Plan) -> dict[str, Any]:
    """The plan without the analyses of single steps; infinite numbers become None."""
    found: dict[str, Any] = _finite(
        {
            "schema_version": SCHEMA_VERSION,
            "units": UNITS,
            "model": plan.model,
            "requests": msgspec.to_builtins(plan.requests),
            "promise": msgspec.to_builtins(plan.promise),
            "max_devices": plan.max_devices,
            "prices": plan.prices,
            "best": [_choice(choice) for choice in plan.best],
            "pareto": [_point(point) for point in plan.pareto],
            "refused": [
                {**msgspec.to_builtins(r), "layout": str(r.sharding)} for r in plan.refused
            ],
            "would_fit": list(plan.would_fit),
            "assumptions": list(plan.assumptions),
        }
    )
    return found


def _point(point: Point) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(point),
        "layout": str(point.sharding),
        "devices": point.devices,
        "tokens_per_s_per_device": point.tokens_per_s_per_device,
        "tokens_per_s_per_user": point.tokens_per_s_per_user,
    }


def _choice(choice: Choice) -> dict[str, Any]:
    kept = msgspec.structs.replace(choice, decode=None, prefill=None, energy=None)
    found: dict[str, Any] = msgspec.to_builtins(kept)
    for name in ("decode", "prefill", "energy", "point"):
        found.pop(name)
    return {**_point(choice.point), **found}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
