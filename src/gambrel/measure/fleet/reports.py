"""Reports of workers that nobody asks: one file each in a shared folder, gathered later.

``srun gambrel fleet --worker``, a Kubernetes Job and ``ssh`` need no scheduler for this.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from gambrel.errors import FileFormatError, InputError
from gambrel.fileio import read_bytes, replace_file
from gambrel.measure.fleet.probe import FleetEffort, checkup, devices_here
from gambrel.measure.fleet.records import Checkup

_MOST_BYTES: Final = 64 << 20


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker measured.

    Attributes:
        checkups: Its devices.
        stamp: Its wall clock when the file was written.
    """

    checkups: tuple[Checkup, ...]
    stamp: float


def write_report(folder: Path, name: str, effort: FleetEffort) -> Path:
    """Measures this machine's devices and writes the report of a worker.

    Raises:
        InputError: The folder cannot be written to.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; make it first, where every worker sees it.")
    found = []
    for device in devices_here():
        try:
            found.append(checkup(device, effort, name))
        except Exception as error:  # one device that cannot be measured hides no other
            said = f"{type(error).__name__}: {error}"
            found.append(Checkup(worker=name, host=name, device=device, problem=said))
    report = WorkerReport(checkups=tuple(found), stamp=time.time())
    target = folder / f"{name.replace('/', '_').replace(':', '_')}.json"
    try:
        replace_file(target, msgspec.json.encode(report))
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}.") from None
    return target


def gathered(folder: Path) -> list[Checkup]:
    """The checkups of all reports in a folder; a report that cannot be read is one as well.

    Raises:
        InputError: There is no report.
    """
    found: list[Checkup] = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            found += _read(path)
        except FileFormatError as error:
            found.append(
                Checkup(worker=path.stem, host=path.stem, device="all", problem=str(error))
            )
    if not found:
        raise InputError(f"{folder} has no reports of workers; run 'gambrel fleet --worker' first.")
    return found


def _read(path: Path) -> Sequence[Checkup]:
    raw = read_bytes(path, _MOST_BYTES, "a report of a worker")
    try:
        report = msgspec.json.decode(raw, type=WorkerReport)
    except msgspec.DecodeError as error:
        raise FileFormatError(f"{path} is no whole report of a worker: {error}.") from None
    # The file server's clock stands for the asker's.
    ahead = report.stamp - path.stat().st_mtime
    return [msgspec.structs.replace(one, ahead_s=ahead) for one in report.checkups]
