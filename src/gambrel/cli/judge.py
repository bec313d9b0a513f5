"""``gambrel judge``: a measured time, or a candidate that is run, against the speed of light."""

from __future__ import annotations

from typing import Any

from gambrel.analysis.question import Question
from gambrel.cli.command import SHOWN, command, flag
from gambrel.cli.output import Shown
from gambrel.errors import InputError


@command(
    "judge",
    flag("--limits", "only_limits", help="Print what is possible, without a measured time."),
    flag("--gap", help="Print the way from the speed of light to the measured time."),
    *SHOWN,
    verb="judge",
    examples="""
  gambrel judge my_kernel.py:build --hardware h100 --time 1.42ms
  gambrel judge matmul:m=4096,n=4096,k=4096,bf16 --hardware h100 --time 250us
  gambrel judge my_kernel.py:build --hardware this --run candidate.py:build
  gambrel judge resnet50 --op layer1.0.conv2 --hardware a100 --batch 64 --time 300us
  gambrel judge attention:heads=32,q=4096,d=128,causal,bf16 --hardware h200 --limits
  gambrel judge softmax:rows=4096,cols=8192 -d a100 --time 400us --gap
  gambrel judge --jsonl KernelBench/level1 --hardware h100 --trust -o limits.csv

Ops: matmul (m n k b), conv (n c h w k kernel stride pad groups), attention (heads q d batch kv
kv_heads dv causal), softmax, layer_norm, rms_norm (rows cols), sum and other reductions (rows
cols), relu, add and other element-wise functions, copy (n); a number format may follow.
Exit code: 0 judged, 1 impossible or invalid, 3 unknown.
""",
)
def judge(question: Question, only_limits: bool, gap: bool, **shown: Any) -> int:
    """Judge a measured time: impossible, at the limit, library class, or headroom and why."""
    from gambrel.api.verbs import record_of

    verb = "limits" if only_limits else "explain-gap" if gap else "judge"
    if question.problems is not None:
        return _problems(question, shown)
    if question.model is None:
        raise InputError("judge needs a reference: a model, file.py:function, an op, or --jsonl.")
    asked = Shown.of(**shown, top=question.top).check(record_of(verb))
    from gambrel.api import judging

    answers: dict[str, Any] = {"limits": judging.limits, "explain-gap": judging.explain_gap}
    found: Any = answers.get(verb, judging.judge).answer(question)
    asked.emit(found)
    return found.ruling.exit_code if verb == "judge" else 0


def _problems(question: Question, shown: dict[str, Any]) -> int:
    """The limits of a folder of problems."""
    from gambrel.advise.judge.records import Problems
    from gambrel.api.problems import limits_of_problems
    from gambrel.cli.progress import counted

    asked = Shown.of(**shown, top=question.top).check(Problems)
    with counted("problems") as told:
        found = limits_of_problems(question, told)
    asked.emit(found)
    return 0
