"""What is to be met, and what ranks."""
# ruff: noqa: RUF009 the defaults are declarations

from __future__ import annotations

from dataclasses import dataclass

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import LIMITED, SERVE, TARGETS, field


@dataclass(frozen=True, kw_only=True)
class TargetFields:
    """What is to be met, and what ranks."""

    latency: float | None = field(
        *(f.TIME, TARGETS, LIMITED, "At most, for the whole batch, e.g. 33ms.", "--latency"),
        words=("takes", "within"),
    )
    throughput: float | None = field(
        *(f.PER_S, TARGETS, LIMITED),
        "At least, items per second, e.g. 30fps; without --batch the best batch is searched.",
        "--throughput",
        words=("fps", "rate"),
    )
    power: float | None = field(
        *(f.POWER, TARGETS, LIMITED, "At most, e.g. 15W.", "--power"), words=("watts",)
    )
    energy: float | None = field(
        *(f.ENERGY, TARGETS, LIMITED, "At most, per item, e.g. 500mJ.", "--energy")
    )
    memory: float | None = field(
        *(f.MEMORY, TARGETS, LIMITED, "At most, e.g. 4096MB or 4GiB.", "--memory"),
        words=("ram", "vram"),
    )
    max_price: float | None = field(
        *(f.number("currency"), TARGETS, "select", "At most, in the currency of the prices."),
        "--max-price",
    )
    spec: str | None = field(
        *(f.TEXT, TARGETS, "check"),
        *("A requirements file (TOML, see docs/advise.md); what is given here wins.", "--spec"),
    )
    ttft: float | None = field(
        *(f.TIME, TARGETS, SERVE, "Time to first token, at most, e.g. 1s.", "--ttft")
    )
    tpot: float | None = field(
        *(f.TIME, TARGETS, SERVE),
        *("Time per output token after the first, at most, e.g. 30ms.", "--tpot"),
    )
    metric: tuple[str, ...] = field(
        *(f.TEXT, TARGETS, "compare"),
        "latency, throughput, power, energy, efficiency, memory, price; the first sorts.",
        *("--metric", "-m"),
        several="compare",
        default=("latency", "throughput", "power", "efficiency", "memory"),
    )
    sort: str | None = field(
        *(f.TEXT, TARGETS, "select"),
        *("Metric that ranks; by default the price where one is limited, else latency.", "--sort"),
    )
    prices: dict[str, float] | None = field(
        *(f.PRICES, TARGETS, f"compare select {SERVE}"),
        "What a device (in serve-plan a device-hour) costs, DEVICE=NUMBER in any one currency; one "
        "number is the price of each; repeatable.",
        "--price",
    )
