"""What is to be met, and what ranks."""
# ruff: noqa: RUF009 the defaults are declarations

from __future__ import annotations

from dataclasses import dataclass

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import LIMITED, SERVE, TARGETS, field


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class TargetFields:
    """What is to be met, and what ranks."""

    latency: float | None = field(
        *(f.TIME, TARGETS, LIMITED, "Latency limit for the whole batch, e.g. 33ms.", "--latency"),
        words=("takes", "within"),
    )
    throughput: float | None = field(
        *(f.PER_S, TARGETS, LIMITED),
        "Required throughput in items per second, e.g. 30fps; without --batch the best batch "
        "size is searched.",
        "--throughput",
        words=("fps", "rate"),
    )
    power: float | None = field(
        *(f.POWER, TARGETS, LIMITED, "Power limit, e.g. 15W.", "--power"), words=("watts",)
    )
    energy: float | None = field(
        *(f.ENERGY, TARGETS, LIMITED, "Energy limit per item, e.g. 500mJ.", "--energy")
    )
    memory: float | None = field(
        *(f.MEMORY, TARGETS, LIMITED, "Memory limit, e.g. 4096MB or 4GiB.", "--memory"),
        words=("ram", "vram"),
    )
    max_price: float | None = field(
        *(f.number("currency"), TARGETS, "select", "Price limit, in the currency of --price."),
        "--max-price",
    )
    spec: str | None = field(
        *(f.TEXT, TARGETS, "check"),
        *(
            "A requirements file (TOML, see docs/advise.md); options given here override it.",
            "--spec",
        ),
    )
    ttft: float | None = field(
        *(f.TIME, TARGETS, SERVE, "Limit on the time to first token (TTFT), e.g. 1s.", "--ttft")
    )
    tpot: float | None = field(
        *(f.TIME, TARGETS, SERVE),
        *("Limit on the time per output token after the first (TPOT), e.g. 30ms.", "--tpot"),
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
        *(
            "Metric to rank by; the default is price if there is a price limit, otherwise latency.",
            "--sort",
        ),
    )
    prices: dict[str, float] | None = field(
        *(f.PRICES, TARGETS, f"compare select {SERVE}"),
        "What a device (in serve-plan a device-hour) costs, DEVICE=NUMBER in any one currency; one "
        "number is the price of each; repeatable.",
        "--price",
    )
