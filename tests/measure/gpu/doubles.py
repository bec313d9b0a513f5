"""What stands in for a GPU: torch on the processor behind the same seam."""

import inspect

from gambrel.measure import gpu
from gambrel.measure.gpu import precision
from gambrel.measure.gpu.engines import FORMATS

EFFORT = {"steps": 3, "warmup": 1, "rounds": 2}
MATRIX = {"tf32", "fp16", "bf16", "int8", "fp8"}


def bench(**changes):
    """Every call takes half a second by this clock."""
    ticks = iter(i * 0.5 for i in range(10_000_000))
    plain = {
        "device": "cpu",
        "timed": gpu.timed_by_clock(lambda: next(ticks)),
        "engines": {d: ("matrix" if d in MATRIX else "vector", "") for d in FORMATS},
        "sides": (16, 32),
        "stream_bytes": (4096,),
        "settle_s": 0.0,
        "sustained_s": 0.0,
        "call_s": 1e9,
        "round_s": 0.0,
    }
    return gpu.Bench(**(plain | changes))


def flags(monkeypatch):
    """Lets products round to TF32 where that is allowed, as a GPU would."""
    seen = []
    monkeypatch.setattr(precision, "allow_tf32", seen.append)
    monkeypatch.setattr(precision, "rounds_to_tf32", lambda device: seen[-1])
    return seen


def checked(function):
    """Calls only as the real function can be called."""
    signature = inspect.signature(function)

    def wrapper(double):
        def call(*args, **kwargs):
            signature.bind(*args, **kwargs)
            return double(*args, **kwargs)

        return call

    return wrapper
