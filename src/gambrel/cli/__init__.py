"""The command line: each command parses, calls one function, renders its result.

Exit codes: 0 done; 1 a FAIL verdict; 2 a user's error, one line on stderr; 3 an UNKNOWN verdict; 70
a defect of gambrel; 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

DEFECT: Final = 70
INTERRUPTED: Final = 130
#: Set to anything to see the traceback of a defect.
TRACEBACK: Final = "GAMBREL_TRACEBACK"
#: New objects before the garbage collector walks. A command makes tens of thousands that live as
#: long as it does: walking over them every 700 took a tenth of its time.
_COLLECT_AFTER: Final = 50_000
#: Most commands that a refusal names as those that have an option.
_FEW: Final = 5


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line and exits the process."""
    gc.set_threshold(_COLLECT_AFTER)
    code = run(sys.argv[1:] if argv is None else list(argv))
    gc.freeze()  # the collections of the interpreter's end would walk all that was made
    sys.exit(code)


def run(argv: Sequence[str]) -> int:
    """Runs one command.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code.
    """
    # What the caller closed (`>&-`) is None: what would be written there goes nowhere.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    try:
        return _run(argv)
    except (KeyboardInterrupt, EOFError):
        return _interrupted()
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        said = f"{type(error).__name__}: {error}"[:200]
        advice = f"Set {TRACEBACK}=1 for the traceback and please report it."
        return _fail(f"this is a defect of gambrel: {said} {advice}", DEFECT)


def _run(argv: Sequence[str]) -> int:
    import click

    from gambrel.cli.app import build
    from gambrel.cli.output import write_text
    from gambrel.errors import GambrelError

    tree = build()
    try:
        with tree.make_context("gambrel", list(argv)) as context:
            code = tree.invoke(context)
    except click.exceptions.Exit as left:
        return left.exit_code
    except GambrelError as error:
        return _fail(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        write_text(error.format_message())
        place = error.ctx.command_path if error.ctx else "gambrel"
        return _fail(f"no command given. Run '{place} --help'.")
    except click.ClickException as error:
        return _fail(_usage(error))
    except click.Abort:
        return _interrupted()
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> str:
    """What was wrong with the words, and the command that lists the right ones."""
    said = _renamed(error) or _elsewhere(error) or error.format_message() or "no command given"
    said += _listed(error)
    end = "" if said.endswith((".", "?", ")")) else "."
    context = getattr(error, "ctx", None)
    hint = f" Run '{context.command_path} --help'." if context else ""
    return f"{said}{end}{hint}"


def _listed(error: Any) -> str:
    """That several models are one list, where they were given one after another."""
    from gambrel.analysis.question import FIELDS

    context = getattr(error, "ctx", None)
    extra = error.format_message().startswith("Got unexpected extra argument")
    several = context is not None and context.info_name in FIELDS["model"].several
    return ". Several models are one list: resnet50,bert-base" if extra and several else ""


def _renamed(error: Any) -> str:
    """Which option of this command a word stands for, as ``--device`` or ``--dtype``."""
    from gambrel.analysis.question import FIELDS

    option, context = getattr(error, "option_name", "") or "", getattr(error, "ctx", None)
    word = option.lstrip("-").replace("-", " ")
    if not word or not context:
        return ""
    known = {o for param in context.command.params for o in param.opts}
    meant = (f.flags[0] for f in FIELDS.values() if word in f.words and f.flags[0] in known)
    found = next(meant, None) or _of_a_format(word, known)
    return f"No such option '{option}'. Did you mean '{found}'?" if found else ""


def _of_a_format(word: str, known: Collection[str]) -> str:
    """The option that takes a number format, as ``--int8`` names one."""
    from gambrel.dtypes import parse_dtype
    from gambrel.errors import UnknownNameError

    try:
        return f"--precision {parse_dtype(word)}" if "--precision" in known else ""
    except UnknownNameError:
        return ""


def _elsewhere(error: Any) -> str:
    """Which few other commands know an option that this one does not; empty where none does."""
    from gambrel.analysis.question import FIELDS

    option, context = getattr(error, "option_name", ""), getattr(error, "ctx", None)
    if not option or not context or not context.parent:
        return ""
    owners = {v for f in FIELDS.values() if option in f.flags for v in f.verbs if f.on("cli", v)}
    names = sorted(owners.intersection(context.parent.command.list_commands(context.parent)))
    if not 0 < len(names) <= _FEW:
        return ""
    *some, last = names
    have = f"{', '.join(some)} and {last} have it" if some else f"{last} has it"
    return f"'{context.info_name}' has no option '{option}'; {have}"


def _fail(message: str, code: int = 2) -> int:
    from gambrel.errors import sentence

    print(f"gambrel: {sentence(' '.join(message.split()))}", file=sys.stderr)
    return code


def _interrupted() -> int:
    print("gambrel: interrupted", file=sys.stderr)
    return INTERRUPTED
