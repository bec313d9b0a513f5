"""The fastest that a device may be, whatever runs on it: the roofs of the speed of light.

`gambrel.device.roofs` answers what a roofline asks: which roof serves work in a format. Here the
question is another one: above which rate has nobody to look. A rate is only too high to be useful,
never wrong; too low a rate would call shipped systems impossible. So every rule here takes the
largest figure that any engine, accumulator or number format of that precision could give.

Four kinds of figures count. A datasheet's (or derived from one, or a user's statement about his own
device) is an upper bound. So is a second reading that a vendor published (facts whose names end in
``_alt``). A *demonstrated* one was reached by a published run: it is raised to where it exceeds the
datasheet, but by itself it is only the best seen so far, and the next compiler may beat it. The
same holds for what a user measured. A roof that rests on these alone has ``proves=False`` and must
not call anything impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from gambrel.device.fallbacks import COUNTS_AS, LACKS, MATRIX_FALLBACKS
from gambrel.device.model import Ceiling, CeilingKind, Device, MemoryLevel
from gambrel.device.roofs import check_work, main_memory
from gambrel.dtypes import BITS, FLOATING

#: Engines that exclude each other on one chip: the best of them counts. A DLA or an NPU beside them
#: runs at the same time, so it is added; a whole module is the vendor's own sum.
_CORE: Final = ("matrix", "vector", "any")
_BESIDE: Final = ("dla", "npu")
_WHOLE: Final = "module"
#: Formats that a deep-learning accelerator beside a GPU computes in (NVDLA: int8 and fp16).
_DLA_FORMATS: Final = frozenset({"int8", "uint8", "fp16"})
#: Graphics cards state their peaks at a rated boost clock that they exceed: GEMMs in bf16 reached
#: 173 TFLOP/s on an RTX 4090 (165 stated) and 242 on an RTX 5090 (210). How far is not published;
#: the highest clocks that owners' drivers name are 1.26 (GTX 1080 Ti, 1.99 GHz) and 1.29 (RTX 5090,
#: 3.1 GHz) times the rated one. Of other makers' cards nothing is known: theirs prove nothing.
_CARDS: Final = frozenset({"consumer gpu", "workstation gpu"})
_ABOVE_RATED: Final = 1.3
#: Processors whose engines (ncnn, OpenVINO) compute networks in fp32 in 16 bits unless told
#: otherwise, where the core has such arithmetic: published runs "in fp32" are runs in fp16.
_HALVED: Final = "Cortex-A"
#: Kinds that say what was reached, not what can be reached.
_REACHED: Final = frozenset({CeilingKind.DEMONSTRATED, CeilingKind.MEASURED})


class SolRoof(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest rate of a class of work.

    Attributes:
        flop_per_s: The rate, FLOP/s.
        parts: The ceilings that it is the sum of: one, or one per engine where engines run at the
            same time. Their rates are those used, e.g. the sparse one or that at the boost clock.
        proves: Whether a faster run is impossible; False where the rate was only reached by
            somebody (demonstrated, measured), or a clock is not published.
        note: What the user must know; empty when the roof is the device's own in that format.
    """

    flop_per_s: float
    parts: tuple[Ceiling, ...]
    proves: bool = True
    note: str = ""


class SolMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest rate of the main memory.

    Attributes:
        byte_per_s: The rate, byte/s.
        level: The main memory.
        proves: Whether a faster transfer is impossible.
    """

    byte_per_s: float
    level: MemoryLevel
    proves: bool = True


def fastest(
    device: Device,
    work_class: str,
    dtype: str | Sequence[str],
    *,
    sparsity: bool = False,
    published: Device | None = None,
) -> SolRoof | None:
    """The fastest rate that any runtime may reach with a precision.

    Matrix work: every roof in the format, with any accumulator, and in formats that count as the
    same precision (TF32 as fp32, fp16 as fp32 on Cortex-A processors, the 8-bit floats as each
    other); also every wider format that holds the values, because a runtime may widen them first. A
    format without a roof of its own gets the fastest of those that it falls back to if the hardware
    is known to lack it; otherwise its engine may exist and only be unpublished, so narrower formats
    bound it, and where there are none it is unknown. Vector work: a vector roof in that very format
    and those of wider ones; without one in the format itself it is unknown, because the wider one
    may be slower.

    Args:
        device: The device.
        work_class: ``"matrix"``, ``"vector"`` or ``"special"``.
        dtype: Canonical name of a number format; several for the operands of mixed work, of which
            the fastest counts.
        sparsity: Use peaks with structured sparsity for matrix work, where they are published.
        published: The catalog's entry of the same machine, for a device of measured peaks: what a
            user measured proves nothing without it.

    Returns:
        The roof; None when nothing bounds the rate, or one of mixed operands is unbounded.

    Raises:
        InputError: No such class of work.
        UnknownNameError: No such format.
    """
    formats = (dtype,) if isinstance(dtype, str) else tuple(dtype)
    for name in formats:
        check_work(work_class, name)
    known = _merged(device, published)
    if all(ceiling.kind is CeilingKind.MEASURED for ceiling in known):
        return None
    rule = _RULES[work_class]
    machine = published or device
    found = [rule(_Query(device=machine, all=known, dtype=f, sparse=sparsity)) for f in formats]
    roofs = [roof for roof in found if roof is not None]
    return max(roofs, key=lambda r: r.flop_per_s) if roofs and len(roofs) == len(found) else None


def fastest_memory(device: Device, *, published: Device | None = None) -> SolMemory | None:
    """The fastest rate of the main memory: the largest of all readings.

    Args:
        device: The device.
        published: The catalog's entry of the same machine, as for `fastest`.

    Returns:
        The rate and the level; None where it is not published (see `roofs.host_link`), or only
        measured.
    """
    levels = [main_memory(d) for d in (published, device) if d is not None]
    known = [m for m in levels if m is not None and m.byte_per_s is not None]
    rates = [m.byte_per_s for m in known if m.byte_per_s is not None]
    if not known or all(m.kind in _REACHED for m in known):
        return None
    other = (published or device).fact("dram_bandwidth_alt")
    if other is not None and known[0].name == "DRAM":
        rates.append(other.value)
    return SolMemory(byte_per_s=max(rates), level=known[0])


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    device: Device
    all: tuple[Ceiling, ...]
    dtype: str
    sparse: bool


def _merged(device: Device, published: Device | None) -> tuple[Ceiling, ...]:
    """Every ceiling of the device, second readings and demonstrated ones included."""
    found: list[Ceiling] = []
    for d in filter(None, (published, device)):
        found += [_at_most(d, c) for c in d.ceilings]
        found += d.demonstrated
        found += [c for ceiling in d.ceilings if (c := _second_reading(d, ceiling)) is not None]
    return tuple(found)


def above_rated(device: Device) -> float:
    """How far a device may run above the clock of its printed peaks: 1 where they are the limit."""
    return _ABOVE_RATED if device.category in _CARDS else 1.0


def _at_most(device: Device, ceiling: Ceiling) -> Ceiling:
    """The peak at the highest clock that cards run at, where it is printed at a rated one."""
    above, sparse = above_rated(device), ceiling.sparse_flop_per_s
    if above == 1 or ceiling.kind in _REACHED:
        return _of_no_boost(device, ceiling)
    return replace(
        ceiling,
        flop_per_s=ceiling.flop_per_s * above,
        sparse_flop_per_s=sparse and sparse * above,
        kind=ceiling.kind if device.vendor == "NVIDIA" else CeilingKind.DEMONSTRATED,
    )


def _of_no_boost(device: Device, ceiling: Ceiling) -> Ceiling:
    """A processor's peak at its base clock proves nothing: where no boost clock is published."""
    base, boost = device.fact("base_clock"), device.fact("boost_clock")
    if device.category != "cpu" or base is None or boost is not None or ceiling.kind in _REACHED:
        return ceiling
    return replace(
        ceiling, kind=CeilingKind.DEMONSTRATED, note="at the base clock; no boost is known"
    )


def _second_reading(device: Device, ceiling: Ceiling) -> Ceiling | None:
    fact = device.fact(f"peak_{ceiling.engine}_{ceiling.dtype}_alt")
    if fact is None or fact.value <= ceiling.flop_per_s or ceiling.accumulate:
        return None
    return replace(ceiling, flop_per_s=fact.value, source=fact.source, note=fact.note)


def _matrix(query: _Query) -> SolRoof | None:
    formats, note = _formats(query)
    core = _best(query, formats, _CORE)
    whole = _best(query, formats, (_WHOLE,))
    beside = [c for e in _BESIDE if (c := _beside(query, formats, e, whole)) is not None]
    if core is None and any(c.engine in _CORE for c in query.all):
        beside = []  # the GPU may be fast in the format, too
    parts = (*filter(None, (core,)), *beside)
    if whole is not None and whole.flop_per_s >= sum(c.flop_per_s for c in parts):
        parts = (whole,)
    return _roof(parts, note)


def _formats(query: _Query) -> tuple[frozenset[str], str]:
    """The formats whose roofs bound the rate, and a note where the format itself is not there."""
    device, dtype = query.device, query.dtype
    bounded = {c.dtype for c in query.all if c.kind not in _REACHED}
    same = {*COUNTS_AS.get(dtype, (dtype,)), "any"}
    wider = {f for f in MATRIX_FALLBACKS[dtype] if BITS[f] > BITS[dtype]}
    if "tf32" in same - bounded and not _lacks(device, "tf32"):
        same |= _tf32_at_most(query)
    same |= _halves(query)
    if same & bounded:
        return frozenset(same | wider), ""
    if _lacks(device, dtype):
        return frozenset(MATRIX_FALLBACKS[dtype]), f"{device.id} has no {dtype} engine."
    narrower = _narrower(dtype, bounded)
    if not narrower:
        return frozenset(same), ""
    bounds = (
        f"{device.id} publishes no {dtype} roof; its {' and '.join(sorted(narrower))} bounds it."
    )
    return frozenset(same | narrower | set(MATRIX_FALLBACKS[dtype])), bounds


def _narrower(dtype: str, have: set[str]) -> set[str]:
    """The widest formats at most as wide, of the same family (float, integer) if there are any."""
    fits = {f for f in have - {"any"} if BITS[f] <= BITS[dtype]}
    family = {f for f in fits if (f in FLOATING) == (dtype in FLOATING)} or fits
    widest = max((BITS[f] for f in family), default=0)
    return {f for f in family if BITS[f] == widest}


def _tf32_at_most(query: _Query) -> set[str]:
    """The 16-bit format that bounds an unpublished TF32 roof; none without a matrix engine."""
    have = {c.dtype for c in query.all if c.engine == "matrix"}
    return {"bf16"} & have or {"fp16"} & have


def _halves(query: _Query) -> set[str]:
    """The 16 bits that networks in fp32 are computed in; none on most processors."""
    device = query.device
    halved = query.dtype == "fp32" and device.category == "cpu" and _HALVED in device.architecture
    return {"fp16"} if halved else set()


def _lacks(device: Device, dtype: str) -> bool:
    return any(part in device.architecture and dtype in lacks for part, lacks in LACKS.items())


def _best(query: _Query, formats: Iterable[str], engines: tuple[str, ...]) -> Ceiling | None:
    """The fastest ceiling; its kind says whether any of the candidates is an upper bound."""
    found = [c for c in query.all if c.engine in engines and c.dtype in formats]
    if not found:
        return None
    rated = [_rated(c, sparse=query.sparse) for c in found]
    best = max(rated, key=lambda c: c.flop_per_s)
    bound = next((c for c in rated if c.kind not in _REACHED), None)
    return best if bound is None or best.kind not in _REACHED else replace(best, kind=bound.kind)


def _rated(ceiling: Ceiling, *, sparse: bool) -> Ceiling:
    rate = ceiling.sparse_flop_per_s if sparse else None
    return ceiling if rate is None else replace(ceiling, flop_per_s=rate)


def _beside(
    query: _Query, formats: frozenset[str], engine: str, whole: Ceiling | None
) -> Ceiling | None:
    """An accelerator beside the GPU.

    Nobody publishes the fp16 rate of a DLA: its int8 roof bounds it, or that of the whole module.
    """
    found = _best(query, formats, (engine,))
    able = BITS[query.dtype] <= BITS["fp16"] and formats & _DLA_FORMATS
    if found is not None or engine != "dla" or not able or whole is not None:
        return found
    if "DLA" not in query.device.architecture:
        return None
    return _best(query, _DLA_FORMATS, (engine,)) or _best(query, _DLA_FORMATS, (_WHOLE,))


def _roof(parts: tuple[Ceiling, ...], note: str) -> SolRoof | None:
    if not parts:
        return None
    proves = all(c.kind not in _REACHED for c in parts)
    if not proves:
        note = f"{note} The rate is the best seen so far, not a limit.".strip()
    return SolRoof(
        flop_per_s=sum(c.flop_per_s for c in parts), parts=parts, proves=proves, note=note
    )


def _vector(query: _Query) -> SolRoof | None:
    own = _best(query, (query.dtype, "any"), ("vector", "any"))
    if own is None:
        return None
    wider = [f for f in ("fp32",) if query.dtype in FLOATING and BITS[f] > BITS[query.dtype]]
    formats = (query.dtype, "any", *wider, *_halves(query))
    best = _best(query, formats, ("vector", "any"))
    return _roof((best or own,), "")


def _special(_query: _Query) -> SolRoof | None:
    """No vendor publishes a rate of transcendental functions for a whole device."""
    return None


_RULES: Final[dict[str, Callable[[_Query], SolRoof | None]]] = {
    "matrix": _matrix,
    "vector": _vector,
    "special": _special,
}
