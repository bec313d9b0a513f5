"""No narrower number format is expected to be slower: models x devices x runtimes x formats.

Run ``python -m scripts.sweeps.narrow_formats [--all] [MODEL ...]``. By default a few models, with
``--all`` the zoo, which takes an hour. Each case that is slower is printed with what the estimate
rests on; the exit code is 1 where one has no measured reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import gambrel
from gambrel.analysis.measures import Estimate
from gambrel.capture import zoo
from gambrel.device.lookup import find
from gambrel.device.roofs import resolve
from gambrel.errors import GambrelError
from gambrel.runtimes import candidates

DEVICES: Final = ("h100", "h200", "b200", "mi300x", "a100", "l4", "t4", "jetson-agx-orin-64gb")
#: From wide to narrow; formats of one width are not held against each other.
WIDTHS: Final = (("fp16", "bf16"), ("fp8", "int8"))
SAMPLE: Final = (
    "resnet50",
    "mobilenet-v2",
    "vit-b-16",
    "yolov8n",
    "bert-large",
    "t5-small",
    "lstm",
)
BATCHES: Final = (1, 64)
#: A share below which two times are the same.
SAME: Final = 0.005
#: What the reason of an estimate says where kernels of that very format were measured to be slow.
MEASURED: Final = "kernels of"


def main(wanted: Sequence[str]) -> int:
    """Prints the cases; 1 where a narrower format is slower without a measured reason."""
    names = [n for n in wanted if n != "--all"] or list(SAMPLE)
    if "--all" in wanted:
        names = [entry.name for entry in zoo.list_models()]
    cases = unexplained = 0
    for name in names:
        for device in DEVICES:
            for text, reason in slower(name, device):
                cases += 1
                unexplained += MEASURED not in reason
                print(f"{text} ({reason})", flush=True)
        print(f"{name}: done", flush=True)
    print(f"{cases} slower, {unexplained} of them without a measured reason")
    return int(unexplained > 0)


def slower(model: str, device: str) -> Iterator[tuple[str, str]]:
    """Runtimes and batches at which a narrower format is slower, and what the estimate says."""
    language = zoo.phase_of(model) is not None
    for runtime in candidates(find(device).device, None, language=language):
        for batch in BATCHES:
            times = {
                dtype: time
                for width in WIDTHS
                for dtype in width
                if (time := expected(model, device, runtime.id, dtype, batch)) is not None
            }
            wide = [times[d] for d in WIDTHS[0] if d in times]
            for dtype in WIDTHS[1]:
                if wide and dtype in times:
                    best = min(t.value for t in wide)
                    if times[dtype].value > best * (1 + SAME):
                        gain = times[dtype].value / best - 1
                        where = f"{model} on {device}, {runtime.id}, batch {batch}"
                        yield f"{where}: {dtype} {gain:+.1%}", times[dtype].reason


def expected(model: str, device: str, runtime: str, dtype: str, batch: int) -> Estimate | None:
    """The expected time; None where nothing is known, or runtime or device lacks the format."""
    roof = resolve(find(device).device, "matrix", dtype)
    if roof is None or roof.dtype != dtype:
        return None
    try:
        found = gambrel.analyze(model, device, batch_size=batch, precision=dtype, runtime=runtime)
    except GambrelError:
        return None
    return found.expected_time_s


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
