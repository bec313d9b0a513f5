"""Pictures of a language model: intensity over batch and context, time by layer type, cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec.structs import replace

from gambrel.analysis.result import Analysis, OpResult
from gambrel.analysis.settings import Settings
from gambrel.analysis.sweep import sweep
from gambrel.dtypes import BITS
from gambrel.errors import GambrelError, InputError
from gambrel.llm.build import build
from gambrel.llm.kv import Growth, growth
from gambrel.llm.recipe import Recipe, recipe_of
from gambrel.llm.sharded import as_run
from gambrel.llm.spec import LatentAttention, mixers_of
from gambrel.llm.step import decode, prefill
from gambrel.report.answers import Pictures
from gambrel.report.options import Options
from gambrel.report.picture import (
    Axis,
    Bar,
    Bars,
    Chart,
    Curve,
    Picture,
    ReferenceLine,
    formatted,
    limit_keys,
)
from gambrel.workload import Symbol

#: Batches of the curves.
BATCHES: Final = tuple(2**i for i in range(11))
#: Batches of the curves of the cache.
CACHE_BATCHES: Final = (1, 8, 32, 128)
_CONTEXTS: Final = (512, 4096, 32_768, 131_072)
_DECODE: Final = "decode"


def pictures(analysis: Analysis) -> tuple[Picture, ...]:
    """The pictures of an analysis; none for a model that was not made in closed form.

    Args:
        analysis: With its workload.
    """
    recipe = recipe_of(analysis.workload)
    if recipe is None or not recipe.spec.causal:
        return ()
    found: list[Picture | None] = [_intensity(analysis, recipe), time_by_layer(analysis)]
    found.append(_cache(analysis, recipe))
    return tuple(p for p in found if p is not None)


def drawn(record: Pictures, _options: Options) -> tuple[Picture, ...]:
    """The pictures of a record.

    Raises:
        InputError: The model is no language model in closed form.
    """
    found = pictures(record.analysis)
    if not found:
        raise InputError(
            f"{record.analysis.model.name}: pictures of batch, context and cache are there for "
            "language models given as config.json, as a folder with one, or as .gguf file."
        )
    return found


def _contexts(recipe: Recipe, own: int) -> list[int]:
    """A few contexts up to the model's limit, with the analysis' own among them."""
    limit = recipe.spec.max_context or _CONTEXTS[-1]
    if recipe.phase == _DECODE and not recipe.spec.kv_elements_per_token:
        return [own]
    below = [c for c in _CONTEXTS if c <= limit and not own / 2 < c < own * 2]
    return sorted({*below, own})[:5]


def _reason(recipe: Recipe) -> str:
    """Why the context matters, where it does."""
    mixers = [m for g in recipe.spec.layers for m in mixers_of(g.layer)]
    if any(isinstance(m, LatentAttention) for m in mixers):
        return (
            " All heads read one latent cache, so attention itself has a high intensity: a longer "
            "context raises that of a small batch."
        )
    if not recipe.spec.kv_elements_per_token:
        return " Recurrent state does not grow with the context."
    return (
        " Attention reads a cache of its own for every sequence: the longer it is, the less a "
        "larger batch helps."
    )


def _own(analysis: Analysis) -> tuple[int, int]:
    """Batch, and tokens of the context or prompt."""
    sizes = analysis.model.symbols
    return sizes.get("batch", 1), sizes.get("context", sizes.get("seq", 1))


def _intensity(analysis: Analysis, recipe: Recipe) -> Chart | None:
    """Whole-step intensity: at which batch a step leaves the memory roof, and for which context.

    A file's widths are not in the recipe, so the curves of such a model would be another's.
    """
    ridge = analysis.total.ridge_point
    batch, own = _own(analysis)
    if recipe.stored or recipe.edited or not ridge or not analysis.total.arithmetic_intensity:
        return None
    words = "cached tokens" if recipe.phase == _DECODE else "tokens per prompt"
    try:
        curves = tuple(
            Curve(
                name=f"{formatted(context, 'count')} tokens",
                points=tuple(_points(analysis, recipe, context)),
                color=i,
            )
            for i, context in enumerate(_contexts(recipe, own))
        )
    except GambrelError:
        return None  # e.g. a device without a memory roof of its own
    return Chart(
        title=f"Intensity against batch and context, {recipe.phase or 'forward'}",
        about=f"Work over traffic of one whole step; one curve for each number of {words}. Above "
        f"the ridge a step is limited by arithmetic, below it by memory.{_reason(recipe)}",
        x=Axis(title="batch: sequences at once"),
        y=Axis(title="FLOP/byte", unit="FLOP/byte"),
        curves=curves,
        levels=(ReferenceLine(name="ridge", value=ridge),),
        mark=(batch, analysis.total.arithmetic_intensity),
    )


def _points(analysis: Analysis, recipe: Recipe, tokens: int) -> Iterator[tuple[float, float]]:
    step = decode("batch", tokens) if recipe.phase == _DECODE else prefill("batch", tokens)
    step = replace(step, symbols=(Symbol(name="batch", default=1),))
    spec, as_code = as_run(recipe.spec, recipe.layers), recipe.layers == "code"
    workload = build(spec, step, recipe.precisions, as_code=as_code)
    asked = analysis.model.precision
    mixed = analysis.workload is not None and bool(analysis.workload.precisions)
    precision = workload.dtype if mixed or asked not in BITS else asked
    settings = Settings(
        runtime=analysis.runtime, sparsity=analysis.sparsity, engine=analysis.engine or None
    )
    devices, sizes = [analysis.hardware], {"batch": BATCHES}
    found = sweep(workload, devices, [precision], sizes, settings, times_only=True)
    ratio = found.flops / np.maximum(found.traffic_bytes, 1)
    return ((float(b), float(r)) for b, r in zip(BATCHES, ratio, strict=True))


#: Scores and the choice among them, which a mixture has beside the router's product.
_ROUTING: Final = frozenset({"softmax", "sort"})
_STAR: Final = re.compile(r"^[^.]*\.\*\.?")


def layer_type(op: OpResult) -> str:
    """What part of a layer an op is: ``attention``, ``feed_forward``, a norm, the head, ..."""
    inner = _STAR.sub("", op.module)
    first, _, rest = inner.partition(".")
    if op.kind == "attention":
        return "attention over the cache"
    if op.kind == "collective":
        return "communication"
    if first == "attention":
        return "attention projections"
    if first == "feed_forward":
        part = rest.partition(".")[0]
        if op.kind in _ROUTING:
            return "router"
        return {"experts": "experts", "router": "router", "shared_expert": "shared expert"}.get(
            part, "feed-forward"
        )
    if op.kind == "normalization" or first.endswith("norm"):
        return "norms and residuals"
    return (first or "residual additions").replace("_", " ")


def time_by_layer(analysis: Analysis) -> Bars | None:
    """Bound and expected time by part of a layer; None where no bound is known."""
    bound: dict[str, float] = {}
    expected: dict[str, float] = {}
    limits: dict[str, dict[str, float]] = {}
    known = True
    for op in analysis.ops:
        name, time = layer_type(op), op.measures.roofline_time_s or 0.0
        bound[name] = bound.get(name, 0.0) + time
        estimate = op.measures.expected_time_s
        known = known and estimate is not None
        expected[name] = expected.get(name, 0.0) + (estimate.value if estimate else 0.0)
        if op.measures.bound is not None:
            by = limits.setdefault(name, {})
            by[op.measures.bound.value] = by.get(op.measures.bound.value, 0.0) + time
    if not any(bound.values()):
        return None
    names = sorted(bound, key=lambda n: -(expected[n] if known else bound[n]))
    rows = tuple(
        Bar(
            name=n,
            values=(bound[n], expected[n]) if known else (bound[n],),
            color=_largest(limits.get(n, {})),
        )
        for n in names
    )
    return Bars(
        title="Time by layer type",
        about="All layers together; coloured by what limits most of the roofline time.",
        unit="s",
        series=("roofline", "expected") if known else ("roofline",),
        rows=rows,
        legend=limit_keys(rows),
    )


def _largest(times: dict[str, float]) -> str:
    """The bound that most of the time is spent in; empty when none is known."""
    return max(times, key=lambda name: times[name], default="")


def _cache(analysis: Analysis, recipe: Recipe) -> Chart | None:
    """Weights and cache over the context, for a few batches, against the capacity."""
    footprint = analysis.footprint
    batch, own = _own(analysis)
    limit = recipe.spec.max_context or 131_072
    contexts = sorted({2**i for i in range(7, 21) if 2**i <= limit} | {min(own, limit), limit})
    batches = sorted({*(b for b in CACHE_BATCHES if not batch / 2 < b < batch * 2), batch})
    found = growth(recipe.spec, recipe.precisions, batches=batches, contexts=contexts)
    if not any(found.logical_bytes[0]):
        return None
    weights = float(footprint.weights_bytes)
    levels = [ReferenceLine(name="weights", value=weights)] if weights else []
    if footprint.capacity_bytes:
        levels.append(ReferenceLine(name="capacity", value=float(footprint.capacity_bytes)))
    own_bytes = (
        weights + found.allocated_bytes[batches.index(batch)][contexts.index(min(own, limit))]
    )
    return Chart(
        title="Weights and cache against capacity",
        about="Memory for weights and the keys, values and states of all sequences; one curve for "
        "each batch. Solid: as engines reserve it, in pages of 16 tokens and full pages for "
        "windowed layers; dashed, where it differs: what is needed.",
        x=Axis(title="context: tokens of each sequence"),
        y=Axis(title="memory", unit="capacity"),
        curves=tuple(_growth_curves(found, weights)),
        levels=tuple(levels),
        mark=(float(min(own, limit)), own_bytes),
    )


def _growth_curves(found: Growth, weights: float) -> Iterator[Curve]:
    for i, batch in enumerate(found.batches):
        allocated = [weights + n for n in found.allocated_bytes[i]]
        logical = [weights + n for n in found.logical_bytes[i]]
        name = f"batch {batch:,}"
        yield Curve(name=name, points=tuple(zip(found.contexts, allocated, strict=True)), color=i)
        if any(a > 1.02 * b for a, b in zip(allocated, logical, strict=True)):
            yield Curve(
                name="",
                points=tuple(zip(found.contexts, logical, strict=True)),
                style="dashed",
                color=i,
            )
