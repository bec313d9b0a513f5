"""From the trace of an operator graph to its workload, and the one sentence for a damaged file."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

from msgspec.structs import replace

from gambrel.capture.onnx.builder import Builder
from gambrel.capture.onnx.edges import Trace
from gambrel.capture.onnx.passes import refine
from gambrel.dtypes import FLOATING
from gambrel.errors import FileFormatError, GambrelError, told
from gambrel.workload import Symbol, Workload
from gambrel.workload.parameters import mention_unread
from gambrel.workload.prune import drop_unused_outputs

_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


@contextmanager
def reading(path: Path, what: str, advice: str) -> Iterator[None]:
    """Turns what a damaged file raises into one sentence with its name.

    Args:
        path: The file.
        what: Its format, e.g. ``"TFLite model"``.
        advice: What to do, after a semicolon.

    Raises:
        FileFormatError: For anything that the file is to blame for.
    """
    try:
        yield
    except FileFormatError as error:
        text = str(error)
        raise FileFormatError(text if str(path) in text else f"{path}: {text}") from None
    except GambrelError:
        raise
    except _DAMAGE as error:
        text = str(error).strip().partition("\n")[0][:200]
        said = f"{type(error).__name__}: {told(text)}" if text else type(error).__name__
        raise FileFormatError(
            f"{path}: the {what} contradicts itself ({said}); {advice}."
        ) from None


def finish(trace: Trace, *, name: str, origin: str, symbols: tuple[Symbol, ...] = ()) -> Workload:
    """The workload of a trace.

    Args:
        trace: As the reader wrote it.
        name: Of the workload.
        origin: Where it comes from.
        symbols: Sizes that the user may choose.

    Raises:
        FileFormatError: Nothing runs in it.
    """
    if not trace.steps and not trace.outputs:
        raise FileFormatError("holds no operators; was the conversion interrupted?")
    refine(trace)
    built = drop_unused_outputs(Builder().build(trace, name=name, origin=origin))
    dtype = _computed(built) or built.dtype
    return mention_unread(replace(built, symbols=symbols, dtype=dtype))


def _computed(workload: Workload) -> str:
    """The format of most real numbers that ops make: weights may be stored in a narrower one."""
    counted: Counter[str] = Counter()
    for index in {i for op in workload.ops for i in op.outputs}:
        tensor = workload.tensors[index]
        if tensor.dtype in FLOATING:
            counted[tensor.dtype] += prod(int(n) for n in tensor.shape)
    return max(counted, key=counted.__getitem__, default="")
