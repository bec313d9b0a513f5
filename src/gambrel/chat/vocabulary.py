"""The words that questions are made of: what is none of them is a misspelling, a name, or unknown."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

#: Words that say what a question is about; misspellings of these are corrected.
_TOPIC: Final = """
latency latencies throughput memory compute bound limited limiting limits bottleneck bottlenecks bottlenecked
bandwidth overhead network roofline roof ridge point points balance machine arithmetic operational intensity
utilization utilisation utilize saturate energy power joule joules watt watts battery efficient efficiency
batch batches size sizes sequence sequences prompt context tokens token image images frame frames pixel pixels
prefill decode decoding generation precision half single double format float inference inferences time times
second seconds millisecond milliseconds microsecond microseconds fast faster fastest quick quicker slow slower
slowest speed speedup runtime execution response expected layer layers kernel kernels operation operations
operator operators module modules parameters params flops gflops tflops macs peak recommend recommendation
recommendations optimize optimise improve accelerate suggest suggestion suggestions tips advice compare
comparison compared versus better best cheapest hardware device devices board boards accelerator accelerators
platform platforms model models network networks quantize quantized quantization fusion fused compile compiled
compilation sparsity sparse structured weights weight cache explain define meaning help difference between
footprint requirement requirements consumption draw draws usage bytes traffic attainable achieve sustain
possible enough supported support available frames requests queries samples sample items eager performance
roofs datasheet specs specification details efficiently mean means limit lower higher hotspot hotspots
breakdown expensive heaviest longest dominant biggest catalog zoo edge datacenter consumer workstation smallest
coverage confidence headroom verdict pareto mixture experts tensor cores engine glossary memory-bound
compute-bound real-time realtime fraction percent share saturated graph graphs accuracy training
"""

#: Words that carry no meaning here; never corrected, never unknown.
_PLAIN: Final = """
a an the this that these those it its it's i i'm im i'd me my we we're our us you your they them their he she
is isn't are aren't was were be been being am do does doesn't did don't done has have had having can can't
cannot could couldn't will won't would wouldn't should shall may might must let lets let's
what what's whats which who when where where's why how how's whether if then else than as so but and or nor not
no yes ok okay please pls plz thanks thank thx hey hi hello hmm well also too again still just only even ever
really very much many more most less least few some any all each every both either one ones two once
of on in at to for from with without by about into onto over under above below within between per via using use
used uses up down out off around near than after before during while until since because like against across
get gets getting got give gives given go goes going gone make makes making made take takes taking took taken
run runs running ran do does doing work works working want wants need needs needed know knows knew tell tells
told show shows showing see seen find finds say says think thinking try tries trying look looks put set sets
keep keeps kept stay stays hit hits meet meets reach reaches manage manages handle handles deliver deliver fit
fits have able happen happens happened mean suppose assume assuming assumed change changes changed changing
switch switching switched move moves moving moved go upgrade upgrading replace replaced instead rather turn
buy choose pick choice option options way ways thing things lot lots bit little kind sort type case there here
now today currently usually typical typically roughly approximately approx about max maximum min minimum most
best worst good bad great ideal ideally optimal top bottom first last next same other another different new old
real actual actually exactly current default normal high low big small large long short heavy light full empty
single alone together apart parallel once time times number numbers count amount value values figure figures
result results answer question questions list lists check compare compared vs vs. sit sits sitting lie lies
above below left right side spend spends spent spending cost-free go needing requires require required demand
ram vram gpu gpus cpu cpus npu npus tpus card cards chip chips machine machines computer computers system
jetson jetsons server production app application project product deploy deployed deployment scenario setup
fps ips qps tps hz ms us sec secs s w mw kw j mj gb mb gib mib kb tb k px hbm dram ddr tok toks img imgs pic
mfu ttft tpot itl oom kv ai op ops tdp tops flop flops/byte byte bytes bs bsz seqlen imgsz len length window
nvidia amd intel google apple aws amazon qualcomm huawei rockchip graphcore tenstorrent sambanova cerebras
hailo raspberry coral model's network's device's me? inductor torch.compile cudagraphs e.g. i.e. etc eg ie
gain gains gained help helps helped helpful benefit benefits effect effects impact impacts influence depend
explain explained reason reasons come comes due hence so therefore
lets-say say suppose wonder wondering curious interested tell telling told could-you kindly quickly fast
cheap cheaper cost costs price prices priced train trained finetune fine-tune fine-tuning accurate quality
euro euros dollar dollars usd budget epoch epochs cluster nodes node
factor factors factor's percentage roughly total overall whole entire per-token per-image latency-bound
idle busy wait waits stall stalls starved starving hold holds held back doing
power-draw fewer greater larger bigger smaller higher lower than equal exceed exceeds beat beats win wins
stronger weaker quickest strongest highest lowest term terms concept word words stand stands mean mixture
supports offers offer contain contains inside included bytes/s flop/s tflop/s
everything anything something nothing someone anyone board's
response respond responds stream streams streaming video camera detection classification
"""


@lru_cache(maxsize=1)
def topic_words() -> frozenset[str]:
    """Words that misspellings are corrected to."""
    return frozenset(w for w in _TOPIC.split() if len(w) >= 4)


@lru_cache(maxsize=1)
def known_words() -> frozenset[str]:
    """Every word that is understood or meaningless."""
    from gambrel.chat.glossary import TERMS

    terms = {w for t in TERMS.values() for text in (t.name, *t.also) for w in text.split()}
    return frozenset(_TOPIC.split()) | frozenset(_PLAIN.split()) | terms


def is_known(word: str) -> bool:
    """Whether a word is known, also as a plural, a possessive or a compound of known words."""
    known = known_words()
    bare = word.removesuffix("'s").removesuffix("’s").removesuffix("'")
    if bare in known or bare.removesuffix("s") in known:
        return True
    parts = [p for p in bare.replace("/", "-").split("-") if p]
    return len(parts) > 1 and all(p in known for p in parts)


def corrected(word: str) -> str | None:
    """The topic word that a misspelling must mean; None when there is none or several.

    One slip (letter missing, extra, wrong, or two swapped) in a word of up to six letters, two in
    longer ones.
    """
    from rapidfuzz.distance import OSA

    slips = 1 if len(word) <= 6 else 2
    if len(word) < 4:
        return None
    near = {w: OSA.distance(word, w, score_cutoff=slips) for w in topic_words()}
    best = min(near.values())
    found = [w for w, d in near.items() if d == best]
    return found[0] if best <= slips and len(found) == 1 else None
