"""A gate's report for the tools around it: JUnit XML for CI, SARIF for code scanning."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any, Final

import msgspec

from gambrel._version import __version__
from gambrel.advise.gate.records import GateReport, GateRow
from gambrel.report.text import clean

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def junit(report: GateReport) -> bytes:
    """One test case a metric, as JUnit XML."""
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
            failure.text = f"baseline {row.baseline} {row.unit}, now {row.value} {row.unit}"
    if report.notes:
        ET.SubElement(suite, "system-out").text = "\n".join(map(clean, report.notes))
    whole = ET.Element("testsuites")
    whole.append(suite)
    ET.indent(whole)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(whole) + b"\n"


def sarif(report: GateReport) -> bytes:
    """What fails, as SARIF 2.1.0 with the baseline as the place."""
    place = {"physicalLocation": {"artifactLocation": {"uri": report.baseline_file}}}
    results: list[dict[str, Any]] = [
        {
            "ruleId": row.state.value,
            "level": "error",
            "message": {"text": f"{clean(row.metric)}: {_said(row)}"},
            "locations": [place],
        }
        for row in report.rows
        if row.state.fails
    ]
    rules = [{"id": name} for name in sorted({r["ruleId"] for r in results})]
    driver = {"name": "gambrel gate", "version": __version__, "rules": rules}
    log = {"$schema": _SCHEMA, "version": "2.1.0"}
    runs = [{"tool": {"driver": driver}, "results": results}]
    return msgspec.json.format(msgspec.json.encode(log | {"runs": runs}), indent=1) + b"\n"


def _said(row: GateRow) -> str:
    return clean(f"{row.state.value}: {row.about}")
