"""Work that makes many objects and no cycles runs without the cyclic garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Holds off the collector, which would walk all that was made so far over and over.

    Also a decorator: ``@without_collector()``.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            _promote()
            gc.enable()


def _promote() -> None:
    """Moves what was made to the oldest generation, which is not walked at the next allocation."""
    if not gc.get_freeze_count():  # else a program keeps objects out of the collector's sight
        gc.freeze()
        gc.unfreeze()
