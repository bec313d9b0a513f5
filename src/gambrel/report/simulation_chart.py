"""The picture of a simulation: requests in flight and waiting, and the cache, over time."""

from __future__ import annotations

from gambrel.llm.serving.outcomes import Simulation
from gambrel.report.options import Options
from gambrel.report.picture import Axis, Chart, Curve, Picture


def pictures(record: Simulation, _options: Options) -> tuple[Picture, ...]:
    """Requests over time, and tokens over time."""
    a = record.outcome.activity
    if len(a.start_s) < 2:
        return ()
    time = Axis(title="time", unit="s", linear=True)
    requests = Chart(
        title="Requests in flight and waiting",
        about="Means over each interval, all replicas together.",
        x=time,
        y=Axis(title="requests", unit="count", linear=True),
        curves=(
            _curve("in flight", a.start_s, a.running, 0),
            _curve("waiting", a.start_s, a.waiting, 1),
        ),
    )
    tokens = Chart(
        title="Output tokens per second",
        about="All replicas together.",
        x=time,
        y=Axis(title="tokens/s", unit="token/s", linear=True),
        curves=(_curve("tokens/s", a.start_s, a.tokens_per_s, 2),),
    )
    return requests, tokens


def _curve(name: str, at: tuple[float, ...], values: tuple[float, ...], color: int) -> Curve:
    return Curve(name=name, points=tuple(zip(at, values, strict=True)), color=color)
