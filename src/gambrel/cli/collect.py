"""``gambrel collect``: the commands that record what ``gambrel import`` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from gambrel.cli.command import OTHER, LazyGroup, argument, command, flag, option
from gambrel.cli.output import write_text
from gambrel.errors import InputError

collect = LazyGroup(
    "collect",
    "Print the command that records a run for 'gambrel import', or run it (--run).",
    {name: f"collect:{name}" for name in ("ncu", "kineto", "rocprof", "perf")},
    "Examples:\n  gambrel collect ncu --hardware h100",
)
_PROGRAM: Final = argument("program", "[-- PROGRAM...]", nargs=-1, type=click.UNPROCESSED)
_RUN: Final = flag("--run", help="Run it here instead of printing it.", section=OTHER)


def _device(*, required: bool) -> click.Option:
    return option(*("--hardware", "-d"), help="The device on which it will run.", required=required)


@command(
    "ncu",
    _PROGRAM,
    _device(required=False),
    option(
        "--section",
        help="Write a section file into this folder (for all chips if none is named), use it.",
    ),
    flag("--nvtx", help="With NVTX ranges, for --by group.", section=OTHER),
    _RUN,
    examples="""
  gambrel collect ncu --hardware a100
  gambrel collect ncu --hardware h100 -- python train.py > collect.sh
  gambrel collect ncu --section . -- ./program
""",
)
def ncu(
    program: tuple[str, ...], hardware: str | None, section: str | None, nvtx: bool, run: bool
) -> None:
    """Print Nsight Compute's command with the metrics that this chip has."""
    from gambrel.device.lookup import find
    from gambrel.traces.collect import (
        SECTION,
        compute_capability,
        ncu_command,
        ncu_section,
        section_command,
    )

    device = find(hardware).device if hardware else None
    if section is not None:
        from gambrel.report.files import check_target, replace_file

        target = Path(section) / f"{SECTION}.section"
        check_target(target)
        text = ncu_section(compute_capability(device) if device else "")
        replace_file(target, text.encode())
        command = section_command(section, program, nvtx=nvtx)
    elif device is not None:
        command = ncu_command(compute_capability(device), program, nvtx=nvtx)
    else:
        raise InputError("name the device (--hardware), or write a section file (--section DIR).")
    roofs = f" --hardware {device.id}" if device else ""
    _print_or_run(f"{command}\ngambrel import kernels.csv{roofs} -o roofline.html", run, program)


@command("kineto", examples="  gambrel collect kineto > record.py")
def kineto() -> None:
    """Print a script that records a PyTorch trace with shapes."""
    from gambrel.traces.collect_others import kineto_script

    write_text(kineto_script())


@command(
    "rocprof",
    _PROGRAM,
    _device(required=True),
    _RUN,
    examples="  gambrel collect rocprof --hardware mi300x -- ./program",
)
def rocprof(program: tuple[str, ...], hardware: str, run: bool) -> None:
    """Print rocprofv3's command with the counters of this GPU."""
    from gambrel.device.lookup import find
    from gambrel.traces.collect_others import rocprof_commands

    _print_or_run(rocprof_commands(find(hardware).device, program), run, program)


@command(
    "perf",
    _PROGRAM,
    _device(required=True),
    _RUN,
    examples="  gambrel collect perf --hardware epyc-9654 -- ./program",
)
def perf(program: tuple[str, ...], hardware: str, run: bool) -> None:
    """Print perf's command with the events of this processor."""
    from gambrel.device.lookup import find
    from gambrel.traces.collect_others import perf_command

    _print_or_run(perf_command(find(hardware).device, program), run, program)


def _print_or_run(commands: str, run: bool, program: tuple[str, ...]) -> None:
    """Prints commands, or runs them with the shell and ends with their exit code.

    Raises:
        InputError: There is nothing to run, or the commands fail.
    """
    if not run:
        write_text(f"{commands}\n")
        return
    if not program:
        raise InputError("--run needs a program: put it behind '--'.")
    import subprocess

    # The program comes from the user's own command line and is quoted.
    done = subprocess.run(["sh", "-ec", commands], check=False)
    if done.returncode:
        raise InputError(f"recording failed with exit code {done.returncode}; see above.")
