"""Readings of a device, taken in a thread of its own while something else runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")
#: Seconds between two readings.
_EVERY_S: Final = 0.05
#: Seconds that the last reading may take.
_PATIENCE_S: Final = 10.0


@contextmanager
def watched(read: Callable[[], T | None] | None, every_s: float = 0.0) -> Iterator[list[T]]:
    """Collects readings in a thread of its own while the block runs.

    Args:
        read: What reads; None collects nothing.
        every_s: Between two readings.
    """
    seen: list[T] = []
    if read is None:
        yield seen
        return
    done = threading.Event()

    def look() -> None:
        while not done.wait(every_s or _EVERY_S):
            now = read()
            if now is not None and not done.is_set():
                seen.append(now)

    thread = threading.Thread(target=look, name="gambrel-telemetry", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join(_PATIENCE_S)
