"""Refits what NPUs attain of language models (`analysis/estimate/language.py`).

    python scripts/fit_language.py [--write]

Rows are those of benchmarks/data/npu_llm (see its README): some to be fitted, those of other
people's boards and older engines to widen the range. Constants are fitted to the logarithm of
measured over predicted, each chip by itself; the error is that of each model left out in turn, of a
class that of each chip left out. ``--write`` replaces the section ``language`` of
src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
from scipy.optimize import least_squares

import constants_file
from gambrel.analysis.estimate.language_constants import LanguageRates, PhaseRange
from gambrel.analysis.roofs import Roofs, roofs_of
from gambrel.device.catalog import load
from language_rows import Floats, Row, flops, format_of, moved, rows

ROOT = Path(__file__).parents[1]
SOURCE = "public reports, each named in benchmarks/data/npu_llm/rows.csv (figures only)"
#: Runtime, device or pattern of devices, and whose they are in the rows.
CHIPS = (
    ("rkllm", "rk3588-npu"),
    ("rkllm", "rk3576"),
    ("rkllm", "rk3562"),
    ("ax-llm", "ax650n"),
    ("ax-llm", "ax630c"),
    ("genie", "snapdragon-8-elite"),
    ("genie", "snapdragon-8-elite-gen-5"),
    ("genie", "snapdragon-x-elite"),
    ("genie", "sa8295p"),
    ("fastflowlm", "ryzen-ai-300"),
)
#: A chip by another pattern than its id: the same engine in other chips.
PATTERNS = {"ryzen-ai-300": "xdna 2"}
#: Hexagon from v73 on: older ones (SA8295P is v68) have no w4a16 and are many times slower.
CLASSES = {
    "ax-llm": ("axera",),
    "genie": ("snapdragon-8-gen-3", "snapdragon-8-elite", "snapdragon-x", "qcs8550", "iq-9075"),
}
APART_FROM_CLASS = ("sa8295p",)
#: A chip whose rows are all of one model: a rate of bytes alone, with the range that such a rate
#: has on the chips of which there are more.
ALONE = ("hailo-genai", "hailo-10h", "qwen2.5-1.5b")
#: Engines of which long contexts were timed, so that caches have a rate of their own.
CACHES = ("genie", "fastflowlm")
WHY = {
    "rkllm": "rates that RKLLM attains on this chip at its highest clocks, by Rockchip's figures",
    "ax-llm": "rates that AX-LLM attains on this chip",
    "genie": "rates that Genie attains on this chip, by Qualcomm AI Hub's figures",
    "fastflowlm": "rates that FastFlowLM attains on a Ryzen AI 7 350 (the same NPU)",
    "hailo-genai": "the rate at which Hailo-10H reads the weights of one model",
}
#: From this ratio of its ends on a range is not of medium confidence, nor with fewer models.
WIDE, FEW = 1.5, 5
#: A range is no narrower than what versions of an engine differ by (RKLLM's two tables of RK3576
#: and RK3588 differ by up to 6 % in decoding).
LEAST = (0.94, 1.06)
#: First guess, s.
START_S = 5e-5
#: Where the steps of a chip differ by less in bytes, they do not tell its start from its rate.
APART = 3.0
#: What prompts show beyond a rate. Those of 128 tokens under Genie are predicted no better with a
#: start of their own (left out, 11 % on 8 Elite either way); long ones show a rate of attention.
PROMPTS = {
    "rkllm": ("prompt_start_s",),
    "ax-llm": ("prompt_start_s",),
    "genie": (),
    "fastflowlm": ("prompt_start_s", "attention_flop_per_s"),
}


def main() -> None:
    found = fitted()
    for one in found:
        print(_line(one))
    if "--write" in sys.argv:
        language = [msgspec.to_builtins(_rounded(one)) for one in found]
        constants_file.write(constants_file.read() | {"language": language})


def fitted() -> list[LanguageRates]:
    """The constants of every chip, then of every class."""
    chips = [_chip(runtime, device) for runtime, device in CHIPS]
    classes = [_class(runtime, chips) for runtime in CLASSES]
    return [*chips, _alone(), *classes]


def seconds(row: Row, c: LanguageRates) -> float:
    """Of a run under constants with rates of their own."""
    w = row.work
    rate = np.array([c.flop_per_s.get(f, np.inf) for f in w.stored])
    aside = c.attention_flop_per_s or min(c.flop_per_s.values(), default=np.inf)
    rate = np.where(w.weights, rate, aside)
    busy = np.where(w.several | ~w.weights, w.flops / rate, 0.0)
    byte = c.byte_per_s or 1.0
    bytes_per_s = np.where(w.attention, c.cache_byte_per_s or byte, byte)
    start = c.start_s + np.where(w.several, c.prompt_start_s, 0.0)
    return float((w.count * (start + np.maximum(w.moved / bytes_per_s, busy))).sum())


def left_out(runtime: str, device: str) -> dict[int, float]:
    """Seconds of each row of a chip, by `id`, from constants that saw no row of its model."""
    mine = [r for r in rows() if r.device == device and r.use == "fit"]
    out: dict[int, float] = {}
    for model in sorted({r.model for r in rows() if r.device == device}):
        without = _constants(runtime, [r for r in mine if r.model != model])
        own = [r for r in rows() if r.device == device and r.model == model]
        out |= {id(r): seconds(r, without) for r in own}
    return out


@cache
def beyond() -> float:
    """Most that prompts longer than those fitted took, of what the shorter ones predict."""
    ratios = [1.0]
    for runtime, device in CHIPS:
        without = left_out(runtime, device)
        own = [r for r in rows() if r.device == device and r.prompt]
        most = max((r.tokens for r in own if r.use == "fit"), default=0)
        ratios += [r.seconds / without[id(r)] for r in own if r.tokens > most]
    return max(ratios)


def new_chips(runtime: str) -> Iterator[tuple[Row, float]]:
    """Rows of every chip of a class with their times by the class of the others."""
    measured = [d for r, d in CHIPS if r == runtime and d not in APART_FROM_CLASS]
    vendor = {r.device for r in rows() if load(r.device).vendor == load(measured[0]).vendor}
    for device in sorted(vendor - set(APART_FROM_CLASS)):
        used = [_chip(runtime, d) for d in measured if d != device]
        on = _on(_shares(runtime, used), roofs_of(load(device)))
        for row in rows():
            known = not row.prompt or set(row.work.stored) & set(on.flop_per_s)
            if row.device == device and row.use == "fit" and known:
                yield row, seconds(row, on)


@cache
def _chip(runtime: str, device: str) -> LanguageRates:
    own = [r for r in rows() if r.device == device]
    used = [r for r in own if r.use == "fit"]
    without = left_out(runtime, device)
    prompts = [r for r in used if r.prompt]
    tokens = max((r.tokens for r in prompts), default=0)
    within = [r for r in own if r.use != "other" and not (r.prompt and r.tokens > tokens)]
    return msgspec.structs.replace(
        _constants(runtime, used),
        match=(PATTERNS.get(device, device),),
        decode=_span([r for r in within if not r.prompt], without),
        prompts=_span([r for r in within if r.prompt], without),
        tokens=tokens,
        beyond=beyond(),
    )


def _span(own: Sequence[Row], predicted: dict[int, float]) -> PhaseRange:
    """The range holds nine rows of ten, those of other boards as well; the error is of the rest."""
    ratios = np.array([r.seconds / predicted[id(r)] for r in own])
    errors = [abs(predicted[id(r)] / r.seconds - 1) for r in own if r.use == "fit"]
    low, high = _ends(ratios)
    low, high = min(low, LEAST[0]), max(high, LEAST[1])
    several = len({r.model for r in own if r.use == "fit"}) >= FEW
    return PhaseRange(
        low=low,
        high=high,
        confidence="medium" if several and high / low <= WIDE else "low",
        rows=len(own),
        error=float(np.mean(errors)),
    )


def _ends(ratios: Floats) -> tuple[float, float]:
    """Nine of ten lie between them; of fewer than twenty, all."""
    low = np.quantile(ratios, 0.05, method="lower")
    return float(low), float(np.quantile(ratios, 0.95, method="higher"))


def _class(runtime: str, chips: Iterable[LanguageRates]) -> LanguageRates:
    mine = [c for c in chips if c.runtime == runtime and c.match[0] not in APART_FROM_CLASS]
    pairs = list(new_chips(runtime))
    predicted = {id(row): t for row, t in pairs}
    decode = [row for row, _ in pairs if not row.prompt]
    prompts = [row for row, _ in pairs if row.prompt]
    span = _span(prompts, predicted) if prompts else None
    return msgspec.structs.replace(
        _shares(runtime, mine),
        match=CLASSES[runtime],
        decode=msgspec.structs.replace(_span(decode, predicted), confidence="low"),
        prompts=span and msgspec.structs.replace(span, confidence="low"),
        tokens=max((r.tokens for r in prompts), default=0),
        beyond=beyond(),
        models=max(c.models for c in mine),
        why=f"nothing was measured on this chip: shares of its datasheet as on {len(mine)} others",
    )


def _shares(runtime: str, chips: Sequence[LanguageRates]) -> LanguageRates:
    """Constants as shares of datasheets: geometric means over chips."""
    memory, compute = [], []
    for c in chips:
        roofs = roofs_of(load(c.match[0]))
        memory.append((c.byte_per_s or 0.0) / (roofs.memory_byte_per_s or np.nan))
        compute += _share_of_peak(c, roofs)
    formats = tuple(dict.fromkeys(f for c in chips for f in c.formats))
    peaks = len(compute) == len(chips)
    return LanguageRates(
        runtime=runtime,
        match=(),
        formats=formats,
        memory=_mean(memory),
        compute={formats[0]: _mean(compute)} if peaks else {},
        start_s=_mean([c.start_s for c in chips]),
        prompt_start_s=_mean([c.prompt_start_s or 1e-30 for c in chips])
        if PROMPTS[runtime]
        else 0.0,
        decode=PhaseRange(low=0.0, high=0.0, confidence="low", rows=0),
        models=0,
        why="",
        source=SOURCE,
    )


def _share_of_peak(c: LanguageRates, roofs: Roofs) -> list[float]:
    peak = next((p for p in roofs.device.ceilings if p.dtype == "int8"), None)
    return [] if peak is None else [c.flop_per_s[c.formats[0]] / peak.flop_per_s]


def _on(c: LanguageRates, roofs: Roofs) -> LanguageRates:
    peak = next((p for p in roofs.device.ceilings if p.dtype == "int8"), None)
    return msgspec.structs.replace(
        c,
        byte_per_s=(c.memory or 0.0) * (roofs.memory_byte_per_s or 0.0),
        flop_per_s={f: s * peak.flop_per_s for f, s in c.compute.items()} if peak else {},
    )


def _alone() -> LanguageRates:
    """A rate of bytes from one model, and how far such a rate is from others' models."""
    runtime, device, model = ALONE
    used = [r for r in rows() if r.device == device]
    rate = _bytes_per_s([r for r in used if r.use == "fit"])
    ratios = [r.seconds / (moved(r) / rate) for r in used]
    for _, other in CHIPS:
        steps = [r for r in rows() if r.device == other and r.use == "fit" and not r.prompt]
        if any(r.model == model for r in steps):
            one = _bytes_per_s([r for r in steps if r.model == model])
            ratios += [r.seconds / (moved(r) / one) for r in steps]
    low, high = _ends(np.array(ratios))
    return LanguageRates(
        runtime=runtime,
        match=(device,),
        formats=("int4", "int8"),
        byte_per_s=rate,
        start_s=0.0,
        decode=PhaseRange(low=low, high=high, confidence="low", rows=len(used)),
        models=1,
        why=WHY[runtime],
        source=SOURCE,
    )


def _bytes_per_s(own: Sequence[Row]) -> float:
    return _mean([moved(r) / r.seconds for r in own])


def _mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if all(values) else 0.0


def _constants(runtime: str, own: Sequence[Row]) -> LanguageRates:
    """Steps give the rate of bytes and the start, prompts the rates of GEMMs and their start."""
    steps = [r for r in own if not r.prompt]
    blank = LanguageRates(
        runtime=runtime,
        match=(),
        formats=tuple(sorted({format_of(r) for r in own}, reverse=True)),
        byte_per_s=max(moved(r) / r.seconds for r in steps),
        start_s=START_S,
        decode=PhaseRange(low=0.0, high=0.0, confidence="low", rows=0),
        models=len({r.model for r in own}),
        why=WHY[runtime],
        source=SOURCE,
    )
    device = steps[0].device
    names = ["byte_per_s"]
    if runtime in CACHES and len({r.model for r in _steps(device)}) >= FEW:
        names.append("cache_byte_per_s")
        blank = msgspec.structs.replace(blank, cache_byte_per_s=blank.byte_per_s)
    if _apart(device):
        found = _least(steps, blank, [*names, "start_s"])
    else:
        start_s = _mean([_start_s(d) for r, d in CHIPS if r == runtime and _apart(d)])
        blank = msgspec.structs.replace(blank, start_s=start_s)
        found = _least(steps, blank, names)
    prompts = [r for r in own if r.prompt]
    if not prompts:
        return found
    speed = {f: [flops(r) / r.seconds for r in prompts if format_of(r) == f] for f in blank.formats}
    names = [*(f for f, speeds in speed.items() if speeds), *PROMPTS[runtime]]
    found = msgspec.structs.replace(
        found,
        flop_per_s={f: max(speeds) for f, speeds in speed.items() if speeds},
        prompt_start_s=START_S if "prompt_start_s" in names else 0.0,
        attention_flop_per_s=_first_attention(prompts) if "attention_flop_per_s" in names else None,
    )
    return _least(prompts, found, names)


def _first_attention(prompts: Sequence[Row]) -> float:
    return max(flops(r) / r.seconds for r in prompts)


@cache
def _apart(device: str) -> bool:
    """Whether the steps of a chip differ enough to tell its start from its rate of bytes."""
    sizes = [moved(r) for r in _steps(device)]
    return max(sizes) > APART * min(sizes)


@cache
def _start_s(device: str) -> float:
    """Of a chip whose steps tell it."""
    runtime = next(r for r, d in CHIPS if d == device)
    return _constants(runtime, _steps(device)).start_s


def _steps(device: str) -> list[Row]:
    return [r for r in rows() if r.device == device and r.use == "fit" and not r.prompt]


def _least(own: Sequence[Row], c: LanguageRates, names: Sequence[str]) -> LanguageRates:
    """Least squares of the logarithms over some of the constants."""

    def value(name: str) -> float:
        return float(c.flop_per_s[name] if name in c.flop_per_s else getattr(c, name))

    def made(x: Floats) -> LanguageRates:
        values = dict(zip(names, np.exp(x).tolist(), strict=True))
        rates = {f: values.pop(f, r) for f, r in c.flop_per_s.items()}
        return msgspec.structs.replace(c, flop_per_s=rates, **values)

    def residuals(x: Floats) -> Floats:
        one = made(x)
        return np.array([np.log(seconds(r, one) / r.seconds) for r in own])

    first = np.log([value(name) for name in names])
    found = [
        least_squares(
            residuals, first + k, bounds=(first - 7, first + 4), loss="soft_l1", f_scale=0.1
        )
        for k in (-0.5, 0.1, 0.7)
    ]
    return made(min(found, key=lambda one: one.cost).x)


def _rounded(c: LanguageRates) -> LanguageRates:
    def of(x: float | None) -> float | None:
        return None if x is None else float(f"{x:.4g}")

    def span(s: PhaseRange) -> PhaseRange:
        low, high = math.floor(s.low * 1e3) / 1e3, math.ceil(s.high * 1e3) / 1e3
        error = None if s.error is None else round(s.error, 3)
        return msgspec.structs.replace(s, low=low, high=high, error=error)

    return msgspec.structs.replace(
        c,
        byte_per_s=of(c.byte_per_s),
        cache_byte_per_s=of(c.cache_byte_per_s),
        memory=of(c.memory),
        flop_per_s={f: float(f"{s:.4g}") for f, s in c.flop_per_s.items()},
        compute={f: float(f"{s:.4g}") for f, s in c.compute.items()},
        start_s=float(f"{c.start_s:.4g}"),
        prompt_start_s=float(f"{c.prompt_start_s:.4g}"),
        attention_flop_per_s=of(c.attention_flop_per_s),
        beyond=round(c.beyond, 2),
        decode=span(c.decode),
        prompts=c.prompts and span(c.prompts),
    )


def _line(c: LanguageRates) -> str:
    c = _rounded(c)
    rates = f"{c.byte_per_s or c.memory} B/s, caches {c.cache_byte_per_s}, "
    rates += f"{c.flop_per_s or c.compute} FLOP/s"
    starts = f"start {c.start_s}, prompts {c.prompt_start_s}, attention {c.attention_flop_per_s}"
    return f"{c.runtime} {c.match}: {rates}, {starts}\n    {c.decode}\n    {c.prompts}"


if __name__ == "__main__":
    main()
