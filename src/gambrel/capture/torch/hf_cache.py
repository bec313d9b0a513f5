"""What a server keeps of each sequence, allocated and filled: a decode step writes its own part.

Attention layers keep keys and values of each token (those of a window, if they have one), and
indexers one key more; recurrences keep states of a fixed size. Which layers do which is
transformers' own table; the shapes are learned from one step over a single token.

Import this only after `gambrel.capture.torch.shim.ensure_torchvision`: it imports transformers.
"""

from __future__ import annotations

from typing import Any, Final, Self

import torch
from transformers import cache_utils
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

from gambrel.capture.torch import capture
from gambrel.errors import CaptureError

#: Layers with states of a fixed size; nothing before transformers 5.3.
_Recurrent: Final[Any] = getattr(cache_utils, "LinearAttentionLayer", object)


class _Attention(CacheLayerMixin):  # type: ignore[misc]  # transformers is untyped here
    """Keys and values of ``length`` tokens, the last one new, or of the newest ``window``."""

    is_compileable = False

    def __init__(self, length: int, window: int | None) -> None:
        super().__init__()
        self.length = length
        self.held = length if window is None else min(length, window)
        self.is_sliding = window is not None
        self.sliding_window = window
        self.is_initialized = True

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        """Nothing to do: it is allocated."""

    def allocate(self, learned: Any, batch: int) -> None:
        """Takes the shapes of a layer that saw one token."""
        self.keys, self.values = (
            _empty((batch, t.shape[1], self.held, t.shape[3]), t)
            for t in (learned.keys, learned.values)
        )
        indexer = getattr(learned, "indexer_keys", None)
        if indexer is not None:
            self.indexer_keys = _empty((batch, self.length, indexer.shape[2]), indexer)

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
        """Writes the new row in place and gives the whole."""
        self.keys[..., self.held - 1 :, :] = key_states
        self.values[..., self.held - 1 :, :] = value_states
        return self.keys, self.values

    def update_indexer(self, indexer_key_states: Any) -> Any:
        """The same for the keys of an indexer."""
        self.indexer_keys[:, self.length - 1 :] = indexer_key_states
        return self.indexer_keys

    def get_mask_sizes(self, _: Any) -> tuple[int, int]:
        """Tokens to attend to, and the first of them."""
        return self.held, self.length - self.held

    def get_seq_length(self) -> int:
        """Tokens that were there before."""
        return self.length - 1

    def get_max_length(self) -> int:
        """Tokens that there is room for."""
        return self.length

    get_max_cache_shape = get_max_length  # its name before transformers 5


class _Both(_Attention, _Recurrent):  # type: ignore[misc]
    """A layer that has attention and a recurrence side by side."""

    is_compileable = False

    def __init__(self, length: int, window: int | None, count: int) -> None:
        _Recurrent.__init__(self, number_of_states=count)
        _Attention.__init__(self, length, window)


class _Probe(DynamicCache):  # type: ignore[misc]
    """A cache that a capture fills and does not copy."""

    def __deepcopy__(self, _: Any) -> Self:
        return self


def learned_cache(model: Any, inputs: dict[str, Any], name: str) -> Any:
    """A cache after one step over a single token: its layers know what they keep.

    Args:
        model: The module.
        inputs: Keyword arguments of the step, without the cache.
        name: What the model calls its cache.

    Raises:
        CaptureError: The step fails, or the model keeps nothing that transformers' caches hold.
    """
    try:
        cache = _Probe(config=model.config)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CaptureError(
            f"{type(model).__name__} has a cache of its own kind ({error}), whose decode step "
            "cannot be captured. Use --phase prefill."
        ) from None
    capture(model, (), {**inputs, name: cache}, source=False)
    if not any(_keeps_tokens(layer) or _keeps_states(layer) for layer in cache.layers):
        raise CaptureError(
            f"{type(model).__name__} left nothing in its cache; its decode step cannot be "
            "captured. Use --phase prefill."
        )
    return cache


def _keeps_tokens(layer: Any) -> bool:
    return getattr(layer, "keys", None) is not None


def _keeps_states(layer: Any) -> bool:
    if _Recurrent is object or not isinstance(layer, _Recurrent):
        return False
    kept = (*layer.conv_states.values(), *layer.recurrent_states.values())
    return any(state is not None for state in kept)


def allocated_cache(learned: Any, batch: int, length: int) -> Any:
    """A cache of ``length`` tokens for each of ``batch`` sequences, all but the last there."""
    return Cache(layers=[_allocated(layer, batch, length) for layer in learned.layers])


def _allocated(learned: Any, batch: int, length: int) -> Any:
    if type(learned).__module__ != cache_utils.__name__:
        raise CaptureError(
            f"the model keeps its past in layers of its own kind ({type(learned).__name__}), "
            "whose decode step cannot be captured. Use --phase prefill."
        )
    tokens, states = _keeps_tokens(learned), _keeps_states(learned)
    if not tokens and not states:
        return learned  # shares what another layer keeps, or keeps nothing
    window = getattr(learned, "sliding_window", None)
    if not states:
        layer: Any = _Attention(length, window)
    elif not tokens:
        layer = _Recurrent(number_of_states=learned.number_of_states)
    else:
        layer = _Both(length, window, learned.number_of_states)
    if tokens:
        layer.allocate(learned, batch)
    if states:
        _fill(layer, learned, batch)
    return layer


def _fill(layer: Any, learned: Any, batch: int) -> None:
    """Gives a recurrent layer states of the learned shapes, as earlier steps leave them."""
    for number in range(learned.number_of_states):
        for kind in ("conv", "recurrent"):
            state = getattr(learned, f"{kind}_states")[number]
            if state is not None:
                getattr(layer, f"{kind}_states")[number] = _empty((batch, *state.shape[1:]), state)
                getattr(layer, f"is_{kind}_states_initialized")[number] = True
        layer.conv_kernel_size[number] = learned.conv_kernel_size[number]
        layer.has_previous_state[number] = True


def _empty(shape: tuple[int, ...], like: Any) -> Any:
    return torch.empty(shape, dtype=like.dtype, device="meta")
