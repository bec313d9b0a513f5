"""The frame of one kind of question: which of the things named play which part."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from gambrel.chat.filters import device_filters, matching_devices
from gambrel.chat.frame import Frame, Unclear
from gambrel.chat.glossary import find_term
from gambrel.chat.intents import MOST, OF_BOTH, superlative
from gambrel.chat.names import phases_of
from gambrel.chat.sentence import Sentence
from gambrel.chat.slots import SETTINGS, SIZES

_FIGURES: Final = {
    r"\bthroughput|\bfps\b|\bper sec": "throughput",
    r"\befficien|\bper watt|\bper joule": "efficiency",
    r"\benergy|\bjoule": "energy",
    r"\bpower|\bwatt": "power",
    r"\bmemory|\bv?ram\b|\bfootprint": "memory",
}
#: Kinds of question about the phases of a language model as a whole.
_WHOLE: Final = frozenset({"serve", "kv_cache", "train"})
#: Words of one phase of a language model.
_PHASED: Final = re.compile(r"\b(?:decod\w+|prefill\w*|ttft|tpot|itl)\b|TTFT|TPOT")
#: Reading a prompt is what the forward pass of a model without phases does.
_READING: Final = re.compile(r"\bprefill(?:ing)?\b")
#: Phase → the target that is a promise about it.
_PROMISED: Final = {"decode": "tpot", "prefill": "ttft"}


def frame_of(sentence: Sentence, intent: str) -> Frame | Unclear:
    """What a question alone says, without the turn before.

    Args:
        sentence: The question.
        intent: A key of `gambrel.chat.intents.INTENTS`; empty when no word says one.
    """
    slots = sentence.slots
    frame = Frame(
        intent=intent,
        models=tuple(dict.fromkeys(n.name for n in sentence.models)),
        hardware=tuple(dict.fromkeys(n.name for n in sentence.devices)),
        precision=slots.all("precision"),
        batch=slots.all("batch_size"),
        runtime=slots.all("runtime"),
        settings=slots.pairs(SETTINGS),
        limits=slots.limits,
        changes=tuple(slots.changes),
    )
    phased = any(map(phases_of, frame.models))
    if phased and intent not in {"", "what_if", "kv_cache"}:
        frame = _by_part(frame)
    frame = replace(frame, phase=_phase(sentence) if phased or not frame.models else "")
    if slots.tokens and phased and not frame.phase and intent not in _WHOLE:
        return Unclear(
            reason=f"{slots.tokens} tokens of what? Say 'a {slots.tokens} token prompt' or "
            f"'{slots.tokens} tokens of context'."
        )
    frame = replace(frame, sizes=_sizes(sentence, frame.phase))
    one_pass = _PHASED.search(_READING.sub("", sentence.text)) if not phased else None
    if one_pass and frame.models:
        return Unclear(
            reason=f"{frame.models[0]} has one forward pass here; '{one_pass[0]}' does not apply "
            "to it."
        )
    own: Frame | Unclear = frame if intent in _WHOLE else _one_step(frame)
    if isinstance(own, Unclear):
        return own
    if intent == "latency" and own.phase == "prefill" and own.models and own.hardware:
        own = replace(own, term=_figure_of(sentence))
    role = _ROLES.get(intent)
    return role(own, sentence) if role else own


def _by_part(frame: Frame) -> Frame:
    """Formats of weights and cache are the number format of a language model, part by part."""
    bits = {"weights=int4": "w4a16", "weights=int8": "w8a16"}
    parts = [bits[c] for c in frame.changes if c in bits and not frame.precision]
    parts += [c for c in frame.changes if c.startswith("kv=")]
    if not parts:
        return frame
    if not frame.precision and parts[0].startswith("kv="):
        parts.insert(0, "bf16")
    taken = {*parts, *(c for c in frame.changes if c in bits and not frame.precision)}
    return replace(
        frame,
        precision=(",".join((*frame.precision, *parts)),),
        changes=tuple(c for c in frame.changes if c not in taken),
    )


def _phase(sentence: Sentence) -> str:
    said = next((n.phase for n in sentence.models if n.phase), "")
    said = said or "".join(sentence.slots.all("phase"))
    implied = {"context": "decode", "seq": "prefill"}
    given = sentence.slots.values
    return said or next((phase for size, phase in implied.items() if size in given), "")


def _sizes(sentence: Sentence, phase: str) -> tuple[tuple[str, Any], ...]:
    sizes = dict(sentence.slots.pairs(SIZES))
    if sentence.slots.tokens is not None:
        sizes["context" if phase == "decode" else "seq"] = sentence.slots.tokens
    return tuple(sizes.items())


def _one_step(frame: Frame) -> Frame | Unclear:
    """Promises about a phase become limits of that phase; requests belong to serving."""
    served = [n for n, _ in frame.sizes if n in {"input", "output", "concurrency", "max_devices"}]
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


def _explain(_: Frame, sentence: Sentence) -> Frame | Unclear:
    term = find_term(sentence.question)
    return Frame(intent="explain", term=term.name if term else "")


#: Limits that the filters of a list would turn round.
_BACKWARDS_FILTER: Final = re.compile(
    r"\b(?:under|below|less than|at most|up to|max(?:imum)?) MEMORY\b"
    r"|\b(?:over|above|more than|at least|min(?:imum)?) POWER\b"
)


def _devices(_: Frame, sentence: Sentence) -> Frame | Unclear:
    wrong = _BACKWARDS_FILTER.search(sentence.text)
    if wrong:
        return Unclear(
            reason="Lists can be limited to at most so much power and at least so much memory, "
            f"not '{wrong[0].lower()}'."
        )
    return Frame(intent="devices", filters=device_filters(sentence))


_FAMILY: Final = re.compile(
    r"\b(?:detection|segmentation|classification|language|speech|recurrent|multimodal)\b"
)


def _models(_: Frame, sentence: Sentence) -> Frame | Unclear:
    """All models, or those whose name or family the text has."""
    family = _FAMILY.search(sentence.text)
    text = sentence.strangers[0] if sentence.strangers else family[0] if family else ""
    return Frame(intent="models", filters=(("text", text),) if text else ())


def _compare(frame: Frame, sentence: Sentence) -> Frame | Unclear:
    """Faster and better mean latency, which is the default."""
    named = (m for pattern, m in _FIGURES.items() if re.search(pattern, sentence.text))
    return _no_changes(replace(frame, metrics=tuple(named)), sentence)


def _select(frame: Frame, sentence: Sentence) -> Frame | Unclear:
    hardware = frame.hardware or matching_devices(sentence)
    if len(sentence.devices) == 1:
        hardware = (sentence.devices[0].name, *sentence.devices[0].also)
    sort = ("efficiency",) if re.search(r"\befficien", sentence.text) else ()
    if re.search(r"\b(?:lowest|least) power\b", sentence.text):
        sort = ("power",)
    if not frame.limits and superlative(sentence.text):
        return replace(
            frame, intent="compare", hardware=hardware or ("all",), metrics=sort or ("latency",)
        )
    return _no_changes(replace(frame, hardware=hardware, metrics=sort), sentence)


#: What follows is what there is, what stands before is what it would become.
_BACKWARDS: Final = re.compile(
    r"\b(?:than|instead of|rather than|over) (?:an? |the |on |in |with |under )*"
    r"(?:DEVICE|PRECISION|RUNTIME)\b"
)


def _what_if(frame: Frame, sentence: Sentence) -> Frame | Unclear:
    """Formats, runtimes and a second device change; so does the batch if nothing else does."""
    precision, hardware, runtime = frame.precision, frame.hardware, frame.runtime
    if _BACKWARDS.search(sentence.text):
        precision, hardware, runtime = precision[::-1], hardware[::-1], runtime[::-1]
    changes = changes_of(precision, frame, runtime)
    changes += [f"hardware={hardware[-1]}"] if len(hardware) > 1 else []
    batch, sizes = frame.batch, frame.sizes
    with_batch = re.search(r"\b(?:and|plus|\+) (?:with |at )?(?:an? )?BATCH", sentence.text)
    if batch and (not changes or with_batch):
        changes.append(f"batch={batch[-1]}")
        batch = ()
    if sizes and not changes:
        changes, sizes = [f"{name}={value}" for name, value in sizes], ()
    return replace(
        frame,
        precision=precision[:-1],
        hardware=hardware[:1],
        batch=batch,
        sizes=sizes,
        runtime=runtime[:-1],
        settings=tuple(s for s in frame.settings if s[0] != "sparsity"),
        changes=tuple(changes),
    )


def changes_of(precision: tuple[str, ...], frame: Frame, runtime: tuple[str, ...]) -> list[str]:
    """The changes to the last format and runtime; compiling is fusion, whatever it was before."""
    changes = [f"precision={p}" for p in precision[-1:]] + list(frame.changes)
    changes += ["sparsity"] if "sparsity" in dict(frame.settings) else []
    fused = ("fuse" if name == "torch-compile" else f"runtime={name}" for name in runtime[-1:])
    return [*changes, *fused]


def _no_changes(frame: Frame, _: Sentence) -> Frame | Unclear:
    """Other questions than a what-if: what only a what-if can change is not silently left out."""
    left = frame.changes
    if left and frame.intent:
        return Unclear(
            reason=f"'{left[0]}' is a change: ask 'what if', e.g. What if resnet50 on a100 used "
            "int8?"
        )
    return frame


def _batch(frame: Frame, sentence: Sentence) -> Frame | Unclear:
    """Of all batches those that keep a latency, when one is named."""
    other = [name for name, _ in frame.limits if name != "latency"]
    if other:
        return Unclear(reason=f"A batch is chosen within a latency, not within {', '.join(other)}.")
    return _no_changes(replace(frame, batch=()), sentence)


def _kv_cache(frame: Frame, sentence: Sentence) -> Frame | Unclear:
    """One cache: prompt and answer together are its context."""
    kept = {"seq": "context", "context": "context"}
    # "a 24 GB RTX 4090" says which card is meant.
    limits = [name for name, _ in frame.limits if name != "memory" or not frame.hardware]
    other = [name for name in (*dict(frame.sizes), *limits) if name not in kept]
    if other:
        return Unclear(reason=f"A cache has a batch and a context, but no {' or '.join(other)}.")
    frame = replace(frame, limits=())
    cache = [c for c in frame.changes if c.startswith("kv=")]
    precision = frame.precision
    if cache:
        precision = (",".join((precision[0] if precision else "bf16", cache[0])),)
    formats = tuple(c for c in frame.changes if c not in cache)
    frame = replace(
        frame,
        phase="",
        sizes=tuple((kept[name], value) for name, value in frame.sizes),
        precision=precision,
        runtime=(),
        changes=formats,
        term="room" if re.search(MOST, sentence.text) else "",
    )
    return _no_changes(frame, sentence)


#: Leaves open on which device to serve.
_WHICH: Final = re.compile(
    r"\b(?:which|what|best|recommend|suggest|choose|pick|cheapest) (?:me )?(?:an? |the )?(?:\w+ )?"
    r"(?:gpus?|cards?|devices?|hardware|accelerators?|machines?)\b"
)


def _serve(frame: Frame, sentence: Sentence) -> Frame | Unclear:
    """Requests have an input and an output; promises are about first and later tokens."""
    renamed = {"seq": "input", "context": "input"}
    if not frame.hardware and _WHICH.search(sentence.text):
        chosen = matching_devices(sentence)
        frame = replace(frame, hardware=chosen or ("category=datacenter gpu",))
    if not re.search(r"\bhow many (?:DEVICE|gpus?|cards|devices|accelerators)\b", sentence.text):
        frame = replace(frame, sizes=(("max_devices", 1), *frame.sizes))
    sizes = {renamed.get(name, name): value for name, value in frame.sizes}
    limits = dict(frame.limits)
    if "latency" in limits:
        promised = _PROMISED.get(frame.phase)
        if promised is None or promised in limits:
            return Unclear(reason="Is that limit for the first token (TTFT) or each later (TPOT)?")
        limits[promised] = limits.pop("latency")
    if "throughput" in limits and frame.phase != "decode":  # of tokens it is another one
        sizes["rate"] = limits.pop("throughput")
    other = [name for name in limits if name not in _PROMISED.values()]
    if other:
        return Unclear(
            reason="A plan for serving takes limits of TTFT and TPOT, requests per second, and "
            f"tokens per second per user, none of {', '.join(other)}."
        )
    if frame.batch:
        sizes["concurrency"] = frame.batch[0]
    if frame.changes or frame.settings:
        return Unclear(
            reason="Serving takes number formats, not changes: e.g. 'in fp8'. For others see "
            "'gambrel serve-plan --help'."
        )
    sized, limited = tuple(sizes.items()), tuple(limits.items())
    term = _figure_of(sentence)
    return replace(frame, phase="", batch=(), sizes=sized, limits=limited, term=term)


def _figure_of(sentence: Sentence) -> str:
    """The time of a request that the question asks for; empty where it names none."""
    asked = _FIRST_FIGURE.search(sentence.text)
    return "" if asked is None else "TPOT" if asked[0] in {"tpot", "itl"} else "TTFT"


#: Figures that a question about serving asks for; as limits they are markers.
_FIRST_FIGURE: Final = re.compile(r"\b(?:ttft|tpot|itl|time to (?:the )?first token)\b")


#: A whole run rather than a step.
_RUN: Final = re.compile(r"\b(?:epochs?|imagenet|coco|data ?sets?|corpus)\b")


def _train_network(frame: Frame, text: str) -> Frame | Unclear:
    """A step of a network: forward, loss, backward and update on one device."""
    given = dict(frame.sizes)
    several = given.pop("max_devices", 1) != 1
    if several or given.keys() & {"input", "output", "total_tokens"} or _RUN.search(text):
        return Unclear(
            reason="One training step of a network on one device can be asked for, e.g. 'training "
            "step of resnet50 on an h100 with batch 64', no whole run and no several devices."
        )
    if frame.limits:
        return Unclear(
            reason="A training step of a network has no limits in chat; run 'gambrel check MODEL "
            "--hardware DEVICE --train --latency TIME'."
        )
    settings = (*frame.settings, ("train", True))
    return replace(frame, intent="latency", sizes=tuple(given.items()), settings=settings)


def _latency(frame: Frame, sentence: Sentence) -> Frame | Unclear:
    """With the figure that is asked for where it is not the expected time."""
    asked = "speed of light" if _LIGHT.search(sentence.text) else frame.term
    return _no_changes(replace(frame, term=asked), sentence)


_LIGHT: Final = re.compile(r"\bspeed of light\b|\bsol\b")


def _train(frame: Frame, sentence: Sentence) -> Frame | Unclear:
    """All parameters are trained; a batch is the sequences of a step."""
    if frame.models and not any(map(phases_of, frame.models)):
        own = _train_network(frame, sentence.text)
        return own if isinstance(own, Unclear) else _no_changes(own, sentence)
    renamed = {"max_devices": "devices", "context": "seq", "input": "seq"}
    sizes = {renamed.get(name, name): value for name, value in frame.sizes}
    if frame.batch:
        sizes["global_batch"] = frame.batch[0]
    known = {"devices", "seq", "global_batch", "total_tokens"}
    other = [*(sizes.keys() - known), *(n for n, _ in frame.limits), *frame.changes]
    if other:
        return Unclear(
            reason=f"Training takes a sequence length, devices, a batch and tokens, none of "
            f"{', '.join(other)}; see 'gambrel train-plan --help'."
        )
    return replace(frame, phase="", batch=(), runtime=(), sizes=tuple(sizes.items()))


def _why(frame: Frame, sentence: Sentence) -> Frame | Unclear:
    """With the bound that the question takes for granted, which may not be so."""
    said = re.search(r"\b(compute|memory|overhead|launch|host|network)[ -]?bound\b", sentence.text)
    kept = _no_changes(frame, sentence)
    return replace(kept, term=f"{said[1]}-bound") if said and isinstance(kept, Frame) else kept


_ROLES: Final[dict[str, Callable[[Frame, Sentence], Frame | Unclear]]] = {
    "explain": _explain,
    "devices": _devices,
    "models": _models,
    "compare": _compare,
    "batch": _batch,
    "kv_cache": _kv_cache,
    "serve": _serve,
    "train": _train,
    "select": _select,
    "what_if": _what_if,
    "ridge": lambda frame, _: replace(frame, intent="bound") if frame.models else frame,
    "model": lambda frame, _: replace(frame, intent="intensity") if frame.hardware else frame,
    **dict.fromkeys((*OF_BOTH, "check", "recommend", "ops"), _no_changes),
    "latency": _latency,
    "why": _why,
}
