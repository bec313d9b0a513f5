"""Random command lines, right and wrong: no traceback, no defect, only the exit codes promised.

Words and values come from the options that the commands declare. Run
``python -m scripts.sweeps.commands [--seconds 600] [--seed 0]``. Each command line runs in this
process; what it prints is read back, and with ``--json`` it must be JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

import gambrel
from gambrel.analysis.question import FIELDS
from gambrel.cli import run
from gambrel.cli.app import COMMANDS, build

#: Commands that measure, wait for a user, or serve until they are stopped.
_LEFT_OUT: Final = frozenset({"peaks", "profile", "chat", "mcp", "collect", "explore"})
#: Options that measure or ask a server.
_NEVER: Final = frozenset({"measure", "llm", "llm_url"})
#: Share of the values that are wrong.
_WRONG: Final = 0.08
_DONE: Final = frozenset({0, 1, 2, 3})
#: Of a verdict: nothing else may exit with them.
_VERDICTS: Final = {
    "check": {1, 3},
    "serve-plan": {1, 3},
    "train-plan": {1, 3},
    "kv-cache": {1, 3},
    "compare-runs": {1},
}

#: Field → values that are right, and values that are not.
_MODELS: Final = (
    ("resnet18", "resnet50", "yolov8n", "bert-base", "mobilenet_v2", "llama-3-8b", "gpt-oss-20b"),
    ("none.pt2", "config.json", "", "x" * 300, "a/b", ".", "/dev/zero", "net.py:build", "resnet 9"),
)
_PLANS: Final = frozenset({"serve-plan", "train-plan", "kv-cache"})
_LANGUAGE: Final = ("llama-3-8b", "mixtral-8x7b", "gpt-oss-20b", "qwen3-8b")
_FILES: Final = (("a.json", "b.json"), ("none.json", "/dev/zero", ".", "a.csv", "x" * 300, ""))
_QUESTIONS: Final = (
    "Is ResNet-50 compute-bound or memory-bound on an A100?",
    "Can ResNet-50 achieve 5ms latency on a Jetson Orin Nano?",
    "Which is faster for resnet50, L4 or T4, and why?",
    "how much memory does llama-3-8b need",
)
_DEVICES: Final = (
    ("h100", "a100", "l4", "jetson-orin-nano", "hailo-8", "tpu-v5e", "rk3588", "mi300x", "a100,l4"),
    ("no-such", "dev.toml", "", "/dev/zero", "h100,", ",,", "this"),
)
_RUNTIMES: Final = (
    ("pytorch", "torch-compile", "tensorrt", "vllm", "perfect", "onnxruntime,pytorch"),
    ("no-such", "", "qnn", "llama-cpp"),
)
_PRECISIONS: Final = (
    ("fp32", "fp16", "bf16", "fp8", "int8", "w4a16,kv=fp8", "fp16,int8"),
    ("fp7", "", "kv=fp8", "fp8,fp8", "weights=fp8,weights=int4", "nvfp4"),
)
_NUMBERS: Final = (("1", "2", "8", "64"), ("1,8", "1:4", "0", "-1", "1e3", "10" * 20, "nan", "٣"))
_TOKENS: Final = (("8", "512", "2k"), ("0", "1.5", "8q", "1M", "10" * 20, ""))
_SIZES: Final = (("seq=8", "batch=4"), ("=", "seq=", "seq=0", "seq", "a=1"))
_AMOUNTS: Final = {
    "time": ("10ms", "33ms", "1us"),
    "power": ("15W", "300W"),
    "energy": ("500mJ", "1J"),
    "size": ("4GiB", "4096MB"),
    "throughput": ("30fps", "20/s"),
    "rate": ("989T", "5TFLOP/s"),
    "bandwidth": ("3.35T", "100GB/s"),
    "count": ("15T", "300e9"),
}
_NO_AMOUNTS: Final = ("1e-300", "1e400", "-5ms", "5", "5parsec", "", "inf", "0s")
_TEXTS: Final = (
    *("fuse", "precision=int8", "batch=8", "hardware=h200", "weights=int4", "seq=128", "=", "a=b"),
    *("latency", "price", "a\x1b[31mb", "x" * 5000, "1x3x224x224", "a" * 70 + "x1", "prefill"),
    *("l4=2500", "7", "dgx-h100", "ridge point", "--json", "a b " * 900, "\u202e", "matrix"),
)
_CHANGES: Final = (("fuse", "precision=int8", "batch=8", "hardware=h200", "seq=128"), _TEXTS)
_METRICS: Final = (("latency", "throughput,power", "price", "memory"), _TEXTS)
#: Options without which most questions are refused.
_USUAL: Final = frozenset({"hardware", "input", "output", "latency", "seq", "change", "as_json"})
_BY_NAME: Final = {
    "model": _MODELS,
    "draft": _MODELS,
    "hardware": _DEVICES,
    "runtime": _RUNTIMES,
    "precision": _PRECISIONS,
    "question": (_QUESTIONS, _TEXTS),
    "files": _FILES,
    "paths": _FILES,
    "first": _FILES,
    "second": _FILES,
    "change": _CHANGES,
    "metric": _METRICS,
    "sort": _METRICS,
    "prices": (("l4=2500", "3.5/h"), ("=1", "l4=0", "x=1", "")),
}
_KINDS: Final = {
    "N": _NUMBERS,
    "TOKENS": _TOKENS,
    "NAME=N": _SIZES,
    "SHARE": (("0.5", "1", "0"), ("1.1", "-1", "x", "nan")),
}


def values(name: str, metavar: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is right behind an option, and what is not."""
    field = FIELDS.get(name)
    if name in _BY_NAME:
        return _BY_NAME[name]
    if field is not None and field.kind.choices:
        return field.kind.choices, ("no-such", "")
    if field is not None and field.kind.quantity:
        return _AMOUNTS[field.kind.quantity], _NO_AMOUNTS
    return _KINDS.get(metavar, (_TEXTS, _TEXTS))


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that answers at once, those of groups too."""
    tree = build()
    context = click.Context(tree)
    for name in COMMANDS:
        command = None if name in _LEFT_OUT else tree.get_command(context, name)
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                if found is not None:
                    yield (name, inner), found
        elif command is not None:
            yield (name,), command


def command_line(
    words: tuple[str, ...], command: click.Command, chance: random.Random
) -> list[str]:
    """One command line: its positional words, then a few options with values."""
    line = list(words)
    options = [p for p in command.params if isinstance(p, click.Option) and p.name not in _NEVER]
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and chance.random() < 0.95:
            line.append(_value(parameter, words, chance))
    usual = [o for o in options if o.name in _USUAL]
    rest = chance.sample(options, min(len(options), chance.choice((0, 0, 1, 1, 2, 3))))
    for option in dict.fromkeys([*(o for o in usual if chance.random() < 0.97), *rest]):
        line.append(chance.choice(option.opts))
        if not option.is_flag:
            line.append(_value(option, words, chance))
    return line


def _value(parameter: click.Parameter, words: tuple[str, ...], chance: random.Random) -> str:
    name = parameter.name or ""
    if isinstance(parameter.type, click.Path) or "FILE" in (parameter.metavar or ""):
        suffix = chance.choice((".json", ".csv", ".md", ".html", ".svg", ".txt", "", ".xyz"))
        wrong = ("/nonexistent/a.json", ".", "o" * 300 + suffix)
        return chance.choice(wrong) if chance.random() < _WRONG else f"out{suffix}"
    right, wrong = values(name, parameter.metavar or "")
    if name == "model" and words[0] in _PLANS:
        right = _LANGUAGE
    return chance.choice(wrong if chance.random() < _WRONG else right)


def outcome(line: list[str]) -> tuple[str, int | None]:
    """What is wrong with the answer to a command line (nothing: empty), and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    quiet = warnings.catch_warnings()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), quiet:
        warnings.simplefilter("ignore")
        try:
            code = run(line)
        except BaseException as error:
            return f"{type(error).__name__}: {str(error)[:200]}", None
    return _fault(line, code, out.getvalue(), err.getvalue()), code


def _fault(line: list[str], code: int, out: str, err: str) -> str:
    said = [text for text in err.splitlines() if text.startswith("gambrel: ")]
    if code not in _DONE:
        return f"exit {code}: {err[:300]}"
    if code in {1, 3} and code not in _VERDICTS.get(line[0], set()):
        return f"exit {code} without a verdict: {err[:200]}"
    if code == 2 and (len(said) != 1 or len(said[0]) > 1500):
        return f"not one sentence: {err[:300]!r}"
    if code == 0 and "--json" in line and "--help" not in line:
        return _json_fault(out)
    return "" if all(c.isprintable() or c in "\n\r\t\x1b" for c in err) else f"codes: {err[:200]!r}"


def _json_fault(out: str) -> str:
    def refuse(text: str) -> Any:
        raise ValueError(text)

    try:
        json.loads(out, parse_constant=refuse)
    except ValueError as error:
        return f"no JSON: {error}"
    return ""


def main(arguments: list[str]) -> int:
    """Runs random command lines for a while; 1 where one is answered wrongly."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    chance = random.Random(asked.seed)
    known = list(commands())
    seen: Counter[int | None] = Counter()
    faults = 0
    os.chdir(tempfile.mkdtemp())
    Path("config.json").write_text("{}", encoding="utf-8")
    for file, model in (("a.json", "resnet18"), ("b.json", "resnet50")):
        gambrel.analyze(model, "h100").save(file)
    end = time.monotonic() + asked.seconds
    while time.monotonic() < end:
        line = command_line(*chance.choice(known), chance)
        fault, code = outcome(line)
        seen[code] += 1
        if fault:
            faults += 1
            shown = [word if len(word) < 80 else f"{word[:20]}... ({len(word)})" for word in line]
            sys.stdout.write(f"{shown!a}: {fault!a}\n")
            sys.stdout.flush()
    codes = ", ".join(f"{count:,} exit {code}" for code, count in seen.most_common())
    sys.stdout.write(f"\n{seen.total():,} command lines: {codes}; {faults} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
