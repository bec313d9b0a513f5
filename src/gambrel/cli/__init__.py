"""The command line: each command parses, calls one function, renders its result.

Exit codes: 0 done; 2 a user's error, one line on stderr; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line and exits the process."""
    sys.exit(run(sys.argv[1:] if argv is None else list(argv)))


def run(argv: Sequence[str]) -> int:
    """Runs one command.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code.
    """
    try:
        return _run(argv)
    except (KeyboardInterrupt, EOFError):
        return _interrupted()


def _run(argv: Sequence[str]) -> int:
    import typer

    from gambrel.cli.app import USAGE_ERRORS, build
    from gambrel.errors import GambrelError

    try:
        code = build(argv[0] if argv else "")(
            args=list(argv), prog_name="gambrel", standalone_mode=False
        )
    except GambrelError as error:
        return _fail(str(error))
    except USAGE_ERRORS as error:
        return _fail(_usage(error))
    except typer.Abort:
        return _interrupted()
    if code == INTERRUPTED:  # newer versions of typer turn Ctrl-C into this
        return _interrupted()
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> str:
    """What was wrong with the words, and the command that lists the right ones."""
    said = error.format_message() or "no command given"
    end = "" if said.endswith((".", "?")) else "."
    context = getattr(error, "ctx", None)
    hint = f" Run '{context.command_path} --help'." if context else ""
    return f"{said}{end}{hint}"


def _fail(message: str) -> int:
    from gambrel.report.text import clean

    print(f"gambrel: {clean(' '.join(message.split()))}", file=sys.stderr)
    return 2


def _interrupted() -> int:
    print("gambrel: interrupted", file=sys.stderr)
    return INTERRUPTED
