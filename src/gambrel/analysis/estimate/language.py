"""Expected times of language models on NPUs, of which only whole steps were measured.

Each op starts, then the slower of memory and GEMM decides:

    t = start + [GEMM of several rows] · prompt start + max(bytes / rate, FLOP / rate)

A step that makes one token reads every weight once: its time is a rate of bytes and a start for
each op. A prompt multiplies them by many rows: its GEMMs run at a rate that depends on the format
in which the weights are stored, and take longer to start.

Constants that were fitted to networks of convolutions say nothing of either: `for_language` marks
or drops them.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from gambrel import roofline
from gambrel.analysis.estimate.constants import Calibration, packaged
from gambrel.analysis.estimate.language_constants import LanguageBasis, LanguageRates, PhaseRange
from gambrel.analysis.estimate.shares import OpsEstimator
from gambrel.analysis.estimate.tiled_constants import TiledConstants
from gambrel.analysis.measures import Limiter
from gambrel.analysis.roofs import Roofs
from gambrel.dtypes import BITS
from gambrel.ops import Cost, OpView
from gambrel.ops.base import Engine, Size, holds, is_zero, total
from gambrel.roofline import maximum
from gambrel.runtimes import Runtime, matches

_UNSEEN: Final = "none of them was a language model"
_LONGER: Final = "the longest prompt measured had {} tokens"
#: Rows of a GEMM from which on it is a prompt's, not a step's that makes one token.
_SEVERAL: Final = 2
_WHOLE: Final = 16
ATTENTION: Final = "attention"


def language_estimator(
    runtime: Runtime, roofs: Roofs, calibration: Calibration
) -> OpsEstimator | None:
    """What predicts phases of language models on an NPU; None where nothing was measured.

    Args:
        runtime: Whose kernels run.
        roofs: Of the chip.
        calibration: All constants.
    """
    mine = (c for c in calibration.language if c.runtime == runtime.id)
    known = next((c for c in mine if matches(c.match, roofs.device)), None)
    rates = None if known is None else _rates_on(known, roofs)
    if rates is None:
        return None

    def work(view: OpView, cost: Cost) -> tuple[Size, LanguageBasis] | None:
        return _work(view, cost, rates)

    def limiter(view: OpView, cost: Cost) -> Limiter:
        found = _parts(view, cost, rates)
        return Limiter.COMPUTE if found[1] > found[0] else Limiter.MEMORY

    return OpsEstimator(work, limiter=limiter)


def rows_of(view: OpView, cost: Cost) -> Size:
    """By how many rows the weights of an op are multiplied; 0 without weights or products."""
    weights = total(t.elements for t in view.inputs if t.role == "weight")
    flops = gemm_flops(cost)
    return 0 if is_zero(weights) or is_zero(flops) else flops / (2 * weights)


def gemm_flops(cost: Cost) -> Size:
    """FLOP of matrix work of an op."""
    return total(n for (engine, _), n in cost.work.items() if engine is Engine.MATRIX)


def stored_format(view: OpView) -> str | None:
    """In which format the weights of an op are stored; None without any."""
    return next((t.dtype for t in view.inputs if t.role == "weight"), None)


def for_language(calibration: Calibration, runtime: Runtime) -> Calibration:
    """The constants as they hold for phases of language models.

    Those that were fitted to other networks are of low confidence there, and dropped where the
    runtime says that they contradict what was published. A user's own stay as they are.

    Args:
        calibration: All constants.
        runtime: Whose are asked for.
    """
    known = {id(c) for c in packaged().tiled}
    names = runtime.constants
    if runtime.networks_only:
        return replace(
            calibration,
            tiled=tuple(c for c in calibration.tiled if not _is_ours(c, names, known)),
            tiled_classes=tuple(c for c in calibration.tiled_classes if c.runtime not in names),
            streams=tuple(c for c in calibration.streams if c.runtime not in names),
        )
    judged = (_unsure(c) if _is_ours(c, names, known) else c for c in calibration.tiled)
    return replace(calibration, tiled=tuple(judged))


def _is_ours(c: TiledConstants, names: tuple[str, ...], known: set[int]) -> bool:
    return c.runtime in names and id(c) in known


def _unsure(c: TiledConstants) -> TiledConstants:
    note = f"{c.note}; {_UNSEEN}" if c.note else _UNSEEN
    return replace(c, confidence="low", note=note)


def _rates_on(known: LanguageRates, roofs: Roofs) -> LanguageRates | None:
    """The constants with the rates of a device filled in; None where its datasheet has too few."""
    if known.byte_per_s is not None:
        return known
    if known.memory is None or not roofs.memory_byte_per_s or roofs.off_chip_only:
        return None
    peak = roofs.engine_roof("matrix", "int8")
    shares = {} if peak is None else known.compute
    return replace(
        known,
        byte_per_s=known.memory * roofs.memory_byte_per_s,
        flop_per_s={f: share * peak.flop_per_s for f, share in shares.items() if peak is not None},
    )


def _work(view: OpView, cost: Cost, known: LanguageRates) -> tuple[Size, LanguageBasis] | None:
    """Seconds of an op without its start, and what they rest on; None where that is not known."""
    stored = stored_format(view)
    narrow = stored is not None and BITS.get(stored, _WHOLE) < _WHOLE
    if narrow and stored not in known.formats and view.kind != "embedding":
        return None
    seconds = maximum(*_parts(view, cost, known))
    rows = rows_of(view, cost)
    if stored is None or not holds(rows >= _SEVERAL):
        return seconds, _attained(known, known.decode)
    if stored not in known.flop_per_s or known.prompts is None:
        return None
    return seconds, _of_prompt(known, known.prompts, longer=holds(rows > known.tokens))


def _parts(view: OpView, cost: Cost, known: LanguageRates) -> tuple[Size, Size]:
    """Seconds of an op's traffic and of its GEMM; a single row of one costs its traffic alone."""
    cache = known.cache_byte_per_s if view.kind == ATTENTION else None
    moved = roofline.seconds(cost.read_bytes + cost.write_bytes, cache or known.byte_per_s or 0.0)
    stored = stored_format(view)
    if stored is None:  # attention, and what works on activations alone
        rate = known.attention_flop_per_s or min(known.flop_per_s.values(), default=None)
    else:
        rate = known.flop_per_s.get(stored) if holds(rows_of(view, cost) >= _SEVERAL) else None
    return moved, 0.0 if rate is None else roofline.seconds(gemm_flops(cost), rate)


def _attained(known: LanguageRates, span: PhaseRange) -> LanguageBasis:
    return LanguageBasis(
        start_s=known.start_s,
        low=span.low,
        high=span.high,
        confidence=span.confidence,
        why=known.why,
    )


def _of_prompt(known: LanguageRates, span: PhaseRange, *, longer: bool) -> LanguageBasis:
    found = replace(_attained(known, span), start_s=known.start_s + known.prompt_start_s)
    if not longer:
        return found
    return replace(
        found,
        high=span.high * known.beyond,
        confidence="low",
        why=f"{known.why}; {_LONGER.format(known.tokens)}",
    )
