"""Whose constants serve a device: its own, those of its kin, or none."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from gambrel.analysis.estimate.attention_forms import on_other_engine
from gambrel.analysis.estimate.chip import pace_of
from gambrel.analysis.estimate.constants import WIDE, Calibration, Kin, Set
from gambrel.analysis.estimate.shown import level_of, misses
from gambrel.device.model import Device

LEVELS: Final = ("high", "medium", "low")

#: Number format (or scheme) → formats whose constants are tried, in order. The first is its own.
FORMATS: Final[dict[str, tuple[str, ...]]] = {
    "nvfp4": ("nvfp4", "fp8", "fp8_block", "bf16"),
    "fp4": ("fp4", "fp8", "fp8_block", "bf16"),
    "mxfp4": ("mxfp4", "fp8", "fp8_block", "bf16"),
    "static_scales": ("static_scales", "bf16"),
    "fp8_block": ("fp8_block", "fp8", "bf16"),
    "bf16": ("bf16", "fp8"),
    "fp16": ("fp16", "fp8"),
    "bf16_kv8": ("bf16_kv8", "bf16", "fp8"),
    "fp16_kv8": ("fp16_kv8", "fp16", "fp8"),
    "fp8": ("fp8", "fp8_block", "bf16"),
    "int8": ("int8", "fp8", "bf16"),
    "int8_stored": ("int8_stored", "bf16"),
    "fp8_stored": ("fp8_stored", "bf16"),
    "int8_weight": ("int8_weight", "int4_weight", "bf16"),
    "int4_weight": ("int4_weight", "int8_weight", "bf16"),
}
_NARROW: Final = ("fp8", "fp8_block", "bf16")
#: Frameworks whose kernels were measured; ``any`` averages over them.
FRAMEWORKS: Final = ("any", "torch", "vllm", "trtllm", "sglang")
#: How much further a range reaches when constants come from another number format.
_OTHER_FORMAT: Final = (0.85, 1.3)
#: And where a unit's matrix engine is another: FlashAttention on an H20 takes 0.9 to 1.3 times
#: the expected time, long sequences on an RTX A5000 0.8 (benchmarks/data/attention).
_OTHER_ENGINE: Final = (0.85, 1.2)


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Constants for one formula on one device.

    Attributes:
        constants: By name, factors of the kin applied.
        low: Lower end of measured / predicted, one a bin.
        high: Upper end.
        confidence: ``high``, ``medium`` or ``low``, where the range is narrow.
        reason: Why.
        caution: What a reader must know of the kernels measured; empty where nothing.
        caution_from: Only of kernels whose start takes this share of their time.
        misses: Share of held-out rows inside the range in bins where it is too small; None in the
            others.
    """

    constants: dict[str, float]
    low: tuple[float, ...]
    high: tuple[float, ...]
    confidence: str
    reason: str
    caution: str = ""
    caution_from: float = 0.0
    misses: tuple[float | None, ...] = ()

    def caution_for(self, launch_share: float) -> str:
        """What a reader must know of a kernel whose start takes this share of it."""
        return self.caution if launch_share >= self.caution_from else ""

    def judge(self, bin_: int) -> tuple[str, str]:
        """Confidence and reason in a bin of times: measured ones that differ are no certainty."""
        spread = self.high[bin_] / self.low[bin_]
        if self.confidence != "high":
            return self.confidence, self.reason
        if spread > WIDE[bin_]:
            return "medium", f"{self.reason}; measured times differ by a factor of {spread:.1f}"
        inside = self.misses[bin_] if self.misses else None
        if inside is None:
            return "high", self.reason
        return "medium", f"{self.reason}; {inside:.0%} of those held out lay inside the range"


def kin_of(device: Device, calibration: Calibration) -> Kin | None:
    """The class of a device; None when nothing is known that it may borrow from."""
    text = f"{device.architecture} | {device.vendor} | {device.category}".lower()
    return next(
        (k for k in calibration.kin if not k.match or any(m.lower() in text for m in k.match)), None
    )


def choose(
    form: str, precision: str, device: Device, kin: Kin, calibration: Calibration, framework: str
) -> Chosen | None:
    """The best set for a formula in a number format on a device.

    Own measurements come first, then those of nearer kin in the same format, then those of the
    kin's reference device, then those of any other; on each, the own format first. Kernels slower
    than a wider format's serve their own device and format alone. Confidence and range follow from
    how far the set was carried.

    Args:
        form: Name of the formula.
        precision: Number format or scheme.
        device: The device.
        kin: Its class.
        calibration: All sets.
        framework: Framework whose kernels run; ``any`` when not known.
    """
    index = _index(calibration)
    own = device.id if device.id in index.devices or device.id in kin.before else ""
    pace = pace_of(device, kin, form) if kin.per_unit else 1.0
    key = form, precision, framework, id(kin), own, pace
    if key not in index.chosen:  # it is kept with its kin, and so with that one's id
        index.chosen[key] = kin, _choose(form, precision, device.id, kin, index, framework, pace)
    return index.chosen[key][1]


def _choose(
    form: str, precision: str, device: str, kin: Kin, index: _Index, framework: str, pace: float
) -> Chosen | None:
    wanted = _wanted(form, precision)
    frameworks = ("own", framework, *(s for s in FRAMEWORKS if s != framework))
    others = () if kin.alone else index.devices
    nearest = (kin.nearest[form],) if form in kin.nearest else ()
    # Of what few constants are known of, a share of the TF32 peak says nothing of 16 bits.
    partial = form == "torch_convolution" and device in kin.before
    devices = dict.fromkeys((*(() if partial else (device,)), *nearest, kin.borrow, *others))
    places = [(source, wanted[:1]) for source in (device, *kin.before)]
    places += [(source, wanted) for source in devices]
    for source, names in places:
        for name in names:
            for candidate in frameworks:
                found = index.first.get((form, source, name, candidate))
                own = source == device and name == precision
                if found is not None and (own or not found.slower):
                    own_format = name == precision
                    chosen = _carried(found, device, kin, own_format, framework)
                    if found.device == kin.borrow != device and pace != 1:
                        chosen = _paced(chosen, pace)
                    wide = index.first.get((form, found.device, "bf16", found.framework))
                    if framework == _GENERATED and wide is not None:
                        chosen = _started(chosen, found, wide)
                    return _with_caution(chosen, found, wide)
    return None


def _paced(chosen: Chosen, pace: float) -> Chosen:
    """On units whose matrix engine computes ``pace`` times as much per cycle."""
    return replace(
        chosen,
        constants=on_other_engine(chosen.constants, pace),
        low=_wider(chosen.low, _OTHER_ENGINE[0]),
        high=_wider(chosen.high, _OTHER_ENGINE[1]),
        reason=f"{chosen.reason}; a unit multiplies {pace:g} times as much per cycle",
    )


def _started(chosen: Chosen, s: Set, wide: Set) -> Chosen:
    """Matmuls with packed weights, as a compiler writes them, by the constants of an engine.

    They unpack on the way, as the engine's do, but start as any other kernel.
    """
    start, other = s.constants.get("launch"), wide.constants.get("launch")
    if not s.formats[0].endswith("_weight") or not start or not other or start <= other:
        return chosen
    own = chosen.constants.get("launch", start)
    constants = {**chosen.constants, "launch": own * other / start}
    return replace(chosen, constants=constants, confidence=_lower(chosen.confidence, "medium"))


def own_forms(calibration: Calibration, device: str) -> frozenset[str]:
    """The formulas that a user fitted to kernels of a device."""
    return _index(calibration).own.get(device, frozenset())


class _Index(NamedTuple):
    """Sets by form, device, number format and framework: the first of each; and all devices.

    And of each device the forms that a user fitted. What was chosen for a formula, number format,
    framework and class of devices is kept, with the device where sets are of itself.
    """

    first: dict[tuple[str, str, str, str], Set]
    devices: dict[str, None]
    own: dict[str, frozenset[str]]
    chosen: dict[tuple[str, str, str, int, str, float], tuple[Kin, Chosen | None]]


@lru_cache(maxsize=4)
def _index(calibration: Calibration) -> _Index:
    first: dict[tuple[str, str, str, str], Set] = {}
    own: dict[str, frozenset[str]] = {}
    for s in calibration.sets:
        for name in s.formats:
            first.setdefault((s.form, s.device, name, s.framework), s)
        if s.framework == "own":
            own[s.device] = own.get(s.device, frozenset()) | {s.form}
    for s in calibration.sets:  # a set for any framework serves the one whose kernels it describes
        if s.framework == "any" and s.describes != "any":
            same = replace(s, framework=s.describes)
            for name in s.formats:
                first.setdefault((s.form, s.device, name, s.describes), same)
    devices = dict.fromkeys(s.device for s in calibration.sets)
    return _Index(first=first, devices=devices, own=own, chosen={})


#: Whose kernels a compiler writes.
_GENERATED: Final = "torch"
_NARROW_FORMATS: Final = frozenset({"mxfp8", "bfp8", "fp6", "fp4", "mxfp4", "int4"})
#: Frameworks as they write themselves.
_NAMES: Final = {
    "any": "several runtimes",
    "torch": "PyTorch",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "trtllm": "TensorRT-LLM",
    "own": "your own",
    "nccl": "NCCL",
}


def _wanted(form: str, precision: str) -> tuple[str, ...]:
    if form == "torch_convolution":
        return tuple(dict.fromkeys((precision, "any")))
    if form == "torch_matmul":
        return tuple(dict.fromkeys((precision, precision.removesuffix("_half"))))
    if form in ("stream", "collective") or form.startswith("torch_"):
        return (precision,)
    return FORMATS.get(precision, _NARROW if precision in _NARROW_FORMATS else ("bf16",))


def _carried(s: Set, device: str, kin: Kin, own_format: bool, framework: str) -> Chosen:
    own_device = s.device == device
    constants, low, high = s.constants, s.low, s.high
    name = _NAMES[s.describes if s.framework == "any" else s.framework]
    confidence = s.confidence or level_of(s.held_out)
    reason = f"{s.points:,} kernels of {name} measured on this device"
    if s.framework == "any" and s.points:
        covers = "the range covers others" if s.describes != "any" else "this is their average"
        reason += f"; none of them under this runtime, so {covers}"
    if not s.points:
        reason = f"a few constants fitted to runs of {name} on this device"
    if not s.points and s.describes == "torch":
        reason = "carried from measured kernels of other kinds on this device"
    elif s.form == "stream":
        reason = "bandwidth and launch overhead of measured GEMMs, no kernels of this kind"
    if s.framework == "own":
        reason = f"{s.points} measurements of your own"
    if not own_device:
        factors = {} if s.device in kin.before else kin.factors
        constants = {
            k: v * factors.get(f"{s.form}.{k}", factors.get(k, 1.0)) for k, v in constants.items()
        }
        nearest = s.device == kin.nearest.get(s.form)
        near = kin.near if nearest or s.device in kin.before else None
        ends = near or (kin.low, kin.high)
        low, high = _wider(low, ends[0]), _wider(high, ends[1])
        confidence = _lower(confidence, "medium" if near else kin.confidence)
        why = "of the same generation" if s.device in kin.before else kin.why
        why = "the nearest that was measured" if nearest else why
        owned = "own constants" if s.framework == "own" else "constants"
        reason = f"{owned} of {s.device}, {why}"
    if not own_format:
        low, high = _wider(low, _OTHER_FORMAT[0]), _wider(high, _OTHER_FORMAT[1])
        confidence = _lower(confidence, "medium")
        reason += f", measured in {'fp32' if s.formats[0] == 'any' else s.formats[0]}"
    if s.framework not in (framework, "any", "own"):
        confidence = _lower(confidence, "medium")
    return Chosen(
        constants=constants,
        low=low,
        high=high,
        confidence=confidence,
        reason=reason,
        misses=misses(s.held_out),
    )


#: Formulas as a sentence about their kernels calls them.
_KERNELS: Final = {"grouped_matmul": "expert kernels", "matmul": "GEMM kernels"}
#: A kernel is short where its start takes this share of it.
_SHORT: Final = 0.3


def _with_caution(chosen: Chosen, s: Set, wide: Set | None) -> Chosen:
    """Says where the kernels behind a set are slower than those of a wider format."""
    kernels, name = _KERNELS.get(s.form, f"{s.form} kernels"), _NAMES[s.describes]
    these = f"{s.formats[0]} {kernels} of {name} measured on {s.device}"
    if s.slower is not None:
        text = (
            f"the {these} take {s.slower.by:.1f} times as long as its {s.slower.than} ones on the "
            f"same shapes (median of {s.slower.shapes}); a version or setting with other kernels "
            "is faster."
        )
        return replace(chosen, caution=text)
    start, other = s.constants.get("launch"), wide and wide.constants.get("launch")
    if not start or not other or wide is s or start <= other:
        return chosen
    text = f"short {these} take {start / other:.1f} times as long to start as those in bf16."
    return replace(chosen, caution=text, caution_from=_SHORT)


def _wider(ends: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(end * factor for end in ends)


def _lower(a: str, b: str) -> str:
    return max(a, b, key=LEVELS.index)
