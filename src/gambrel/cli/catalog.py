"""``gambrel hardware``, ``models`` and ``runtimes``: what is known."""

from __future__ import annotations

from typing import Any

from gambrel.analysis.question import PRINT, Question
from gambrel.cli.command import SHOWN, Group, command, flag, option
from gambrel.cli.output import Shown

hardware = Group(
    "hardware",
    "The catalog of devices: peaks, bandwidths, where each number comes from.",
    {"list": "catalog:devices", "show": "catalog:device"},
    "Examples:\n  gambrel hardware list --category edge\n  gambrel hardware show h100",
)
models = Group(
    "models",
    "The models that are built in.",
    {"list": "catalog:model_list"},
    "Examples:\n  gambrel models list llama",
)
runtimes = Group(
    "runtimes",
    "How models are executed: kernels, on-chip memory, host time, formats, and the evidence.",
    {"list": "catalog:runtime_list", "show": "catalog:runtime_show"},
    "Examples:\n  gambrel runtimes list --hardware h100\n  gambrel runtimes show tensorrt",
)


@command(
    "list",
    option(
        *("--precision", "-p"),
        help="Format of the peak and ridge columns; by default each device's own.",
        section=PRINT,
    ),
    option(
        *("--sort",),
        help="name, year, peak, bandwidth, memory, tdp or ridge.",
        default="name",
        section=PRINT,
    ),
    flag("--reverse", help="Smallest first / Z to A."),
    *SHOWN,
    verb="devices",
    examples="""
  gambrel hardware list --vendor nvidia --sort bandwidth
  gambrel hardware list --category edge --max-tdp 30W
""",
)
def devices(
    question: Question, precision: str | None, sort: str, reverse: bool, **shown: Any
) -> None:
    """List devices: dense peak, bandwidth, ridge point, memory, TDP."""
    from gambrel.api.catalog import devices as listed
    from gambrel.report.answers import Devices

    asked = Shown.of(**shown).check(Devices)
    asked.emit(listed(question, precision=precision, sort=sort, reverse=reverse))


@command(
    "show",
    *SHOWN,
    verb="device",
    examples="  gambrel hardware show h100\n  gambrel hardware show my-board.toml --json",
)
def device(question: Question, **shown: Any) -> None:
    """Show every ceiling of a device with its source, and explain sparse figures."""
    from gambrel.device.resolve import resolve_hardware
    from gambrel.report.answers import Sheet

    asked = Shown.of(**shown).check(Sheet)
    found, notes = resolve_hardware(question.hardware)
    asked.emit(Sheet(device=found, notes=notes))


@command("list", *SHOWN, verb="models", examples="  gambrel models list llama")
def model_list(question: Question, **shown: Any) -> None:
    """List the built-in models: parameters, FLOPs at default sizes, sizes that may be chosen."""
    from gambrel.api.catalog import models as listed
    from gambrel.report.answers import Models

    asked = Shown.of(**shown).check(Models)
    asked.emit(listed(question))


@command(
    "list",
    *SHOWN,
    verb="runtimes",
    examples="  gambrel runtimes list --hardware jetson-orin-nano",
)
def runtime_list(question: Question, **shown: Any) -> None:
    """List the runtimes: how ops become kernels, formats, where each is the default."""
    from gambrel.api.catalog import runtimes as listed
    from gambrel.report.answers import Runtimes

    asked = Shown.of(**shown).check(Runtimes)
    asked.emit(listed(question))


@command("show", *SHOWN, verb="runtime", examples="  gambrel runtimes show tensorrt")
def runtime_show(question: Question, **shown: Any) -> None:
    """Show a runtime: kernels, memory, host time, evidence, errors, sources, where it runs."""
    from gambrel.runtimes import Runtime, runtime

    asked = Shown.of(**shown).check(Runtime)
    asked.emit(runtime(question.runtime))
