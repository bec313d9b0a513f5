"""Feeds damaged files to readers for a while: what the fuzzing scripts share.

Whatever a file holds, reading gives a workload that can be analyzed or one `GambrelError` of one
line, soon and in bounded memory.
"""

from __future__ import annotations

import collections
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gambrel.errors import GambrelError

#: CPU seconds and bytes that one execution may take.
SECONDS, BYTES = 20, 6 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """One execution.

    Attributes:
        data: What the file holds.
        execute: Reads the file, and says how it ended.
        suffix: Of the file's name.
        label: What failures of its kind are counted under.
    """

    data: bytes
    execute: Callable[[Path], str]
    suffix: str = ""
    label: str = ""


def bounded() -> None:
    """Limits the memory of this process, and makes `in_time` work."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGPROF, _too_long)


@contextmanager
def in_time() -> Iterator[None]:
    """Stops a block that takes too long.

    Raises:
        TimeoutError: It took more CPU seconds than it may.
    """
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def refused(error: GambrelError) -> str:
    """How a refused file ended.

    Raises:
        AssertionError: The error has several lines.
    """
    if "\n" in str(error):
        raise AssertionError(f"an error of several lines: {error!s:.200}") from None
    return f"refused ({type(error).__name__})"


def feed(drawn: Callable[[], Damaged], seconds: int, keep: Path) -> None:
    """Executes for some seconds, prints what came of it and ends the process.

    Args:
        drawn: Makes the next file.
        seconds: How long.
        keep: Where the file being read lies, and what failed is kept.
    """
    ended: collections.Counter[str] = collections.Counter()
    start, number = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        number += 1
        one = drawn()
        path = keep / f"last{one.suffix}"
        path.write_bytes(one.data)
        try:
            with in_time():
                outcome = one.execute(path)
        except Exception as error:
            outcome = f"FAILED: {one.label}{type(error).__name__}"
            (keep / f"failed_{number}{one.suffix}").write_bytes(one.data)
            (keep / f"failed_{number}.txt").write_text(traceback.format_exc(), "utf-8")
        ended[outcome] += 1
    sys.stdout.write(f"{number:,} executions in {seconds} s\n")
    for outcome, count in ended.most_common():
        sys.stdout.write(f"{count:>9,}  {outcome}\n")
    sys.exit(any(o.startswith("FAILED") for o in ended))


def bent(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """A few edits of the bytes, and of whole numbers of four of them."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at, kind = rng.randrange(len(out) + 1), rng.random()
        if kind < 0.2:
            out[at : at + rng.randrange(1, 30)] = b""
        elif kind < 0.6 and at < len(out):
            out[at] = rng.randrange(256)
        elif kind < 0.75 and at + 4 <= len(out):
            value = rng.choice((0, 1, 2, 255, 2**31 - 1, 2**31, 2**32 - 1, rng.randrange(2**16)))
            out[at & ~3 : (at & ~3) + 4] = value.to_bytes(4, "little")
        elif kind < 0.8:
            del out[at:]
        else:
            start = rng.randrange(len(other) + 1)
            out[at:at] = other[start : start + rng.randrange(60)]
    return bytes(out)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")
