"""Numbers with meaning in a question: limits, batches, sizes, number formats, stacks.

Each is taken out of the text and leaves a marker in capitals, so that what remains can be matched
as ``can MODEL reach LATENCY on DEVICE``.
"""

# A pattern that is cut by the line length can no longer be read.
# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

_NUMBER: Final = r"(\d[\d,]*(?:\.\d+)?|\.\d+)"
_SECOND: Final = r"(?:seconds?|secs?|s)\b"
_ITEMS: Final = (
    r"(?:fps|f/s|ips|qps|hz|tps|t/s|/\s*s(?:ec)?\b|"
    r"(?:frames?|images?|imgs?|pictures?|inferences?|samples?|items?|sequences?|tokens?|toks?|tok|"
    r"queries|requests)\s*(?:/|per|a|each|every)\s*" + _SECOND + r")"
)
#: What may follow a number that is no batch size.
_OTHER_UNIT: Final = (
    r"(?!\d|\.\d|\s*(?:ms|us|µs|s\b|sec|fps|w\b|watt|mw|img|images?\s*(?:/|per)|frames?|tok|k\b|px|"
    r"gb|mb|gib|mib|mj|j\b|hz|bit|°|%|[x×]))"
)
_FORMAT: Final = (
    r"(?:fp ?64|fp ?32|tf ?32|bf ?16|fp ?16|fp ?8|fp ?4|int ?8|int ?4|float ?(?:64|32|16|8)|bfloat ?16|"
    r"(?:half|single|double)[- ]precision|[48] ?-?bits?)"
)


_Value = TypeVar("_Value", str, int)


@dataclass(slots=True, kw_only=True)
class Found:
    """What `extract` took out of a text; filled step by step.

    Attributes:
        limits: Metric → text with a canonical unit.
        batch: Batch sizes.
        sizes: Symbol → value.
        tokens: A count of tokens of which the text does not say whether prompt or context.
        precision: Number formats of the whole model.
        changes: Changes that only a what-if can make.
        runtime: How the model is executed.
        phase: Phase of a language model.
        notes: How something was read.
        clashes: Limits and sizes that are given twice, with both values.
    """

    limits: dict[str, str] = field(default_factory=dict)
    batch: list[int] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    tokens: int | None = None
    precision: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    runtime: str = ""
    phase: str = ""
    notes: list[str] = field(default_factory=list)
    clashes: list[str] = field(default_factory=list)

    def limit(self, metric: str, text: str) -> None:
        """Notes a limit; another of the same metric is a clash."""
        self._once(self.limits, metric, text)

    def size(self, name: str, value: int) -> None:
        """Notes a size; another of the same name is a clash."""
        self._once(self.sizes, name, value)

    def _once(self, given: dict[str, _Value], name: str, value: _Value) -> None:
        before = given.setdefault(name, value)
        if before != value:
            self.clashes.append(f"{name} {before} and {value}")


Take = Callable[[Found, "re.Match[str]"], str]


def extract(text: str) -> tuple[str, Found]:
    """Takes every quantity out of a text.

    Args:
        text: Lower case; names are already replaced by markers.

    Returns:
        The text with markers, and what was taken out.
    """
    found = Found()
    for pattern, take in _STEPS:
        text = pattern.sub(partial(_marked, take, found), text)
    return re.sub(r"\s+", " ", text).strip(), found


def _marked(take: Take, found: Found, match: re.Match[str]) -> str:
    return f" {take(found, match)} "


def _batch(found: Found, match: re.Match[str]) -> str:
    found.batch += [int(n) for n in re.findall(r"\d+", match.group(1))]
    return "BATCH"


def _count(text: str, thousand: str | None) -> int:
    """``"16", "k"`` → 16384: lengths in tokens are written in units of 1024."""
    value = float(text.replace(",", ""))
    return round(value * 1024) if thousand else round(value)


def _size(name: str) -> Take:
    def take(found: Found, match: re.Match[str]) -> str:
        number, thousand = next(
            (match.group(i), match.group(i + 1)) for i in (1, 3) if match.group(i)
        )
        value = _count(number, thousand)
        found.size(name, value)
        if thousand:
            found.notes.append(f"{number}k read as {value:,} tokens.")
        return "SIZE"

    return take


def _tokens(found: Found, match: re.Match[str]) -> str:
    found.tokens = _count(match.group(1), match.group(2))
    return "TOKENS"


def _square(found: Found, match: re.Match[str]) -> str:
    if match.group(1) != match.group(2):
        return match.group(0).replace("x", " by ").replace("×", " by ")
    found.size("image", int(match.group(1)))
    return "SIZE"


def _image(found: Found, match: re.Match[str]) -> str:
    found.size("image", int(match.group(1)))
    return "SIZE"


def _counted(found: Found, match: re.Match[str]) -> str:
    """Several devices, or users at once."""
    word, what = match.group(1), match.group(2)
    count = int(word) if word.isdigit() else _NUMBER_WORDS[word]
    if what != "DEVICE":
        found.size("users", count)
        return "USERS"
    if count == 1:
        return what
    found.size("devices", count)
    return f"COUNT {what}"


def _promise(found: Found, match: re.Match[str]) -> str:
    """``"ttft under 1 s"``: a limit of one phase."""
    name = "ttft" if re.match(r"ttft|time to first", match.group(0)) else "tpot"
    unit = next(u for p, u in _UNITS["latency"] if re.fullmatch(p, match.group(2)))
    found.limit(name, match.group(1).replace(",", "") + unit)
    return name.upper()


def _format(text: str) -> str:
    """Canonical name: ``"4-bit"`` → ``"int4"``, ``"half precision"`` → ``"fp16"``."""
    short = re.sub(r"[\s-]|s$", "", text)
    words = {"half": "fp16", "single": "fp32", "double": "fp64", "bfloat": "bf16"}
    for word, name in words.items():
        if short.startswith(word):
            return name
    if short.endswith("bit"):
        return f"int{short[0]}"
    return short.replace("float", "fp")


def _precision(found: Found, match: re.Match[str]) -> str:
    name = _format(match.group(0))
    if "bit" in match.group(0):
        found.notes.append(f"{match.group(0).strip()} read as {name}.")
    if name not in found.precision:
        found.precision.append(name)
    return "PRECISION"


def _part(change: str) -> Take:
    def take(found: Found, match: re.Match[str]) -> str:
        name = _format(next(g for g in match.groups() if g))
        found.changes.append(f"{change}={name}")
        return "CHANGE"

    return take


def _coded(found: Found, match: re.Match[str]) -> str:
    weights, activations = match.group(1), match.group(2)
    if weights == activations:
        found.precision.append(f"int{weights}")
        return "PRECISION"
    found.changes.append(f"weights=int{weights}")
    return "CHANGE"


_UNITS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "latency": ((r"ms|msecs?|millis(?:ec(?:ond)?s?)?", "ms"), (r"us|µs|microsec(?:ond)?s?", "us"),
                (_SECOND, "s")),
    "power": ((r"mw|milliwatts?", "mW"), (r"kw|kilowatts?", "kW"), (r"w|watts?", "W")),
    "energy": ((r"mj|millijoules?", "mJ"), (r"uj|µj|microjoules?", "uJ"), (r"j|joules?", "J")),
    "memory": ((r"gib", "GiB"), (r"mib", "MiB"), (r"gb?|gigs?|gigabytes?", "GB"),
               (r"mb|megs?|megabytes?", "MB"), (r"tb|terabytes?", "TB"), (r"kb|kilobytes?", "KB")),
}  # fmt: skip


def _limit(metric: str) -> Take:
    def take(found: Found, match: re.Match[str]) -> str:
        number, word = match.group(1).replace(",", ""), match.group(2)
        unit = next(name for pattern, name in _UNITS[metric] if re.fullmatch(pattern, word))
        found.limit(metric, number + unit)
        return metric.upper()

    return take


def _throughput(found: Found, match: re.Match[str]) -> str:
    found.limit("throughput", match.group(1).replace(",", "") + (match.group(2) or "") + "/s")
    if re.search(r"tok|tps|t/s", match.group(0)):
        found.phase = found.phase or "decode"
    return "THROUGHPUT"


def _set(**values: str) -> Take:
    def take(found: Found, match: re.Match[str]) -> str:
        for name, value in values.items():
            setattr(found, name, value)
        return match.group(0) if "phase" in values else "STACK"

    return take


def _change(text: str) -> Take:
    def take(found: Found, _: re.Match[str]) -> str:
        if text not in found.changes:
            found.changes.append(text)
        return "CHANGE"

    return take


def _either(metric: str) -> str:
    return "|".join(pattern for pattern, _ in _UNITS[metric])


#: Numbers that people write out.
_NUMBER_WORDS: Final = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16,
}  # fmt: skip
_LATENCY: Final = "|".join(pattern for pattern, _ in _UNITS["latency"])

_LIST: Final = (
    rf"(\d+(?:\s*(?:,\s*and|,|and|or|&|vs\.?|versus|to|/|\s)\s*(?:(?:a )?batch(?:[ -]?size)?(?: of)? ?)?"
    rf"\d+{_OTHER_UNIT})*)"
)
_RAW: Final[tuple[tuple[str, Take], ...]] = (
    (rf"\b(?:in )?batch(?:es)?(?:[ _-]?sizes?)?\s*(?:of|=|:|is|at)?\s*{_LIST}(?: images?)?\b", _batch),
    (rf"\b(?:bsz?|b)\s*[=:]?\s*{_LIST}\b", _batch),
    (r"\b(\d+)[ -](?:images?|frames?|pictures?|sequences?|requests?|samples?)\s+(?:at once|at a time|"
     r"in parallel|at the same time|per batch|together)", _batch),
    (r"\b(\d+)\s*[x×]\s*(\d+)\b(?:\s*(?:px|pixels?))?", _square),
    (r"\b(?:imgsz|(?:image|img|input)[ _-]?(?:size|side|res(?:olution)?)|resolution)\s*"
     r"(?:of|=|:|is)?\s*(\d{2,4})\b(?:\s*(?:px|pixels?))?", _image),
    (r"\b(\d{2,4})\s*(?:px|pixels?)\b", _image),
    (r"\b(?:(\d[\d,]*)\s*(k)?[- ]?(?:tokens?)?\s*(?:of\s+)?(?:context|ctx)(?:[ _-]?(?:length|len|size|"
     r"window))?\b|(?:context|ctx)(?:[ _-]?(?:length|len|size|window))?\s*(?:of|=|:|is|at)?\s*"
     r"(\d[\d,]*)\s*(k\b)?(?:\s*tokens?)?)", _size("context")),
    (r"\b(?:(\d[\d,]*)\s*(k)?[- ]?(?:tokens?[ -](?:prompts?|inputs?|sequences?|long)|prompts?)\b|(?:seq(?:uence)?"
     r"(?:[ _-]?(?:length|len))?|seqlen|prompt(?:[ _-]?(?:length|len))?)\s*(?:of|=|:|is)?\s*(\d[\d,]*)"
     r"\s*(k\b)?(?:\s*tokens?)?)", _size("seq")),
    (r"\b(\d[\d,]*)\s*(k)?[- ]?(?:tokens? (?:of )?)?(?:in(?=,? (?:and |/ ?)?\d+k? (?:tokens )?out)|inputs?)\b|"
     r"\binputs?\s*(?:of|=|:)?\s*(\d[\d,]*)\s*(k\b)?(?:\s*tokens?)?", _size("input")),
    (r"\b(\d[\d,]*)\s*(k)?[- ]?(?:tokens? (?:of )?)?(?:out\b|outputs?\b|answers?\b)|"
     r"\b(?:outputs?|answers?)\s*(?:of|=|:)?\s*(\d[\d,]*)\s*(k\b)?(?:\s*tokens?)?", _size("output")),
    (rf"(?:ttft|time to first token|tpot|itl|time per (?:output )?token|inter[- ]token latency)\s*"
     rf"(?:of|under|below|at most|within|less than|max|is|=|:|<=?|≤)*\s*{_NUMBER}\s*({_LATENCY})\b", _promise),
    (rf"(?<![\w.−-]){_NUMBER}\s*(k)?\s*{_ITEMS}", _throughput),
    (r"\bat (\d[\d,]*)\s*(k)\b(?![ -]tokens?)", _tokens),
    (r"(?<![\w.−-])(\d[\d,]*)\s*(k)?[ -]tokens?\b(?!\s*(?:/|per|a)\s*s)", _tokens),
    (rf"\b({_FORMAT})[ -]*(?:kv\b(?:[- ]?cache)?|(?:key[/ -]value )cache)", _part("kv")),
    (rf"\b(?:kv\b(?:[- ]?cache)?|key[/ -]value cache)\s*(?:in|to|at|as|=|of)?\s*({_FORMAT})\b",
     _part("kv")),
    (rf"\b({_FORMAT})[ -]*weights?(?:[- ]only)?\b|\bweights?(?:[- ]only)?\s*(?:in|to|at|as|=|of)?\s*"
     rf"({_FORMAT})\b", _part("weights")),
    (r"\bw([48])a(16|8|4)\b", _coded),
    (rf"\b{_FORMAT}\b", _precision),
    *((rf"(?<![\w.−-]){_NUMBER}\s*-?({_either(metric)})\b", _limit(metric)) for metric in _UNITS),
    (r"\b(?:with |using |use )?(?:2:4 (?:structured )?sparsity|structured(?:[ -]sparsity)?|sparsity|"
     r"sparse|2:4)\b", _change("sparsity")),
    (r"\b(?:torch\.?compiled?|(?:is |when |if )?compiled|compil(?:e|ing|ation)|inductor|"
     r"(?:op(?:erator)? |kernel )?fus(?:ion|ed|ing|e))\b", _set(runtime="torch-compile")),
    (r"\bcuda[ -]?graphs?\b", _change("graphs")),
    (r"\beager(?: mode)?\b", _set(runtime="pytorch")),
    (rf"\b(\d+|{'|'.join(_NUMBER_WORDS)})\s*(?:[x×]\s*)?(?:concurrent |parallel )?"
     r"(DEVICE|users?\b)", _counted),
    (r"\b(?:ttft|time to first token|prefill(?:ing)?|prompt processing)\b", _set(phase="prefill")),
    (r"\b(?:tpot|itl|decod(?:e|ing)|(?:text |token )?generation|per token|tokens? per (?:s|sec|second)|"
     r"tok/s|tokens/s(?:ec)?)\b", _set(phase="decode")),
)  # fmt: skip
_STEPS: Final = tuple((re.compile(pattern), take) for pattern, take in _RAW)
