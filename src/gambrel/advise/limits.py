"""What a user requires: limits with units, from texts, numbers or a requirements file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.analysis.question import FIELDS
from gambrel.errors import FileFormatError, InputError, UnknownNameError
from gambrel.fileio import read_record, read_toml
from gambrel.units import format_number, format_si


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A figure that can be limited or compared.

    Attributes:
        name: As in options and JSON.
        unit: SI unit.
        more_is_better: False for costs, True for throughput and efficiency.
        about: What it is.
    """

    name: str
    unit: str
    about: str
    more_is_better: bool = False


#: All metrics, in the order in which they are shown.
METRICS: Final[dict[str, Metric]] = {
    m.name: m
    for m in (
        Metric(name="latency", unit="s", about="expected time of one run"),
        Metric(
            name="throughput",
            unit="item/s",
            about="items of a run / its expected time",
            more_is_better=True,
        ),
        Metric(
            name="power",
            unit="W",
            about="expected energy of a run / its expected time, at most the design power",
        ),
        Metric(name="energy", unit="J/item", about="expected energy of a run / its items"),
        Metric(
            name="efficiency",
            unit="item/J",
            about="items of a run / its expected energy",
            more_is_better=True,
        ),
        Metric(
            name="memory", unit="byte", about="weights, activations and caches alive at the peak"
        ),
        Metric(name="price", unit="", about="the price that was given"),
    )
}

#: What `check` takes; the others are for comparing.
LIMITED: Final = ("latency", "throughput", "power", "energy", "memory")

#: A requirements file is small; more than this is another file.
_MAX_BYTES: Final = 1 << 20


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement.

    Attributes:
        metric: A key of `METRICS`.
        value: In the metric's unit: a most, or a least for metrics of which more is better.
    """

    metric: str
    value: float

    @property
    def text(self) -> str:
        """For a reader: ``"latency ≤ 10 ms"``."""
        sign = "≥" if METRICS[self.metric].more_is_better else "≤"
        return f"{self.metric} {sign} {format_metric(self.metric, self.value)}"


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A requirements file.

    Attributes:
        limits: Metric → text with unit.
        model: Name or path; None leaves it to the caller.
        hardware: Name or path of a device.
        batch: Items at once.
        precision: Number format.
    """

    limits: dict[str, Any]
    model: str | None = None
    hardware: str | None = None
    batch: int | None = None
    precision: str | None = None


def parse_limits(wanted: Mapping[str, str | float | None]) -> tuple[Limit, ...]:
    """Limits from texts with units, or from numbers in SI units; None is no limit.

    Raises:
        InputError: A text that is no such quantity, has no unit, or is not positive; no limit.
        UnknownNameError: No such metric.
    """
    for name in wanted:
        if name not in METRICS:
            raise UnknownNameError("limit", name, LIMITED)
    found = tuple(
        Limit(metric=name, value=parse_value(name, given))
        for name in METRICS
        if (given := wanted.get(name)) is not None
    )
    if not found:
        raise InputError("give at least one limit, e.g. latency 10ms, power 15W or memory 4GiB.")
    return found


def parse_value(name: str, given: str | float) -> float:
    """One value of a metric in its unit, from a text or from a number in that unit.

    Raises:
        InputError: As `parse_limits`.
    """
    field = FIELDS["max_price" if name == "price" else name]
    value: float = field.kind.read(given, field.kind, name)
    if value <= 0:
        raise InputError(f"{name} {given!r}: give a positive number.")
    return value


def read_spec(path: Path) -> Spec:
    """Reads a requirements file: TOML with a table ``[limits]``; docs/advise.md shows one.

    Raises:
        FileFormatError: Missing, no TOML, or keys that mean nothing here.
        InputError: A number without a unit.
    """
    data = {"limits": {}, **read_toml(path, _MAX_BYTES, "a requirements file")}
    try:
        spec = read_record(Spec, data, "a requirements file")
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None
    # A number in a file carries no unit; as text it is refused where that is unclear.
    texts = {name: v if isinstance(v, str) else repr(v) for name, v in spec.limits.items()}
    return msgspec.structs.replace(spec, limits=texts)


def format_metric(name: str, value: float | None, digits: int = 4) -> str:
    """A value of a metric for a reader; unknown stays ``"unknown"``."""
    if value is None:
        return "unknown"
    if name in {"throughput", "efficiency"}:
        text = f"{value:,.0f}" if value >= 1000 else format_number(value, digits)
        return text + ("/s" if name == "throughput" else "/J")
    if name == "price":
        return format_number(value, 6)
    return format_si(value, {"energy": "J", "memory": "B"}.get(name, METRICS[name].unit), digits)
