"""What an answer cannot hold: questions that gambrel does not answer, and words left out of one.

Both are said by name; nothing is answered beside the point.
"""

# A pattern that is cut by the line length can no longer be read.
# ruff: noqa: E501

from __future__ import annotations

import re
from typing import Final

from gambrel.chat.intents import ENOUGH, INTENTS, kin
from gambrel.chat.words import neutral_words, topic_words

#: Pattern over the marked text → what to say.
_RAW: Final[dict[str, str]] = {
    r"\b(?:process(?:es)?|instances?|tenants?|copies|cameras|mig)\b|\b(?:when|while|if|that) .*\bshare[sd]?\b":
        "One copy of one model that has a whole device is analyzed; sharing a device is not.",
    r"\b(?:accura(?:cy|te)|top-?[15]\b|quality|perplexity|map\b|bleu|hallucinat\w+)":
        "Accuracy is not something that a roofline knows; gambrel predicts time, memory and energy.",
    r"\b(?:train(?:ing|ed)?|fine-?tun\w+|epochs?|backward|backprop\w*|gradient)\b":
        "Ask for a training step: 'how long does a training step of resnet50 take on an h100'; of "
        "your own code run 'gambrel analyze file.py:function --hardware DEVICE --train'.",
    r"\b(?:cost|costs|price[ds]?|pricing|cheap(?:er|est)?|expensive (?:is|are)|dollars?|usd|euros?)\b"
    r"|[$€£]":
        "gambrel knows no prices. Give them: 'gambrel select MODEL --latency 33ms --max-price 300 "
        "--price DEVICE=NUMBER'.",
    r"\b(?:\d+|two|four|eight|multi|multiple|several|many)[ -]?x? ?-?(?:DEVICE|gpus?\b|nodes?\b|cards\b)"
    r"|\b[2-9] ?x ?DEVICE|\bCOUNT\b|\bUSERS\b|\btensor[ -]parallel\w*|\bpipeline[ -]parallel\w*|\bcluster\b|\bmulti-?gpu\b"
    r"|\btp ?= ?\d|\bnvlink\b|\b(?:users?|concurren\w+|requests? in flight|replicas?)\b":
        "In chat one device is analyzed at a time. For several, and for many users of a language model: "
        "'gambrel serve-plan MODEL --hardware DEVICE --input 2k --output 500'.",
    r"\b(?:not|n't|never|except|besides|without|other than|excluding)\b (?:on |in |an? |the |using )*"
    r"(?:DEVICE|MODEL|PRECISION|BATCH|CHANGE|RUNTIME)":
        "I do not understand exclusions; name what you want instead.",
    r"(?<!no )(?<!not )\b(?:more than|over|above|at least|exceed\w*|slower than|minimum of|min)\b "
    r"(?:LATENCY|POWER|ENERGY|MEMORY)":
        "Latency, power, energy and memory can be limited from above only ('under 10 ms').",
    r"(?<!no )(?<!not )\b(?:less than|under|below|at most|fewer than|max(?:imum)?(?: of)?)\b THROUGHPUT":
        "Throughput can be limited from below only ('at least 30 fps').",
    r"\b(?:affects?|depends?|influences?|scales?|grows?|(?:changes?|varies|vary) with)\b":
        "Name the values to compare, e.g. 'throughput of resnet50 on an a100 at batch 1, 8 and 64'.",
    r"\b(?:generat\w+|write|writing|produce|output)\b.*\bTOKENS\b|\bTOKENS (?:of )?(?:output|new|generated)":
        "One step is analyzed at a time: the prompt ('TTFT with a 512 token prompt') or one token ('tpot "
        "at 4k context').",
    r"\b(?:reduc\w+|decreas\w+|shrink\w*|cut|save|lower) (?:the |its )?(?:memory|power|energy|v?ram)\b"
    r"|\bhow (?:can|do|could) (?:i|we) (?:make \w+ )?fit\b":
        "Ask what a change would bring: 'What if MODEL on DEVICE ran in int8?' shows times and memory before "
        "and after.",
    r"\b(?:which|what|best) (?:precision|number format|data ?type|dtype|quanti[sz]ation)\b.*\b(?:should|best|use|for)\b":
        "Name the formats, e.g. 'int8 or fp16 for MODEL on DEVICE'; 'how can I speed up MODEL on DEVICE' lists "
        "what a lower one brings among other changes.",
    r"\b(?:my|our)(?: own)? (?:models?|networks?|nets?|code|files?)\b":
        "Here only built-in models are known; for your own run 'gambrel analyze file.py:function --hardware "
        "DEVICE', or a .pt2 file or config.json.",
    r"\b(?:excluding|except|ignoring|besides|minus|p9\d|percentile)\b":
        "Whole models are analyzed, without exclusions or percentiles; name what you want instead.",
    r"\b(?:rocm|driver|ubuntu|windows|maxn|pytorch \d|cudnn)\b":
        "Versions of drivers and systems are not told apart; name a runtime ('under tensorrt') or a device.",
    r"\b(?:double[ds]?|twice|half|halved?|triple)\b(?! precision)":
        "Name the value, e.g. batch 32.",
    r"\b(?:yesterday|tomorrow|overclock\w*|undervolt\w*)\b":
        "gambrel has no such figure.",
}  # fmt: skip
_REFUSALS: Final = tuple((re.compile(pattern), text) for pattern, text in _RAW.items())

#: Kind of question → beginnings of what is no reason against it.
_ANSWERED: Final[dict[str, tuple[str, ...]]] = {
    "devices": ("Latency, power",),
    "serve": ("In chat one device", "One step is analyzed"),
    "train": ("Ask for a training", "In chat one device"),
    "kv_cache": ("In chat one device",),
}


def refusal(text: str, intent: str = "") -> str:
    """What to say to a question that cannot be answered; empty when nothing speaks against it.

    Args:
        text: With markers.
        intent: What the question asks for, as far as that is known.
    """
    allowed = _ANSWERED.get(intent, ())
    return next(
        (s for p, s in _REFUSALS if p.search(text) and not (allowed and s.startswith(allowed))), ""
    )


#: Kinds of question whose answers show every figure, or sort by the one that is named.
_OF_ALL: Final = frozenset(
    {"compare", "select", "check", "judge", "what_if", "recommend", "why", "ops", "device",
     "utilization", "serve", "batch", "train"}
)  # fmt: skip
_SHOWN: Final = frozenset(
    {"bandwidth", "compute", "energy", "memory", "power", "throughput", "efficiency", "bound",
     "overhead", "watt"}
)  # fmt: skip
#: Kind → words of what its answer always says.
_OWN: Final = {
    "bound": frozenset({"compute", "memory"}),
    "serve": frozenset({"recommend", "suggest"}),
    "batch": frozenset({"compute-bound", "memory-bound", "latency", "saturate", "saturated"}),
}
#: Kinds that choose what to show by other means than their evidence.
_OTHER: Final = frozenset({"", "help", "explain", "devices", "models"})


def left_out(text: str, intent: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a question holds beside what is answered.

    Args:
        text: With markers.
        intent: What is answered.

    Returns:
        Words of the field that said nothing for this kind of question; and those among them that
        ask for something else.
    """
    if intent in _OTHER:
        return (), ()
    allowed = (
        neutral_words()
        | _OWN.get(intent, frozenset())
        | (_SHOWN if intent in _OF_ALL else frozenset())
    )
    rest = text
    for name in (intent, *kin(intent)):
        for pattern, _ in INTENTS[name].evidence:
            rest = pattern.sub(_blank, rest)
    topic = (w for w in re.findall(r"[a-z][a-z-]+", rest) if w in topic_words())
    left = (w for w in topic if w not in allowed and not allowed.issuperset(w.split("-")))
    words = tuple(dict.fromkeys(left))
    return words, tuple(word for word in words if _asks(word, rest, intent))


def _blank(match: re.Match[str]) -> str:
    """Blanks of the same length, the markers kept for other patterns."""
    return re.sub(r"[a-z'-]", " ", match.group())


def _asks(word: str, rest: str, intent: str) -> bool:
    """Whether a word is evidence for another kind of question, on what is left of the text."""
    return any(
        re.search(rf"\b{re.escape(word)}\b", match.group())
        for name, other in INTENTS.items()
        if name != intent
        for pattern, weight in other.evidence
        if weight > ENOUGH
        for match in pattern.finditer(rest)
    )
