"""LLVM IR of what times the loops: slices behind a barrier, and the way between two cores."""

from __future__ import annotations

from typing import Final


def harness_module(triple: str, clock: int) -> str:
    """The functions that time kernels and probe the way between two cores.

    Args:
        triple: Of the machine.
        clock: Number of the monotonic clock of ``clock_gettime``.
    """
    text = _HARNESS.replace("CLOCK", str(clock))
    return f'target triple = "{triple}"\n{text}\n{_PING_PONG}'


#: ``times`` gets the start and the end of every slice, in nanoseconds. All threads meet at a
#: counter that only grows before each slice; waiting is native, so that it costs no microseconds.
#: The slices walk over ``chunks`` pieces of the data, one after another, from ``first`` on.
_HARNESS: Final = """
define void @slices(ptr %kernel, ptr %clock, ptr %counter, i64 %threads, ptr %data, i64 %chunk,
                    i64 %chunks, i64 %first, i64 %size, i64 %passes, i64 %count,
                    ptr %times) nounwind {
entry:
  %ts = alloca [2 x i64], align 16
  %nsp = getelementptr i8, ptr %ts, i64 8
  br label %meet
meet:
  %i = phi i64 [ 0, %entry ], [ %inext, %store ]
  %old = atomicrmw add ptr %counter, i64 1 seq_cst
  %i1 = add i64 %i, 1
  %goal = mul i64 %i1, %threads
  br label %spin
spin:
  %seen = load atomic i64, ptr %counter seq_cst, align 8
  %go = icmp uge i64 %seen, %goal
  br i1 %go, label %work, label %spin
work:
  %since = add i64 %first, %i
  %which = urem i64 %since, %chunks
  %offset = mul i64 %which, %chunk
  %place = getelementptr i8, ptr %data, i64 %offset
  call i32 %clock(i32 CLOCK, ptr %ts)
  %s0 = load i64, ptr %ts
  %n0 = load i64, ptr %nsp
  call void %kernel(ptr %place, i64 %size, i64 %passes)
  call i32 %clock(i32 CLOCK, ptr %ts)
  %s1 = load i64, ptr %ts
  %n1 = load i64, ptr %nsp
  br label %store
store:
  %a = mul i64 %s0, 1000000000
  %b = add i64 %a, %n0
  %c = mul i64 %s1, 1000000000
  %d = add i64 %c, %n1
  %at = mul i64 %i, 16
  %p = getelementptr i8, ptr %times, i64 %at
  store i64 %b, ptr %p
  %q = getelementptr i8, ptr %p, i64 8
  store i64 %d, ptr %q
  %inext = add i64 %i, 1
  %more = icmp ult i64 %inext, %count
  br i1 %more, label %meet, label %done
done:
  ret void
}
"""

#: Two threads pass a number to and fro: half the time of a round trip is what a line takes from
#: one core to the other, which tells one die from two.
_PING_PONG: Final = """
define void @ping_pong(ptr %line, i64 %me, i64 %count) nounwind {
entry:
  br label %wait
wait:
  %i = phi i64 [ 0, %entry ], [ %next, %reply ]
  %twice = shl i64 %i, 1
  %mine = add i64 %twice, %me
  br label %spin
spin:
  %seen = load atomic i64, ptr %line seq_cst, align 8
  %go = icmp uge i64 %seen, %mine
  br i1 %go, label %reply, label %spin
reply:
  %new = add i64 %mine, 1
  store atomic i64 %new, ptr %line seq_cst, align 8
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %wait, label %done
done:
  ret void
}
"""
