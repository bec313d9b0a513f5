"""The pages of the reference, written from what they describe."""

from __future__ import annotations

import inspect
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import click

import gambrel
from gambrel.chat.glossary import terms
from gambrel.cli import run
from gambrel.cli.app import build

#: Sections of the Python page: heading → public names; what is in none comes last.
SECTIONS = {
    "Predict": ("analyze", "sweep", "load", "load_model", "UnifiedAnalyzer"),
    "Decide": ("check", "compare", "select", "what_if", "serve_plan", "train_plan", "kv_cache"),
    "Measure": ("measure_peaks", "clear_peaks_cache", "RooflineAnalyzer", "read", "calibrate"),
    "Results": ("Analysis", "OpResult", "Measures", "Estimate", "Bound"),
}


def written() -> dict[str, str]:
    """File name → text of each page."""
    return {
        "commands.md": commands(),
        "python.md": python(),
        "glossary.md": glossary(),
        "devices.md": listed(["hardware", "list"]),
        "models.md": listed(["models", "list"]),
        "runtimes.md": listed(["runtimes", "list"]),
    }


def _each(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from _each(command, (*path, name))


def _printed(words: list[str]) -> str:
    text = StringIO()
    with redirect_stdout(text):
        run(words)
    return text.getvalue()


def commands() -> str:
    """Every command with its help."""
    parts = [
        "# Commands\n\nWhat `--help` prints. Exit codes: 0 done, PASS or MARGINAL; 1 FAIL; 2 an"
    ]
    parts[0] += " error of the user; 3 UNKNOWN; 70 a defect of gambrel; 130 interrupted.\n"
    for path in _each(build()):
        help_text = _printed([*path, "--help"]).rstrip()
        parts.append(f"## gambrel {' '.join(path)}\n\n```text\n{help_text}\n```\n")
    return "\n".join(parts)


def python() -> str:
    """The public names by section."""
    rest = set(gambrel.__all__) - {"__version__"} - {n for s in SECTIONS.values() for n in s}
    errors = sorted(n for n in rest if n.endswith("Error"))
    sections = {**SECTIONS, "Workloads and devices": sorted(rest - set(errors)), "Errors": errors}
    parts = [
        "# Python\n\n`import gambrel` loads nothing heavy; each name is loaded when it is used.\n"
    ]
    for heading, names in sections.items():
        parts.append(f"## {heading}\n")
        parts += [_asked(name) or f"::: {_home(name)}\n" for name in names]
    return "\n".join(parts)


def _asked(name: str) -> str:
    """A function whose keywords are the fields of a question: it has them when it runs only."""
    function = getattr(gambrel, name)
    if not hasattr(function, "answer"):
        return ""
    said, _, listed_args = inspect.getdoc(function).partition("Args:\n")
    call = f"{name}{inspect.signature(function)}"
    wrapped = textwrap.fill(call, 96, subsequent_indent=" " * (len(name) + 1))
    rows = [line.strip().partition(": ") for line in listed_args.splitlines() if line.strip()]
    bullets = "\n".join(f"- `{key}`: {text}" for key, _, text in rows)
    before = said.partition("Returns:")[0].strip()
    return f"### {name}\n\n```python\n{wrapped}\n```\n\n{before}\n\n{bullets}\n"


def _home(name: str) -> str:
    """The dotted path of the module that defines a public name."""
    value = getattr(gambrel, name)
    return f"{value.__module__}.{value.__qualname__}"


def glossary() -> str:
    """The terms of ``gambrel explain``."""
    parts = ['# Glossary\n\nThe same texts answer `gambrel ask "what is ...?"`.\n']
    for term in sorted(terms().values(), key=lambda t: t.name.lower()):
        also = f"\n*Also: {', '.join(term.also)}.*\n" if term.also else ""
        see = f"\n`{term.see}`\n" if term.see else ""
        parts.append(f"## {term.name}\n\n{term.text}\n{also}{see}")
    return "\n".join(parts)


def listed(words: list[str]) -> str:
    """A listing as its own Markdown renderer writes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "list.md")
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            run([*words, "-o", str(path)])
        return path.read_text(encoding="utf-8")
