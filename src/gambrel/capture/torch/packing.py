"""Packed sequences: padding taken out before a recurrent layer and put back after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import torch

from gambrel.capture.torch.patching import put
from gambrel.capture.torch.semantic import Node, muted

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

_SENTENCE: Final = "packed sequences have their full length"


def packed_sequences(stack: ExitStack, session: Session) -> None:
    """Replaces the functions behind ``torch.nn.utils.rnn`` that read lengths on the CPU."""
    if session.options.execute:
        return
    put(stack, torch._VF, "_pack_padded_sequence", _packer(session))
    put(stack, torch._VF, "_pad_packed_sequence", _padder(session))


def _packer(session: Session) -> Callable[..., Any]:
    def pack_padded_sequence(padded: Any, lengths: Any, batch_first: bool) -> Any:
        batch, steps = padded.shape[:2] if batch_first else padded.shape[1::-1]
        known = _values(session, lengths)
        if known is None:
            session.assumptions.add(_SENTENCE, session.scopes.path)
            known = [steps] * batch
        batch_sizes = [sum(n > t for n in known) for t in range(max(known))]
        shape = (sum(known), *padded.shape[2:])
        return _moved(session, "pack_padded_sequence", padded, shape), _host(session, batch_sizes)

    return pack_padded_sequence


def _padder(session: Session) -> Callable[..., Any]:
    def pad_packed_sequence(
        data: Any, batch_sizes: Any, batch_first: bool, _value: float, total_length: int
    ) -> Any:
        sizes = _values(session, batch_sizes) or [data.shape[0]]
        steps = max(len(sizes), total_length)
        shape = (sizes[0], steps) if batch_first else (steps, sizes[0])
        lengths = [sum(n > i for n in sizes) for i in range(sizes[0])]
        padded = _moved(session, "pad_packed_sequence", data, (*shape, *data.shape[1:]))
        return padded, _host(session, lengths)

    return pad_packed_sequence


def _host(session: Session, values: list[int]) -> Any:
    """A tensor that stays on the CPU, where torch keeps the sizes of packed sequences."""
    with muted(session):
        return torch.tensor(values)


def _values(session: Session, tensor: Any) -> list[int] | None:
    """The integers in a tensor, where they are known."""
    with muted(session):
        if not tensor.is_meta:
            return [int(n) for n in tensor.tolist()]
        value = session.twins.value(tensor)
        return None if value is None else [int(n) for n in value.tolist()]


def _moved(session: Session, name: str, source: Any, shape: tuple[int, ...]) -> Any:
    """One copy between the padded and the packed layout, in backward the other way round."""

    def empty(source: Any) -> tuple[Any, ...]:
        return (source.new_empty(shape),)

    node = Node(
        session=session,
        name=f"torch.{name}",
        kind="copy",
        sizes={},
        attrs={"function": "pad"},
        empty=empty,
        compute=empty,
        backward_kind="copy",
    )
    return node((source,))[0]
