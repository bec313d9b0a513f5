"""Which roof of a device serves which work.

The rules are tables: for each number format, the formats that hardware falls back to, in order.
A fallback is never silent (`Roof.note`), never faster than a figure that the device publishes, and
never uses a sparse figure unless that was asked for. Where no rule applies the roof is unknown:
None, not zero and not a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from gambrel.device.fallbacks import INTEGERS, LACKS, MATRIX_FALLBACKS, VECTOR_FALLBACKS
from gambrel.device.files import ENGINES
from gambrel.device.model import Ceiling, Device, Link, MemoryLevel
from gambrel.dtypes import BITS
from gambrel.errors import InputError, UnknownNameError
from gambrel.units import format_si

#: Engines for matrix work, best bound first. The peak of a whole module comes before that of a part
#: of it, because no run on the module beats it. Vector units can do matrix work, so they are last:
#: that is what honest fp32 on an A100 uses (TF32 is a precision of its own).
_MATRIX_ENGINES: Final = ("module", "matrix", "npu", "dla", "vector", "any")
_VECTOR_ENGINES: Final = ("vector", "any")


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """The roof that serves some work.

    Attributes:
        engine: Of the device.
        dtype: Format in which the engine computes; differs from the work's after a fallback.
        flop_per_s: The figure to use: dense, or sparse where that was asked for and exists.
        ceiling: The device's entry, with its source.
        note: What the user must know; empty when the roof is just what was asked for.
    """

    engine: str
    dtype: str
    flop_per_s: float
    ceiling: Ceiling
    note: str = ""


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    device: Device
    dtype: str
    sparsity: bool
    engine: str | None


def resolve(
    device: Device,
    work_class: str,
    dtype: str,
    *,
    sparsity: bool = False,
    engine: str | None = None,
    narrow_sums: bool = False,
) -> Roof | None:
    """The roof that serves a class of work in a number format.

    Args:
        device: The device.
        work_class: ``"matrix"``, ``"vector"`` or ``"special"``.
        dtype: Canonical name of a number format.
        sparsity: Use the peak with structured sparsity for matrix work, where one is published.
        engine: Hold matrix work against this engine alone (vector work has only the vector
            engine); None for the rules.
        narrow_sums: GEMMs in fp16 are summed in fp16 where that is faster.

    Returns:
        The roof, or None when the device publishes none that the rules allow.

    Raises:
        InputError: No such class of work.
        UnknownNameError: No such format or engine.
    """
    check_work(work_class, dtype)
    if engine is not None and engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    roof = _RULES[work_class](_Query(device=device, dtype=dtype, sparsity=sparsity, engine=engine))
    return _summed_narrowly(roof, device, sparsity=sparsity) if narrow_sums and roof else roof


def _summed_narrowly(roof: Roof, device: Device, *, sparsity: bool) -> Roof:
    """The roof with sums in fp16 where its products are in fp16 and that is faster."""
    narrow = device.ceiling(roof.engine, roof.dtype, _SUMS) if roof.dtype == _SUMS else None
    if narrow is None:
        return roof
    sparse = narrow.sparse_flop_per_s if sparsity else None
    rate = narrow.flop_per_s if sparse is None else sparse
    if rate <= roof.flop_per_s:
        return roof
    note = f"{device.id}: matmuls in {_SUMS} are summed in {_SUMS}, which is faster there."
    told = " ".join(filter(None, (roof.note, note)))
    return msgspec.structs.replace(roof, flop_per_s=rate, ceiling=narrow, note=told)


#: The format of sums that some kernels keep in place of fp32.
_SUMS: Final = "fp16"


def check_work(work_class: str, dtype: str) -> None:
    """Refuses a class of work or a number format that does not exist.

    Raises:
        InputError: No such class of work.
        UnknownNameError: No such format.
    """
    if work_class not in _RULES:
        raise InputError(f"unknown class of work {work_class!r}; use {', '.join(_RULES)}.")
    if dtype not in BITS:
        raise UnknownNameError("precision", dtype, BITS)


def default_precision(device: Device) -> tuple[str, str]:
    """The format to assume for a model that names none, and why.

    It is the format that the device's engine is made for: the faster 16-bit format of the matrix
    engine (fp16 when they are equal), else fp32, else what there is.

    Returns:
        The format and a sentence.
    """
    if device.category == "microcontroller" and device.ceiling("vector", "int8"):
        return "int8", f"networks on microcontrollers like {device.id} are quantized to int8."
    pair = [(c.flop_per_s, d) for d in _SIXTEEN if (c := device.ceiling("matrix", d))]
    if pair:
        dtype = max(pair, key=lambda item: item[0])[1]  # the first one wins a tie
        return dtype, f"{dtype} is the 16-bit format of {device.id}'s matrix engine."
    if any(ceiling.dtype == "any" for ceiling in device.ceilings):
        return "fp16", f"{device.id} has one roof for every format; fp16 is assumed."
    have = [ceiling.dtype for ceiling in device.ceilings]
    for dtype in (*_PREFERRED, *have):
        if dtype in have:
            return dtype, f"{device.id} publishes no 16-bit matrix roof; it computes in {dtype}."
    return "fp32", f"{device.id} publishes no compute roof; fp32 is the format of most models."


def stand_in(device: Device, dtype: str) -> str:
    """The 16-bit format that engines take where the device lacks the model's own.

    Volta, Turing and older GPUs multiply fp16 alone: serving engines refuse bf16 there, and users
    load the model in fp16.
    """
    if dtype not in _SIXTEEN or device.ceiling("matrix", dtype):
        return dtype
    return next((other for other in _SIXTEEN if device.ceiling("matrix", other)), dtype)


_SIXTEEN: Final = ("fp16", "bf16")
#: Without a 16-bit matrix roof: the first of these for which there is any roof.
_PREFERRED: Final = ("fp32", *_SIXTEEN, "int8")


def main_memory(device: Device) -> MemoryLevel | None:
    """The memory that a model lives in: DRAM, or SRAM where there is no DRAM.

    Returns:
        DRAM where the device has one (its bandwidth may still be unknown); else the SRAM if its
        bandwidth is published; else None: see `host_link`.
    """
    dram = device.level("DRAM")
    if dram is not None:
        return dram
    sram = device.level("SRAM")
    return sram if sram is not None and sram.byte_per_s is not None else None


#: Links to the host, the one to use first: what boards plug into, then what modules are wired to.
_HOST_LINKS: Final = ("pcie", "usb3", "nvlink-c2c")


def host_link(device: Device) -> Link | None:
    """The link over which a host feeds the device; None where none is published."""
    found = {link.name: link for link in device.links}
    return next((found[name] for name in _HOST_LINKS if name in found), None)


#: Name of the link between nodes; only a device that was placed in a node has one.
NETWORK: Final = "network"


def network_link(device: Device) -> Link | None:
    """The device's share of the network between nodes; None where nothing is known of one."""
    return next((link for link in device.links if link.name == NETWORK), None)


def peer_link(device: Device) -> Link | None:
    """The fastest link to other devices of a node; the host link where there is no other."""
    others = (*_HOST_LINKS, NETWORK)
    peers = [link for link in device.links if link.name not in others]
    return max(peers, key=lambda link: link.byte_per_s, default=host_link(device))


def _search(
    device: Device, formats: tuple[str, ...], engines: tuple[str, ...]
) -> tuple[str, Ceiling] | None:
    """The first format for which one of the engines has a roof, at the default accumulator."""
    roofs = {(c.engine, c.dtype): c for c in device.ceilings if not c.accumulate}
    for dtype in formats:
        for engine in engines:
            ceiling = roofs.get((engine, dtype)) or roofs.get((engine, "any"))
            if ceiling is not None:
                return dtype, ceiling
    return None


def _matrix(query: _Query) -> Roof | None:
    device = query.device
    engines = _MATRIX_ENGINES if query.engine is None else (query.engine, "any")
    found = _search(device, MATRIX_FALLBACKS[query.dtype], engines)
    if found is None:
        return None
    used, ceiling = found
    sparse = ceiling.sparse_flop_per_s if query.sparsity else None
    notes = (
        _fallback_note(device, query.dtype, used, ceiling.engine),
        _module_note(device, ceiling, sparse is not None),
        _sparsity_note(device, ceiling, used) if query.sparsity else "",
    )
    return Roof(
        engine=ceiling.engine,
        dtype=used,
        flop_per_s=ceiling.flop_per_s if sparse is None else sparse,
        ceiling=ceiling,
        note=" ".join(filter(None, notes)),
    )


def _vector(query: _Query) -> Roof | None:
    found = _search(query.device, VECTOR_FALLBACKS[query.dtype], _VECTOR_ENGINES)
    if found is None:
        return None
    used, ceiling = found
    if ceiling.dtype == "any":
        used = query.dtype
    note = _vector_note(query.device, query.dtype, used)
    return Roof(
        engine=ceiling.engine,
        dtype=used,
        flop_per_s=ceiling.flop_per_s,
        ceiling=ceiling,
        note=note,
    )


def _special(_query: _Query) -> Roof | None:
    """No vendor publishes a rate of transcendental functions for a whole device."""
    return None


_RULES: Final[dict[str, Callable[[_Query], Roof | None]]] = {
    "matrix": _matrix,
    "vector": _vector,
    "special": _special,
}


def _fallback_note(device: Device, dtype: str, used: str, engine: str) -> str:
    if used == dtype or dtype.startswith("complex"):
        return ""
    if any(part in device.architecture and dtype in lacks for part, lacks in LACKS.items()):
        return f"{device.id} has no {dtype} engine: {dtype} runs as {used} on the {engine} engine."
    note = (
        f"{device.id} publishes no {dtype} roof: {dtype} is held against its {used} {engine} roof"
    )
    if BITS[used] > BITS[dtype]:
        note += ", and may be faster if the hardware has a path of its own"
    return note + "."


def _vector_note(device: Device, dtype: str, used: str) -> str:
    if used == dtype:
        return ""
    if dtype in INTEGERS:
        return (
            f"{device.id}: integer and boolean element-wise work is held against its {used} "
            "vector roof."
        )
    if BITS[dtype] >= BITS[used]:  # tf32 and complex numbers are computed in fp32 as a rule
        return ""
    return (
        f"{device.id} publishes no {dtype} vector roof: element-wise work in {dtype} is held "
        f"against {used}."
    )


def _module_note(device: Device, ceiling: Ceiling, sparse: bool) -> str:
    if ceiling.engine != "module":
        return ""
    parts = {
        name: figure
        for name in ("matrix", "dla")
        if (part := device.ceiling(name, ceiling.dtype)) is not None
        and (figure := part.sparse_flop_per_s if sparse else part.flop_per_s) is not None
    }
    total = ceiling.sparse_flop_per_s if sparse else ceiling.flop_per_s
    if parts.get("matrix") == total:
        return ""
    note = f"{device.id}: the {ceiling.dtype} roof is that of the whole module"
    if len(parts) == 2:
        note += (
            f", {format_si(total, 'FLOP/s')} = GPU {format_si(parts['matrix'], 'FLOP/s')} + DLA "
            f"{format_si(parts['dla'], 'FLOP/s')}; engine 'matrix' gives the GPU alone"
        )
    return note + "."


def _sparsity_note(device: Device, ceiling: Ceiling, used: str) -> str:
    where = f"{device.id}: {used} on the {ceiling.engine} engine"
    if ceiling.sparse_flop_per_s is None:
        return f"{where} has no published sparse peak; the dense one is used."
    return (
        f"{where}: the peak with structured sparsity is used, "
        f"{format_si(ceiling.sparse_flop_per_s, 'FLOP/s')}; dense is "
        f"{format_si(ceiling.flop_per_s, 'FLOP/s')}."
    )
