"""The cache of keys and values, and recurrent state: what a model needs, and what engines reserve.

*Logical* bytes are those that attention reads: a layer with a window needs its newest positions
only. *Allocated* bytes are what an engine reserves: caches come in pages of equal size, of which
the last is rarely full, and many engines give a windowed layer as many pages as a full one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from gambrel.dtypes import width_bytes
from gambrel.errors import InputError
from gambrel.llm.mixers import (
    INDEXER_FORMAT,
    LinearAttention,
    SelectiveScan,
    ShortConvolution,
    StateSpaceDual,
)
from gambrel.llm.precision import Precisions
from gambrel.llm.sharding import Sharding, kv_heads_of_rank
from gambrel.llm.spec import Attention, LatentAttention, LayerGroup, Mixer, ModelSpec, mixers_of
from gambrel.runtimes.model import MEMORY_SHARE

#: How pages of windowed layers are reserved: as many as a full layer has, or those of the window.
Windowed: TypeAlias = Literal["full", "window"]
#: Name of the part that holds recurrent states.
STATE: Final = "state"
#: Mixers that keep a state.
Recurrent: TypeAlias = SelectiveScan | StateSpaceDual | LinearAttention | ShortConvolution
#: Share of a device's memory that an engine takes.
UTILIZATION: Final = MEMORY_SHARE


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine reserves cache.

    Attributes:
        page: Tokens of a page (vLLM calls it a block, 16 by default).
        windowed: ``"full"`` reserves pages for the whole context in windowed layers too, as an
            engine with one page table for all layers does; ``"window"`` those that the window
            can touch.

    Raises:
        InputError: A page below one token, or another word.
    """

    page: int = 16
    windowed: Windowed = "full"

    def __post_init__(self) -> None:
        if type(self.page) is not int or not 1 <= self.page <= 2**20:
            raise InputError(f"page={self.page!r}: a page holds 1 to {2**20:,} tokens.")
        if self.windowed not in ("full", "window"):
            raise InputError(f"windowed={self.windowed!r}: use 'full' or 'window'.")

    def tokens(self, context: int, reach: int | None) -> int:
        """Tokens that are reserved for one sequence in one layer.

        Args:
            context: Tokens of the sequence.
            reach: Positions that the layer looks back to; None is all.
        """
        if reach is None or self.windowed == "full" or context <= reach:
            return _pages(context, self.page) * self.page
        # A window that is not aligned to the pages touches one more than it fills.
        return min(_pages(reach, self.page) + 1, _pages(context, self.page)) * self.page


class CachePart(msgspec.Struct, frozen=True, kw_only=True):
    """Layers whose caches are alike, for all sequences.

    Attributes:
        name: What they are, e.g. ``"attention"``, ``"window 4096"``, ``"latent"``, ``"state"``.
        layers: How many, on one device.
        bytes_per_token: What one token adds to one of them; 0 for a state.
        tokens: Tokens of a sequence that are needed; 0 for a state.
        allocated_tokens: Tokens of a sequence that are reserved; 0 for a state.
        logical_bytes: Needed, all layers and sequences.
        allocated_bytes: Reserved, all layers and sequences.
    """

    name: str
    layers: int
    bytes_per_token: float
    tokens: int
    allocated_tokens: int
    logical_bytes: float
    allocated_bytes: float


class KvCache(msgspec.Struct, frozen=True, kw_only=True):
    """What one device keeps of the sequences that it serves.

    Attributes:
        model: Its name.
        batch: Sequences on this device.
        context: Tokens of each.
        precision: Format of keys and values.
        policy: How pages are reserved.
        parts: By kind of layer.
    """

    model: str
    batch: int
    context: int
    precision: str
    policy: Policy
    parts: tuple[CachePart, ...]

    @property
    def logical_bytes(self) -> float:
        """Bytes that are needed."""
        return sum(part.logical_bytes for part in self.parts)

    @property
    def allocated_bytes(self) -> float:
        """Bytes that are reserved."""
        return sum(part.allocated_bytes for part in self.parts)

    @property
    def state_bytes(self) -> float:
        """Bytes of recurrent states, which do not grow with the context."""
        return sum(part.allocated_bytes for part in self.parts if part.name == STATE)

    @property
    def bytes_per_token(self) -> float:
        """What one more token of one sequence needs in the layers that see every position."""
        return sum(p.layers * p.bytes_per_token for p in self.parts if p.tokens >= self.context)


def kv_cache(
    spec: ModelSpec,
    precisions: Precisions,
    *,
    batch_size: int,
    context: int,
    policy: Policy | None = None,
    sharding: Sharding | None = None,
    memory: int | None = None,
) -> KvCache:
    """The cache of ``batch_size`` sequences of ``context`` tokens on one device.

    Args:
        spec: The model.
        precisions: Formats of cache and state.
        batch_size: Sequences that this device serves.
        context: Tokens of each, the one being written included.
        policy: How pages are reserved; None is pages of 16 tokens, full ones for windowed layers.
        sharding: Heads are divided among ``tensor`` devices, layers among stages, tokens among
            ``context`` devices. The device with most layers is described. A latent cache has one
            head and is held by each.
        memory: Tokens of the encoder that cross attention reads; None is the encoder's own
            length, or ``context`` where it has none.

    Raises:
        InputError: No sequence, or no token.
    """
    for name, value in (("batch_size", batch_size), ("context", context)):
        if type(value) is not int or value < 1:
            raise InputError(f"{name}={value!r}: give a whole number of at least 1.")
    policy, sharding = policy or Policy(), sharding or Sharding()
    own = -(-context // sharding.context)
    counter = _Counter(precisions=precisions, batch=batch_size, policy=policy, sharding=sharding)
    seen = _memory_tokens(spec, context) if memory is None else memory
    merged: dict[tuple[str, float], CachePart] = {}
    for group in spec.layers:
        for part in counter.parts(group, own, seen):
            key = (part.name, part.bytes_per_token)
            merged[key] = _joined(merged[key], part) if key in merged else part
    return KvCache(
        model=spec.name,
        batch=batch_size,
        context=context,
        precision=precisions.of("kv_cache"),
        policy=policy,
        parts=tuple(merged.values()),
    )


class _Counter(msgspec.Struct, frozen=True, kw_only=True):
    """Counts the cache of one group of layers after the other."""

    precisions: Precisions
    batch: int
    policy: Policy
    sharding: Sharding

    def parts(self, group: LayerGroup, context: int, memory: int) -> Iterable[CachePart]:
        layers = -(-group.count // self.sharding.pipeline)
        for mixer in mixers_of(group.layer):
            if isinstance(mixer, (Attention, LatentAttention)):
                yield from self._cached(mixer, layers, context)
            else:
                yield self._state(mixer, layers)
        cross = group.layer.cross
        if cross is not None:
            yield self._tokens("cross attention", layers, self._elements(cross), memory, memory)

    def _cached(
        self, mixer: Attention | LatentAttention, layers: int, context: int
    ) -> Iterable[CachePart]:
        elements = self._elements(mixer)
        if not elements:
            return
        reach = mixer.reach if isinstance(mixer, Attention) else None
        needed = context if reach is None else min(context, reach)
        allocated = self.policy.tokens(context, reach)
        yield self._tokens(_name(mixer), layers, elements, needed, allocated)
        if isinstance(mixer, LatentAttention) and mixer.indexer is not None:
            yield self._tokens(
                "indexer", layers, mixer.indexer.head_dim, context, allocated, INDEXER_FORMAT
            )

    def _elements(self, mixer: Attention | LatentAttention) -> int:
        """Elements that a token adds on one device."""
        if isinstance(mixer, LatentAttention) or not mixer.kv_elements:
            return mixer.kv_elements
        heads = kv_heads_of_rank(mixer.kv_heads, self.sharding.attention_tensor)
        return heads * (mixer.head_dim + mixer.value_dim)

    def _tokens(
        self,
        name: str,
        layers: int,
        elements: int,
        tokens: int,
        allocated: int,
        dtype: str | None = None,
    ) -> CachePart:
        width = elements * width_bytes(dtype or self.precisions.of("kv_cache"))
        rows = self.batch * layers * width
        return CachePart(
            name=name,
            layers=layers,
            bytes_per_token=width,
            tokens=tokens,
            allocated_tokens=allocated,
            logical_bytes=rows * tokens,
            allocated_bytes=rows * allocated,
        )

    def _state(self, mixer: Recurrent, layers: int) -> CachePart:
        split, width = self.sharding.attention_tensor, width_bytes(self.precisions.of("state"))
        each = -(-mixer.state_elements // split) * width
        if isinstance(mixer, LinearAttention):
            kept = width_bytes(self.precisions.state_format(mixer.state_format))
            each += -(-mixer.recurrent_elements // split) * (kept - width)
        nbytes = self.batch * layers * each
        return CachePart(
            name=STATE,
            layers=layers,
            bytes_per_token=0.0,
            tokens=0,
            allocated_tokens=0,
            logical_bytes=nbytes,
            allocated_bytes=nbytes,
        )


def _name(mixer: Mixer) -> str:
    if isinstance(mixer, LatentAttention):
        return "latent"
    reach = mixer.reach if isinstance(mixer, Attention) else None
    if reach is None:
        return "attention"
    return f"{'chunk' if reach == getattr(mixer, 'chunk', None) else 'window'} {reach}"


def _joined(a: CachePart, b: CachePart) -> CachePart:
    return msgspec.structs.replace(
        a,
        layers=a.layers + b.layers,
        logical_bytes=a.logical_bytes + b.logical_bytes,
        allocated_bytes=a.allocated_bytes + b.allocated_bytes,
    )


def _memory_tokens(spec: ModelSpec, context: int) -> int:
    """Tokens of the encoder that cross attention looks at."""
    fronts = [e.front for e in spec.encoders if e.front is not None and e.projector is None]
    return fronts[0].tokens if fronts else context


def _pages(tokens: int, page: int) -> int:
    return -(-tokens // page)


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What fits beside the weights.

    Attributes:
        free_bytes: Bytes left for the cache.
        batch: Most sequences of the context asked for; 0 when not one fits.
        context: Most tokens of a sequence at the batch asked for; 0 when not one fits. At most
            the model's own limit.
        model_limit: The model's own limit of the context; None when it has none.
        sequence_bytes: Allocated by one sequence of the context asked for.
    """

    free_bytes: float
    batch: int
    context: int
    model_limit: int | None
    sequence_bytes: float


def room(
    spec: ModelSpec,
    precisions: Precisions,
    *,
    free_bytes: float,
    batch_size: int,
    context: int,
    policy: Policy | None = None,
    sharding: Sharding | None = None,
) -> Room:
    """The largest batch and the longest context whose allocated cache fits.

    Args:
        spec: The model.
        precisions: Formats.
        free_bytes: Memory that weights and activations leave.
        batch_size: Sequences, for the longest context.
        context: Tokens, for the largest batch.
        policy: How pages are reserved.
        sharding: As for `kv_cache`.
    """

    def allocated(sequences: int, tokens: int) -> float:
        return kv_cache(
            spec,
            precisions,
            batch_size=sequences,
            context=tokens,
            policy=policy,
            sharding=sharding,
        ).allocated_bytes

    one = allocated(1, context)
    most = int(free_bytes // one) if one and free_bytes > 0 else 0
    limit = spec.max_context or _LONGEST
    low, high = 0, limit
    while low < high:  # the cache grows with the context: the last that fits, by halving
        middle = (low + high + 1) // 2
        if allocated(batch_size, middle) <= free_bytes:
            low = middle
        else:
            high = middle - 1
    return Room(
        free_bytes=free_bytes,
        batch=max(most, 0),
        context=low,
        model_limit=spec.max_context,
        sequence_bytes=one,
    )


#: Where a search for the longest context ends when the model has no limit.
_LONGEST = 1 << 30


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Memory over the context, for several batches: one curve each.

    Attributes:
        contexts: Tokens.
        batches: Sequences.
        logical_bytes: For each batch, needed at each context.
        allocated_bytes: For each batch, reserved at each context.
    """

    contexts: tuple[int, ...]
    batches: tuple[int, ...]
    logical_bytes: tuple[tuple[float, ...], ...]
    allocated_bytes: tuple[tuple[float, ...], ...]


def growth(
    spec: ModelSpec,
    precisions: Precisions,
    *,
    batches: Sequence[int],
    contexts: Sequence[int],
    policy: Policy | None = None,
    sharding: Sharding | None = None,
) -> Growth:
    """The cache at every combination; arguments as for `kv_cache`."""
    found = [
        [
            kv_cache(spec, precisions, batch_size=b, context=c, policy=policy, sharding=sharding)
            for c in contexts
        ]
        for b in batches
    ]
    return Growth(
        contexts=tuple(contexts),
        batches=tuple(batches),
        logical_bytes=tuple(tuple(cache.logical_bytes for cache in row) for row in found),
        allocated_bytes=tuple(tuple(cache.allocated_bytes for cache in row) for row in found),
    )
