"""Feeds damaged TFLite, OpenVINO and Core ML files to their readers.

``python scripts/fuzz_graphs.py 600 tests/data/tflite/*.tflite tests/data/openvino/*.xml``; a seed's
own reader is told by its content. As in ``fuzz_onnx.py``: whatever a file holds, reading gives a
workload that can be analyzed or one `GambrelError` of one line, soon and in bounded memory. Bytes
are changed anywhere; in XML also whole numbers and names. The file being read is ``last`` beside
the results; what fails is kept.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import gambrel
from gambrel.capture.files.identify import FileKind, identify
from gambrel.capture.formats import format_of
from gambrel.capture.request import Request
from gambrel.errors import GambrelError

#: CPU seconds and bytes that one execution may take.
SECONDS, BYTES = 20, 6 * 2**30
NUMBERS = ("0", "1", "-1", "2", "7", "1000", "4294967296", "-9223372036854775808", "x", "", "1e9")
WORDS = (
    "0",
    "1",
    "f16",
    "i4",
    "Const",
    "MatMul",
    "Convolution",
    "Loop",
    "If",
    "Parameter",
    "\u00e9",
)


def bent(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """A few edits of the bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at, kind = rng.randrange(len(out) + 1), rng.random()
        if kind < 0.15:
            out[at : at + rng.randrange(1, 30)] = b""
        elif kind < 0.6 and at < len(out):
            out[at] = rng.randrange(256)
        elif kind < 0.8 and at + 4 <= len(out):
            value = rng.choice((0, 1, 2, 255, 2**31 - 1, 2**31, 2**32 - 1, rng.randrange(2**16)))
            out[at & ~3 : (at & ~3) + 4] = value.to_bytes(4, "little")
        elif kind < 0.84:
            del out[at:]
        else:
            start = rng.randrange(len(other) + 1)
            out[at:at] = other[start : start + rng.randrange(60)]
    return bytes(out)


def reworded(data: bytes, rng: random.Random) -> bytes:
    """A few numbers, attributes or whole elements of a text changed."""
    text = data.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 5))):
        pattern = rng.choice((r">(-?\d+)<", r'="([^"]*)"', r"(<edge [^>]*/>)", r"(<dim>.*?</dim>)"))
        places = list(re.finditer(pattern, text))
        if not places:
            continue
        start, end = rng.choice(places).span(1)
        new = rng.choice(NUMBERS if "d+" in pattern else WORDS + NUMBERS)
        text = text[:start] + ("" if pattern.startswith("(<") else new) + text[end:]
    return text.encode()


def execute(path: Path, kind: FileKind) -> str:
    """Reads one file and analyzes it; says how it ended."""
    try:
        workload = format_of(kind).reader(path, Request()).workload
        analysis = gambrel.analyze(workload, "h100")
        if analysis.total.flops < 0:
            raise AssertionError("work below zero")
    except GambrelError as error:
        if "\n" in str(error):
            raise AssertionError(f"an error of several lines: {error!s:.200}") from None
        return f"{kind.value}: refused ({type(error).__name__})"
    return f"{kind.value}: read"


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main() -> None:
    """Runs for the seconds that were asked for and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=int)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz_graphs"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.keep.mkdir(exist_ok=True)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGPROF, _too_long)
    seeds = [(path.read_bytes(), identify(path)) for path in args.models]
    rng = random.Random(args.seed)
    ended: collections.Counter[str] = collections.Counter()
    path, start, number = args.keep / "last", time.monotonic(), 0
    while time.monotonic() - start < args.seconds:
        number += 1
        data, kind = rng.choice(seeds)
        is_text = kind is FileKind.OPENVINO and rng.random() < 0.7
        data = reworded(data, rng) if is_text else bent(data, rng.choice(seeds)[0], rng)
        path.write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            outcome = execute(path, kind)
        except Exception as error:
            outcome = f"FAILED: {kind.value}: {type(error).__name__}"
            (args.keep / f"failed_{number}").write_bytes(data)
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
