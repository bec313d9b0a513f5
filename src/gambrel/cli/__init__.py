"""The command line: each command parses, calls one function, renders its result.

Exit codes: 0 done; 2 a user's error, one line on stderr; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


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
    from gambrel.cli.app import USAGE_ERRORS, build
    from gambrel.errors import GambrelError

    try:
        code = build()(args=list(argv), prog_name="gambrel", standalone_mode=False)
    except GambrelError as error:
        return _fail(str(error))
    except USAGE_ERRORS as error:
        return _fail(error.format_message())
    except (KeyboardInterrupt, EOFError):
        return _interrupted()
    except BrokenPipeError:
        # The reader went away (`gambrel ... | head`): not an error of ours.
        sys.stderr.close()
        return 0
    except Exception as error:
        if type(error).__name__ == "Abort":
            return _interrupted()
        raise
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print(f"gambrel: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _interrupted() -> int:
    print("gambrel: interrupted", file=sys.stderr)
    return 130
