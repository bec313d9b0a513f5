"""The frame of one kind of question: which of the things named play which part."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gambrel.chat.filters import device_filters, matching_devices
from gambrel.chat.frame import Frame, Unclear
from gambrel.chat.glossary import find_term
from gambrel.chat.lexicon import phases_of
from gambrel.chat.reading import Reading
from gambrel.chat.weigh import OF_BOTH, superlative

_FIGURES: Final = {
    r"\blatenc|\bfast(?:er|est)|\bquick|\bslow": "latency",
    r"\bthroughput|\bfps\b|\bper sec": "throughput",
    r"\befficien|\bper watt|\bper joule": "efficiency",
    r"\benergy|\bjoule": "energy",
    r"\bpower|\bwatt": "power",
    r"\bmemory|\bv?ram\b|\bfootprint": "memory",
}


def frame_of(reading: Reading, intent: str) -> Frame | Unclear:
    """What a question alone says, without the turn before.

    Args:
        reading: The question.
        intent: A key of `gambrel.chat.evidence.INTENTS`; empty when no word says one.
    """
    found = reading.found
    models = tuple(dict.fromkeys(n.name for n in reading.models))
    devices = tuple(dict.fromkeys(n.name for n in reading.devices))
    frame = Frame(
        intent=intent,
        models=models,
        hardware=devices,
        precision=tuple(found.precision),
        batch=tuple(found.batch),
        phase=_phase(reading, models),
        runtime=found.runtime,
        limits=tuple(found.limits.items()),
        changes=tuple(found.changes),
    )
    open_ = found.tokens and not frame.phase and intent not in {"serve", "kv_cache"}
    if open_ and any(map(phases_of, models)):
        return Unclear(
            reason=f"{found.tokens} tokens of what? Say 'a {found.tokens} token prompt' or "
            f"'{found.tokens} tokens of context'."
        )
    frame = replace(frame, sizes=_sizes(reading, frame.phase))
    one_pass = _PHASED.search(reading.text) if models and not any(map(phases_of, models)) else None
    if one_pass:
        return Unclear(
            reason=f"{models[0]} has one forward pass here; '{one_pass[0]}' does not apply to it."
        )
    if intent not in {"serve", "kv_cache"}:
        step = _one_step(frame)
        if isinstance(step, Unclear):
            return step
        frame = step
    shape = _SHAPES.get(intent)
    return shape(frame, reading) if shape else frame


#: Words of one phase of a language model.
_PHASED: Final = re.compile(r"\b(?:decod\w+|prefill\w*|ttft|tpot|itl)\b|TTFT|TPOT")


def _phase(reading: Reading, models: tuple[str, ...]) -> str:
    if models and not any(map(phases_of, models)):
        return ""
    said = next((n.phase for n in reading.models if n.phase), "") or reading.found.phase
    sizes = reading.found.sizes
    implied = {"context": "decode", "seq": "prefill"}
    return said or next((phase for size, phase in implied.items() if size in sizes), "")


def _sizes(reading: Reading, phase: str) -> tuple[tuple[str, int], ...]:
    sizes = dict(reading.found.sizes)
    if reading.found.tokens is not None:
        sizes["context" if phase == "decode" else "seq"] = reading.found.tokens
    return tuple(sizes.items())


def _explain(_: Frame, reading: Reading) -> Frame | Unclear:
    term = find_term(reading.question)
    return Frame(intent="explain", term=term.name if term else "")


def _devices(_: Frame, reading: Reading) -> Frame | Unclear:
    wrong = _BACKWARDS_FILTER.search(reading.text)
    if wrong:
        return Unclear(
            reason="Lists can be limited to at most so much power and at least so much memory, "
            f"not '{wrong[0].lower()}'."
        )
    return Frame(intent="devices", filters=device_filters(reading))


#: Limits that the filters of a list would turn round.
_BACKWARDS_FILTER: Final = re.compile(
    r"\b(?:under|below|less than|at most|up to|max(?:imum)?) MEMORY\b"
    r"|\b(?:over|above|more than|at least|min(?:imum)?) POWER\b"
)


def _models(_: Frame, reading: Reading) -> Frame | Unclear:
    """All models, or those whose name or family the text has."""
    family = _FAMILY.search(reading.text)
    text = reading.strangers[0] if reading.strangers else family[0] if family else ""
    return Frame(intent="models", filters=(("text", text),) if text else ())


_FAMILY: Final = re.compile(
    r"\b(?:detection|segmentation|classification|language|speech|recurrent|multimodal)\b"
)


def _compare(frame: Frame, reading: Reading) -> Frame | Unclear:
    named = [m for pattern, m in _FIGURES.items() if re.search(pattern, reading.text)]
    # "faster" and "better" order by latency, which is the default.
    return _no_changes(replace(frame, metrics=tuple(m for m in named if m != "latency")), reading)


def _select(frame: Frame, reading: Reading) -> Frame | Unclear:
    hardware = frame.hardware
    if len(reading.devices) == 1:
        hardware = (reading.devices[0].name, *reading.devices[0].also)
    if not hardware:
        hardware = matching_devices(reading)
    sort = ("efficiency",) if re.search(r"\befficien", reading.text) else ()
    if re.search(r"\b(?:lowest|least) power\b", reading.text):
        sort = ("power",)
    if not frame.limits and superlative(reading.text):
        return replace(
            frame, intent="compare", hardware=hardware or ("all",), metrics=sort or ("latency",)
        )
    return _no_changes(replace(frame, hardware=hardware, metrics=sort), reading)


#: What follows is what there is, what stands before is what it would become.
_BACKWARDS: Final = re.compile(
    r"\b(?:than|instead of|rather than|over) (?:an? |the |on |in |with )*(?:DEVICE|PRECISION)\b"
)


def _what_if(frame: Frame, reading: Reading) -> Frame | Unclear:
    """Formats, stacks and a second device are what changes; so is the batch if nothing else is."""
    precision, hardware, batch = frame.precision, frame.hardware, frame.batch
    if _BACKWARDS.search(reading.text):
        precision, hardware = precision[::-1], hardware[::-1]
    changes = [f"precision={p}" for p in precision[-1:]] + list(frame.changes)
    if frame.runtime:
        changes += ["fuse"] if frame.runtime == "torch-compile" else [f"runtime={frame.runtime}"]
    if len(hardware) > 1:
        changes.append(f"hardware={hardware[-1]}")
    with_batch = re.search(r"\b(?:and|plus|\+) (?:with |at )?(?:an? )?BATCH", reading.text)
    if batch and (not changes or with_batch):
        changes.append(f"batch={batch[-1]}")
        batch = ()
    sizes = frame.sizes
    if sizes and not changes:
        changes, sizes = [f"{name}={value}" for name, value in sizes], ()
    return replace(
        frame,
        precision=precision[:-1],
        hardware=hardware[:1],
        batch=batch,
        sizes=sizes,
        runtime="",
        changes=tuple(changes),
    )


def _no_changes(frame: Frame, _: Reading) -> Frame | Unclear:
    """Other questions than a what-if: what only a what-if can change is not silently left out."""
    left = [c for c in frame.changes if c.startswith(("weights=", "kv=", "sparsity", "graphs"))]
    if left and frame.intent:
        return Unclear(
            reason=f"'{left[0]}' is a change: ask 'what if', e.g. What if resnet50 on a100 used "
            "int8?"
        )
    return frame


def _kv_cache(frame: Frame, _: Reading) -> Frame | Unclear:
    """One cache: prompt and answer together are its context."""
    kept = {"seq": "context", "context": "context"}
    sizes = {kept[name]: value for name, value in frame.sizes if name in kept}
    other = [name for name, _ in frame.sizes if name not in kept]
    if other or frame.limits:
        named = ", ".join([*other, *(name for name, _ in frame.limits)])
        return Unclear(reason=f"A cache has a batch and a context; {named} say nothing of it.")
    changes = tuple(c for c in frame.changes if c.startswith("kv="))
    formats = tuple(c for c in frame.changes if not c.startswith("kv="))
    if formats or frame.runtime:
        return _no_changes(frame, _)
    precision = frame.precision
    if changes:
        precision = (",".join((precision[0] if precision else "bf16", changes[0])),)
    return replace(frame, phase="", sizes=tuple(sizes.items()), precision=precision, changes=())


#: Where a promise about one phase stands.
_PROMISED: Final = {"decode": "tpot", "prefill": "ttft"}


def _serve(frame: Frame, reading: Reading) -> Frame | Unclear:
    """Requests have an input and an output; promises are about first and later tokens."""
    renamed = {"seq": "input", "context": "input"}
    if not re.search(r"\bhow many (?:DEVICE|gpus?|cards|devices|accelerators)\b", reading.text):
        frame = replace(frame, sizes=(("devices", 1), *frame.sizes))
    sizes = {renamed.get(name, name): value for name, value in frame.sizes}
    limits = dict(frame.limits)
    if "latency" in limits:
        promised = _PROMISED.get(frame.phase)
        if promised is None or promised in limits:
            return Unclear(reason="Is that limit for the first token (TTFT) or each later (TPOT)?")
        limits[promised] = limits.pop("latency")
    other = [name for name in limits if name not in _PROMISED.values()]
    if other:
        return Unclear(
            reason=f"A plan for serving takes limits of TTFT and TPOT, none of {', '.join(other)}."
        )
    if frame.batch:
        sizes["users"] = frame.batch[0]
    if frame.changes or frame.runtime:
        return Unclear(
            reason="Serving takes number formats, not changes: e.g. 'in fp8'. For others see "
            "'gambrel serve-plan --help'."
        )
    return replace(
        frame, phase="", batch=(), sizes=tuple(sizes.items()), limits=tuple(limits.items())
    )


def _one_step(frame: Frame) -> Frame | Unclear:
    """Promises about a phase become limits of that phase; requests belong to serving."""
    served = [n for n, _ in frame.sizes if n in {"input", "output", "users", "devices"}]
    if served:
        return Unclear(
            reason=f"{', '.join(served)}: that belongs to serving. Ask 'how many DEVICE to serve "
            "MODEL', or for one step: a prompt of so many tokens, or so much context."
        )
    limits = dict(frame.limits)
    promised = [phase for phase, name in _PROMISED.items() if name in limits]
    if not promised:
        return frame
    if len(promised) > 1 or "latency" in limits or frame.phase not in {"", promised[0]}:
        return Unclear(
            reason="Limits of several phases: ask for one at a time, or 'can I serve MODEL on "
            "DEVICE with TTFT under ... and TPOT under ...'."
        )
    limits["latency"] = limits.pop(_PROMISED[promised[0]])
    return replace(frame, phase=promised[0], limits=tuple(limits.items()))


def _why(frame: Frame, reading: Reading) -> Frame | Unclear:
    """With the bound that the question takes for granted, which may not be so."""
    said = re.search(r"\b(compute|memory|overhead|network)[ -]?bound\b", reading.text)
    kept = _no_changes(frame, reading)
    return replace(kept, term=f"{said[1]}-bound") if said and isinstance(kept, Frame) else kept


def _ridge(frame: Frame, _: Reading) -> Frame | Unclear:
    return replace(frame, intent="bound") if frame.models else frame


def _model(frame: Frame, _: Reading) -> Frame | Unclear:
    return replace(frame, intent="intensity") if frame.hardware else frame


_SHAPES: Final[dict[str, Callable[[Frame, Reading], Frame | Unclear]]] = {
    "explain": _explain,
    "devices": _devices,
    "models": _models,
    "compare": _compare,
    "kv_cache": _kv_cache,
    "serve": _serve,
    "select": _select,
    "what_if": _what_if,
    "ridge": _ridge,
    "model": _model,
    **dict.fromkeys((*OF_BOTH, "check", "recommend", "ops"), _no_changes),
    "why": _why,
}
