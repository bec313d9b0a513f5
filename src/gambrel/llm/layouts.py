"""Which layouts suit a model: what a degree of parallelism must divide, and what would fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from gambrel.errors import InputError
from gambrel.llm.sharding import Sharding, common
from gambrel.llm.spec import (
    FeedForward,
    LatentAttention,
    Layer,
    Mixer,
    Mixture,
    ModelSpec,
    mixers_of,
)


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """A size of the model that a degree must divide.

    Attributes:
        degree: Of `Sharding`: ``tensor``, ``attention_tensor``, ``expert`` or ``expert_tensor``.
        field: What is divided, e.g. ``"attention heads"``.
        size: How many there are.
        copies: A degree that is a multiple of the size is as good: the parts are copied.
    """

    degree: str
    field: str
    size: int
    copies: bool = False

    def fits(self, degree: int) -> bool:
        """Whether ``degree`` devices can share it."""
        return self.size % degree == 0 or (self.copies and degree % self.size == 0)


def demands(spec: ModelSpec) -> tuple[Demand, ...]:
    """All sizes that a layout of this model must divide, each once.

    Vocabularies are padded by every framework and so never stand in the way.
    """
    found: list[Demand] = []
    for layer in _layers(spec):
        for mixer in (*mixers_of(layer), *filter(None, (layer.cross,))):
            found += _of_mixer(mixer)
        if layer.feed_forward is not None:
            found += _of_feed_forward(layer.feed_forward)
    return tuple(dict.fromkeys(found))


def check(sharding: Sharding, spec: ModelSpec, devices: int | None = None) -> None:
    """Refuses a layout that the model or the devices cannot have.

    Args:
        sharding: The layout.
        spec: The model.
        devices: Devices that there are; None is any number.

    Raises:
        InputError: The degree, the field of the model that it does not divide, and what would fit.
    """
    if devices is not None and sharding.devices > devices:
        raise InputError(
            f"{sharding} needs {sharding.devices} devices (tensor x pipeline x data x context) "
            f"and there are {devices}."
        )
    if sharding.pipeline > spec.layer_count:
        raise InputError(
            f"pipeline={sharding.pipeline}: {spec.name} has {spec.layer_count} layers; at most so "
            "many stages."
        )
    if sharding.expert > 1 and not spec.mixtures:
        raise InputError(f"expert={sharding.expert}: {spec.name} has no experts; leave it at 1.")
    for demand in demands(spec):
        _check(demand, sharding, spec)


def problem(sharding: Sharding, spec: ModelSpec) -> str:
    """Why a model cannot have a layout; empty when it can."""
    try:
        check(sharding, spec)
    except InputError as error:
        return str(error)
    return ""


def candidates(
    spec: ModelSpec, devices: int, *, pipeline: bool = True, context: bool = False
) -> tuple[Sharding, ...]:
    """The layouts of one replica worth comparing: every split that the model allows.

    Args:
        spec: The model.
        devices: Most devices of one replica.
        pipeline: Whether to split into stages as well.
        context: Whether to split sequences as well.
    """
    found: dict[Sharding, None] = {}
    for tensor in _powers(devices):
        for stages in _powers(devices // tensor) if pipeline else (1,):
            for expert, groups in _inner(spec, tensor):
                layout = Sharding(
                    tensor=tensor, pipeline=stages, expert=expert, attention_data=groups
                )
                if not problem(layout, spec):
                    found[layout] = None
        for parts in _powers(devices // tensor) if context else ():
            layout = Sharding(tensor=tensor, context=parts)
            if not problem(layout, spec):
                found[layout] = None
    return tuple(found)


def of_degrees(spec: ModelSpec, devices: int, degrees: Mapping[str, int]) -> tuple[Sharding, ...]:
    """The layouts that given degrees leave open; the others are 1.

    Experts and groups of attention are divided within ``tensor``: where that is not given, it is
    any multiple of theirs that the model allows, on at most so many devices.

    Args:
        spec: The model.
        devices: Most devices of all replicas.
        degrees: Of `Sharding`, by name.

    Raises:
        InputError: A degree below 1, or one that does not divide ``tensor``.
    """
    least = math.lcm(degrees.get("expert", 1), degrees.get("attention_data", 1))
    if "tensor" in degrees or least <= 1:
        return (Sharding(**degrees),)
    first = Sharding(**{**degrees, "tensor": least})
    wider = (
        Sharding(**{**degrees, "tensor": least * n}) for n in _powers(devices // first.devices)
    )
    return tuple(layout for layout in wider if not problem(layout, spec)) or (first,)


def _powers(limit: int) -> Iterator[int]:
    """1, 2, 4, ... up to a limit."""
    n = 1
    while n <= limit:
        yield n
        n *= 2


def _inner(spec: ModelSpec, tensor: int) -> Iterator[tuple[int, int]]:
    """Degrees within the tensor group: (expert, attention_data)."""
    yield 1, 1
    if tensor > 1 and spec.mixtures:
        yield tensor, 1
        if any(isinstance(m, LatentAttention) for x in _layers(spec) for m in mixers_of(x)):
            yield tensor, tensor


def _check(demand: Demand, sharding: Sharding, spec: ModelSpec) -> None:
    degree = getattr(sharding, demand.degree)
    if demand.fits(degree):
        return
    same = [d.size for d in demands(spec) if d.degree == demand.degree and not d.copies]
    fits = ", ".join(map(str, common(same or [demand.size])))
    name = _NAMES.get(demand.degree, demand.degree)
    if demand.degree == "attention_tensor" and sharding.attention_data == 1:
        name = "tensor"
    multiples = f" (or a multiple of {demand.size})" if demand.copies else ""
    raise InputError(
        f"{name}={degree} does not divide the {demand.size} {demand.field} of {spec.name}; "
        f"it may be {fits}{multiples}."
    )


_NAMES: Final = {
    "attention_tensor": "tensor / attention_data",
    "expert_tensor": "tensor / expert",
}


def _layers(spec: ModelSpec) -> Iterable[Layer]:
    yield from (group.layer for group in spec.layers)
    if spec.mtp_layer is not None:
        yield spec.mtp_layer


def _of_mixer(mixer: Mixer) -> list[Demand]:
    return [
        Demand(
            degree="attention_tensor", field=d.about, size=getattr(mixer, d.field), copies=d.copied
        )
        for d in mixer.DIVIDED
        if d.about
    ]


def _of_feed_forward(part: FeedForward) -> list[Demand]:
    if not isinstance(part, Mixture):
        return [Demand(degree="tensor", field="columns of the feed-forward", size=part.width)]
    found = [
        Demand(degree="expert", field="experts", size=part.experts),
        Demand(degree="expert_tensor", field="columns of an expert", size=part.width),
    ]
    if part.shared_width:
        found.append(
            Demand(degree="tensor", field="columns of the shared expert", size=part.shared_width)
        )
    return found
