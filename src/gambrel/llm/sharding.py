"""How a model is laid out over devices: the degrees of parallelism and what each splits.

`build` describes one device (a *rank*), the busiest one; this record says which share of the model
and of the sequences that device has. Five degrees, which multiply:

========== ====================================== ==========================================
degree     splits                                 costs
========== ====================================== ==========================================
tensor     every matrix of a layer                two all-reduces a layer
pipeline   the layers, into stages                a send between stages; idle stages (bubbles)
data       the sequences, each replica a whole    nothing in inference; gradients in training
context    the tokens of a sequence, and its      a combination of partial attention outputs
           cache
expert     whole experts, within ``tensor``       two all-to-alls a mixture layer
========== ====================================== ==========================================

``attention_data`` runs attention data-parallel inside the ``tensor`` devices (a compressed cache
has one head and cannot be split by heads): the devices form that many groups, each with its own
sequences and cache, and the feed-forward parts still use all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from gambrel.errors import InputError

_LIMIT: Final = 1 << 20


class Sharding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Degrees of parallelism; one device by default.

    Attributes:
        tensor: Devices that share every layer.
        pipeline: Stages, each with its share of the layers.
        data: Replicas, each with its share of the sequences.
        context: Devices that share the tokens (and the cache) of a sequence.
        expert: Groups among which whole experts are divided, within ``tensor``; the devices of a
            group share the width of their experts.
        attention_data: Groups that run attention on sequences of their own, within ``tensor``.

    Raises:
        InputError: A degree below 1, or ``expert`` or ``attention_data`` that does not divide
            ``tensor``.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    attention_data: int = 1

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= _LIMIT:
                raise InputError(
                    f"{name}={value!r}: a degree of parallelism is a whole number from 1 to "
                    f"{_LIMIT:,}."
                )
        for name in ("expert", "attention_data"):
            value = getattr(self, name)
            if self.tensor % value:
                fits = _listed(divisors(self.tensor))
                raise InputError(
                    f"{name}={value} does not divide tensor={self.tensor}, within whose devices it "
                    f"works; with tensor={self.tensor} it may be {fits}."
                )

    @property
    def devices(self) -> int:
        """All devices: tensor x pipeline x data x context."""
        return self.tensor * self.pipeline * self.data * self.context

    @property
    def replica(self) -> int:
        """Devices that together hold the model once: `devices` without ``data``."""
        return self.tensor * self.pipeline * self.context

    @property
    def attention_tensor(self) -> int:
        """Devices that share the heads of attention."""
        return self.tensor // self.attention_data

    @property
    def expert_tensor(self) -> int:
        """Devices that share the width of one expert."""
        return self.tensor // self.expert

    def __str__(self) -> str:
        parts = [
            f"{short}{value}"
            for name, short in SHORT.items()
            if (value := getattr(self, name)) != 1
        ]
        return " ".join(parts) or "1 device"


#: Degree → the abbreviation that tables and options use.
SHORT: Final = {
    "tensor": "TP",
    "pipeline": "PP",
    "data": "DP",
    "context": "CP",
    "expert": "EP",
    "attention_data": "ADP",
}


def kv_heads_of_rank(kv_heads: int, split: int) -> int:
    """Key/value heads on one device: fewer heads than devices are copied, never cut."""
    return max(1, kv_heads // split)


def divisors(n: int) -> tuple[int, ...]:
    """All divisors of ``n``, in order."""
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return tuple(sorted({*small, *(n // d for d in small)}))


def common(values: Iterable[int]) -> tuple[int, ...]:
    """The numbers that divide all ``values``; empty for none."""
    sets = [set(divisors(v)) for v in values]
    return tuple(sorted(set.intersection(*sets))) if sets else ()


def _listed(values: Iterable[int]) -> str:
    found = [str(v) for v in values]
    if len(found) > 8:
        found = [*found[:7], "...", found[-1]]
    return ", ".join(found[:-1]) + " or " + found[-1] if len(found) > 1 else "".join(found)
