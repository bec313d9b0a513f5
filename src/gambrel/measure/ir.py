"""LLVM IR of the arithmetic loops that are timed, as text: pure functions, no compiler needed.

The loops are written unrolled and already vectorized, so that no optimization pass has to find the
parallelism (and none can remove the work): the code generator only assigns registers.

Every kernel has the type ``void (ptr data, i64 size, i64 passes)``. ``data`` holds the operands,
and a kernel does ``passes`` times the same work; `gambrel.measure.loops` has those over memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

#: Turns inside one pass of an arithmetic loop: a pass is long against the call.
TURNS: Final = 64
#: Length of the dependent chain that shows the clock, in instructions a pass.
CHAIN: Final = 1024
#: Cycles of a 64-bit integer multiplication on x86: 3 on every Intel core since Nehalem and every
#: AMD core since Zen (Agner Fog, "Instruction tables", 2022, IMUL r64,r64).
IMUL_CYCLES: Final = 3

_LETTERS: Final = {"fp64": "double", "fp32": "float", "fp16": "half"}
_BYTES: Final = {"fp64": 8, "fp32": 4, "fp16": 2}
_MANGLED: Final = {"fp64": "f64", "fp32": "f32", "fp16": "f16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopKernel:
    """One loop.

    Attributes:
        name: Of the function, and of the kernel.
        text: Its IR.
        flops: FLOP of one pass; 0 for memory loops.
        instructions: Dependent instructions of one pass; only the clock's chain has any.
        streams: Arrays that a memory loop walks over.
        moved: Bytes that the program reads and writes per byte of one stream.
    """

    name: str
    text: str
    flops: int = 0
    instructions: int = 0
    streams: int = 0
    moved: int = 0


def fma(dtype: str, width: int, *, adds: bool = False) -> LoopKernel:
    """Independent chains of fused multiply-adds, optionally with as many additions beside them.

    With x in (0, 1) every chain a = a·x + y converges to y/(1-x), so that values stay normal.

    Args:
        dtype: fp64, fp32 or fp16.
        width: Bytes of a vector register.
        adds: Mix in additions, for cores that have adders beside their FMA units.
    """
    lanes = width // _BYTES[dtype]
    vector = f"<{lanes} x {_LETTERS[dtype]}>"
    # 16 architectural vector registers up to 32 bytes, 32 for wider ones; two hold x and y.
    chains = 24 if width == 64 else 12
    intrinsic = f"@llvm.fma.v{lanes}{_MANGLED[dtype]}"

    def step(chain: int, value: str, out: str) -> str:
        if adds and chain % 2:
            return f"{out} = fadd {vector} {value}, %y"
        return f"{out} = call {vector} {intrinsic}({vector} {value}, {vector} %x, {vector} %y)"

    per_turn = sum(lanes * (1 if adds and c % 2 else 2) for c in range(chains))
    name = f"fma_add_{dtype}" if adds else f"fma_{dtype}"
    text = _arithmetic(name, vector, chains, step, width)
    declare = f"declare {vector} {intrinsic}({vector}, {vector}, {vector})\n"
    return LoopKernel(name=name, text=declare + text, flops=per_turn * TURNS)


def dot(
    name: str, mnemonic: str, width: int, flops_per_vector: int, *, integer: bool
) -> LoopKernel:
    """Independent chains of a dot-product instruction (bf16 pairs or int8 quadruples).

    Args:
        name: Of the kernel.
        mnemonic: Of the instruction, e.g. ``vdpbf16ps``.
        width: Bytes of a vector register.
        flops_per_vector: Operations of one instruction, a multiply-add counted as two.
        integer: Whether the accumulators are integers.
    """
    vector = f"<{width // 4} x {'i32' if integer else 'float'}>"

    def step(chain: int, value: str, out: str) -> str:
        del chain
        return (
            f'{out} = call {vector} asm "{mnemonic} $3, $2, $0", "=v,0,v,v"'
            f"({vector} {value}, {vector} %x, {vector} %y)"
        )

    chains = 24 if width == 64 else 12
    text = _arithmetic(name, vector, chains, step, width)
    return LoopKernel(name=name, text=text, flops=chains * flops_per_vector * TURNS)


def _product(mnemonic: str, accumulator: int) -> str:
    a, b = 4 + (accumulator >> 1) * 2, 5 + (accumulator & 1) * 2
    return f"{mnemonic} %tmm{b}, %tmm{a}, %tmm{accumulator}"


_TILES: Final = [
    "%ops = getelementptr i8, ptr %data, i64 64",
    'call void asm sideeffect "ldtilecfg ($0)", "r"(ptr %data)',
    *(
        f'call void asm sideeffect "tileloadd ($0,$1,1), %tmm{t}", "r,r"(ptr %ops, i64 64)'
        for t in range(8)
    ),
]
_RELEASE: Final = 'call void asm sideeffect "tilerelease", ""()'


def tile(name: str, mnemonic: str, flops_per_tile: int) -> LoopKernel:
    """Four independent accumulator tiles of Intel's AMX.

    The first 64 bytes of the data are the tile configuration, the operands follow.
    """
    lines = "; ".join(_product(mnemonic, accumulator) for accumulator in range(4))
    body = [f'call void asm sideeffect "{lines}", ""()'] * (TURNS // 4)
    text = _counted(name, _TILES, [], body, [_RELEASE])
    return LoopKernel(name=name, text=text, flops=4 * (TURNS // 4) * flops_per_tile)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """What runs beside a chain, as lines of IR.

    Attributes:
        before: In front of the loop.
        states: What the loop carries from turn to turn.
        steps: After each multiplication.
        after: Behind the loop.
    """

    before: list[str]
    steps: list[list[str]]
    after: list[str]
    states: list[str] = field(default_factory=list)


_NOTHING_BESIDE: Final = _Beside(before=[], steps=[[]] * CHAIN, after=[])


def chain(width: int = 0, tile: str = "") -> LoopKernel:
    """Integer multiplications that wait for each other: their rate is the clock over 3 (x86).

    Many processors lower their clock while vector or matrix units work, so these can be kept busy
    beside. The number lies at ``data + size``, vector operands a cache line behind; at ``data`` are
    the tile configuration and operands of `tile`.

    Args:
        width: Bytes of the fused multiply-adds beside; 0 for none.
        tile: Mnemonic of the tile product beside; empty for none.
    """
    name, beside = "chain", _NOTHING_BESIDE
    if tile:
        name, beside = f"chain_{tile}", _tiles_beside(tile)
    elif width:
        name, beside = f"chain_{width}", _vectors_beside(width)
    before = [
        "%number = getelementptr i8, ptr %data, i64 %size",
        "%k = load i64, ptr %number",
        "%at = getelementptr i8, ptr %number, i64 64",
        *beside.before,
    ]
    states = [f"%v0 = phi i64 [ %k, %entry ], [ %v{CHAIN}, %loop ]", *beside.states]
    after = [f"store i64 %v{CHAIN}, ptr %number", *beside.after]
    text = _counted(name, before, states, _chained(beside.steps), after)
    declared = fused(width) if width and not tile else ""
    return LoopKernel(name=name, text=declared + text, instructions=CHAIN)


def fused(width: int) -> str:
    """The declaration of a fused multiply-add of fp32 vectors."""
    floats = f"<{width // 4} x float>"
    return f"declare {floats} @llvm.fma.v{width // 4}f32({floats}, {floats}, {floats})\n"


def _chained(beside: list[list[str]]) -> Iterator[str]:
    for i, lines in enumerate(beside):
        yield f'%v{i + 1} = call i64 asm "imulq $2, $0", "=r,0,r"(i64 %v{i}, i64 %k)'
        yield from lines


def _vectors_beside(width: int) -> _Beside:
    vector, slots = f"<{width // 4} x float>", 4
    call = f"call {vector} @llvm.fma.v{width // 4}f32"
    # One in three cycles: more of them would hold up the chain now and then.
    steps = [
        [f"%f{slots + i} = {call}({vector} %f{i}, {vector} %x, {vector} %x)"] for i in range(CHAIN)
    ]
    last = range(CHAIN, CHAIN + slots)
    return _Beside(
        before=[f"%x = load {vector}, ptr %at, align 64"],
        states=[
            f"%f{s} = phi {vector} [ %x, %entry ], [ %f{last[s]}, %loop ]" for s in range(slots)
        ],
        steps=steps,
        after=[f"store volatile {vector} %f{at}, ptr %at, align 64" for at in last],
    )


def _tiles_beside(mnemonic: str) -> _Beside:
    # A product takes the unit 16 cycles, twelve multiplications 36.
    steps = [
        [f'call void asm sideeffect "{_product(mnemonic, i // 12 % 4)}", ""()'] * (i % 12 == 0)
        for i in range(CHAIN)
    ]
    return _Beside(before=_TILES, steps=steps, after=[_RELEASE])


def kernel_module(kernel: LoopKernel, triple: str) -> str:
    """One kernel as a module of its own, so that one that does not compile spoils no other."""
    wide = '"prefer-vector-width"="512" "min-legal-vector-width"="512"'
    return "\n".join(
        [
            f'target triple = "{triple}"',
            kernel.text,
            f"attributes #0 = {{ nounwind {wide} }}",
            "!0 = !{i32 1}",
        ]
    )


def _arithmetic(
    name: str,
    vector: str,
    chains: int,
    step: Callable[[int, str, str], str],
    width: int,
) -> str:
    turns = 8  # written out, so that the loop's own instructions do not matter
    lines = []
    for turn in range(turns):
        for c in range(chains):
            out = f"%a{c}_{turn + 1}"
            lines.append(step(c, f"%a{c}_{turn}", out))
    before = [
        f"%x = load {vector}, ptr %data, align 64",
        f"%yp = getelementptr i8, ptr %data, i64 {width}",
        f"%y = load {vector}, ptr %yp, align 64",
    ]
    for c in range(chains):
        before += [
            f"%sp{c} = getelementptr i8, ptr %data, i64 {(c + 2) * width}",
            f"%start{c} = load {vector}, ptr %sp{c}, align {width}",
        ]
    before.append(f"%n = mul i64 %passes, {TURNS // turns}")
    states = [
        f"%a{c}_0 = phi {vector} [ %start{c}, %entry ], [ %a{c}_{turns}, %loop ]"
        for c in range(chains)
    ]
    after = [f"store {vector} %a{c}_{turns}, ptr %sp{c}, align {width}" for c in range(chains)]
    return _counted(name, before, states, lines, after, "%n")


def _counted(
    name: str,
    before: list[str],
    states: list[str],
    body: Iterable[str],
    after: list[str],
    turns: str = "%passes",
) -> str:
    """A function that goes round one loop a number of times, from lines of its parts."""
    entry, phis, lines, done = map("\n  ".join, (before, states, body, after))
    return f"""define void @{name}(ptr %data, i64 %size, i64 %passes) #0 {{
entry:
  {entry}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  {phis}
  {lines}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {turns}
  br i1 %more, label %loop, label %done
done:
  {done}
  ret void
}}
"""
