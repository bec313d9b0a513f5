"""One forward pass: which tokens are new and which are cached, for groups of equal sequences."""

from __future__ import annotations

import msgspec

from gambrel.errors import InputError
from gambrel.llm.dims import is_number, plus, times
from gambrel.workload import Dim, Symbol


class SequenceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Sequences that are at the same point.

    Attributes:
        count: How many.
        new_tokens: Tokens of each that pass the model in this step.
        cached_tokens: Tokens of each whose keys and values are already in the cache.
    """

    count: Dim
    new_tokens: Dim
    cached_tokens: Dim = 0

    @property
    def tokens(self) -> Dim:
        """New tokens of all its sequences."""
        return times(self.count, self.new_tokens)

    @property
    def context(self) -> Dim:
        """Positions that the last new token of a sequence sees, itself included."""
        return plus(self.cached_tokens, self.new_tokens)


class ForwardPass(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One forward pass of a model.

    Linear layers see the tokens of all groups together; attention runs once for each group.

    Attributes:
        groups: What passes.
        outputs: Positions that pass the LM head; None is the last new token of each sequence.
        encode: Whether encoders run (a prompt with images or audio, an encoder-decoder model).
        source: Tokens a sequence that a text encoder reads or has read.
        symbols: Sizes that were left open, where counts are polynomials in them.
        label: What the step is called in reports: ``"prefill"``, ``"decode"``, ...
        mtp: Whether the multi-token-prediction layers run.
    """

    groups: tuple[SequenceGroup, ...]
    outputs: Dim | None = None
    encode: bool = False
    source: Dim = 0
    symbols: tuple[Symbol, ...] = ()
    label: str = "step"
    mtp: bool = False

    def __post_init__(self) -> None:
        if not self.groups:
            raise InputError("a step needs at least one group of sequences.")
        for group in self.groups:
            for name, least in (("count", 1), ("new_tokens", 1), ("cached_tokens", 0)):
                value = getattr(group, name)
                if is_number(value) and value < least:
                    raise InputError(f"{name}={value}: a step takes at least {least}.")

    @property
    def tokens(self) -> Dim:
        """Tokens that pass the linear layers."""
        return plus(*(group.tokens for group in self.groups))

    @property
    def sequences(self) -> Dim:
        """Sequences in the step."""
        return plus(*(group.count for group in self.groups))

    @property
    def head_tokens(self) -> Dim:
        """Positions that pass the LM head."""
        return self.sequences if self.outputs is None else self.outputs


def prefill(batch_size: Dim, seq: Dim, cached: Dim = 0, *, encode: bool = False) -> ForwardPass:
    """Prompts of ``seq`` new tokens, behind ``cached`` tokens whose keys are there already.

    Args:
        batch_size: Sequences.
        seq: New tokens of each.
        cached: Tokens of a shared prefix or of earlier chunks.
        encode: Whether encoders run as well.
    """
    group = SequenceGroup(count=batch_size, new_tokens=seq, cached_tokens=cached)
    return ForwardPass(groups=(group,), label="prefill", encode=encode)


def decode(batch_size: Dim, context: Dim) -> ForwardPass:
    """One new token a sequence.

    Args:
        batch_size: Sequences.
        context: Tokens that the new one attends to, itself included.
    """
    group = SequenceGroup(count=batch_size, new_tokens=1, cached_tokens=plus(context, -1))
    return ForwardPass(groups=(group,), label="decode")


def verify(batch_size: Dim, context: Dim, drafted: int) -> ForwardPass:
    """Checks ``drafted`` tokens a sequence and adds one: the target's step of speculation.

    Args:
        batch_size: Sequences.
        context: Tokens before the step's first new one, that one included.
        drafted: Tokens that a draft proposes.
    """
    new = drafted + 1
    group = SequenceGroup(count=batch_size, new_tokens=new, cached_tokens=plus(context, -1))
    return ForwardPass(groups=(group,), outputs=times(batch_size, new), label="verify")


def chunks(seq: int, chunk: int, batch_size: int = 1, cached: int = 0) -> tuple[ForwardPass, ...]:
    """A prompt prefilled in chunks: one step a chunk, each behind those before it.

    Args:
        seq: Tokens of the prompt that are not cached.
        chunk: Most tokens per step.
        batch_size: Sequences.
        cached: Tokens of a prefix that are there already.
    """
    if chunk < 1:
        raise InputError(f"chunk={chunk}: a chunk has at least 1 token.")
    return tuple(
        prefill(batch_size, min(chunk, seq - start), cached + start)
        for start in range(0, seq, chunk)
    )


def mixed(decoding: int, context: int, chunk: int, cached: int = 0) -> ForwardPass:
    """Sequences that decode, and a chunk of one prompt in the same step.

    Args:
        decoding: Sequences that add one token.
        context: Tokens that each of these attends to.
        chunk: New tokens of the prompt.
        cached: Tokens of the prompt that are there already.
    """
    first = SequenceGroup(count=decoding, new_tokens=1, cached_tokens=context - 1)
    second = SequenceGroup(count=1, new_tokens=chunk, cached_tokens=cached)
    return ForwardPass(groups=(first, second), label="mixed")
