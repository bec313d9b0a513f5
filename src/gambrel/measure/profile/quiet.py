"""torch's profiler without its own log lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Kineto writes a line at each start and stop to stderr, at a level above its errors; it reads the
#: variable when it is first used.
_VARIABLE: Final = "KINETO_LOG_LEVEL"
_ABOVE_ALL: Final = "6"


@contextmanager
def quiet() -> Iterator[None]:
    """Within, the profiler writes nothing to stderr, unless the user chose a level."""
    chosen = _VARIABLE in os.environ
    if not chosen:
        os.environ[_VARIABLE] = _ABOVE_ALL
    try:
        yield
    finally:
        if not chosen:
            os.environ.pop(_VARIABLE, None)
