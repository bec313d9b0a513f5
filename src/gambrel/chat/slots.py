"""Slots: the values in a question, each under its field of `gambrel.analysis.question`.

A value is taken out of the text and leaves a marker in capitals, so that what remains can be
matched as ``can MODEL reach LATENCY on DEVICE``. Names, units and parsers are those of the fields.
"""

# A pattern that is cut by the line length can no longer be read.
# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final

from gambrel.analysis.question import FIELDS, TARGETS
from gambrel.dtypes import BITS, GGUF_BITS, GGUF_MIXES, PRECISIONS, parse_dtype

#: Fields of which a question gives one value at most.
_SINGLE: Final = frozenset(
    name
    for name, one in FIELDS.items()
    if one.group == TARGETS or one.kind.unit in {"tokens", "pixels"}
)
SIZES: Final = (
    "seq", "context", "image", "steps", "input", "output", "concurrency", "max_devices",
    "total_tokens",
)  # fmt: skip
SETTINGS: Final = ("sparsity", "engine", "causal")
#: Quantity → the field that a value of it means where no other is named.
_MEANT: Final = {
    f.kind.quantity: n
    for n, f in reversed(FIELDS.items())
    if f.group == TARGETS and f.kind.quantity
}


@dataclass(slots=True, kw_only=True)
class Slots:
    """What a question gives; filled step by step.

    Attributes:
        values: Field → values in order, numbers as whole numbers, targets as texts with a unit.
        tokens: A count of tokens of which the text does not say whether prompt or context.
        changes: Changes that only a what-if makes.
        notes: How something was read.
        clashes: Fields given twice, with both values.
    """

    values: dict[str, list[Any]] = field(default_factory=dict)
    tokens: int | None = None
    changes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    clashes: list[str] = field(default_factory=list)

    def put(self, name: str, value: Any) -> None:
        """Notes a value; another of a field that takes one is a clash."""
        known = self.values.setdefault(name, [])
        if value in known:
            return
        if known and name in _SINGLE:
            self.clashes.append(f"{name} {known[0]} and {value}")
        known.append(value)

    def all(self, name: str) -> tuple[Any, ...]:
        """The values of a field."""
        return tuple(self.values.get(name, ()))

    def pairs(self, names: Iterable[str]) -> tuple[tuple[str, Any], ...]:
        """Field and value of those of the fields that are given, in the order of the text."""
        wanted = set(names)
        return tuple((name, of[0]) for name, of in self.values.items() if name in wanted)

    @property
    def limits(self) -> tuple[tuple[str, str], ...]:
        """Targets that are given."""
        return self.pairs(n for n in self.values if n in FIELDS and FIELDS[n].group == TARGETS)


Take = Callable[[Slots, "re.Match[str]"], str]


def extract(text: str) -> tuple[str, Slots]:
    """Takes every value out of a text.

    Args:
        text: Lower case; names are already replaced by markers.

    Returns:
        The text with markers, and what was taken out.

    Raises:
        InputError: A number out of the range of its field.
    """
    slots = Slots()
    for pattern, take in _steps():
        text = pattern.sub(partial(_marked, take, slots), text)
    return re.sub(r"\s+", " ", text).strip(), slots


def _marked(take: Take, slots: Slots, match: re.Match[str]) -> str:
    return f" {take(slots, match)} "


def _whole(name: str, text: str) -> int:
    """A number as the field reads it: ``"8k"`` tokens are 8,192."""
    kind = FIELDS[name].kind
    return int(kind.read(text.replace(",", ""), kind, name))


def _put(name: str, marker: str) -> Take:
    """Puts the first group that matched, a number, with the next one, its prefix."""

    def take(slots: Slots, match: re.Match[str]) -> str:
        given = [g for g in match.groups() if g]
        value = _whole(name, "".join(given[:2]))
        slots.put(name, value)
        if len(given) > 1:
            slots.notes.append(f"{''.join(given[:2])} read as {value:,} {FIELDS[name].kind.unit}.")
        return marker

    return take


def _batch(slots: Slots, match: re.Match[str]) -> str:
    for number in re.findall(r"\d+", match[1]):
        slots.put("batch_size", _whole("batch_size", number))
    return "BATCH"


def _square(slots: Slots, match: re.Match[str]) -> str:
    if match[1] != match[2]:
        return re.sub("[x×]", " by ", match[0])
    slots.put("image", _whole("image", match[1]))
    return "SIZE"


def _corpus(slots: Slots, match: re.Match[str]) -> str:
    letter = {"b": "G", "g": "G"}.get(match[2][0], match[2][0].upper())
    slots.put("total_tokens", match[1] + letter)
    return "CORPUS"


def _sampler_steps(slots: Slots, match: re.Match[str]) -> str:
    slots.put("steps", int(match[1] or match[2]))
    return "SIZE"


def _tokens(slots: Slots, match: re.Match[str]) -> str:
    slots.tokens = _whole("context", match[1] + (match[2] or ""))
    return "TOKENS"


def _counted(slots: Slots, match: re.Match[str]) -> str:
    """Several devices, or users at once."""
    word, what = match[1], match[2]
    count = int(word) if word.isdigit() else _NUMBER_WORDS[word]
    if what != "DEVICE":
        slots.put("concurrency", count)
        return "USERS"
    if count == 1:
        return what
    slots.put("max_devices", count)
    return f"COUNT {what}"


def _quantity(number: str, prefix: str | None, unit: str) -> tuple[str, str]:
    """The quantity, and the text that its parser reads: ``("time", "5ms")``."""
    size = unit[0] in "bgi" or unit.startswith("meg")
    quantity, symbol = ("size", "iB" if unit == "ib" else "B") if size else _QUANTITIES[unit[0]]
    letter = {"micro": "u", "µ": "u"}.get(prefix or "", (prefix or "")[:1])
    if size:
        letter = (letter or ("" if unit[0] == "b" else unit[0])).upper()
    elif letter in "gt":
        letter = letter.upper()
    return quantity, number.replace(",", "") + letter + symbol


def _target(slots: Slots, match: re.Match[str]) -> str:
    quantity, text = _quantity(match[1], match[2], match[3])
    slots.put(_MEANT[quantity], text)
    return _MEANT[quantity].upper()


def _promise(slots: Slots, match: re.Match[str]) -> str:
    """``"ttft under 1 s"``: a target of one phase."""
    name = "ttft" if re.match(r"ttft|time to first", match[0]) else "tpot"
    slots.put(name, _quantity(match[1], match[2], match[3])[1])
    return name.upper()


def _pace(slots: Slots, match: re.Match[str]) -> str:
    """``"20 tokens/s per user"``: the time of a token of each."""
    text = f"{1000 / float(match[1].replace(',', '')):.4g}ms"
    slots.put("tpot", text)
    slots.notes.append(f"{match[0].strip()} read as a TPOT of {text}.")
    return "TPOT"


def _throughput(slots: Slots, match: re.Match[str]) -> str:
    slots.put("throughput", match[1].replace(",", "") + (match[2] or "") + "/s")
    if re.search(r"tok|tps|t/s", match[0]):
        slots.values.setdefault("phase", ["decode"])
    return "THROUGHPUT"


def _format(text: str) -> str:
    """Canonical name: ``"4-bit"`` → ``"int4"``, ``"half precision"`` → ``"fp16"``."""
    if (exact := text.strip()) in BITS:
        return exact
    short = re.sub(r"[\s-]|s$|precision", "", text)
    return f"int{short[0]}" if short.endswith("bit") else parse_dtype(short)


def _precision(slots: Slots, match: re.Match[str]) -> str:
    name = _format(match[0])
    if "bit" in match[0] or re.fullmatch(r"q\d", match[0].strip()):
        slots.notes.append(f"{match[0].strip()} read as {name}.")
    slots.put("precision", name)
    return "PRECISION"


def _coded(slots: Slots, match: re.Match[str]) -> str:
    if match[1] != match[2]:
        return _change(f"weights=int{match[1]}")(slots, match)
    slots.put("precision", f"int{match[1]}")
    return "PRECISION"


def _part(change: str) -> Take:
    def take(slots: Slots, match: re.Match[str]) -> str:
        return _change(f"{change}={_format(next(g for g in match.groups() if g))}")(slots, match)

    return take


def _change(text: str) -> Take:
    def take(slots: Slots, _: re.Match[str]) -> str:
        if text not in slots.changes:
            slots.changes.append(text)
        return "CHANGE"

    return take


def _pruned(slots: Slots, match: re.Match[str]) -> str:
    """``"prune it by half"``: the share that goes."""
    share = "50%" if match[2] == "half" else match[2].replace(" ", "")
    return f"{_change(f'prune={share}')(slots, match)}{match[1] or ''}"


def _scaled(change: str) -> Take:
    """``"twice the bandwidth"``: a multiple of what the device has."""

    def take(slots: Slots, match: re.Match[str]) -> str:
        word = match[1]
        factor = _MULTIPLES.get(word) or word.rstrip("x× ").removesuffix("times").strip()
        return _change(f"{change}={factor}x")(slots, match)

    return take


def _set(name: str, value: Any, marker: str = "") -> Take:
    def take(slots: Slots, match: re.Match[str]) -> str:
        if name == "phase":
            slots.values[name] = [value]
        else:
            slots.put(name, value)
        return marker or match[0]

    return take


#: Numbers that people write out.
_NUMBER_WORDS: Final = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16, "a hundred": 100, "hundred": 100,
}  # fmt: skip
_MULTIPLES: Final = {"twice": "2", "double": "2", "doubled": "2", "half": "0.5", "halved": "0.5"}
_MULTIPLE: Final = (
    rf"\b({'|'.join(_MULTIPLES)}|\d+(?:\.\d+)? ?(?:x|×|times))(?: (?:the|as much|of the))* "
)
_QUANTITIES: Final = {"s": ("time", "s"), "w": ("power", "W"), "j": ("energy", "J")}
_NUMBER: Final = r"(\d[\d,]*(?:\.\d+)?|\.\d+)"
_COUNT: Final = r"(\d[\d,]*)\s*([km])?"
_UNIT: Final = (
    r"(milli|micro|kilo|mega|giga|tera|[mukgtµ])?(seconds?|secs?|s|watts?|w|joules?|j|"
    r"(?<=[a-z])bytes?|(?<=[kmgt])i?b|gigs?|megs?|(?<=\d)g)\b"
)
_TIME: Final = r"(milli|micro|[muµ])?(seconds?|secs?|s)\b"
_PER_S: Final = r"\s*(?:/|per|a|each|every)\s*(?:seconds?|secs?|s)\b"
_TOKENS: Final = r"(?:tokens?|toks?|tok)"
_ITEMS: Final = (
    r"(?:fps|f/s|ips|qps|rps|hz|tps|t/s|/\s*s(?:ec)?\b|(?:frames?|images?|imgs?|pictures?|inferences?|"
    rf"samples?|items?|sequences?|{_TOKENS}|queries|requests|reqs?){_PER_S})"
)
#: What may follow a number that is no batch size.
_OTHER_UNIT: Final = (
    r"(?!\d|\.\d|\s*(?:ms|us|µs|s\b|sec|fps|w\b|watt|mw|img|images?\s*(?:/|per)|frames?|tok|k\b|px|"
    r"gb|mb|gib|mib|mj|j\b|hz|bit|°|%|[x×]))"
)
_FORMAT: Final = (
    rf"(?:{'|'.join(sorted((*GGUF_MIXES, *GGUF_BITS), key=len, reverse=True))}|"
    rf"{'|'.join(re.sub(r'(?=[0-9])', ' ?', name, count=1) for name in PRECISIONS)}|"
    r"q[234568]\b|float ?(?:64|32|16|8)|bfloat ?16|(?:half|single|double)[- ]precision|[48] ?-?bits?)"
)
#: What torch.compile does.
_FUSION: Final = r"(?:compil(?:e|ing|ation)|(?:op(?:erator)? |kernel )?fus(?:ion|ed|ing|e))"
_IS: Final = r"\s*(?:of|=|:|is|at)?\s*"
_AT_MOST: Final = r"\s*(?:of|under|below|at most|within|less than|max|is|=|:|<=?|≤)*\s*"
_TTFT: Final = r"(?:ttft|time to first token)"
_TPOT: Final = r"(?:tpot|itl|time per (?:output )?token|inter[- ]token latency)"
_KV: Final = r"(?:kv\b(?:[- ]?cache)?|(?:key[/ -]value )cache)"
_LIST: Final = (
    rf"(\d+(?:\s*(?:,\s*and|,|and|or|&|vs\.?|versus|to|/|\s)\s*(?:(?:a )?batch(?:[ -]?size)?(?: of)? ?)?"
    rf"\d+{_OTHER_UNIT})*)"
)
#: Names of runtimes that mean something else in a sentence.
_NO_RUNTIME: Final = frozenset(
    {"compile", "gguf", "ideal", "jax", "perfect", "sol", "torch", "vendor", "cuda-graph"}
)


def _called(name: str, *more: str) -> str:
    """All names of a field, the longest first, however their parts are joined."""
    words = sorted({name, *FIELDS[name].words, *more}, key=lambda word: -len(word))
    tail = r"(?:[ _-]?(?:length|len|size|side|window))?"
    return rf"(?:{'|'.join(w.replace(' ', '[ _-]?') for w in words)}){tail}"


def _sized(name: str, before: str, after: str) -> tuple[str, Take]:
    """A size in front of its name, or behind it."""
    pattern = rf"\b(?:{_COUNT}[- ]?{before}\b|{after}{_IS}(\d[\d,]*)\s*([km]\b)?(?:\s*tokens?)?)"
    return pattern, _put(name, "SIZE")


def _runtimes() -> tuple[str, Take]:
    """Every runtime by its names; of names that begin alike the longest is tried first."""
    from gambrel.runtimes import runtimes

    known = {alias: one.id for one in runtimes().values() for alias in one.aliases}
    known |= {name: name for name in runtimes()}
    names = sorted(known.keys() - _NO_RUNTIME, key=lambda name: -len(name))
    joined = "|".join(re.sub(r"[-. ]", "[-_. ]?", name) for name in names)
    keys = {re.sub(r"[-. ]", "", name): key for name, key in known.items()}

    def take(slots: Slots, match: re.Match[str]) -> str:
        slots.put("runtime", keys[re.sub(r"[-_. ]", "", match[1] or "torch-compile")])
        return "RUNTIME"

    return rf"(?<![\w-])(?:({joined})d?(?![\w-])(?: mode\b)?|{_FUSION}\b)", take


@lru_cache(maxsize=1)
def _steps() -> tuple[tuple[re.Pattern[str], Take], ...]:
    """Patterns in the order in which they are tried: what is more specific comes first."""
    raw: tuple[tuple[str, Take], ...] = (
        (rf"\b(?:in )?(?:{_called('batch_size', 'batch', 'bsz')})(?:[ _-]?sizes?)?{_IS}{_LIST}(?: images?)?\b", _batch),
        (rf"\bb\s*[=:]?\s*{_LIST}\b", _batch),
        (r"\b(\d+)[ -](?:images?|frames?|pictures?|sequences?|requests?|samples?)\s+(?:at once|at a time|"
         r"in parallel|at the same time|per batch|together)", _batch),
        (r"\b(\d+)\s*[x×]\s*(\d+)\b(?:\s*(?:px|pixels?))?", _square),
        (rf"\b(?:imgsz|{_called('image', 'img size', 'input size', 'input resolution')}){_IS}(\d{{2,4}})\b(?:\s*(?:px|pixels?))?",
         _put("image", "SIZE")),
        (r"\b(\d{2,4})\s*(?:px|pixels?)\b", _put("image", "SIZE")),
        (r"\b(\d+(?:\.\d+)?)\s*(t|b|g|trillion|billion|million)[- ]*tokens?\b(?!\s*(?:/|per|a)\s*s)", _corpus),
        (r"\b(\d+) (?:sampl\w+ |denoising |diffusion |inference )?steps?\b|\bsteps?\s*[=:]\s*(\d+)\b", _sampler_steps),
        _sized("context", rf"(?:tokens?)?\s*(?:of\s+)?{_called('context', 'ctx')}", _called("context", "ctx")),
        _sized("seq", r"(?:tokens?[ -](?:prompts?|inputs?|sequences?|long)|prompts?)", _called("seq", "seqlen", "sequence")),
        _sized("input", r"(?:tokens? (?:of )?)?(?:in(?=,? (?:and |/ ?)?\d+k? (?:tokens )?out)|inputs?)", r"\binputs?"),
        _sized("output", r"(?:tokens? (?:of )?)?(?:out|outputs?|answers?)", r"\b(?:outputs?|answers?)"),
        (rf"(?:{_TTFT}|{_TPOT}){_AT_MOST}{_NUMBER}\s*{_TIME}", _promise),
        (rf"(?<![\w.−-]){_NUMBER}\s*(?:tps|t/s|{_TOKENS}{_PER_S})[ ,]*(?:per|/|a|each|for (?:each|every))\s*"
         r"(?:users?|requests?|streams?|sessions?)\b", _pace),
        (rf"(?<![\w.−-]){_NUMBER}\s*(k)?\s*{_ITEMS}", _throughput),
        (r"\bat (\d[\d,]*)\s*([km])\b(?![ -]tokens?)", _tokens),
        (rf"(?<![\w.−-]){_COUNT}[ -]tokens?\b(?!\s*(?:/|per|a)\s*s)", _tokens),
        (rf"\b({_FORMAT})[ -]*{_KV}|\b{_KV}\s*(?:in|to|at|as|=|of)?\s*({_FORMAT})\b", _part("kv")),
        (rf"\b({_FORMAT})[ -]*weights?(?:[- ]only)?\b|\bweights?(?:[- ]only)?\s*(?:in|to|at|as|=|of)?\s*"
         rf"({_FORMAT})\b", _part("weights")),
        (r"\bw([48])a(16|8|4)\b", _coded),
        (rf"\b{_FORMAT}\b", _precision),
        (rf"(?<![\w.−-]){_NUMBER}\s*-?{_UNIT}", _target),
        (rf"{_MULTIPLE}(?:memory |dram |hbm )?bandwidth\b", _scaled("bandwidth")),
        (rf"{_MULTIPLE}(?:peak(?: (?:compute|flops))?|compute|t?flops|arithmetic)\b", _scaled("peak")),
        (r"\b(?:with |using |use )?(?:2:4 (?:structured )?sparsity|structured(?:[ -]sparsity)?|sparsity|"
         r"sparse|2:4)\b", _set("sparsity", True, "CHANGE")),
        (r"\b(?:on |with |using |only )*(?:the )?(dla)\b", _set("engine", "dla", "CHANGE")),
        (r"\bfull(?: causal)? attention\b", _set("causal", "full", "CHANGE")),
        (r"\bcuda[ -]?graphs?\b", _change("graphs")),
        (r"\b(?:flash[ -]?attention(?:[ -]?v?[234]\b)?|fused attention)", _change("attention")),
        (r"\b(?:channels[_ -]last|nhwc)\b", _change("channels-last")),
        (r"\bprun\w+( MODEL)?(?: by)? (half|\d+ ?%)", _pruned),
        _runtimes(),
        (rf"\b(\d+|{'|'.join(_NUMBER_WORDS)})\s*(?:[x×]\s*)?(?:concurrent |parallel )?"
         r"(DEVICE|users?\b)", _counted),
        (rf"\b(?:{_TTFT}|prefill(?:ing)?|prompt processing)\b", _set("phase", "prefill")),
        (rf"\b(?:{_TPOT}|decod(?:e|ing)|(?:text |token )?generation|per token|tokens? per (?:s|sec|second)|"
         r"tok/s|tokens/s(?:ec)?)\b", _set("phase", "decode")),
    )  # fmt: skip
    return tuple((re.compile(pattern), take) for pattern, take in raw)
