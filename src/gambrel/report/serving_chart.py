"""The pictures of a serving plan: the Pareto front, and where the time of the best step goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gambrel.llm.serving.records import OperatingPoint, Plan
from gambrel.report.llm_pictures import time_by_layer
from gambrel.report.options import Options
from gambrel.report.picture import Axis, Chart, Curve, Picture, Threshold

#: Points drawn of one device; a plan over many layouts has thousands.
_DRAWN: Final = 400


def pareto(plan: Plan) -> Chart | None:
    """Tokens per second per device against those of one user: all points, and the front.

    Args:
        plan: The answer of `gambrel.serve_plan`.

    Returns:
        None when no point was found.
    """
    points = [p for p in plan.points if _drawable(p)]
    if not points:
        return None
    places = [(p.device, (p.tokens_per_s_per_user, p.tokens_per_s_per_device)) for p in points]
    front = tuple((p.tokens_per_s_per_user, p.tokens_per_s_per_device) for p in plan.pareto)
    best = plan.best[0].point if plan.best and _drawable(plan.best[0].point) else None
    return Chart(
        title="Throughput against speed for one user",
        about="Every point is a layout with a number of requests in flight; on the line are those "
        "that no other beats in both. The star is the best that meets the target.",
        x=Axis(title="tokens/s of one user", unit="token/s"),
        y=Axis(title="tokens/s of one device", unit="token/s"),
        curves=(*_clouds(places), Curve(name="", points=tuple(front), color=5)),
        mark=(best.tokens_per_s_per_user, best.tokens_per_s_per_device) if best else None,
        limits=(_tpot(plan),),
    )


def _tpot(plan: Plan) -> Threshold:
    """A TPOT of at most t is at least 1/t tokens per second of one user."""
    t = plan.target.tpot_s
    return Threshold(
        axis="x", name="tokens/s of one user", keep="above", value=1 / t if t else None
    )


def first_tokens(plan: Plan) -> Chart | None:
    """Time to the first token against throughput: the same points, with the other limit."""
    points = [p for p in plan.points if _drawable(p) and 0 < p.ttft_s < float("inf")]
    if not points:
        return None
    best = plan.best[0].point if plan.best else None
    places = [(p.device, (p.tokens_per_s_per_device, p.ttft_s)) for p in points]
    return Chart(
        title="Time to the first token against throughput",
        about="The same layouts: more requests in flight give more tokens per second and a longer "
        "wait for the first one.",
        x=Axis(title="tokens/s of one device", unit="token/s"),
        y=Axis(title="time to the first token", unit="s"),
        curves=tuple(_clouds(places)),
        mark=(best.tokens_per_s_per_device, best.ttft_s) if best and best.ttft_s > 0 else None,
        limits=(Threshold(axis="y", name="TTFT", keep="below", value=plan.target.ttft_s),),
    )


def _drawable(point: OperatingPoint) -> bool:
    return 0 < point.tokens_per_s_per_user < float("inf") and point.tokens_per_s_per_device > 0


def _clouds(places: Sequence[tuple[str, tuple[float, float]]]) -> Iterator[Curve]:
    """The points of each device: at most so many, evenly, from left to right."""
    for i, device in enumerate(dict.fromkeys(name for name, _ in places)):
        own = sorted(at for name, at in places if name == device)
        step = max(1, -(-len(own) // _DRAWN))
        yield Curve(name=device, points=tuple(own[::step]), style="dots", color=i)


def pictures(plan: Plan, _options: Options) -> tuple[Picture, ...]:
    """The front, and where the time of the best layout's decode step goes."""
    found: list[Picture | None] = [pareto(plan), first_tokens(plan)]
    if plan.best and plan.best[0].decode is not None:
        found.append(time_by_layer(plan.best[0].decode))
    return tuple(p for p in found if p is not None)
