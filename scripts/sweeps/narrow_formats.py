"""No narrower number format is expected to be slower: models x devices x runtimes x formats.

Run ``python -m scripts.sweeps.narrow_formats [--all] [--each N] [MODEL ...]``. By default a few
models, with ``--all`` the zoo on data-centre GPUs, ``--each 1`` on one of them in turn. Each case
that is slower is printed with what the estimate rests on; the exit code is 1 where the analysis has
no caution that says so.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from typing import Final

from gambrel.advise.fleet import Fleet
from gambrel.analysis.measures import Estimate
from gambrel.analysis.settings import Settings
from gambrel.capture import zoo
from gambrel.device.lookup import find
from gambrel.device.model import Device
from gambrel.device.roofs import resolve
from gambrel.errors import GambrelError
from gambrel.runtimes import candidates

DEVICES: Final = ("h100", "h200", "b200", "mi300x", "a100", "l40s", "l4", "t4")
#: From wide to narrow; formats of one width are not held against each other.
WIDTHS: Final = (("fp16", "bf16"), ("fp8", "int8"))
SAMPLE: Final = (
    "resnet50",
    "mobilenet-v2",
    "vit-b-16",
    "bert-large",
    "lstm",
    "llama-3-8b-decode",
    "mixtral-8x7b-decode",
)
BATCHES: Final = (1, 64)
#: A share below which two times are the same.
SAME: Final = 0.005


def main(arguments: list[str]) -> int:
    """Prints the cases; 1 where a narrower format is slower and the analysis does not say so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", help="names; a few when none is given")
    parser.add_argument("--all", action="store_true", help="the zoo")
    parser.add_argument("--each", type=int, default=len(DEVICES), help="devices for each model")
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after so long")
    asked = parser.parse_args(arguments)
    names = asked.models or list(SAMPLE)
    if asked.all:
        names = [entry.name for entry in zoo.list_models()]
    end, done, compared, cases, unexplained = time.monotonic() + asked.seconds, 0, 0, 0, 0
    turn = itertools.cycle(DEVICES)
    for name in names:
        if time.monotonic() > end:
            break
        for text, estimate in narrower(name, tuple(itertools.islice(turn, asked.each))):
            compared += 1
            if text:
                cases += 1
                unexplained += not estimate.caution
                print(f"{text} ({estimate.caution or estimate.reason})", flush=True)
        done += 1
        print(f"{done} of {len(names)}: {name}", file=sys.stderr, flush=True)
    print(
        f"{done} of {len(names)} models, {compared} narrower formats, {cases} slower, "
        f"{unexplained} of them without a caution"
    )
    return int(unexplained > 0)


def narrower(model: str, devices: tuple[str, ...] = DEVICES) -> Iterator[tuple[str, Estimate]]:
    """Each narrower format with its estimate, and a text where it is slower than a wider one."""
    language = zoo.phase_of(model) is not None
    workload = zoo.load(model)
    batches = BATCHES if "batch" in {symbol.name for symbol in workload.symbols} else (None,)
    for batch in batches:
        sizes = {} if batch is None else {"batch": batch}
        fleet = Fleet(workload, Settings(sizes=sizes))
        for device in (find(name).device for name in devices):
            for runtime in candidates(device, None, language=language):
                for dtype, gain, one in _against_wide(fleet, device, runtime.id):
                    where = f"{model} on {device.id}, {runtime.id}, batch {batch}"
                    yield f"{where}: {dtype} {gain:+.1%}" if gain > SAME else "", one


def _against_wide(
    fleet: Fleet, device: Device, runtime: str
) -> Iterator[tuple[str, float, Estimate]]:
    """Narrow formats, by how much each is slower than the best wide one, and its estimate."""
    wide, narrow = (
        {d: t for d in width if (t := _expected(fleet, device, runtime, d)) is not None}
        for width in WIDTHS
    )
    for dtype, one in narrow.items() if wide else ():
        yield dtype, one.value / min(t.value for t in wide.values()) - 1, one


def _expected(fleet: Fleet, device: Device, runtime: str, dtype: str) -> Estimate | None:
    """The expected time; None where nothing is known, or runtime or device lacks the format."""
    roof = resolve(device, "matrix", dtype)
    if roof is None or roof.dtype != dtype:
        return None
    try:
        return fleet.on(device, dtype, runtime=runtime).facts.expected
    except GambrelError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
