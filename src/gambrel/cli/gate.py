"""``gambrel gate``: record figures, and fail where they got worse."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gambrel.cli.command import SHOWN, LazyGroup, argument, command, flag, option, path, rows
from gambrel.cli.output import Shown, exit_code, wrote

gate = LazyGroup(
    "gate",
    "Fail a build where a figure got worse: expected figures, profiles, traces, judged times, "
    "serving plans.",
    {"record": "gate:record", "check": "gate:check", "trend": "gate:trend"},
    "Examples:\n  gambrel gate record baseline.json --config gate.toml\n"
    "  gambrel gate check baseline.json --config gate.toml --junit gate.xml",
)
_CONFIG = option(
    *("--config", "-c"),
    help="A TOML with [[expected]] questions, files, and a [tolerance] table.",
    type=Path,
    metavar="FILE",
)
_FILES = argument("files", "[RESULT...]", nargs=-1, about="Results, traces, or lists of metrics.")
_TARGET = argument("target", "BASELINE", about="The file of the baseline.")
_HISTORY = path("--history", help="Add the figures to this history (.jsonl or .parquet).")
_TOP = rows(20)


@command(
    "record",
    _TARGET,
    _FILES,
    _CONFIG,
    _HISTORY,
    option("--note", help="What it belongs to, e.g. a commit; by default $GITHUB_SHA."),
    _TOP,
    *SHOWN,
    examples="""
  gambrel gate record baseline.json --config gate.toml
  gambrel gate record baseline.json run1.json run2.json run3.json run4.json run5.json
""",
)
def record(
    target: str,
    files: tuple[str, ...],
    config: Path | None,
    history: Path | None,
    note: str | None,
    **shown: Any,
) -> None:
    """Record a baseline."""
    from gambrel.advise.gate.records import GateRecorded
    from gambrel.api import gate as gates
    from gambrel.report import check_target

    asked = Shown.of(**shown).check(GateRecorded)
    for written in filter(None, (Path(target), history)):
        check_target(written)
    said = note or os.environ.get("GITHUB_SHA", "")
    given = [Path(f) for f in files]
    asked.emit(gates.record(Path(target), _read(config), given, said, history))


@command(
    "check",
    _TARGET,
    _FILES,
    _CONFIG,
    _HISTORY,
    flag("--any-machine", help="Compare measured figures of another machine as well."),
    path("--junit", help="Write JUnit XML."),
    path("--sarif", help="Write SARIF, for code scanning."),
    _TOP,
    *SHOWN,
    examples="""
  gambrel gate check baseline.json --config gate.toml --junit gate.xml -o gate.md
  gambrel gate check baseline.json run.json --sarif gate.sarif

Exit code: 0 nothing got worse, 1 a regression, a vanished metric or one that is no number.
""",
)
def check(
    target: str,
    files: tuple[str, ...],
    config: Path | None,
    history: Path | None,
    any_machine: bool,
    junit: Path | None,
    sarif: Path | None,
    **shown: Any,
) -> int:
    """Hold figures against a baseline."""
    from gambrel.advise.gate.records import GateReport
    from gambrel.api import gate as gates
    from gambrel.report import check_target, gate_files, replace_file

    asked = Shown.of(**shown).check(GateReport)
    for written in filter(None, (junit, sarif, history)):
        check_target(written)
    said, given = os.environ.get("GITHUB_SHA", ""), [Path(file) for file in files]
    found = gates.check(Path(target), _read(config), given, said, history, any_machine=any_machine)
    for extra, content in ((junit, gate_files.junit), (sarif, gate_files.sarif)):
        if extra is not None:
            replace_file(extra, content(found))
            wrote(extra)
    asked.emit(found)
    return exit_code(found.passed)


@command(
    "trend",
    argument("history", "HISTORY", about="What --history wrote."),
    _TOP,
    *SHOWN,
    examples="  gambrel gate trend history.jsonl --html trend.html",
)
def trend(history: str, **shown: Any) -> None:
    """Show how the figures of a history moved."""
    from gambrel.advise.gate.records import Trend
    from gambrel.api.gate_history import read

    asked = Shown.of(**shown).check(Trend)
    asked.emit(read(Path(history)))


def _read(config: Path | None) -> Any:
    from gambrel.api.gate_config import GateConfig, read_config

    return GateConfig() if config is None else read_config(config)
