"""``gambrel fleet``: which machine of many is not like the others."""

from __future__ import annotations

import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gambrel.cli.command import HTML, JSON, VERBOSE, command, flag, number, option, path
from gambrel.cli.output import Shown, progress, wrote
from gambrel.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gambrel.measure.fleet.probe import FleetEffort
    from gambrel.measure.fleet.records import Checkup, FleetReport

_WHO, _HOW = "Who measures", "How to measure"
_FOLDER_HELP = "Folder for the report, which every worker sees (with --worker)."


@command(
    "fleet",
    option("--scheduler", help="Address of a dask.distributed scheduler.", section=_WHO),
    flag("--worker", help="Measure this machine and write a report for --gather.", section=_WHO),
    path("--into", help=_FOLDER_HELP, section=_WHO),
    path("--gather", help="Compare the reports of workers in this folder.", section=_WHO),
    option("--name", help="Name of this worker; by default the host's.", section=_WHO),
    flag("--quick", help="Under 30 seconds for each device.", section=_HOW),
    option("--duration", help="Seconds for each figure of a processor, e.g. 60s.", section=_HOW),
    flag("--links", help="Measure an all-reduce between hosts as well (torch).", section=_HOW),
    number(
        *("--at-once",),
        help="Hosts that are measured at the same time.",
        default=256,
        least=1,
        section=_HOW,
    ),
    path("--earlier", help="JSON of an earlier run: report what has become slower.", section=_HOW),
    JSON,
    VERBOSE,
    HTML,
    path(
        *("--output", "-o"),
        help="Write a file: .parquet .csv .json .html .md, or .prom for Prometheus; repeatable.",
        multiple=True,
    ),
    examples="""
  gambrel fleet --scheduler tcp://10.0.0.1:8786 -o fleet.parquet -o fleet.json
  gambrel fleet --scheduler tcp://10.0.0.1:8786 --earlier last-week.json -o fleet.prom
  srun --ntasks-per-node=1 gambrel fleet --worker --into /shared/fleet
  gambrel fleet --gather /shared/fleet --html fleet.html

Exit code: 1 where a device is not like its peers.
""",
)
def fleet(
    scheduler: str | None,
    worker: bool,
    into: Path | None,
    gather: Path | None,
    name: str | None,
    quick: bool,
    duration: str | None,
    links: bool,
    at_once: int,
    earlier: Path | None,
    output: tuple[Path, ...],
    **shown: Any,
) -> int:
    """Measure every device of many workers alike and name those that are not like their peers."""
    from gambrel.measure.fleet.compare import compared
    from gambrel.measure.fleet.records import FleetReport

    data = [target for target in output if target.suffix in (".parquet", ".prom")]
    rest = [target for target in output if target not in data]
    asked = Shown.of(**shown, output=rest).check(FleetReport)
    effort = _effort(quick, duration)
    before = _earlier(earlier) if earlier is not None else ()
    if sum((scheduler is not None, worker, gather is not None)) > 1:
        raise InputError("give one of --scheduler, --worker and --gather.")
    if worker:
        from gambrel.measure.fleet.reports import write_report

        if into is None:
            raise InputError("--worker needs --into FOLDER, where --gather finds the report.")
        target = write_report(into, name or socket.gethostname(), effort)
        wrote(target)
        return 0
    date = datetime.now(UTC).isoformat(timespec="seconds")
    checkups = _checkups(scheduler, gather, effort, links=links, at_once=at_once)
    report = compared(checkups, before, date)
    asked.emit(report)
    for target in data:
        _write(report, target)
    return 1 if report.suspects else 0


def _effort(quick: bool, duration: str | None) -> FleetEffort:
    from gambrel.measure.fleet.probe import FleetEffort
    from gambrel.units import parse_quantity

    if duration is not None:
        return FleetEffort(seconds=parse_quantity(duration, "time"), quick=quick)
    return FleetEffort(seconds=2.0 if quick else 5.0, quick=quick)


def _checkups(
    scheduler: str | None, gather: Path | None, effort: FleetEffort, *, links: bool, at_once: int
) -> Sequence[Checkup]:
    from gambrel.measure.fleet.probe import checkup, devices_here
    from gambrel.measure.fleet.reports import gathered
    from gambrel.measure.fleet.run import FleetAsker, workers_of

    if gather is not None:
        return gathered(gather)
    if scheduler is None:
        return [checkup(device, effort) for device in devices_here()]
    told = progress if sys.stderr.isatty() else None
    with workers_of(scheduler) as workers:
        found = FleetAsker(effort=effort, links=links, at_once=at_once, told=told).measured(workers)
    if told is not None:
        print("\r\033[K", end="", file=sys.stderr)
    return found


def _earlier(file: Path) -> Sequence[Checkup]:
    import msgspec

    from gambrel.fileio import read_bytes
    from gambrel.measure.fleet.records import Checkup

    raw = read_bytes(file, 1 << 30, "the JSON of a fleet")
    try:
        return msgspec.convert(msgspec.json.decode(raw)["checkups"], tuple[Checkup, ...])
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise FileFormatError(f"{file} is no JSON of 'gambrel fleet': {error}.") from None


def _write(report: FleetReport, target: Path) -> None:
    from gambrel.measure.fleet.prometheus import textfile
    from gambrel.report.files import check_target, replace_file
    from gambrel.report.fleet_table import parquet

    check_target(target)
    content = textfile(report).encode() if target.suffix == ".prom" else parquet(report)
    replace_file(target, content)
    wrote(target)
