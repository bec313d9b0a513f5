"""Feeds damaged ONNX files to the reader: ``python scripts/fuzz_onnx.py 600 model.onnx ...``.

Whatever a file holds, reading gives a workload that can be analyzed or one `GambrelError` of one
line, soon and in bounded memory. Seeds are the structures of the given files, without their
weights, and the node cases of onnx's backend tests. An execution damages one of them: bytes, or
fields of its messages. The file being read is ``last.onnx`` beside the results, so that a crash of
the interpreter leaves it; what fails is kept.
"""

from __future__ import annotations

import argparse
import collections
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.test.loader import load_model_tests

import gambrel
from gambrel.capture.onnx.reader import read_onnx
from gambrel.capture.onnx.wire import without_data
from gambrel.errors import GambrelError

#: CPU seconds and bytes that one execution may take.
SECONDS, BYTES = 20, 6 * 2**30
INTEGERS = (0, 1, -1, 2, 3, 7, 64, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1, 1000)
TEXTS = ("", "x", "N", "N/0", "2**9**9", "../x", "batch", "a b", "\u00e9", "-1", "same")


def seeds(paths: list[Path]) -> list[bytes]:
    """Structures of models."""
    found = [without_data(path.read_bytes()) for path in paths]
    cases = [case.model.SerializeToString() for case in load_model_tests(kind="node")]
    return [*found * max(len(cases) // max(2 * len(found), 1), 1), *cases]


def bent(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """A few edits of the bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, kind = rng.randrange(len(out) + 1), rng.random()
        if kind < 0.3:
            out[at : at + rng.randrange(1, 30)] = b""
        elif kind < 0.7 and at < len(out):
            out[at] = rng.randrange(256)
        elif kind < 0.75:
            del out[at:]
        else:
            start = rng.randrange(len(other) + 1)
            out[at:at] = other[start : start + rng.randrange(60)]
    return bytes(out)


def changed(data: bytes, rng: random.Random) -> bytes:
    """A few fields of the messages set to something else."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        message: Any = model
        for _ in range(rng.randrange(1, 9)):
            fields = [f for f, _ in message.ListFields()]
            if not fields:
                break
            field = rng.choice(fields)
            value = getattr(message, field.name)
            if field.message_type is None:
                _set(message, field, value, rng)
                break
            if not hasattr(value, "add"):
                message = value
                continue
            kind = rng.random()
            if kind < 0.1 and len(value):
                del value[rng.randrange(len(value))]
                break
            if kind < 0.2 and len(value):
                value.add().CopyFrom(rng.choice(list(value)))
                break
            message = rng.choice(list(value))
    return model.SerializeToString()


def _set(message: Any, field: Any, value: Any, rng: random.Random) -> None:
    try:
        listed = not isinstance(value, (str, bytes, int, float))
        sample = value[0] if listed and len(value) else value
        new: Any = rng.choice(INTEGERS)
        if isinstance(sample, (str, bytes)):
            new = rng.choice(TEXTS)
            if listed and len(value) and rng.random() < 0.5:
                new = rng.choice(list(value))
            new = new.encode() if isinstance(sample, bytes) and isinstance(new, str) else new
        elif isinstance(sample, float):
            new = rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), 0.5))
        if not listed:
            setattr(message, field.name, new)
        elif rng.random() < 0.2:
            value.append(new)
        elif len(value):
            value[rng.randrange(len(value))] = new
    except (ValueError, TypeError):
        return


def execute(path: Path) -> str:
    """Reads one file and analyzes it; says how it ended."""
    try:
        workload = read_onnx(path)
        analysis = gambrel.analyze(workload, "h100")
        assert analysis.total.flops >= 0
    except GambrelError as error:
        if "\n" in str(error):
            raise AssertionError(f"an error of several lines: {error!s:.200}") from None
        return f"refused ({type(error).__name__})"
    return "read"


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main() -> None:
    """Runs for the seconds that were asked for and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=int)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz_onnx"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.keep.mkdir(exist_ok=True)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGPROF, _too_long)
    rng, pool = random.Random(args.seed), seeds(args.models)
    ended: collections.Counter[str] = collections.Counter()
    path, start, number = args.keep / "last.onnx", time.monotonic(), 0
    while time.monotonic() - start < args.seconds:
        number += 1
        seed = rng.choice(pool)
        data = changed(seed, rng) if rng.random() < 0.7 else bent(seed, rng.choice(pool), rng)
        path.write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            outcome = execute(path)
        except Exception as error:
            outcome = f"FAILED: {type(error).__name__}"
            (args.keep / f"failed_{number}.onnx").write_bytes(data)
            (args.keep / f"failed_{number}.txt").write_text(traceback.format_exc(), "utf-8")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        ended[outcome] += 1
    sys.stdout.write(f"{number:,} executions in {args.seconds} s\n")
    for outcome, count in ended.most_common():
        sys.stdout.write(f"{count:>9,}  {outcome}\n")
    sys.exit(any(o.startswith("FAILED") for o in ended))


if __name__ == "__main__":
    main()
