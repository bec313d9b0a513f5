"""What NPUs attain of language models: fitted constants; see `language`."""

from __future__ import annotations

import msgspec


class PhaseRange(msgspec.Struct, frozen=True, kw_only=True):
    """How far measured times lie from predicted ones of one phase.

    Attributes:
        low: Lower end of measured / predicted.
        high: Upper end.
        confidence: ``medium`` or ``low``.
        rows: Measured runs behind it.
        error: Mean absolute error on models, or chips, that were not fitted, 1; None without any.
    """

    low: float
    high: float
    confidence: str
    rows: int
    error: float | None = None


class LanguageRates(msgspec.Struct, frozen=True, kw_only=True):
    """What a chip, or a class of chips, attains under a runtime for language models.

    Of a chip the rates themselves are kept, so that a datasheet without a bandwidth or a peak is no
    obstacle; of a class, the shares of them.

    Attributes:
        runtime: Id of the runtime.
        match: Patterns of the devices, as in `Runtime.runs_on`.
        formats: In which weights were stored; wider ones are read at the same rate.
        byte_per_s: Rate at which weights and caches are read; None for a class.
        cache_byte_per_s: Rate at which attention reads caches, where it was told from that of
            weights; None: the same.
        memory: Share of the bandwidth that this is; None where a rate is given.
        flop_per_s: Rate of GEMMs by the format in which weights are stored.
        compute: Share of the int8 peak that this is, likewise; of a class.
        start_s: Start of an op.
        prompt_start_s: What a GEMM of more than one row takes to start beyond that.
        attention_flop_per_s: Rate of attention; None: that of GEMMs, as prompts are short.
        decode: Of steps that make one token.
        prompts: Of prompts; None where none were measured.
        tokens: Of the longest prompt measured.
        beyond: Factor on the upper end for longer prompts.
        models: Different models behind it.
        why: For the reader.
        source: Of the measurements.
    """

    runtime: str
    match: tuple[str, ...]
    formats: tuple[str, ...]
    byte_per_s: float | None = None
    cache_byte_per_s: float | None = None
    memory: float | None = None
    flop_per_s: dict[str, float] = {}
    compute: dict[str, float] = {}
    start_s: float
    prompt_start_s: float = 0.0
    attention_flop_per_s: float | None = None
    decode: PhaseRange
    prompts: PhaseRange | None = None
    tokens: int = 0
    beyond: float = 1.0
    models: int
    why: str
    source: str


class LanguageBasis(msgspec.Struct, frozen=True, kw_only=True):
    """What the prediction of one op rests on.

    Attributes:
        start_s: Start of the op.
        low: Lower end of measured / predicted.
        high: Upper end.
        confidence: ``medium`` or ``low``.
        why: For the reader.
    """

    start_s: float
    low: float
    high: float
    confidence: str
    why: str
