"""The cache of a model on a device: what it takes, and the batch and context that fit."""

from __future__ import annotations

import msgspec

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import footprint
from gambrel.errors import InputError
from gambrel.llm.build import build
from gambrel.llm.kv import UTILIZATION, KvCache, Policy, Room, kv_cache, room
from gambrel.llm.precision import Precisions
from gambrel.llm.spec import ModelSpec
from gambrel.llm.step import decode
from gambrel.ops import Conventions
from gambrel.views import Viewed


class CachePlan(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The answer.

    Attributes:
        cache: Of the batch and context asked for.
        weights_bytes: Of the model.
        activations_bytes: Of a decode step.
        device: Id; empty when none was given.
        usable_bytes: The share of its memory that an engine may use; None without a device.
        room: What fits beside weights and activations; None without a device.
    """

    cache: KvCache
    weights_bytes: float
    activations_bytes: float
    device: str = ""
    usable_bytes: float | None = None
    room: Room | None = None

    @property
    def fits(self) -> bool | None:
        """Whether weights, activations and the allocated cache fit; None without a device."""
        return None if self.usable_bytes is None else self.total_bytes <= self.usable_bytes

    @property
    def total_bytes(self) -> float:
        """Weights, activations of a decode step, and the pages that are reserved."""
        return self.weights_bytes + self.activations_bytes + self.cache.allocated_bytes


def plan_cache(
    spec: ModelSpec,
    precisions: Precisions,
    *,
    batch_size: int,
    context: int,
    policy: Policy,
    device: str = "",
    capacity_bytes: int | None = None,
    utilization: float = UTILIZATION,
    weights_bytes: float | None = None,
) -> CachePlan:
    """The cache of sequences on one device.

    Args:
        spec: The model.
        precisions: Its number formats.
        batch_size: Sequences.
        context: Tokens of each.
        policy: How pages are reserved.
        device: Its id.
        capacity_bytes: Its memory; None when unknown.
        utilization: Share of the memory that the engine may use.
        weights_bytes: Of the model as a file stores it; None counts them in ``precisions``.

    Raises:
        InputError: A context beyond the model's limit, or a share that is none.
    """
    if not 0 < utilization <= 1:
        raise InputError(f"utilization={utilization}: a share above 0 and at most 1.")
    if spec.max_context is not None and context > spec.max_context:
        raise InputError(
            f"context={context}: {spec.name} was made for at most {spec.max_context} tokens."
        )
    cache = kv_cache(spec, precisions, batch_size=batch_size, context=context, policy=policy)
    workload = build(spec, decode(batch_size, context), precisions)
    needs = footprint(workload, Evaluator(workload, {}, {}, Conventions()), capacity_bytes)
    weights = float(needs.weights_bytes) if weights_bytes is None else weights_bytes
    plan = CachePlan(
        cache=cache,
        weights_bytes=weights,
        activations_bytes=needs.activations_bytes,
        device=device,
    )
    if capacity_bytes is None:
        return plan
    usable = capacity_bytes * utilization
    free = usable - weights - needs.activations_bytes
    left = room(
        spec, precisions, free_bytes=free, batch_size=batch_size, context=context, policy=policy
    )
    return msgspec.structs.replace(plan, usable_bytes=usable, room=left)
