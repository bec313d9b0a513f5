"""A key-value cache as a server keeps it: allocated, filled, written one row a step.

Import this only after `gambrel.capture.torch.shim.ensure_torchvision`: it imports transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from gambrel.capture.torch import capture
from gambrel.errors import CaptureError


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one layer caches of one token of one sequence.

    Attributes:
        keys: Shape without batch and tokens: heads, width.
        values: The same for values (a multi-head latent attention stores other things here).
        dtype: Of both.
    """

    keys: tuple[int, int]
    values: tuple[int, int]
    dtype: torch.dtype


class _Layer(CacheLayerMixin):  # type: ignore[misc]  # transformers is untyped here
    """What all layers of our caches answer alike: ``length`` tokens, the last one new."""

    is_sliding = False
    is_compileable = False

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length
        self.is_initialized = True

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        """Nothing to do: it is allocated."""

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
        """Writes the new row in place and gives the whole."""
        self.keys[..., self.length - 1 :, :] = key_states
        self.values[..., self.length - 1 :, :] = value_states
        return self.keys, self.values

    def get_mask_sizes(self, _: Any) -> tuple[int, int]:
        """Tokens to attend to, and the first of them."""
        return self.length, 0

    def get_seq_length(self) -> int:
        """Tokens that were there before."""
        return self.length - 1

    def get_max_length(self) -> int:
        """Tokens that there is room for."""
        return self.length

    get_max_cache_shape = get_max_length  # its name before transformers 5


class _Probe(_Layer):
    """Learns what a layer caches, and caches nothing."""

    def __init__(self, index: int, seen: dict[int, Row]) -> None:
        super().__init__(1)

        def note(row: Row) -> None:
            seen[index] = row

        self.note = note  # a function is kept, not copied, when the cache is copied

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
        """Notes the shapes."""
        keys, values = (tuple(t.shape) for t in (key_states, value_states))
        self.note(
            Row(keys=(keys[1], keys[3]), values=(values[1], values[3]), dtype=key_states.dtype)
        )
        return key_states, value_states


def cached_rows(model: Any, inputs: dict[str, Any]) -> tuple[Row, ...]:
    """What each layer of a model caches, learned from one step over a single token.

    Args:
        model: The module.
        inputs: Keyword arguments of the step, without the cache.

    Raises:
        CaptureError: The step fails, or layers keep something else than keys and values.
    """
    layers = model.config.get_text_config(decoder=True).num_hidden_layers
    seen: dict[int, Row] = {}
    cache = Cache(layers=[_Probe(i, seen) for i in range(layers)])
    capture(model, (), {**inputs, "past_key_values": cache}, source=False)
    if len(seen) != layers:
        raise CaptureError(
            f"{type(model).__name__} caches keys and values in {len(seen)} of {layers} layers; "
            "decode of mixed or recurrent models is not supported yet. Use --phase prefill."
        )
    return tuple(seen[i] for i in range(layers))


def allocated_cache(rows: Sequence[Row], batch: int, length: int) -> Any:
    """A cache of ``length`` tokens for each of ``batch`` sequences, all but the last there."""
    layers = []
    for row in rows:
        layer = _Layer(length)
        layer.keys, layer.values = (
            torch.empty((batch, heads, length, width), dtype=row.dtype, device="meta")
            for heads, width in (row.keys, row.values)
        )
        layers.append(layer)
    return Cache(layers=layers)
