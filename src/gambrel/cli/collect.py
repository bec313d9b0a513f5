"""``gambrel collect``: the commands that record what ``gambrel import`` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gambrel.cli.output import write_text
from gambrel.errors import InputError

app = typer.Typer(
    help="Print the command that records a run for 'gambrel import', or run it (--run).",
    epilog="Example: gambrel collect ncu --hardware h100",
    no_args_is_help=True,
)

Device_ = Annotated[str, typer.Option("--hardware", "-d", help="The device on which it will run.")]
Program = Annotated[
    list[str] | None, typer.Argument(metavar="[-- PROGRAM...]", help="What to run.")
]
Run = Annotated[bool, typer.Option("--run", help="Run it here instead of printing it.")]


@app.command(
    "ncu",
    epilog="Examples: gambrel collect ncu --hardware a100\n\n"
    "gambrel collect ncu --hardware h100 -- python train.py > collect.sh\n\n"
    "gambrel collect ncu --section . -- ./program",
)
def ncu(
    hardware: Annotated[
        str | None, typer.Option("--hardware", "-d", help="The device on which it will run.")
    ] = None,
    program: Program = None,
    section: Annotated[
        Path | None,
        typer.Option(
            help="Write a section file into this folder (for all chips if none is named), use it.",
            file_okay=False,
        ),
    ] = None,
    nvtx: Annotated[bool, typer.Option("--nvtx", help="With NVTX ranges, for --by group.")] = False,
    run: Run = False,
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
        from gambrel.report.registry import replace_file

        if not section.is_dir():
            raise InputError(f"cannot write {section}: there is no such folder.")
        text = ncu_section(compute_capability(device) if device else "")
        replace_file(section / f"{SECTION}.section", text.encode())
        command = section_command(str(section), program or (), nvtx=nvtx)
    elif device is not None:
        command = ncu_command(compute_capability(device), program or (), nvtx=nvtx)
    else:
        raise InputError("name the device (--hardware), or write a section file (--section DIR).")
    roofs = f" --hardware {device.id}" if device else ""
    _print_or_run(f"{command}\ngambrel import kernels.csv{roofs} -o roofline.html", run, program)


@app.command("kineto", epilog="Example: gambrel collect kineto > record.py")
def kineto() -> None:
    """Print a script that records a PyTorch trace with shapes."""
    from gambrel.traces.collect_others import kineto_script

    write_text(kineto_script())


@app.command("rocprof", epilog="Example: gambrel collect rocprof --hardware mi300x -- ./program")
def rocprof(hardware: Device_, program: Program = None, run: Run = False) -> None:
    """Print rocprofv3's command with the counters of this GPU."""
    from gambrel.device.lookup import find
    from gambrel.traces.collect_others import rocprof_commands

    _print_or_run(rocprof_commands(find(hardware).device, program or ()), run, program)


@app.command("perf", epilog="Example: gambrel collect perf --hardware epyc-9654 -- ./program")
def perf(hardware: Device_, program: Program = None, run: Run = False) -> None:
    """Print perf's command with the events of this processor."""
    from gambrel.device.lookup import find
    from gambrel.traces.collect_others import perf_command

    _print_or_run(perf_command(find(hardware).device, program or ()), run, program)


def _print_or_run(commands: str, run: bool, program: list[str] | None) -> None:
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
