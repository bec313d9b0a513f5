"""The loop of ``gambrel chat``: reads lines from a terminal or a pipe, prints replies."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from gambrel.chat.session import Reply, in_full, rendered
from gambrel.errors import require
from gambrel.report.options import Options

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

PROMPT: Final = "> "
GREETING: Final = (
    "Ask about models and devices, e.g. Is ResNet-50 memory-bound on an A100?  /help  /quit"
)
COMMANDS: Final = ("/help", "/models", "/devices", "/more", "/new", "/quit")
_SPELLED: Final = {"/help": "help", "/models": "list models", "/devices": "list devices"}


class Talk(Protocol):
    """What the loop talks to: `gambrel.chat.session.Conversation`, or one with a language model."""

    previous: Any

    def ask(self, question: str) -> Reply:
        """Answers one line."""


def converse(
    session: Talk,
    options: Options,
    stdin: TextIO | None = None,
    write: Callable[[str], object] | None = None,
) -> None:
    """Reads questions until the end of input or ``/quit``.

    Args:
        session: Answers.
        options: Width and colour.
        stdin: None for the process's own; a terminal gets history, editing and completion.
        write: Takes text to show; None prints.
    """
    source = sys.stdin if stdin is None else stdin
    show = write or _print
    interactive = source.isatty()
    if interactive:
        show(GREETING + "\n")
    last: list[Reply] = []
    for line in _typed() if interactive else _piped(source):
        word = line.strip()
        if not word:
            continue
        if word.lower() in {"/quit", "/exit", "/q", "quit", "exit", "bye"}:
            return
        for part in turn(session, word, options, last):
            show(part)


def turn(
    session: Talk, line: str, options: Options, last: list[Reply] | None = None
) -> Iterator[str]:
    """The texts that answer one line, each as soon as it is known.

    Args:
        session: Answers.
        line: As it was typed.
        options: Width and colour.
        last: The reply of the turn before, for 'more'; holds that of this one afterwards.
    """
    last = [] if last is None else last
    if line.lower().strip(" ?.!/") == "more":
        yield from in_full(last[0], options) if last else ("There is nothing more to show.\n",)
        return
    if line == "/new":
        session.previous = None
        last.clear()
        yield "What was said before is forgotten.\n"
        return
    word = line.split()[0]
    if line.startswith("/") and word not in _SPELLED:
        yield f"unknown command {line!r}; there are {', '.join(COMMANDS)}.\n"
        return
    try:
        last[:] = [session.ask(_SPELLED.get(word, line))]
        yield from rendered(last[0], options)
    except KeyboardInterrupt:
        yield "interrupted\n"


def _piped(source: TextIO) -> Iterator[str]:
    """Lines of a pipe; undecodable bytes do not end the conversation."""
    reconfigure = getattr(source, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    yield from source


def _typed() -> Iterator[str]:
    """Lines of a terminal: Ctrl-C drops a line, Ctrl-D ends."""
    session = prompt_session()
    while True:
        try:
            yield session.prompt(PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def prompt_session(**given: Any) -> PromptSession[str]:
    """A line editor with history over sessions and completion of names.

    Args:
        **given: For prompt_toolkit, e.g. another input and output.
    """
    require("prompt_toolkit", "chat", "the line editor of gambrel chat (gambrel ask needs none)")
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory

    return PromptSession(
        history=_history(),
        completer=completer(),
        auto_suggest=AutoSuggestFromHistory(),
        complete_while_typing=False,
        **given,
    )


def completer() -> Any:
    """Completes the word before the cursor; a dash or a dot is part of a name."""
    from prompt_toolkit.completion import WordCompleter

    return WordCompleter(completions(), ignore_case=True, pattern=re.compile(r"[\w./+-]+"))


def completions() -> list[str]:
    """Models, devices and commands of the chat."""
    from gambrel.chat.names import names

    known = names()
    models = sorted({n.name for n in known.keys.values() if n.kind == "model"})
    return [*COMMANDS, *models, *sorted(known.vendors)]


def _history() -> Any:
    """Lines of earlier sessions; only of this one where the folder cannot be written."""
    from platformdirs import user_state_path
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    folder = user_state_path("gambrel", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "chat_history").open("a").close()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(folder / "chat_history"))


def _print(text: str) -> None:
    """Writes text; what the encoding lacks becomes ``?``."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    sys.stdout.flush()
