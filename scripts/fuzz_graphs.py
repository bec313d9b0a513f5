"""Feeds damaged TFLite, OpenVINO and Core ML files to their readers.

``python scripts/fuzz_graphs.py 600 tests/data/tflite/*.tflite tests/data/openvino/*.xml``; a seed's
own reader is told by its content. As in ``fuzz_formats.py``: whatever a file holds, reading gives a
workload that can be analyzed or one `GambrelError` of one line, soon and in bounded memory. Bytes
are changed anywhere; in XML also whole numbers and names. The file being read is ``last`` beside
the results; what fails is kept.
"""

from __future__ import annotations

import argparse
import random
import re
import warnings
from functools import partial
from pathlib import Path

import gambrel
from fuzzing import Damaged, bent, bounded, feed, refused
from gambrel.capture.files.identify import FileKind, identify
from gambrel.capture.formats import format_of
from gambrel.capture.request import Request
from gambrel.errors import GambrelError

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
        return f"{kind.value}: {refused(error)}"
    return f"{kind.value}: read"


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
    bounded()
    seeds = [(path.read_bytes(), identify(path)) for path in args.models]
    rng = random.Random(args.seed)

    def drawn() -> Damaged:
        data, kind = rng.choice(seeds)
        is_text = kind is FileKind.OPENVINO and rng.random() < 0.7
        return Damaged(
            data=reworded(data, rng) if is_text else bent(data, rng.choice(seeds)[0], rng),
            execute=partial(execute, kind=kind),
            label=f"{kind.value}: ",
        )

    feed(drawn, args.seconds, args.keep)


if __name__ == "__main__":
    main()
