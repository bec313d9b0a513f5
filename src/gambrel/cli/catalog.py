"""``gambrel hardware``, ``models`` and ``runtimes``: what is known."""

from __future__ import annotations

from gambrel.analysis.question import PRINT
from gambrel.cli.command import LazyGroup, asking, flag, option

hardware = LazyGroup(
    "hardware",
    "The catalog of devices: peaks, bandwidths, where each number comes from.",
    {"list": "catalog:devices", "show": "catalog:device"},
    "Examples:\n  gambrel hardware list --category edge\n  gambrel hardware show h100",
)
models = LazyGroup(
    "models",
    "The models that are built in.",
    {"list": "catalog:model_list"},
    "Examples:\n  gambrel models list llama",
)
runtimes = LazyGroup(
    "runtimes",
    "How models are executed: kernels, on-chip memory, host time, formats, and the evidence.",
    {"list": "catalog:runtime_list", "show": "catalog:runtime_show"},
    "Examples:\n  gambrel runtimes list --hardware h100\n  gambrel runtimes show tensorrt",
)


devices = asking(
    "list",
    "List devices: dense peak, bandwidth, ridge point, memory, TDP.",
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
    verb="devices",
    examples="""
  gambrel hardware list --vendor nvidia --sort bandwidth
  gambrel hardware list --category edge --max-tdp 30W
""",
)
device = asking(
    "show",
    "Show every ceiling of a device with its source, and explain sparse figures.",
    verb="device",
    examples="  gambrel hardware show h100\n  gambrel hardware show my-board.toml --json",
)


model_list = asking(
    "list",
    "List the built-in models: parameters, FLOPs at default sizes, sizes that may be chosen.",
    verb="models",
    examples="  gambrel models list llama",
)


runtime_list = asking(
    "list",
    "List the runtimes: how ops become kernels, formats, where each is the default.",
    verb="runtimes",
    examples="  gambrel runtimes list --hardware jetson-orin-nano",
)


runtime_show = asking(
    "show",
    "Show a runtime: kernels, memory, host time, evidence, errors, sources, where it runs.",
    verb="runtime",
    examples="  gambrel runtimes show tensorrt",
)
