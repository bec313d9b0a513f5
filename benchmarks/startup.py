"""Cold start: process start to table, against ``python -c "import numpy"``, alternating."""

from __future__ import annotations

import statistics
import subprocess
import sys

from common import alternate, report, run, spread

ROUNDS = 15
COMMANDS = {
    'python -c "pass"': ["-c", "pass"],
    'python -c "import numpy"': ["-c", "import numpy"],
    'python -c "import gambrel"': ["-c", "import gambrel"],
    "gambrel analyze resnet50 --hardware a100": [
        "-m", "gambrel", "analyze", "resnet50", "--hardware", "a100",
    ],
    "the same with --roofline": [
        "-m", "gambrel", "analyze", "resnet50", "--hardware", "a100", "--roofline",
    ],
    "the same with --json": [
        "-m", "gambrel", "analyze", "resnet50", "--hardware", "a100", "--json",
    ],
    "gambrel hardware list": ["-m", "gambrel", "hardware", "list"],
}  # fmt: skip


def main() -> None:
    memory: dict[str, int] = {}

    def once(name: str) -> float:
        seconds, peak = run([sys.executable, *COMMANDS[name]])
        memory[name] = max(peak, memory.get(name, 0))
        return seconds

    for name in COMMANDS:
        once(name)  # fills the file cache and writes bytecode
    found = alternate({name: lambda n=name: once(n) for name in COMMANDS}, ROUNDS)
    base = statistics.median(found['python -c "import numpy"'])
    bare = statistics.median(found['python -c "pass"'])
    rows = [
        [
            name,
            spread(times),
            f"{statistics.median(times) / base:.2f}",
            f"{(statistics.median(times) - bare) * 1e3:.0f}",
            f"{memory[name] / 1e6:.0f}",
        ]
        for name, times in found.items()
    ]
    loaded = subprocess.run(
        [sys.executable, "-c", "import gambrel, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    heavy = sorted({"numpy", "torch", "plotly", "matplotlib", "rich", "msgspec"} & set(loaded))
    report(
        "startup",
        "Cold start",
        ["command", "ms: min / median / max", "× import numpy", "ms above python", "peak MB"],
        rows,
        notes=[
            f"{ROUNDS} rounds, all commands in turn within one run.",
            "Targets: analyze at most 4 × import numpy and at most 400 ms, under 120 MB; "
            "importing gambrel under 50 ms above bare Python.",
            f"Heavy packages that `import gambrel` loads: {', '.join(heavy) or 'none'}.",
        ],
    )


if __name__ == "__main__":
    main()
