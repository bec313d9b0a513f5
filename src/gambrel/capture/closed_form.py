"""The ``config.json`` of a language model as a workload, without torch or transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from gambrel.capture.request import by_part
from gambrel.closest import closest
from gambrel.dtypes import GGUF_MIXES, GGUF_PLAIN, parse_dtype, width_bytes
from gambrel.errors import CaptureError, InputError, UnknownNameError
from gambrel.llm.build import build
from gambrel.llm.config import is_known, read_config
from gambrel.llm.config.read import without_type
from gambrel.llm.dims import times
from gambrel.llm.limits import limits_of
from gambrel.llm.precision import Precisions, is_scheme
from gambrel.llm.recipe import Recipe
from gambrel.llm.sharded import as_kernels, as_run
from gambrel.llm.spec import ModelSpec
from gambrel.llm.step import ForwardPass, decode, prefill
from gambrel.workload import Dim, Symbol, Workload

PREFILL: Final = "prefill"
DECODE: Final = "decode"

#: Sizes when the user says nothing, and what they are.
SYMBOLS: Final[dict[str, Symbol]] = {
    "batch": Symbol(name="batch", default=1, about="sequences or images at once"),
    "seq": Symbol(name="seq", default=2048, about="tokens of the prompt or input"),
    "context": Symbol(
        name="context", default=2048, about="tokens that the new one attends to, itself included"
    ),
    "target": Symbol(name="target", default=128, about="tokens on the decoder's side"),
}


def is_closed_form(config: Any) -> bool:
    """Whether a parsed ``config.json`` can be answered without capturing the model.

    Raises:
        CaptureError: Its ``model_type`` is neither known here nor to an installed transformers.
    """
    if not isinstance(config, Mapping):
        return False
    if is_known(config):
        return True
    model_type = config.get("model_type")
    if not isinstance(model_type, str | None):
        raise CaptureError(without_type(model_type))
    if model_type and not _captured(model_type, config):
        raise _unknown(model_type)
    return False


#: Whose layers run → what is assumed of them.
_LAYERS: Final = {
    "merged": ("q, k, v and gate, up are one GEMM each, as serving engines store them.",),
    "code": ("Norms, rotations, gates and mixtures are the ops of transformers 5, one by one.",),
}
_EXPERTS: Final = "Before version 5 experts ran one after another, up to ten times as long."


def workload_of_config(config: Mapping[str, Any], *, name: str = "", **asked: Any) -> Workload:
    """The workload of one phase of the model that a configuration describes.

    Args:
        config: The content of a ``config.json``.
        name: What to call it; the model type when empty.
        **asked: As for `workload_of_spec`.

    Raises:
        CaptureError: Fields are missing, contradictory or absurd.
        InputError: A phase or size that the model does not have.
        WorkloadError: A size out of range.
    """
    return workload_of_spec(read_config(config, name), **asked)


def workload_of_spec(
    spec: ModelSpec,
    *,
    phase: str | None = None,
    sizes: Mapping[str, int | None] | None = None,
    precision: str | None = None,
    keep_open: bool = False,
    ranges: Mapping[str, tuple[int, int]] = {},
    layers: str = "",
) -> Workload:
    """The workload of one phase of a model.

    Args:
        spec: The model.
        phase: ``"prefill"`` (the default of decoders) or ``"decode"``; None for encoders.
        sizes: Values by symbol that are known already.
        precision: Number formats part by part; see `gambrel.llm.precision`. A single 16-bit or
            wider format is left to the analysis, and so is one that those layers take for all.
        keep_open: Leave sizes open that ``sizes`` does not give, also where windows of attention
            and chosen positions depend on them: a window that a size in its range may or may not
            fill is then taken to hold every position.
        ranges: The least and the greatest value of a size left open; see `gambrel.llm.limits`.
        layers: Whose layers run, as `gambrel.runtimes.Runtime.layers` has it; empty for those of
            an engine in the formats of the checkpoint.

    Raises:
        InputError: A phase or size that the model does not have.
        WorkloadError: A size out of range.
    """
    run = as_run(spec, layers)
    phase = _phase(run, phase)
    numbers = needs_numbers(run)
    step = step_of(run, phase, sizes or {}, fixed=numbers, open_others=keep_open, ranges=ranges)
    # One format for all casts what is in the model's plain one.
    chosen = _precisions(run, by_part(layers, precision) or (precision and run.dtype))
    found = build(run, step, chosen, as_code=layers == "code")
    if layers != "code":
        found = as_kernels(found, chosen)
    if chosen.weights in (*GGUF_MIXES, *GGUF_PLAIN) and not chosen.names("weights"):
        from gambrel.capture.weights.mixes import as_quantized

        found = as_quantized(found, run, chosen.weights)
    plain = chosen.name == found.dtype
    experts = (_EXPERTS,) if layers == "code" and run.mixtures else ()
    return replace(
        found,
        assumptions=(*found.assumptions, *_LAYERS.get(layers, ()), *experts),
        chosen_dtype=run.dtype_given or not plain,
        precisions="" if plain else chosen.name,
        recipe=Recipe(
            spec=spec, precisions=chosen, asked=precision or "", phase=phase, layers=layers
        ).text(),
    )


def step_of(
    spec: ModelSpec,
    phase: str | None,
    sizes: Mapping[str, int | None],
    *,
    fixed: bool,
    open_others: bool = False,
    ranges: Mapping[str, tuple[int, int]] = {},
) -> ForwardPass:
    """The step of a phase, with its symbols.

    Args:
        spec: The model.
        phase: As asked for.
        sizes: Values by symbol, as asked for.
        fixed: Fill the sizes in: windows are no polynomials.
        open_others: But those alone that are asked for.
        ranges: The least and the greatest value of a size left open.

    Raises:
        InputError: A phase or size that the model does not have.
        WorkloadError: A size out of range.
    """
    phase = _phase(spec, phase)
    symbols = {s.name: s for s in symbols_of(spec, phase)}
    given = {name: value for name, value in sizes.items() if value is not None}
    for name, value in given.items():
        if name not in symbols:
            raise InputError(f"this model has no size {name!r}; it has {', '.join(symbols)}.")
        symbols[name].check(value)
    values: dict[str, Dim] = {name: name for name in symbols}
    if fixed:
        filled = {
            name: given.get(name, s.default)
            for name, s in symbols.items()
            if name in given or not open_others
        }
        values |= filled
        symbols = {
            name: replace(s, default=filled[name], minimum=filled[name], maximum=filled[name])
            if name in filled
            else s
            for name, s in symbols.items()
        }
    for name in [name for name in ranges if values.get(name) == name]:
        symbols[name] = _within(symbols[name], *ranges[name])
    return replace(_step(phase, values), symbols=tuple(symbols.values()))


def _within(symbol: Symbol, least: int, most: int) -> Symbol:
    default = min(max(symbol.default, least), most)
    return replace(symbol, default=default, minimum=least, maximum=most)


def symbols_of(spec: ModelSpec, phase: str | None) -> tuple[Symbol, ...]:
    """The sizes of a phase that may be chosen, with defaults and limits."""
    names = ["batch"]
    if phase == DECODE:
        names.append("context")
    if phase is None and has_source(spec):
        names.append("target")
    if _reads_text(spec) and not (phase == DECODE and not has_source(spec)):
        names.append("seq")
    found = []
    for name in names:
        limit = spec.max_context if name in ("context", "target") or not has_source(spec) else None
        if name == "batch":
            limit = None
        default = SYMBOLS[name].default if limit is None else min(SYMBOLS[name].default, limit)
        found.append(replace(SYMBOLS[name], default=default, maximum=limit))
    return tuple(found)


def positions_of(spec: ModelSpec, phase: str | None) -> str:
    """The size that says how many positions attention sees."""
    if phase != DECODE:
        return "seq"
    return "target" if has_source(spec) else "context"


def has_source(spec: ModelSpec) -> bool:
    """Whether a decoder attends to the output of an encoder."""
    return any(group.layer.cross is not None for group in spec.layers)


def _reads_text(spec: ModelSpec) -> bool:
    """Whether a text of any length goes in: not images or audio alone."""
    if has_source(spec):
        return spec.encoders[0].front is None
    return bool(spec.vocab)


def needs_numbers(spec: ModelSpec) -> bool:
    """Whether ops depend on the context through a minimum: windows, chunks, chosen positions."""
    return bool(limits_of(spec))


def _phase(spec: ModelSpec, phase: str | None) -> str | None:
    phases: tuple[str, ...] = (PREFILL, DECODE) if spec.causal else ()
    if has_source(spec):
        phases = (DECODE,)
    if phase is None:
        return PREFILL if PREFILL in phases else None
    if phase not in phases:
        have = f"phases: {', '.join(phases)}" if phases else "one forward pass"
        raise InputError(f"{spec.name} has no phase {phase!r}; it has {have}.")
    return phase


def _step(phase: str | None, sizes: Mapping[str, Dim]) -> ForwardPass:
    if phase == DECODE:
        return replace(decode(sizes["batch"], sizes["context"]), source=sizes.get("seq", 0))
    if phase == PREFILL:
        return prefill(sizes["batch"], sizes["seq"], encode=True)
    tokens = sizes.get("target", sizes.get("seq", 1))
    found = prefill(sizes["batch"], tokens, encode=True)
    outputs = times(sizes["batch"], tokens) if "target" in sizes else None
    return replace(found, label="forward", source=sizes.get("seq", 0), outputs=outputs)


def _precisions(spec: ModelSpec, precision: str | None) -> Precisions:
    """The formats to build with; a single wide format is left to the analysis."""
    wide = precision and not is_scheme(precision) and width_bytes(parse_dtype(precision)) >= 2
    return spec.precisions(spec.dtype if wide else precision)


def _captured(model_type: str, config: Mapping[str, Any]) -> bool:
    """Whether transformers is there and may know the type; told without importing it."""
    from importlib.util import find_spec
    from pathlib import Path

    found = find_spec("transformers")
    if found is None or not found.submodule_search_locations:
        return False
    if "auto_map" in config:
        return True  # its refusal says why code of a repository is not run
    auto = Path(found.submodule_search_locations[0]) / "models" / "auto"
    quoted = re.compile(rf'"{re.escape(model_type)}"\s*[,:]')  # as in the tables of types
    for file in ("auto_mappings.py", "configuration_auto.py"):
        path = auto / file
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if quoted.search(text):
                return True
    return not (auto / "configuration_auto.py").is_file()


def _unknown(model_type: str) -> Exception:
    from importlib.util import find_spec

    from gambrel.llm.config import known_types

    near = closest(model_type, known_types(), 3, 60)
    if find_spec("transformers") is None:
        return CaptureError(
            f"model type {model_type!r} has no closed form, and transformers, with which it could "
            f"be captured, is not installed{_or_closest(near)}. "
            "Run: pip install 'gambrel[huggingface]'"
        )
    return UnknownNameError(
        "model type",
        model_type,
        near,
        "It has no closed form, and the transformers that is installed does not have it.",
    )


def _or_closest(near: list[str]) -> str:
    return f" (closest: {', '.join(near)})" if near else ""
