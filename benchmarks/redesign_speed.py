"""Advice and analysis against another checkout: CPU seconds of the same questions, same minute.

python benchmarks/redesign_speed.py OLD_CHECKOUT
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from common import report

HERE: Final = Path(__file__).resolve().parent.parent
ROUNDS: Final = 3
COLUMNS: Final = ("question", "before (CPU s)", "now (CPU s)", "ratio")
NOTES: Final = (
    "User CPU seconds of a fresh process less those of its imports and of loading the model, least "
    f"of {ROUNDS} rounds, both checkouts in turn. The last line is a whole process.",
    "select without a batch: before, the batch that the model was built with; now, batches of 1 to "
    "4,096 and every runtime of each device.",
)
#: Question → Python that asks it.
QUESTIONS: Final = {
    "analyze resnet50, a100": "g.analyze('resnet50', hardware='a100')",
    "select resnet50, latency 10ms": "g.select('resnet50', latency='10ms')",
    "select resnet50, throughput 3000/s": "g.select('resnet50', throughput='3000/s')",
    "select llama-3.1-8b, throughput 500/s": "g.select('llama-3.1-8b', throughput='500/s')",
    "recommend resnet50, a100": "g.analyze('resnet50', hardware='a100').recommend()",
    "recommend llama-3.1-8b decode, h100": (
        "g.analyze('llama-3.1-8b', hardware='h100', phase='decode').recommend()"
    ),
    "check resnet50, a100, throughput 3000/s": (
        "g.check('resnet50', hardware='a100', throughput='3000/s')"
    ),
    "check with fixes, jetson-orin-nano-8gb, latency 1ms": (
        "g.check('resnet50', hardware='jetson-orin-nano-8gb', latency='1ms')"
    ),
}
_TIMED: Final = """
import time, warnings
warnings.simplefilter("ignore")
import gambrel as g
g.analyze("resnet50", hardware="l4"); g.analyze("llama-3.1-8b", hardware="l4", phase="decode")
begin = time.process_time()
{question}
print(time.process_time() - begin)
"""


def main() -> None:
    old = Path(sys.argv[1])
    lines = []
    for name, question in QUESTIONS.items():
        rounds = [(timed(old, question), timed(HERE, question)) for _ in range(ROUNDS)]
        lines.append(line(name, *(min(column) for column in zip(*rounds, strict=True))))
    rounds = [(cold(old), cold(HERE)) for _ in range(ROUNDS)]
    before, now = (min(column) for column in zip(*rounds, strict=True))
    lines.append(line("gambrel analyze resnet50 --hardware a100, cold", before, now))
    report("redesign_speed", "The speed of advice", COLUMNS, lines, notes=NOTES)


def line(name: str, before: float, now: float) -> list[object]:
    return [name, f"{before:.3f}", f"{now:.3f}", f"{now / before:.2f}"]


def timed(checkout: Path, question: str) -> float:
    code = _TIMED.format(question=question)
    done = subprocess.run(
        [sys.executable, "-c", code], env=_env(checkout), capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def cold(checkout: Path) -> float:
    """User CPU seconds of a process."""
    before = os.times().children_user
    command = [sys.executable, "-m", "gambrel", "analyze", "resnet50", "--hardware", "a100"]
    subprocess.run(command, env=_env(checkout), capture_output=True, check=True)
    return os.times().children_user - before


def _env(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}


if __name__ == "__main__":
    main()
