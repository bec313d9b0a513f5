"""Requests that are simulated one by one."""

from __future__ import annotations

from dataclasses import dataclass

from gambrel.analysis import fields as f
from gambrel.analysis.question.declare import REQUESTS, SERVE_SIM, field


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class RequestFields:
    """Requests that are simulated one by one."""

    trace: str | None = field(
        *(f.TEXT, REQUESTS, SERVE_SIM),
        "Recorded requests: CSV or JSON lines with time, input and output (also as the Azure, "
        "Splitwise, BurstGPT and Mooncake traces name them), .gz as well.",
        "--trace",
        absent={"mcp": "what a line of a file says is not for agents"},
    )
    requests: int | None = field(
        *(f.whole("requests"), REQUESTS, SERVE_SIM),
        *(
            "Number of requests to simulate; by default ten per request in flight, otherwise "
            "10,000.",
            "--requests",
        ),
    )
    shortest: float = field(
        *(f.SHARE, REQUESTS, SERVE_SIM),
        "Shortest lengths as a fraction of --input and --output, uniformly distributed in "
        "between; 1 makes all equal.",
        "--shortest",
        default=1.0,
    )
    hit_rate: float = field(
        *(f.SHARE, REQUESTS, SERVE_SIM),
        *("Fraction of each prompt that hits the prefix cache.", "--hit-rate"),
        default=0.0,
    )
    replicas: int | None = field(
        *(f.whole("replicas"), REQUESTS, SERVE_SIM),
        "Number of replicas; by default the fewest that meet the targets.",
        "--replicas",
    )
    percentile: int = field(
        *(f.whole("%"), REQUESTS, SERVE_SIM),
        *("Percentile at which the targets must hold: 50, 90 or 99.", "--percentile"),
        default=99,
    )
    seed: int = field(
        *(f.whole("1", 0), REQUESTS, SERVE_SIM, "Seed of the random numbers.", "--seed"), default=0
    )
