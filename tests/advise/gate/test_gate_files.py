"""The files of a gate keep the rules of their formats.

JUnit: the schema of Jenkins' xUnit plug-in, junit-10.xsd. SARIF: 2.1.0 (OASIS) and what GitHub's
code scanning asks for beside it.
"""

import json
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from gambrel.advise.gate.compare import compare_to
from gambrel.advise.gate.records import GateBaseline, GateMetric, GateReport
from gambrel.api import gate
from gambrel.api.gate_config import GateConfig
from gambrel.report.gate_files import junit, sarif

NAMES = (
    "step time_s",
    'a "quoted" <kernel> & more time_s',
    "ünïcode\x1b[31m time_s",
    "gone time_s",
)
#: Element → attributes that it must have, that it may have, and elements that it may hold.
JUNIT = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname", "id", "package", "file"},
        {"testcase", "properties", "system-out", "system-err"},
    ),
    "testcase": (
        {"name"},
        {"classname", "time", "group"},
        {"failure", "error", "skipped", "system-out", "system-err"},
    ),
    "failure": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


@pytest.fixture
def report(tmp_path):
    lines = "\n".join(json.dumps({"name": n, "samples": [1.0] * 5}) for n in NAMES)
    (tmp_path / "good.jsonl").write_text(lines)
    target = tmp_path / "base line.json"
    gate.record(target, GateConfig(), [tmp_path / "good.jsonl"])
    now = [GateMetric(name=n, samples=(2.0,) * 5, unit="s") for n in NAMES[:2]]
    now.append(GateMetric(name=NAMES[2], samples=(math.nan,), unit="s"))
    rows = compare_to(gate.load(target), now, {})
    return GateReport(baseline_file=str(target), rows=rows, notes=("a note",))


def breaks(element, inside=None):
    """Rules of the schema that an element breaks."""
    if element.tag not in JUNIT:
        return [f"{element.tag} is no element"]
    must, may, holds = JUNIT[element.tag]
    wrong = [f"{element.tag} lacks {a}" for a in must - set(element.attrib)]
    wrong += [f"{element.tag} has {a}" for a in set(element.attrib) - must - may]
    wrong += [f"{c.tag} in {element.tag}" for c in element if c.tag not in holds]
    return wrong + [w for child in element for w in breaks(child)]


def test_junit_keeps_its_schema(report):
    root = ET.fromstring(junit(report))
    assert breaks(root) == []
    (suite,) = root
    cases = suite.findall("testcase")
    failed = [c for c in cases if c.find("failure") is not None]
    assert (int(suite.get("tests")), int(suite.get("failures"))) == (len(cases), len(failed))
    assert len(failed) == len(NAMES)
    assert failed[0].find("failure").text == "baseline 1 s, now 2 s"


def test_the_check_of_junit_can_fail():
    assert breaks(ET.fromstring('<testsuites><testcase extra="1"/></testsuites>'))


def test_sarif_has_what_its_readers_ask_for(report):
    log = json.loads(sarif(report))
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    rules = one["tool"]["driver"]["rules"]
    assert one["tool"]["driver"]["informationUri"].startswith("https://")
    for rule in rules:
        assert all(rule[k]["text"].endswith(".") for k in ("shortDescription", "fullDescription"))
        assert rule["help"]["text"]
    results = one["results"]
    assert len(results) == len(NAMES)
    for result in results:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert re.fullmatch(r"[!#-;=?-\[\]_a-z~%]+", place["artifactLocation"]["uri"], re.I)
        assert place["region"]["startLine"] >= 1
    prints = {json.dumps(r["partialFingerprints"]) for r in results}
    assert len(prints) == len(NAMES)


def test_a_result_is_at_the_line_that_names_its_metric(report):
    lines = Path(report.baseline_file).read_text("utf-8").splitlines()
    for result in json.loads(sarif(report))["runs"][0]["results"]:
        line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
        named = json.loads("{" + lines[line - 1].strip().removesuffix(",") + "}")["name"]
        assert result["message"]["text"].startswith(named.replace("\x1b", "")[:5])


def test_a_gate_that_passes_has_no_result():
    same = GateMetric(name="a time_s", samples=(1.0,))
    rows = compare_to(GateBaseline(metrics=(same,)), [same], {})
    passed = GateReport(baseline_file="b.json", rows=rows)
    assert json.loads(sarif(passed))["runs"][0]["results"] == []
    assert ET.fromstring(junit(passed))[0].get("failures") == "0"
