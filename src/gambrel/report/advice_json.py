"""JSON of checks, comparisons, selections and what-ifs: one envelope for all."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.advise.limits import METRICS

SCHEMA_VERSION: Final = 1

#: Units of the figures; a figure also carries its own under ``unit``.
UNITS: Final = {m.name: m.unit for m in METRICS.values()} | {
    "headroom": "1",
    "gain": "1",
    "time_before_s": "s",
    "time_after_s": "s",
    "bound_before_s": "s",
    "bound_after_s": "s",
    "traffic_before_bytes": "byte",
    "traffic_after_bytes": "byte",
}


def document(kind: str, record: msgspec.Struct, **more: Any) -> str:
    """A record as indented JSON text with type, version and units, ending with a newline.

    Args:
        kind: E.g. ``"gambrel/check"``.
        record: What to write.
        more: Further entries, put last.
    """
    head = {
        "type": kind,
        "schema_version": SCHEMA_VERSION,
        "gambrel_version": __version__,
        "units": UNITS,
    }
    data = head | msgspec.to_builtins(record) | more
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"
