"""A device of one's own."""
# ruff: noqa: RUF009 the defaults are declarations

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import ALL, DEVICE, MANY, PLANS, RUNS, SERVE_PLAN, field


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class DeviceFields:
    """A device of one's own."""

    hardware: Any = field(
        *(f.HARDWARE, DEVICE, f"{ALL} device runtimes explain"),
        "A device (gambrel hardware list), a TOML file, or 'this' machine. Commands that "
        "take several accept a list (a100,h100), a class (category=edge,max_tdp=15W) or all.",
        *("--hardware", "-d"),
        several=f"{MANY} {SERVE_PLAN}",
        required="device",
        words=("device", "gpu", "chip", "accelerator", "on"),
    )
    peak: float | None = field(
        *(f.RATE, DEVICE, f"{RUNS} {PLANS} import"),
        "Peak compute rate of a custom device, instead of --hardware, e.g. 989T.",
        "--peak",
    )
    bandwidth: float | None = field(
        *(f.BANDWIDTH, DEVICE, f"{RUNS} {PLANS} import"),
        *("Memory bandwidth of the custom device, e.g. 3.35T.", "--bandwidth"),
    )
