"""Every argument of every public function with values of wrong types: only GambrelError may come.

A call that is right is repeated with one argument replaced by one of `VALUES`. Run
``python -m scripts.sweeps.api_types [function ...]``. It takes a few minutes.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gambrel
from gambrel.analysis.question import fields_of
from gambrel.errors import GambrelError

#: What is given in place of an argument, by the name that the table shows.
VALUES: Final[dict[str, Any]] = {
    "None": None,
    "True": True,
    "-1": -1,
    "0": 0,
    "10**30": 10**30,
    "nan": float("nan"),
    "inf": float("inf"),
    "-1e300": -1e300,
    "1e-300": 1e-300,
    "empty text": "",
    "blank": "   ",
    "10,000 characters": "x" * 10_000,
    "4,000 words": "ab " * 4_000,
    "terminal codes": "a\x1b[31m\u202eb\x9b",
    "long path": "/".join(["d" * 300] * 4),
    "null character": "a\0b",
    "lone surrogate": "\ud800",
    "bytes": b"resnet18",
    "bytearray": bytearray(b"a"),
    "empty list": [],
    "list of None": [None],
    "nested list": [[1], ["a"]],
    "list of texts": ["a", "b"],
    "empty dict": {},
    "dict": {"a": 1},
    "dict of objects": {object(): object()},
    "set": {1, 2},
    "object": object(),
    "class": dict,
    "function": len,
    "generator": (i for i in ()),
    "complex": 1j,
    "path": Path("/nonexistent"),
    "folder": Path(tempfile.gettempdir()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One function and a call of it that is right.

    Attributes:
        name: As the table shows it.
        function: What is called.
        given: Arguments of a call that works.
        arguments: What is replaced, one at a time.
    """

    name: str
    function: Callable[..., Any]
    given: dict[str, Any]
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """An exception that is no GambrelError."""

    function: str
    argument: str
    value: str
    error: BaseException


def cases() -> Iterator[Case]:
    """All public functions, and the methods of their results that take arguments."""
    base = {"model": "resnet18", "hardware": "h100"}
    language = {"model": "llama-3-8b", "hardware": "h100"}
    for verb, function, given in (
        ("analyze", gambrel.analyze, base),
        ("check", gambrel.check, {**base, "latency": "1ms"}),
        ("compare", gambrel.compare, base),
        ("select", gambrel.select, {**base, "latency": "1ms"}),
        ("sweep", gambrel.sweep, {**base, "batch_size": [1, 2]}),
        ("what-if", gambrel.what_if, {**base, "change": "precision=int8"}),
        ("kv-cache", gambrel.kv_cache, language),
        ("serve-plan", gambrel.serve_plan, {**language, "input": 64, "output": 8}),
        ("train-plan", gambrel.train_plan, {**language, "seq": 64}),
    ):
        names = tuple(field.name for field in fields_of(verb, "python"))
        yield Case(name=verb, function=function, given=dict(given), arguments=names)
    yield from _plain()
    yield from _methods()


def _plain() -> Iterator[Case]:
    """The functions that take no question."""
    known = {"model": "resnet18"}
    asked = ("model", "inputs", "kwargs", "input_shapes", "phase", "train", "trust", "sizes")
    yield Case(name="load_model", function=gambrel.load_model, given=known, arguments=asked)
    yield Case(name="load", function=gambrel.load, given={}, arguments=("path",))
    trace = {"paths": "none.csv"}
    yield Case(name="read", function=gambrel.read, given=trace, arguments=("paths", "chip"))
    yield Case(
        name="calibrate",
        function=gambrel.calibrate,
        given={"file": "none.csv", "hardware": "h100", "name": "own"},
        arguments=("file", "hardware", "name"),
    )
    peaks = {"device": "cpu", "dtype": "float32", "steps": 1, "warmup": 0}
    yield Case(
        name="measure_peaks",
        function=gambrel.measure_peaks,
        given=peaks,
        arguments=("device", "dtype", "steps", "warmup"),
    )
    yield Case(
        name="UnifiedAnalyzer.analyze_model",
        function=gambrel.UnifiedAnalyzer().analyze_model,
        given={"model_name": "resnet18", "hardware_name": "h100"},
        arguments=("model_name", "hardware_name", "batch_size", "precision"),
    )


def _methods() -> Iterator[Case]:
    """Methods of an analysis."""
    analysis = gambrel.analyze("resnet18", "h100")
    for name, argument in (
        ("save", "path"),
        ("memory_timeline", "checkpoint"),
        ("plot_memory", "checkpoint"),
        ("plot", "title"),
    ):
        method = getattr(analysis, name)
        yield Case(name=f"Analysis.{name}", function=method, given={}, arguments=(argument,))

    def changed(change: Any) -> Any:
        return analysis.with_change(change)

    yield Case(name="Analysis.with_change", function=changed, given={}, arguments=("change",))


def leaks(case: Case, share: float = 1.0, seed: int = 0) -> Iterator[Leak | None]:
    """Calls it with each value in each argument; a leak, or None for a call that is as it should.

    Args:
        case: The function.
        share: Of the calls that are made, chosen at random.
        seed: Of that choice.
    """
    chosen = random.Random(f"{case.name} {seed}")
    for argument in case.arguments:
        for shown, value in VALUES.items():
            if chosen.random() >= share:
                continue
            error = _error(case, argument, value)
            yield error and Leak(function=case.name, argument=argument, value=shown, error=error)


def _error(case: Case, argument: str, value: Any) -> BaseException | None:
    quiet = contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings()
    with quiet[0], quiet[1]:
        warnings.simplefilter("ignore")
        try:
            case.function(**{**case.given, argument: value})
        except GambrelError as error:
            return None if _one_sentence(str(error)) else ValueError(f"message: {str(error)[:300]}")
        except Exception as error:
            return error
    return None


def _one_sentence(text: str) -> bool:
    """Whether a message is short, and nothing in it can steer a terminal."""
    return bool(text) and len(text) < 1500 and all(c.isprintable() or c == "\n" for c in text)


def main(wanted: list[str]) -> int:
    """Prints the leaks; 1 where there is one."""
    calls = leaked = 0
    for case in cases():
        if wanted and case.name not in wanted:
            continue
        for leak in leaks(case):
            calls += 1
            if leak is not None:
                leaked += 1
                what = ascii(f"{type(leak.error).__name__}: {str(leak.error)[:120]}")
                sys.stdout.write(f"{leak.function}({leak.argument}={leak.value}): {what}\n")
                sys.stdout.flush()
    sys.stdout.write(f"\n{calls:,} calls, {leaked} leaks\n")
    return 1 if leaked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
