"""LLVM IR of the loops over memory, and the variants in which each can be written.

Which variant is fastest depends on the processor: how many requests its own prefetchers keep in
flight, how many sequences of addresses they follow, how it decodes long loops. So a loop is a mix
of accesses in one `Variant`, and `gambrel.measure.tuning` tries several on the machine itself.

Every kernel has the type ``void (ptr data, i64 size, i64 passes)``: the arrays of a mix lie one
after another from ``data`` on, each ``size`` bytes long, a multiple of `TURN_BYTES`. An empty
inline assembly with a memory clobber keeps passes over the same data from being merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gambrel.measure.ir import LoopKernel, fused

#: Bytes of an array that the longest turn of any variant handles.
TURN_BYTES: Final = 32 * 64
#: Pointers that a loop may hold: x86 has 16 registers; stack, end and little else need the others.
_POINTERS: Final = 12

#: Arrays, and bytes that the program reads and writes per byte of one array. What the caches move
#: besides (a line is read before it is written) is not counted.
STREAMS: Final[dict[str, tuple[int, int]]] = {
    "read": (1, 1),
    "write": (1, 1),
    "copy": (2, 2),
    "triad": (3, 3),
    "update": (1, 2),
}

_BARRIER: Final = 'call void asm sideeffect "", "~{memory}"()'
_PREFETCH: Final = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How a loop over memory is written.

    Attributes:
        unroll: Vectors of an array that one turn handles, at most 32.
        ahead: Bytes between what is loaded and what is asked for in advance; 0 leaves that to the
            hardware. Stores ask only where nothing is loaded.
        parts: Pieces of each array that are walked side by side.
    """

    unroll: int = 16
    ahead: int = 0
    parts: int = 1

    def __str__(self) -> str:
        words = [f"{self.unroll} vectors a turn"]
        if self.ahead:
            words.append(f"prefetch {self.ahead} B ahead")
        if self.parts > 1:
            words.append(f"{self.parts} parts side by side")
        return ", ".join(words)


def possible(mix: str, variant: Variant) -> bool:
    """Whether there are registers enough for so many parts of each array."""
    return STREAMS[mix][0] * variant.parts <= _POINTERS and variant.parts <= variant.unroll


def memory(
    mix: str,
    width: int,
    variant: Variant = Variant(),
    *,
    nontemporal: bool = False,
    register: str = "v",
) -> LoopKernel:
    """A loop over one to three arrays of equal length that lie one after another.

    Args:
        mix: ``read``, ``write``, ``copy`` (a = b), ``triad`` (a = b + s·c) or ``update``
            (a = -a).
        width: Bytes of a vector register.
        variant: How it is written.
        nontemporal: Store past the caches (x86).
        register: Constraint of a vector register in inline assembly.
    """
    arrays, moved = STREAMS[mix]
    suffix = ", !nontemporal !0" if nontemporal else ""
    name = f"{mix}{'_nt' if nontemporal else ''}_{variant.unroll}_{variant.ahead}_{variant.parts}"
    body = "\n  ".join(_turn(mix, width, variant, suffix, register))
    walked = [f"{array}{part}" for array in "abc"[:arrays] for part in range(variant.parts)]
    step = variant.unroll // variant.parts * width
    phis = "\n  ".join(f"%{x}i = phi ptr [ %{x}s, %pass ], [ %{x}n, %loop ]" for x in walked)
    # One pointer a piece, hidden from the optimizer: with one index for all, stores and fused
    # loads take longer forms, and a triad in an L1 runs a quarter slower.
    hidden = "\n  ".join(f'%{x} = call ptr asm "", "=r,0"(ptr %{x}i)' for x in walked)
    moves = "\n  ".join(f"%{x}n = getelementptr i8, ptr %{x}, i64 {step}" for x in walked)
    fence = 'call void asm sideeffect "sfence", "~{memory}"()' if nontemporal else ""
    text = f"""define void @{name}(ptr %data, i64 %size, i64 %passes) #0 {{
entry:
  %first = load <{width // 4} x i32>, ptr %data, align 64
  %part = udiv i64 %size, {variant.parts}
  %end = getelementptr i8, ptr %data, i64 %part
  {_CONSTANTS.get(mix, _no_constant)(width)}
  br label %pass
pass:
  %p = phi i64 [ 0, %entry ], [ %pnext, %loop_end ]
  {_BARRIER}
  {_starts(arrays, variant.parts)}
  br label %loop
loop:
  {phis}
  {hidden}
  {body}
  {moves}
  %more = icmp ult ptr %a0n, %end
  br i1 %more, label %loop, label %loop_end
loop_end:
  %pnext = add i64 %p, 1
  %again = icmp ult i64 %pnext, %passes
  br i1 %again, label %pass, label %done
done:
  {fence}
  ret void
}}
"""
    declared = (_PREFETCH if variant.ahead else "") + (fused(width) if mix == "triad" else "")
    return LoopKernel(name=name, text=declared + text, streams=arrays, moved=moved)


def _starts(arrays: int, parts: int) -> str:
    """Where each part of each array begins; arrays lie ``size`` bytes apart."""
    lines, base = [], "%data"
    for array in "abc"[:arrays]:
        lines.append(f"%{array}0s = getelementptr i8, ptr {base}, i64 0")
        for part in range(1, parts):
            lines.append(f"%{array}{part}s = getelementptr i8, ptr %{array}{part - 1}s, i64 %part")
        lines.append(f"%{array}e = getelementptr i8, ptr %{array}0s, i64 %size")
        base = f"%{array}e"
    return "\n  ".join(lines)


def _turn(mix: str, width: int, variant: Variant, suffix: str, register: str) -> Iterator[str]:
    """One turn, a vector of each part after the other."""
    vector = f"<{width // 4} x i32>"
    for u in range(variant.unroll):
        vectors = _Place(u=u, part=u % variant.parts, offset=u // variant.parts * width)
        yield from _asking(_BODIES[mix](vectors, width, vector, suffix), variant.ahead, mix)
        if mix == "read":
            # Only that the value is in a register: arithmetic on it would be what is timed.
            yield f'call void asm sideeffect "", "{register}"({vector} %r{u})'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One vector of a turn.

    Attributes:
        u: Its number.
        part: Piece of each array that it lies in.
        offset: Bytes from that piece's pointer.
    """

    u: int
    part: int
    offset: int


def _load(name: str, base: str, at: _Place, width: int, vector: str) -> list[str]:
    return [
        f"%{name}p{at.u} = getelementptr i8, ptr %{base}{at.part}, i64 {at.offset}",
        f"%{name}{at.u} = load {vector}, ptr %{name}p{at.u}, align {width}",
    ]


def _store(value: str, at: _Place, width: int, vector: str, suffix: str) -> list[str]:
    return [
        f"%o{at.u} = getelementptr i8, ptr %a{at.part}, i64 {at.offset}",
        f"store {vector} {value}, ptr %o{at.u}, align {width}{suffix}",
    ]


def _asking(lines: list[str], ahead: int, mix: str) -> Iterator[str]:
    """The lines, with a request for what lies ahead after the address of every load.

    A loop without loads asks for the lines that it stores to, to own them.
    """
    asked = ("%o",) if mix == "write" else ("%rp", "%qp")
    for line in lines:
        yield line
        address, _, rest = line.partition(" = getelementptr")
        if ahead and rest and address.startswith(asked):
            yield f"{address}a = getelementptr i8, ptr {address}, i64 {ahead}"
            own = int(mix == "write")
            yield f"call void @llvm.prefetch.p0(ptr {address}a, i32 {own}, i32 3, i32 1)"


def _read(at: _Place, width: int, vector: str, suffix: str) -> list[str]:
    del suffix
    return _load("r", "a", at, width, vector)


def _write(at: _Place, width: int, vector: str, suffix: str) -> list[str]:
    return _store("%first", at, width, vector, suffix)


def _copy(at: _Place, width: int, vector: str, suffix: str) -> list[str]:
    return [
        *_load("r", "b", at, width, vector),
        *_store(f"%r{at.u}", at, width, vector, suffix),
    ]


def _triad(at: _Place, width: int, vector: str, suffix: str) -> list[str]:
    del vector
    floats, u = f"<{width // 4} x float>", at.u
    call = f"call {floats} @llvm.fma.v{width // 4}f32"
    return [
        *_load("r", "b", at, width, floats),
        *_load("q", "c", at, width, floats),
        f"%m{u} = {call}({floats} %q{u}, {floats} %scale, {floats} %r{u})",
        *_store(f"%m{u}", at, width, floats, suffix),
    ]


def _update(at: _Place, width: int, vector: str, suffix: str) -> list[str]:
    return [
        *_load("r", "a", at, width, vector),
        f"%m{at.u} = xor {vector} %r{at.u}, %signs",
        *_store(f"%m{at.u}", at, width, vector, suffix),
    ]


_BODIES: Final[dict[str, Callable[[_Place, int, str, str], list[str]]]] = {
    "read": _read,
    "write": _write,
    "copy": _copy,
    "triad": _triad,
    "update": _update,
}


def _triad_scale(width: int) -> str:
    """The factor, 2 to the power of -20: repeated sums neither grow nor vanish."""
    lanes = width // 4
    splat = ", ".join(["float 0x3EB0000000000000"] * lanes)
    return f"%scale = select i1 true, <{lanes} x float> <{splat}>, <{lanes} x float> <{splat}>"


def _signs(width: int) -> str:
    """The sign bits: changing the sign leaves ordinary numbers ordinary."""
    lanes = width // 4
    splat = ", ".join(["i32 -2147483648"] * lanes)
    return f"%signs = select i1 true, <{lanes} x i32> <{splat}>, <{lanes} x i32> <{splat}>"


def _no_constant(width: int) -> str:
    del width
    return ""


_CONSTANTS: Final[dict[str, Callable[[int], str]]] = {"triad": _triad_scale, "update": _signs}
