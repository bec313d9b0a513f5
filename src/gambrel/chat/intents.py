"""What a question may be about, the words that speak for it, and what the things named rule out.

Patterns see the text in lower case with names and quantities replaced by markers in capitals.
Each that matches adds its weight; the intent with the largest sum is taken, if it leads.
"""

# A pattern that is cut by the line length can no longer be read.
# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gambrel.chat.frame import Frame, Unclear
from gambrel.chat.glossary import find_term
from gambrel.chat.names import phases_of
from gambrel.chat.sentence import Sentence

#: Least weight to act upon.
ENOUGH: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One kind of question.

    Attributes:
        name: As frames carry it.
        about: In words, for a reader who is asked what they meant.
        needs: Fields of a frame without which it cannot be answered.
        example: Of a question.
        evidence: Pattern → weight.
    """

    name: str
    about: str
    needs: tuple[str, ...]
    example: str
    evidence: tuple[tuple[re.Pattern[str], float], ...]


def _intent(
    name: str, about: str, needs: str, example: str, evidence: Mapping[str, float]
) -> Intent:
    return Intent(
        name=name,
        about=about,
        needs=tuple(needs.split()),
        example=example,
        evidence=tuple((re.compile(pattern), weight) for pattern, weight in evidence.items()),
    )


_BOTH: Final = "models hardware"
_THING: Final = (
    r"(?:hardware|devices?|gpus?|boards?|accelerators?|chips?|cards?|machines?|platforms?|edge|"
    r"jetsons?|tpus?|cpus?|npus?|computers?|microcontrollers?|mcus?)"
)
_ABLE: Final = (
    r"\b(?:can|could|will|would|does|do|is|are|able|possible|achieve|reach|hit|meet|sustain|enough|"
    r"keep|manage|check|stay|run|good|fast|doable|feasible|realistic)\b"
)
#: What is said of a time that was measured.
_RATED: Final = r"\b(?:good|bad|slow|fast|ok(?:ay)?|normal|reasonable|decent|poor|expected|right)\b"
_LIMIT: Final = r"(?:LATENCY|THROUGHPUT|POWER|ENERGY|MEMORY|TTFT|TPOT)"

#: Asks for what still fits.
MOST: Final = (
    r"\b(?:max(?:imum|imal)?|largest|biggest|longest|how (?:large|big|long|much) (?:of )?an?)"
)

#: Asks how to run a model: which runtime is the fastest.
WAYS: Final = r"\b(?:fastest|best|quickest|which|what) (?:\w+ )?(?:ways?|runtimes?|engines?|frameworks?|backends?|stacks?)\b"

_ALL: Final = (
    _intent("bound", "what limits a model on a device", _BOTH,
            "Is ResNet-50 compute-bound or memory-bound on an A100?", {
                r"\b(?:compute|memory|bandwidth|overhead|network|launch)[ -]?(?:bound|limited|constrained)\b|"
                r"\b(?:compute|memory) (?:or|and|vs) (?:memory|compute)[ -]bound": 5,
                r"\bbottle ?neck(?:s|ed)?\b|\blimit(?:s|ing|er)\b|\blimited by\b|\bh[eo]lds? ?(?:ing )?(?:\w+ )?back\b|\bholding (?:\w+ )?back\b": 4.5,
                r"\broof(?:line|s)?\b|^bound\b|\bbound of\b": 4,
                r"\bmemory wall\b": 5,
                r"\bbound\b": 1,
                r"\b(?:above|below|left|right) .*ridge": 3,
            }),
    _intent("ridge", "the ridge point of a device", "hardware",
            "What is the ridge point of an H100 in int8?", {
                r"\bridge(?: ?points?)?\b|\b(?:machine|balance|knee) (?:balance|point)\b": 5,
            }),
    _intent("intensity", "arithmetic intensity", _BOTH,
            "What is the arithmetic intensity of BERT-base on a T4?", {
                r"\b(?:arithmetic|operational|computational) intensity\b": 5.5,
                r"\b(?:memory |dram |hbm )?traffic\b|\bbytes (?:moved|read|written|transferred)\b": 6,
                r"\bintensity\b|\bflops? (?:per|/) ?bytes?\b|\bflop/b(?:yte)?\b|\bai (?:of|for)\b": 5,
            }),
    _intent("latency", "latency", _BOTH, "How fast is YOLOv8n on a Jetson Orin Nano in int8?", {
        r"\blatenc(?:y|ies)\b|\b(?:inference|execution|run|response|prefill|decode|forward)[ -]?times?\b": 4,
        r"\bhow (?:fast|quick(?:ly)?|long|slow)\b|\bms (?:per|for|does)\b|\bmany (?:ms|milli\w+|micro\w+|seconds)\b": 4,
        r"\bttft\b|\btpot\b|\bitl\b|\btime (?:to first token|per token|per image)\b|\bspeed of\b|\bruntime\b": 4,
        r"\bexpected time\b": 3,
    }),
    _intent("throughput", "throughput", _BOTH, "How many images per second does ViT-B/16 do on an L4?", {
        r"\bthroughput\b|\bhow many (?:fps|images?|frames?|tokens?|samples?|inferences?|qps)\b": 5,
        r"\bfps\b|\b(?:tokens?|images?|frames?|samples?|inferences?|queries|sequences?) ?(?:per|/|a) ?"
        r"s(?:ec(?:ond)?)?\b|\btok/s\b|\bqps\b|\btps\b": 4,
    }),
    _intent("memory", "memory needed", _BOTH, "Does Llama-3-70B fit on an A100 80GB?", {
        r"\b(?:how much|what|gpu|device) (?:memory(?! bandwidth)|v?ram)\b|\bmemory (?:use|usage|footprint|needs?|need|"
        r"requirements?|consumption)\b": 5,
        r"^(?:can|could|will|would|does|do) (?:(?:i|we|you) )?(?:run |load |host |deploy )?MODEL "
        r"(?:(?:in|with|at) (?:PRECISION|BATCH) )*(?:(?:run|work|load) )?(?:on|onto|into) "
        r"(?:an? |the |one |single )*DEVICE(?: (?:in|with|at) (?:PRECISION|BATCH))*\W*$": 4,
        r"^(?:can|could|will|would|does|is) (?:an? |the |one |single |my )*DEVICE (?:able to )?(?:run|load|host|hold|handle) "
        r"(?:an? |the )?MODEL(?: (?:in|with|at) (?:PRECISION|BATCH))*\W*$": 4,
        r"\bv?ram\b|\bfootprint\b|\bfits?\b|\boom\b|\bout of memory\b|\bweigh\b": 5,
        r"\bmemory\b(?![ -](?:bound|limited|bandwidth|roof|wall))": 3,
    }),
    _intent("energy", "energy", _BOTH, "How much energy does one inference of ResNet-50 take on an A100?", {
        r"\benergy\b|\bjoules?\b|\bbattery\b|\befficien(?:cy|t)\b|\bper watt\b|\bper joule\b": 4.5,
    }),
    _intent("power", "power", _BOTH, "What power does YOLOv8n draw on a Jetson Orin Nano?", {
        r"\bpower(?: draw| consumption| usage| use)?\b|\bwatts?\b|\bwattage\b": 4,
    }),
    _intent("utilization", "utilization", _BOTH, "What utilization does ResNet-50 reach on an H100 at batch 8?", {
        r"\bhow (?:close|near|far)\b.*\b(?:roof|peak|ridge|limit)": 6,
        r"\b(?:how much|what) (?:memory )?bandwidth\b.*\b(?:need|use|take|require)": 5,
        r"\butili[sz](?:ation|e|es|ed|ing)\b|\bmfu\b|\bsaturat\w+\b": 5,
        r"\bof (?:the |its |a )?peak\b|\bpeak (?:performance )?(?:is|does)\b": 5,
    }),
    _intent("ops", "the ops that take longest", _BOTH, "Which layers of ResNet-50 take longest on a T4?", {
        r"\b(?:top|slow(?:est)?|expensive|hot(?:test)?|heav(?:y|iest)|biggest|costl(?:y|iest)|dominant|"
        r"longest|worst)\b.*\b(?:ops?|layers?|kernels?|operat(?:ion|or)s?|parts?|modules?)\b": 5,
        r"\b(?:which|what) (?:ops?|layers?|kernels?|operat(?:ion|or)s?|parts?|modules?)\b": 5,
        r"\btime (?:go|goes|spent|is spent)\b|\bhot ?spots?\b|\bbreak ?down\b|\bspends? (?:its |the |most )?time\b": 5,
    }),
    _intent("why", "why it is so", _BOTH, "Why is MobileNet-V2 memory-bound on an A100?", {
        r"\bwhy\b|\bhow come\b|\breasons?\b|\bwhat makes\b": 10,
    }),
    _intent("recommend", "what to change", _BOTH, "How can I speed up ResNet-50 on an A100?", {
        r"\bspeed(?:ing)?[ -]?(?:up|MODEL up|it up)\b|\bspeed .* up\b|\b(?:make|get|run) .*\bfaster\b": 6,
        r"\boptimi[sz](?:e|ation|ations|ing)\b|\bimprov(?:e|ing|ement|ements)\b|\baccelerat(?:e|ing)\b": 6,
        r"\brecommend(?:ation|ations)?\b(?! (?:a|an|me|some|hardware))|\btips?\b|\badvice\b|\bsuggest(?:ions?)?\b": 6,
        r"\bwhat (?:should|can|could|to) (?:i |we )?(?:change|do|improve|try)\b|\bwhat (?:would|could|can) help\b": 6,
        r"\bhow (?:can|do|could|would|to|should) (?:i|we|you|it)\b": 1,
    }),
    _intent("check", "whether limits are met", f"{_BOTH} limits",
            "Can ResNet-50 achieve 5ms latency on a Jetson Orin Nano?", {
                rf"{_ABLE}.*{_LIMIT}|{_LIMIT}.*{_ABLE}": 6,
                rf"^check\b.*{_LIMIT}": 6,
                rf"{_LIMIT}": 2,
            }),
    _intent("judge", "whether a measured time is good", f"{_BOTH} limits",
            "I measured 3 ms for ResNet-50 on a T4 in int8, is that good?", {
                r"\b(?:takes?|took|needs|runs in)\b.*LATENCY.*\bwhy\b|\bwhy\b.*\b(?:takes?|took|needs?)\b.*LATENCY": 25,
                rf"\b(?:i|we|it) (?:\w+ )*(?:measured?|gets?|got|sees?|saw|took|takes|needed)\b.*LATENCY|"
                rf"\b(?:measured|took|takes|runs (?:in|at))\b.*LATENCY.*{_RATED}|"
                r"^judge\b.*LATENCY|^(?:an? |the |my )?MODEL\b.*\btook LATENCY|"
                rf"^(?:is|are|was) (?:an? |the )?(?:latency of )?LATENCY\b.*{_RATED}": 14,
            }),
    _intent("compare", "a comparison", "models hardware",
            "ResNet-50: A100 vs H100", {
                r"\bvs\b|\bversus\b|\bcompar(?:e|ed|ing|ison)\b": 7,
                r"\b(?:better|faster|slower|quicker|cheaper|stronger) than (?:an? |the |with |on |in |under )*(?:DEVICE|MODEL|PRECISION|BATCH|RUNTIME)": 7,
                r"\bworth (?:it )?(?:over|compared)\b": 7,
                WAYS: 12,
                r"\b(?:better|faster|slower|quicker|stronger|(?:more|less) efficient)\b.*\bthan\b|\b(?:faster|slower|better) then\b": 7,
                r"\b(?:DEVICE|MODEL|PRECISION|BATCH),? or (?:an? |the |on |in )*(?:DEVICE|MODEL|PRECISION|BATCH)": 6,
                r"\b(?:use|choose|pick|prefer|run) (?:in )?(?:PRECISION|RUNTIME|BATCH),? or ": 4,
                r"\bRUNTIME,? or (?:under |with |in )*RUNTIME": 9,
                r"\bwhich (?:one )?(?:is|has|does|gives|of)\b|\bbetter\b|\bdifference between\b": 3,
            }),
    _intent("select", "the devices that meet limits", "models limits",
            "What's the best hardware for running YOLOv8n at 30fps with under 10W power?", {
                rf"\b(?:best|which|what|cheapest|smallest|fastest|slowest|lowest|any|most \w+|recommend|find|"
                rf"suggest|choose|pick|need)\b(?:(?! does| do ).)*\b{_THING}\b": 8,
                r"\bwhich (?:of|ones?)\b.*DEVICE": 7,
                r"\b(?:best|which|what|every|all) (?:DEVICE )?(?:for|to run|runs|can run)\b": 3,
            }),
    _intent("what_if", "what a change would bring", f"{_BOTH} changes",
            "What if I run ResNet-50 on an A100 in int8?", {
                r"\b(?:what|how much|which) (?:of a )?(?:speed ?up|gain|difference)\b.*\b(?:RUNTIME|CHANGE|PRECISION|BATCH)|"
                r"\b(?:does|do|will|would|can|could) (?:an? |the |using |enabling |going )*(?:RUNTIME|CHANGE|PRECISION)\b.*"
                r"\b(?:give|gain|bring|buy|help|make|save|speed|improve)|"
                r"\bhow much (?:does|do|will|would|could) (?:an? |the |using )*(?:kernel )?(?:RUNTIME|CHANGE|PRECISION)\b": 9,
                r"\bwhat if\b|\bwhat happens\b|\bsuppose\b|\bassum(?:e|ing)\b": 9,
                r"\bif (?:i|we|you|it|they)\b|\bwould\b.*\b(?:gain|help|bring|save)\b|\bhow much (?:faster|"
                r"quicker|slower|speed ?up|gain)\b": 6,
                r"\b(?:does|do|will|would|can|could)\b.*\bhelp\b|\b(?:effect|impact|benefit|gain|speed ?up) "
                r"(?:of|from|with)\b|\bswitch(?:ing)?\b|\binstead of\b|"
                r"\bshould (?:i|we) (?:use|switch|go|run|move|try)\b|\bworth\b|\bquanti[sz]\w*\b": 6,
            }),
    _intent("batch", "which batch to use", _BOTH, "What batch size saturates an H100 for ResNet-50?", {
        r"\b(?:at |from |to )?(?:what|which|best|optimal|ideal|right|smallest|minimum) (?:possible )?batch(?: ?sizes?)?\b|"
        r"\bhow (?:large|big|high) (?:a |should the |must the |does the )?batch": 13,
        rf"{MOST} (?:possible )?batch(?: ?sizes?)?\b": 11,
    }),
    _intent("kv_cache", "the key/value cache, and what fits beside the weights", "models",
            "How big is the KV cache of llama-3-70b at 32k context and batch 16?", {
                r"\b(?:how (?:big|large|much)|size|need|needs|take|takes|grow|bytes|memory)\b.*\b(?:kv|key[/ -]value)[ -]?cache|"
                r"\b(?:kv|key[/ -]value)[ -]?cache\b.*\b(?:size|of MODEL|for MODEL|MODEL|need|take|bytes|memory)": 12,
                rf"{MOST} (?:possible )?(?:batch(?: ?sizes?)?|contexts?(?: length| size| window)?|sequences?|BATCH)\b": 12,
                r"\bhow (?:many|much) (?:sequences|requests|context|concurrent \w+)\b": 12,
            }),
    _intent("serve", "how to serve a language model to many", "models hardware",
            "How many H200 for llama-3-70b with TPOT under 30 ms?", {
                r"\bserv(?:e|es|ing)\b": 12,
                r"\bhow many (?:DEVICE|gpus?|cards|devices|accelerators)\b": 14,
                r"\bCOUNT (?:\w+ )*DEVICE\b|\bUSERS\b|\bdeploy\b": 12,
                r"\bTTFT\b.*\bTPOT\b|\bTPOT\b.*\bTTFT\b": 12,
            }),
    _intent("train", "how long training takes", _BOTH,
            "How long to train llama-3.1-8b on 1T tokens with 64 H100s?", {
                r"\b(?:pre-?)?train(?:s|ed|ing)?\b|\bfine-?tun\w+": 16,
            }),
    _intent("devices", "the list of devices", "", "List edge devices under 20W.", {
        rf"\b(?:list|show|which|what|all|any|know|have|support(?:s|ed)?)\b.*\b{_THING}\b": 4,
        rf"^(?:\w+ )*{_THING} (?:under|below|with|up to|over|having|at)\b": 4,
        rf"\b{_THING}\b.*\b(?:known?|have|list|support(?:s|ed)?|available|exist|catalog)\b": 2,
    }),
    _intent("models", "the list of models", "", "Which models do you know?", {
        r"\b(?:list|show|which|what|all|any|know|have|support(?:s|ed)?)\b.*\b(?:models?|networks?|zoo)\b": 5,
        r"\b(?:models?|networks?)\b.*\b(?:known?|have|list|support(?:s|ed)?|available|exist)\b": 1,
    }),
    _intent("device", "the figures of a device", "hardware", "Tell me about the L40S.", {
        r"\btell me (?:more )?about\b|\bspec(?:s|ification|ifications)?\b|\binfo(?:rmation)?\b|\bdata ?sheet\b|"
        r"\bdescribe\b|\bdetails?\b|\bwhat (?:is|are) (?:an? |the )?(?:DEVICE|MODEL)\W*$|^show(?: me)? "
        r"(?:an? |the )?(?:DEVICE|MODEL)\W*$": 5,
        r"\b(?:does|do|can) (?:an? |the )?DEVICE (?:support|have|offer|do|handle)\b": 8,
        r"\b(?:memory|v?ram|bandwidth|power)\b.* (?:does|do) (?:an? |the )?DEVICE (?:have|has|offer)|"
        r"DEVICE(?:'s)? (?:specs?|bandwidth|tdp)\b": 8,
        r"\bt?flops\b|\btops\b|\bpeak\b|\bbandwidth\b(?![ -](?:bound|limited))|\btdp\b|\bl2\b": 5,
    }),
    _intent("model", "the size of a model", "models", "How many FLOPs does ResNet-50 have?", {
        r"\bhow many (?:g?flops?|g?macs|param\w*|operations|weights)\b|\b(?:number|count|amount) of "
        r"(?:g?flops?|g?macs|param\w*|operations|weights)\b": 6,
        r"\bparam(?:s|eters?)\b|\bg?flops\b(?! (?:per|/))|\bg?macs\b|\bhow (?:big|large) is\b": 5,
    }),
    _intent("explain", "what a term means", "term", "Explain ridge point.", {
        r"\bexplain\b|\bdefin(?:e|ition)\b|\bmean(?:s|ing)?\b|\bstand for\b|\bglossary\b": 5,
        r"^(?:so |and )?what(?:'?s| is| are| does)\b": 4.6,
        r"\bdifference between\b|\bhow (?:does|do) .* differ\b": 5,
    }),
    _intent("help", "what can be asked", "", "help", {
        r"^(?:hi|hello|hey|good (?:morning|day|evening))(?: there)?\W*$": 12,
        r"^/?help\b|\bwhat (?:can|do) you (?:answer|do|know|understand)\W*$|\bhow do(?:es)? (?:this|you) work\b|"
        r"\bwhat can i (?:ask|type|say)\b": 12,
    }),
)  # fmt: skip

#: All kinds of question by name.
INTENTS: Final[dict[str, Intent]] = {intent.name: intent for intent in _ALL}

#: Questions about a model on a device; one about a device alone asks for the device's figures.
OF_BOTH: Final = frozenset(
    {"bound", "intensity", "latency", "throughput", "memory", "energy", "power", "utilization"}
)
#: Evidence that devices are to be chosen rather than one to be judged.
_CHOOSING: Final = 7.0
#: What a text that asks for a term's meaning has above one that only mentions it.
_NAMED_TERM: Final = 6.0
#: Kinds of question of which one answer holds both; the one that stands first is taken.
_KIN: Final = (
    {"energy", "power"},
    *({"judge", of} for of in ("latency", "check", "memory")),
    {"latency", "throughput"},
    {"kv_cache", "memory"},
    {"compare", "why"},
    *(
        {"batch", of}
        for of in ("bound", "utilization", "throughput", "latency", "recommend", "check")
    ),
    *({"bound", of} for of in ("intensity", "utilization", "latency", "ridge", "what_if")),
    {"bound", "recommend"},
    *({"serve", of} for of in ("throughput", "latency", "check", "memory")),
)
_AND_ALSO: Final = re.compile(r"\band (?:how|what|which|why|is|does|can|will|where)\b")
_SUPERLATIVE: Final = re.compile(
    rf"\b(?:which|what) (?:{_THING}|DEVICE) (?:is|are|would be) (?:the )?best\b|"
    r"\b(?:fastest|slowest|quickest|most (?:power |energy )?efficient|lowest|highest)\b"
)
_ABOUT_IT: Final = re.compile(
    r"\btell me|\binfo|\bdescribe|\bdetails|^show|^what is (?:an? )?MODEL"
)

Weights = dict[str, float]


def weigh(sentence: Sentence, previous: Frame | None) -> Weights:
    """Weight of the evidence for each kind of question that the sentence leaves possible.

    Args:
        sentence: The question.
        previous: The turn before, which may supply what the question does not name.
    """
    weights = {
        intent.name: sum(w for pattern, w in intent.evidence if pattern.search(sentence.text))
        for intent in _ALL
    }
    weights = {name: weight for name, weight in weights.items() if weight}
    for rule in (_of_language, _of_values, _explained, _chosen, _listed, _of_one):
        rule(weights, sentence, previous)
    return weights


def leading(weights: Weights) -> str | Unclear:
    """The intent with most evidence; empty when no word says one."""
    ranked = sorted(weights, key=lambda name: -weights[name])
    if not ranked or weights[ranked[0]] < ENOUGH:
        return ""
    both = ranked[:2]
    if len(both) > 1 and weights[both[0]] == weights[both[1]] and set(both) not in _KIN:
        return Unclear(
            reason=f"Do you ask for {' or '.join(INTENTS[name].about for name in both)}?",
            candidates=tuple(INTENTS[name].example for name in both),
        )
    return ranked[0]


def kin(intent: str) -> tuple[str, ...]:
    """Other kinds of question that the answer to one holds, or that are held by it."""
    return tuple(name for pair in _KIN if intent in pair for name in pair if name != intent)


def asks_twice(weights: Weights, text: str) -> bool:
    """Whether a text asks two things that no one answer holds: ``how fast ... and how much``."""
    if not _AND_ALSO.search(text):
        return False
    strong = [name for name, weight in weights.items() if weight >= ENOUGH + 1]
    return any(one != other and {one, other} not in _KIN for one in strong for other in strong)


def superlative(text: str) -> bool:
    """Whether a text asks for the most of something."""
    return bool(_SUPERLATIVE.search(text))


def _drop(weights: Weights, *names: str) -> None:
    for name in names:
        weights.pop(name, None)


def _of_language(weights: Weights, sentence: Sentence, previous: Frame | None) -> None:
    """Caches and serving: of language models, and of a model that runs as it is."""
    models = [n.name for n in sentence.models] or list(previous.models if previous else ())
    if not models or not all(phases_of(m) for m in models):
        _drop(weights, "kv_cache", "serve")
    if any(c.startswith("kv=") for c in sentence.slots.changes) and "what_if" in weights:
        _drop(weights, "kv_cache")
    if "compare" in weights and len(sentence.devices) > 1:
        _drop(weights, "serve")
    if "train" in weights:
        _drop(weights, *(weights.keys() - {"train"}))
    if {"kv_cache", "serve"} & set(weights):
        _drop(weights, "explain", "select", "model")
    if weights.get("batch", 0.0) > weights.get("kv_cache", 0.0):
        _drop(weights, "explain", "select", "model", "devices", "kv_cache", "check")


def _of_values(weights: Weights, sentence: Sentence, previous: Frame | None) -> None:
    """Judging needs limits, comparing needs several of something, a what-if what changes."""
    slots, own = sentence.slots, sentence.slots.limits
    if weights.get("bound", 0.0) >= ENOUGH + 1 and _AND_ALSO.search(sentence.text):
        _drop(weights, "recommend")  # the answer to what limits holds what to change
    if {name for name, _ in own} != {"latency"}:
        _drop(weights, "judge")
    if not own:
        _drop(weights, "check")
    if not own and not (previous and previous.limits) and not superlative(sentence.text):
        _drop(weights, "select")
    listed = (slots.all("precision"), slots.all("batch_size"), slots.all("runtime"))
    several = any(len(of) > 1 for of in (sentence.models, sentence.devices, *listed))
    if several and "compare" in weights:
        _drop(weights, "why")  # a comparison says why
        if weights["compare"] >= weights.get("recommend", 0.0):
            _drop(weights, "recommend")  # "does it run faster on this or that"
    elif previous is None and not several and not re.search(WAYS, sentence.text):
        _drop(weights, "compare")
    # A device alone is what is asked about; beside another, or in a follow-up, it is a change.
    settings = set(slots.values) - {"phase", *dict(own)}
    changes = slots.changes or settings or len(sentence.devices) > (0 if previous else 1)
    if not changes or (own and "check" in weights):
        _drop(weights, "what_if")


def _explained(weights: Weights, sentence: Sentence, previous: Frame | None) -> None:
    """A term is asked for when no model is named; 'the latency' in a follow-up is a figure."""
    named = not sentence.models and not sentence.devices and previous is None
    if named and re.search(r"\bwhy (?:is|are)\b", sentence.text) and find_term(sentence.question):
        weights["explain"] = weights.pop("why", 0.0)
    if "explain" not in weights:
        return
    if sentence.models or sentence.devices or find_term(sentence.question) is None:
        _drop(weights, "explain")
    elif previous is None or not re.search(r"\b(?:the|its|it)\b", sentence.text):
        weights["explain"] += _NAMED_TERM
    elif weights["explain"] < _NAMED_TERM - 1:
        _drop(weights, "explain")


def _chosen(weights: Weights, sentence: Sentence, previous: Frame | None) -> None:
    """Devices are chosen for a model; one that is named is judged rather than chosen."""
    if "select" not in weights:
        return
    one = len(sentence.devices) == 1
    if one and not re.search(r"\b(?:best|which|what) DEVICE\b", sentence.text):
        weights["select"] -= 4
    if "devices" in weights and not sentence.models and not (previous and previous.models):
        _drop(weights, "select")
    elif weights["select"] >= _CHOOSING and not one:
        _drop(weights, "check")


def _listed(weights: Weights, sentence: Sentence, _: Frame | None) -> None:
    """Lists of models and devices: only where nothing asks about one of them."""
    named = sentence.devices and not re.search(r"\b(?:list|know|support)", sentence.text)
    if sentence.models or named:
        _drop(weights, "devices", "models")
    if "select" in weights:
        _drop(weights, "devices")
    if "devices" in weights:
        _drop(weights, "power", "memory", "check", "model", "device")


def _of_one(weights: Weights, sentence: Sentence, previous: Frame | None) -> None:
    """Figures of a model alone, or of a device alone."""
    models, devices = sentence.models, sentence.devices
    if models and not devices and _ABOUT_IT.search(sentence.text):
        weights["model"] = weights.get("device", 0.0) + weights.get("model", 0.0) + 5
    if models or not devices:
        _drop(weights, "device")
    if not models:
        _drop(weights, "model")
    alone = devices and not models and not sentence.strangers
    if alone and (previous is None or "device" in weights):
        # A question that would need a model is about the device itself.
        moved = [weights.pop(name) for name in {"memory", "power"} & set(weights)]
        if moved:
            weights["device"] = weights.get("device", 0.0) + max(moved)
