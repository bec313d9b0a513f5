"""Refits all constants of expected times, one script after another, and prints how long each took.

    python scripts/fit_all.py FOLDER [--write]

FOLDER holds ``measured/`` and ``truth/``. Each script prints its held-out errors; ``--write``
replaces the constants in src/gambrel/analysis/calibration/constants.json. Power is fitted by
fit_power.py, from the table that it holds itself.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Runs them; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    measured, truth = options.folder / "measured", options.folder / "truth"
    commands = (
        ("fit_engines.py", str(options.folder)),  # first: PyTorch's convolutions take some of them
        ("fit_calibration.py", str(measured), "--truth", str(truth)),
        ("fit_reduce.py", str(measured)),
        ("fit_rocm.py",),
        ("fit_aiter.py",),
        ("fit_radeon.py",),
        ("fit_attention.py",),  # of the sets that the two before it wrote
        ("fit_npu.py", str(options.folder)),
        ("fit_half.py",),
        ("fit_shares.py",),
        ("fit_language.py",),
        ("fit_accelerators.py",),
        ("fit_cpu.py",),
        ("fit_few.py",),
        ("fit_cores.py", str(options.folder)),
    )
    begin = time.monotonic()
    for name, *arguments in commands:
        start = time.monotonic()
        words = [sys.executable, str(HERE / name), *arguments, *(["--write"] * options.write)]
        code = subprocess.run(words, check=False).returncode
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
        if code:
            return code
    print(f"all: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
