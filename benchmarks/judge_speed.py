"""The first and the later judgements of a module in a process that has torch, in parts.

CPU seconds of the process, so that other programs on the machine matter less. Each round is a new
process. The collector is off in all but the last row.
"""

from __future__ import annotations

import subprocess
import sys

from common import report, spread

ROUNDS = 7
#: Prints the modules that the first judgement loads.
_LOADED = """
import sys, torch, gambrel
before = set(sys.modules)
gambrel.judge(torch.nn.Linear(256, 256), "10us", "h100", inputs=(torch.randn(32, 256),))
print(*(name for name in sys.modules if name not in before and name.startswith("gambrel")))
"""
#: Prints seconds: loading modules, the first judgement, a later one, a full collection.
_PARTS = """
import gc, importlib, sys, time, torch, gambrel
gc.collect()
module, inputs = torch.nn.Linear(256, 256), (torch.randn(32, 256),)
def spent(function):
    start = time.process_time()
    function()
    return time.process_time() - start
judge = lambda: gambrel.judge(module, "10us", "h100", inputs=inputs)
gc.disable()
found = [spent(lambda: [importlib.import_module(name) for name in sys.argv[1:]])]
found += [spent(judge), spent(judge), spent(gc.collect)]
print(*found)
"""
PARTS = (
    "loading gambrel's modules, once",
    "the first judgement after that",
    "each later judgement",
    "one full collection of Python's objects, torch's for the most part",
)


def main() -> None:
    """Measures and writes the table."""

    def words(code: str, *given: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", code, *given], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    names = words(_LOADED)
    rounds = [[float(word) for word in words(_PARTS, *names)] for _ in range(ROUNDS)]
    report(
        "judge_speed",
        "Judging a module",
        ("part", "CPU ms: min / median / max"),
        [[part, spread([found[i] for found in rounds])] for i, part in enumerate(PARTS)],
        notes=(
            f"{ROUNDS} processes; {len(names)} modules of gambrel; a Linear of 256 x 256 on 32 "
            "rows, H100.",
            "CPython starts a full collection when enough objects were made since the last one, "
            "which loading the modules may bring about.",
        ),
        packages=("gambrel", "torch"),
    )


if __name__ == "__main__":
    main()
