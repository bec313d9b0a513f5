"""The commands that plan for language models: serving, a training step, the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gambrel.analysis.question import Question, fields_of
from gambrel.cli.command import SERVED, SHOWN, asking, command, flag, path
from gambrel.cli.output import Shown, exit_code, wrote
from gambrel.errors import InputError

_STEP = "decode step on one device, op by op, with its roofline: .html .svg .json .csv .md."


@command(
    "serve-plan",
    path("--decode", help=f"Write the best layout's {_STEP}"),
    path("--prefill", help="The same of the step of a prompt."),
    *SERVED,
    verb="serve-plan",
    examples="""
  gambrel serve-plan config.json --hardware h200 --max-devices 8 --input 8k --output 1k \\
    --tpot 30ms --ttft 1s --price 3.5/h
  gambrel serve-plan llama-3.1-70b --hardware h100,h200,b200 --max-devices 64 --input 1k \\
    --output 1k --precision fp8 --tpot 20ms
  gambrel serve-plan deepseek-v3 -d h200 --input 4k --output 1k --tensor 8 --expert 8 \\
    --attention-data 8 --concurrency 256 --decode step.html
  gambrel serve-plan llama-3.1-70b -d h100 --input 2k --output 500 --rate 20/s --speculate 3 \\
    --acceptance 0.7 --draft llama-3.1-8b

Exit code: 1 where nothing meets the targets.
""",
)
def serve_plan(question: Question, decode: Path | None, prefill: Path | None, **shown: Any) -> int:
    """Plan the serving of a language model: what fits, how fast, which layout, at what cost."""
    from gambrel.api.plans import serve_plan as plan_serving
    from gambrel.llm.serving.records import Plan

    asked = Shown.of(**shown, top=question.top).check(Plan)
    found = plan_serving.answer(question)
    asked.emit(found)
    for target, which in ((decode, "decode"), (prefill, "prefill")):
        if target is not None:
            _write_step(found, which, target)
    return exit_code(bool(found.best))


def _write_step(found: Any, which: str, target: Path) -> None:
    """The analysis of a step of the best choice, op by op, as a file."""
    if not found.best:
        raise InputError(f"--{which}: nothing meets the targets, so there is no step to write.")
    getattr(found.best[0], which).save(target)
    wrote(target)


@command(
    "serve-sim",
    *SERVED,
    verb="serve-sim",
    examples="""
  gambrel serve-sim llama-3.1-8b -d h100 --rate 10/s --input 2k --output 500 --replicas 2
  gambrel serve-sim llama-3.1-70b -d h100 --precision fp8 --trace requests.csv --ttft 1s \\
    --tpot 50ms --max-devices 64 --price 2.5/h --html run.html
  gambrel serve-sim llama-3.1-8b -d h100 --concurrency 64 --input 1k --output 512 --shortest 0.8

Exit code: 1 where the targets are not met.
""",
)
def serve_sim(question: Question, **shown: Any) -> int:
    """Simulate serving request by request: latency percentiles, goodput, queue; fewest devices."""
    from gambrel.api.serving import serve_sim as simulate
    from gambrel.llm.serving.outcomes import Simulation

    asked = Shown.of(**shown, top=question.top).check(Simulation)
    record = simulate.answer(question)
    asked.emit(record)
    return exit_code(record.met is not False)


@command(
    "serve-split",
    *SERVED,
    verb="serve-split",
    examples="""
  gambrel serve-split llama-3.1-70b -d h100 --precision fp8 --input 4k --output 500 --ttft 1s \\
    --tpot 30ms --max-devices 32 --topology dgx-h100
  gambrel serve-split llama-3.1-8b -d h200 --prefill-hardware h100 --input 8k --output 200 \\
    --ttft 1s --tpot 20ms --rate 40/s --max-devices 64
""",
)
def serve_split(question: Question, **shown: Any) -> int:
    """Plan prefill and decode on pools of their own: layouts, how many of each, TTFT, TPOT."""
    from gambrel.api.splitting import serve_split as plan_split
    from gambrel.llm.serving.split_records import SplitPlan

    asked = Shown.of(**shown, top=question.top).check(SplitPlan)
    asked.emit(plan_split.answer(question))
    return 0


@command(
    "train-plan",
    flag("--search", help="Search the fastest layouts of --devices and --global-batch."),
    *SHOWN,
    verb="train-plan",
    examples="""
  gambrel train-plan llama-3.1-8b --hardware h100 --seq 8k --data 8 --zero 3 --recompute full
  gambrel train-plan config.json -d h100 --seq 4k --tensor 8 --pipeline 4 --microbatches 32 \\
    --topology dgx-h100
  gambrel train-plan llama-3.1-8b -d h100 --seq 8k --data 8 --zero 1 --recompute auto
  gambrel train-plan llama-3.1-70b -d h100 --seq 8k --search --devices 256 --global-batch 512 \\
    --topology dgx-h100

Exit code: 1 where it does not fit, 3 where that is unknown.
""",
)
def train_plan(question: Question, search: bool, **shown: Any) -> int:
    """Predict a training step, or search its fastest layouts: time, MFU, tokens/s, memory."""
    from gambrel.api import plans
    from gambrel.api.verbs import record_of

    verb = "train-search" if search else "train-plan"
    asked = Shown.of(**shown, top=question.top).check(record_of(verb))
    if search:
        _check_searched(question)
        searched = plans.train_search.answer(question)
        asked.emit(searched)
        return exit_code(bool(searched.best))
    step = plans.train_plan.answer(question)
    asked.emit(step)
    return exit_code(step.memory.fits)


def _check_searched(question: Question) -> None:
    """Refuses what a search decides.

    Raises:
        InputError: Which options.
    """
    searched = {field.name for field in fields_of("train-search", "cli")}
    given = [
        field.flags[-1]
        for field in fields_of("train-plan", "cli")
        if field.name not in searched and getattr(question, field.name) != field.default
    ]
    if given:
        raise InputError(f"{', '.join(given)}: a search decides this; leave it out of --search.")


kv_cache = asking(
    "kv-cache",
    "Count the key/value cache: needed and reserved bytes, largest batch and context.",
    exit_code=lambda found: exit_code(found.fits) if found.device else 0,
    examples="""
  gambrel kv-cache llama-3.1-8b --hardware h100 --batch 64 --context 8k
  gambrel kv-cache config.json --context 128k --precision bf16,kv=fp8 --windowed window
  gambrel kv-cache model-q4_k_m.gguf --hardware rtx-4090 --context 32k --json

Exit code with --hardware: 1 where it does not fit, 3 where that is unknown.
""",
)
