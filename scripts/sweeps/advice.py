"""Advice for every model of the zoo on every device of the catalog.

Run ``python -m scripts.sweeps.advice [--sample N --seed S] [--device NAME ...] [MODEL ...]``. All
pairs take hours; ``--sample 1000`` takes so many at random. A pair fails where advice raises, where
a proposal would be refused or lacks the time that it claims, or where a time is below the speed of
light.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Iterator

import gambrel
from gambrel.analysis.result import Analysis
from gambrel.capture import zoo
from gambrel.device.catalog import list_devices
from gambrel.errors import GambrelError

#: Two times are the same within rounding.
ROUNDING = 1 - 1e-9


def main(arguments: list[str]) -> int:
    """Prints the faults; 1 where there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", help="names; the zoo when none is given")
    parser.add_argument("--device", action="append", help="names; the catalog when none is given")
    parser.add_argument("--sample", type=int, help="so many pairs at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after so long")
    asked = parser.parse_args(arguments)
    models = asked.models or [entry.name for entry in zoo.list_models()]
    devices = asked.device or [device.id for device in list_devices()]
    pairs = list(itertools.product(models, devices))
    if asked.sample is not None:
        pairs = random.Random(asked.seed).sample(pairs, min(asked.sample, len(pairs)))
    end, done, faults, proposals = time.monotonic() + asked.seconds, 0, 0, 0
    for model, device in pairs:
        if time.monotonic() > end:
            break
        told = 0
        for fault in check(model, device):
            if fault:
                faults += 1
                print(f"{model} on {device}: {fault}", flush=True)
            else:
                told += 1
        proposals += told
        done += 1
    print(f"{done} of {len(pairs)} pairs, {proposals} proposals applied, {faults} faults")
    return int(faults > 0)


def check(model: str, device: str) -> Iterator[str]:
    """A fault, or an empty text for each proposal that is as it was told."""
    try:
        before = gambrel.analyze(model, device)
    except GambrelError as error:
        if " does not run " not in str(error):
            yield f"analyze: {error}"
        return
    yield from below_light(before, "")
    if before.expected_time_s is None and before.roofline_time_s is None:
        return  # nothing to shorten
    try:
        proposed = before.recommend()
    except Exception as error:  # a defect is what the sweep looks for
        yield f"advice: {type(error).__name__}: {error}"
        return
    for one in proposed:
        try:
            after = before.with_change(*one.changes)
        except Exception as error:  # as above
            yield f"{one.change} is refused: {type(error).__name__}: {error}"
            continue
        expected = one.time_kind == "expected"
        if (after.expected_time_s if expected else after.roofline_time_s) is None:
            yield f"{one.change} has no {one.time_kind} time"
        else:
            yield ""
        yield from below_light(after, one.change)


def below_light(analysis: Analysis, change: str) -> Iterator[str]:
    """Times that no run could have."""
    least = analysis.sol_time_s
    if least is None:
        return
    expected = analysis.expected_time_s
    times = {
        "roofline": analysis.roofline_time_s,
        "expected": expected.value if expected else None,
        "low end": expected.low if expected else None,
    }
    for name, found in times.items():
        if found is not None and found < least * ROUNDING:
            yield f"{change} {name} {found:.4g} s is below the speed of light, {least:.4g} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
