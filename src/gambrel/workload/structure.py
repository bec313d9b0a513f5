"""What follows from the ops and tensors of a workload alone is worked out once for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

from gambrel.workload.model import Workload

T = TypeVar("T")


def once(function: Callable[[Workload], T]) -> Callable[[Workload], T]:
    """Keeps the result of a function with the workload that it is of.

    Args:
        function: Depends on nothing but the workload; nobody changes what it returns.
    """
    key = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def kept(workload: Workload) -> T:
        known = workload.__dict__  # of the object alone: copies with other fields begin empty
        if key not in known:
            known[key] = function(workload)
        return cast(T, known[key])

    return kept
