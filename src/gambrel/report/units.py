"""The unit of every number in the JSON of any answer: by the end of its name, or by its name.

Rules come first to mind when a field is named, so most fields need no entry. A field that has
neither makes the test of the envelope fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

#: End of a name → unit; the first that fits.
SUFFIXES: Final[tuple[tuple[str, str], ...]] = (
    ("flop_per_s", "FLOP/s"),
    ("byte_per_s", "byte/s"),
    ("instruction_per_s", "warp instruction/s"),
    ("tokens_per_s", "token/s"),
    ("tokens_per_s_per_device", "token/s"),
    ("tokens_per_s_per_user", "token/s"),
    ("tokens_per_s_per_request", "token/s"),
    ("samples_per_s", "1/s"),
    ("requests_per_s", "1/s"),
    ("items_per_s", "1/s"),
    ("_per_s", "1/s"),
    ("_per_j", "1/J"),
    ("_j_per_token", "J/token"),
    ("bytes_per_token", "byte/token"),
    ("_bytes", "byte"),
    ("flops", "FLOP"),
    ("_hz", "Hz"),
    ("_mm2", "mm²"),
    ("_tokens", "token"),
    ("intensity", "FLOP/byte"),
    ("intensities", "FLOP/byte"),
    ("ridge_point", "FLOP/byte"),
    ("utilization", "1"),
    ("efficiency", "1"),
    ("_share", "1"),
    ("_shares", "1"),
    ("_gain", "1"),
    ("launches", "1"),
    ("_count", "1"),
    ("_w", "W"),
    ("_j", "J"),
    ("_expected", "s"),
    ("_s", "s"),
)

#: A number whose unit stands beside it in the same object.
BESIDE: Final = "as 'unit' beside it"

#: Counts, shares and ratios.
_COUNTS: Final = frozenset((
    "acceptance", "area_cost", "attained", "attention_data", "batch", "batch_size", "bits",
    "blocks", "bubble", "cache", "concurrency", "count", "coverage", "coverage_ops",
    "coverage_time", "coverage_traffic", "coverage_work", "covered", "data", "deepest", "depth",
    "depthwise", "devices", "ecc_corrected", "ecc_uncorrected", "error", "expert", "free_ops",
    "function", "gain", "gain_low", "gap_closed", "headroom", "headroom_factor", "hfu",
    "high_ratio", "host_ops", "huge_page_share", "in_channels", "in_flight", "index", "inferences",
    "interleaved", "items", "layers", "load", "low_ratio", "max_batch", "max_devices",
    "max_sequences", "mean", "mfu",
    "microbatches", "missed", "mixtures", "idle", "per_key", "most_waiting", "nodes", "num_units",
    "ops", "ordered", "out_channels",
    "overlap", "page", "parameters", "pcie_lanes", "pcie_lanes_limit", "peak_index", "per_tenth",
    "per_unit", "percentile", "pipeline", "pixels", "pooled", "reduced",
    "plain_spread", "points", "preemptions", "profiled_steps",
    "pruned", "rank", "ranks", "ratio", "ratios", "recorded", "replicas", "requests", "rounds",
    "routing_skew", "rows", "running", "samples", "schema_version", "score", "sequences", "shape",
    "share", "shares", "sizes", "skipped", "slots", "sparsity", "speedup", "spread", "stacks",
    "stage",
    "steps", "stolen", "strain", "symbols", "tensor", "threads", "times", "tried", "tried_with",
    "slots", "unmodelled", "virtual", "waiting", "window", "windowed", "zero",
))  # fmt: skip

#: Names that no rule covers.
NAMES: Final[dict[str, str]] = {
    **dict.fromkeys(_COUNTS, "1"),
    "celsius": "°C",
    **dict.fromkeys(
        (
            "batch_tokens",
            "context",
            "seq",
            "tokens",
            "max_context",
            "model_limit",
            "tokens_per_step",
        ),
        "token",
    ),
    **dict.fromkeys(
        (
            "value",
            "low",
            "high",
            "best",
            "worst",
            "counted",
            "limit",
            "median",
            "slowest",
            "fastest",
            "measured",
            "published",
        ),
        BESIDE,
    ),
    **dict.fromkeys(("latency", "spans", "busy", "expected", "resources", "time", "seconds"), "s"),
    **dict.fromkeys(("now", "tried_value"), "as the parameter"),
    "year": "calendar year",
    "special_ops": "evaluation",
    "image": "pixel",
    "nbytes": "byte",
    "instructions": "warp instruction",
    "others": "byte",
    "capacities": "byte",
    "peak_bandwidth": "byte/s",
    "per_cycle": "1/cycle",
    "byte_per_clock": "byte/cycle",
    "model_flops": "FLOP/token",
    "prices": "as given, for an hour",
    "price_per_hour": "as given, for an hour",
    "cost_per_million": "as the prices, per 1e6 output tokens",
}

#: Parts that are a format of their own, with their units in their documentation.
OPAQUE: Final = frozenset({"workload", "pictures", "units", "settings", "versions"})


@lru_cache(maxsize=4096)  # an answer has a few hundred names, each many times
def unit_of(name: str) -> str | None:
    """The unit of a field, by its name; None where nobody declared one."""
    if name in NAMES:
        return NAMES[name]
    return next((unit for end, unit in SUFFIXES if name.endswith(end) or name == end[1:]), None)


def units_in(content: Mapping[str, Any]) -> dict[str, str]:
    """Unit of each field that holds a number anywhere in an answer, in order of appearance."""
    found: dict[str, str] = {}
    _note_numbers(content, "", found)
    return found


def _note_numbers(value: object, name: str, found: dict[str, str]) -> None:
    """Notes the fields whose value is a number, with units; of a map by free names, the map."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, (int, float)):
        if name not in found:
            found[name] = unit_of(name) or ""
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key in OPAQUE:
                continue
            of_map = unit_of(name) is not None and not isinstance(item, Mapping)
            _note_numbers(item, name if of_map else str(key), found)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for item in value:
            _note_numbers(item, name, found)
