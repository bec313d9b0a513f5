"""Kernels of a narrow format that are slower than the same runtime's in bf16, shape by shape.

Less work and fewer bytes cannot take longer in kernels that are as good, so such a set describes
one implementation and nothing else: it is kept for its own device and format, the report says what
it is, and no other device or format takes it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calibration_table import Form, Formats, Rows

#: Shapes that both formats must share for a verdict.
FEW: Final = 5
#: Measured times of one kernel in two versions differ by so much.
SAME: Final = 1.03
WIDE: Final = "bfloat16"
_SIZES: Final = {
    "matmul": ("m", "n", "k"),
    "grouped_matmul": (
        *("num_tokens", "distribution", "hidden_size", "inter_size"),
        *("topk", "num_experts", "moe_tp_size", "moe_ep_size"),
    ),
}


def mark(form: Form, rows: Rows, sets: list[dict[str, Any]]) -> None:
    """Adds ``slower`` to the sets of kernels that are slower than their wider siblings."""
    for s in sets:
        formats = next(f for f in form.formats if list(f.names) == s["formats"])
        found = slower(form, formats, rows, s["device"], s.get("describes", "any"))
        if found:
            s["slower"] = found


def slower(
    form: Form, formats: Formats, rows: Rows, device: str, stack: str
) -> dict[str, Any] | None:
    """How much longer than in bf16, the median over shapes measured in both; None if no longer."""
    if form.name not in _SIZES or WIDE in formats.labels or stack == "any":
        return None
    here = rows.take((rows["device"] == device) & (rows["stack"] == stack))
    wide = _by_shape(form, here.take(here["label"] == WIDE))
    narrow = _by_shape(form, here.take(formats.mask(here)))
    shared = narrow.keys() & wide.keys()
    ratios = [narrow[shape] / wide[shape] for shape in shared]
    if len(ratios) < FEW or (middle := float(np.median(ratios))) < SAME:
        return None
    return {"than": "bf16", "by": round(middle, 2), "shapes": len(ratios)}


def _by_shape(form: Form, rows: Rows) -> dict[tuple[Any, ...], float]:
    """Median seconds of each shape."""
    times: dict[tuple[Any, ...], list[float]] = {}
    columns = [rows[name].tolist() for name in _SIZES[form.name]]
    for shape, seconds in zip(zip(*columns, strict=True), rows["seconds"].tolist(), strict=True):
        times.setdefault(shape, []).append(seconds)
    return {shape: float(np.median(t)) for shape, t in times.items()}
