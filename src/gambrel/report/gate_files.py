"""A gate's report for the tools around it: JUnit XML for CI, SARIF for code scanning."""

from __future__ import annotations

import hashlib
import urllib.parse
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.advise.gate.records import GateReport, GateRow, GateState
from gambrel.report.builders.gate import value_text
from gambrel.report.text import clean

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME: Final = "https://gambrel.readthedocs.io/en/latest/gate/"
#: What can fail: name, in a sentence, what to do.
_RULES: Final = {
    GateState.REGRESSION: (
        "PerformanceRegression",
        "A figure is worse than its baseline by more than its tolerance.",
        "Find the change that made it worse, or record a new baseline where it is intended.",
    ),
    GateState.VANISHED: (
        "MetricVanished",
        "A metric of the baseline is not reported any more.",
        "Report it again, or record a new baseline without it.",
    ),
    GateState.INVALID: (
        "MetricInvalid",
        "A metric has no samples, or samples that are not numbers.",
        "Look at the run that produced it.",
    ),
}


def junit(report: GateReport) -> bytes:
    """One test case per metric, as JUnit XML."""
    failed = [row for row in report.rows if row.state.fails]
    suite = ET.Element(
        "testsuite",
        name="gambrel gate",
        tests=str(len(report.rows)),
        failures=str(len(failed)),
        errors="0",
    )
    for row in report.rows:
        case = ET.SubElement(suite, "testcase", classname="gambrel.gate", name=clean(row.metric))
        if row.state.fails:
            failure = ET.SubElement(case, "failure", message=_said(row), type=row.state.value)
            failure.text = (
                f"baseline {value_text(row, row.baseline)}, now {value_text(row, row.value)}"
            )
    if report.notes:
        ET.SubElement(suite, "system-out").text = "\n".join(map(clean, report.notes))
    whole = ET.Element("testsuites")
    whole.append(suite)
    ET.indent(whole)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(whole) + b"\n"


def sarif(report: GateReport) -> bytes:
    """What fails, as SARIF 2.1.0, each at the line of the baseline that names the metric."""
    lines = _lines(Path(report.baseline_file))
    uri = urllib.parse.quote(Path(report.baseline_file).as_posix())
    states = list(_RULES)
    results: list[dict[str, Any]] = [
        {
            "ruleId": row.state.value,
            "ruleIndex": states.index(row.state),
            "level": "error",
            "message": {"text": f"{clean(row.metric)}: {_said(row)}."},
            "locations": [_location(uri, lines.get(row.metric, 1))],
            # Without a hash of its own, two metrics of one line would be one alert.
            "partialFingerprints": {"metric/v1": _hash(row.metric)},
        }
        for row in report.rows
        if row.state.fails
    ]
    driver = {
        "name": "gambrel gate",
        "version": __version__,
        "informationUri": _HOME,
        "rules": [_rule(state) for state in states],
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0"}
    runs = [{"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}]
    return msgspec.json.format(msgspec.json.encode(log | {"runs": runs}), indent=1) + b"\n"


def _rule(state: GateState) -> dict[str, Any]:
    name, about, advice = _RULES[state]
    return {
        "id": state.value,
        "name": name,
        "shortDescription": {"text": about},
        "fullDescription": {"text": about},
        "help": {"text": advice},
        "helpUri": _HOME,
        "properties": {"tags": ["performance"]},
    }


def _location(uri: str, line: int) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}


def _lines(baseline: Path) -> dict[str, int]:
    """Line of each metric's name in a baseline; none where the file cannot be read."""
    try:
        text = baseline.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        key, _, value = line.strip().removesuffix(",").partition(": ")
        if key == '"name"':
            found[str(msgspec.json.decode(value))] = number
    return found


def _hash(metric: str) -> str:
    return hashlib.sha256(metric.encode()).hexdigest()[:32]


def _said(row: GateRow) -> str:
    return clean(f"{row.state.value}: {row.about}")
