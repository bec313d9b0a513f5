"""Devices that do not exist yet: the specification, and which parameters vary."""

from __future__ import annotations

from dataclasses import dataclass

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import DESIGN, SWEPT, field


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class DesignFields:
    """The specification of a device, and which of its parameters vary."""

    device_file: str | None = field(
        *(f.TEXT, "Device", DESIGN),
        "A device as formulas over parameters: a .toml file (docs/design.md has the format), or an "
        "example: edge-npu, eyeriss-like, tpu-v1-like.",
        "--device-file",
        required=DESIGN,
    )
    axes: tuple[str, ...] = field(
        *(f.TEXT, SWEPT, DESIGN),
        "Values of a parameter, PARAMETER=VALUES: 64:512:x2, 1MiB:64MiB:x2, lpddr5,hbm3; "
        "repeatable.",
        "--sweep",
        several=DESIGN,
        default=(),
        split=False,
    )
