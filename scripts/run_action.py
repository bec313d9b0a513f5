"""Does what a runner of GitHub does with the workflow of docs/gate.md, in a fresh environment.

    python scripts/run_action.py

The inputs come from the workflow in the documentation, the steps from action.yml. The gate must
pass with a baseline that was just recorded, and fail with one whose figures are better.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
GATE: Final = """
[[expected]]
model = "resnet18"
hardware = ["a100", "h100"]
metrics = ["expected_time_s", "traffic_bytes"]
"""


def workflow() -> dict[str, Any]:
    """The step of the documentation that uses the action."""
    text = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    steps = [
        step for block in map(yaml.safe_load, blocks) if isinstance(block, list) for step in block
    ]
    return next(step for step in steps if "gambrel/gambrel" in str(step.get("uses")))


def inputs_of(action: dict[str, Any], given: dict[str, str]) -> dict[str, str]:
    """Defaults of the action, with what a workflow gives; an unknown name is an error."""
    known = {name: str(spec.get("default", "")) for name, spec in action["inputs"].items()}
    if unknown := set(given) - set(known):
        raise SystemExit(f"the workflow gives {', '.join(sorted(unknown))}, which is no input")
    return known | given


def run_step(step: dict[str, Any], inputs: dict[str, str], folder: Path, path: str) -> int:
    """One ``run:`` step as a runner does it: bash with -e and pipefail, expressions filled in."""
    filled = {
        name: re.sub(r"\$\{\{\s*inputs\.(\w+)\s*\}\}", lambda m: inputs[m.group(1)], str(value))
        for name, value in step.get("env", {}).items()
    }
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env = clean | filled | {"PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(words, cwd=folder, env=env, check=False).returncode


def better(baseline: Path) -> None:
    """Makes the figures of a baseline smaller, so that the present ones are worse."""
    data = json.loads(baseline.read_text(encoding="utf-8"))
    for metric in data["metrics"]:
        metric["samples"] = [sample * 0.5 for sample in metric["samples"]]
    baseline.write_text(json.dumps(data, indent=1), encoding="utf-8")


def main() -> int:
    """Prints what happened; the exit code says whether all of it was right."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    given = {k: str(v) for k, v in workflow().get("with", {}).items()}
    inputs = inputs_of(action, given | {"version": str(ROOT)})
    install, *steps = action["runs"]["steps"]
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        venv.create(home / "venv", with_pip=True)
        path = f"{home / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        folder = home / "project"
        folder.mkdir()
        (folder / inputs["config"]).write_text(GATE, encoding="utf-8")
        said = [("install", run_step(install, inputs, folder, path) == 0)]
        record = {"run": f"gambrel gate record {inputs['baseline']} --config {inputs['config']}"}
        said.append(("record", run_step(record, inputs, folder, path) == 0))
        codes = [run_step(step, inputs, folder, path) for step in steps]
        summary = folder / "summary.md"
        said.append(("nothing got worse: exit code 0", codes == [0]))
        said.append(("PASS in the summary", "PASS" in summary.read_text(encoding="utf-8")))
        better(folder / inputs["baseline"])
        codes = [run_step(step, inputs, folder, path) for step in steps]
        said.append(("everything got worse: exit code 1", codes == [1]))
        said.append(("FAIL in the summary", "FAIL" in summary.read_text(encoding="utf-8")))
        files = ("gambrel-gate.xml", "gambrel-gate.sarif", "gambrel-gate.md")
        said.append(("files for other steps", all((folder / f).is_file() for f in files)))
    for what, right in said:
        print(f"{'right ' if right else 'WRONG '} {what}")
    return 0 if all(right for _, right in said) else 1


if __name__ == "__main__":
    sys.exit(main())
