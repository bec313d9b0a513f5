"""The command that is running, as text: pages offer it to whoever reads them."""

from __future__ import annotations

from typing import Any, Final

import click
from click.core import ParameterSource

from gambrel.analysis.commandline import call_of, command_of, words_of
from gambrel.cli.command import SHOWN, Command
from gambrel.report.options import Options

#: Where an answer goes is no part of the question.
_SHOWN: Final = frozenset(option.name for option in SHOWN)


def again() -> dict[str, str]:
    """How to ask the same again: ``shell``, and ``python`` where a function does; else nothing."""
    context = click.get_current_context(silent=True)
    command = context.command if context else None
    if context is None or not isinstance(command, Command):
        return {}
    given = {n: _value(context.params[n]) for n in command.fields if _is_given(context, n)}
    own = [p for p in command.params if p.name not in command.fields and p.name not in _SHOWN]
    own = [p for p in own if _is_given(context, p.name)]
    words = [word for p in own for word in _words(p, context)]
    verb, path = command.verb, context.command_path.partition(" ")[2]
    made = {"shell": command_of(verb, given, words, "cli", path)}
    # What belongs to the command alone has no keyword, and what is printed needs none.
    alone = [p for p in own if p.name not in Options.__dataclass_fields__]
    call = call_of(verb, given) if path == words_of(verb) and not alone else ""
    return made | ({"python": call} if call else {})


def _is_given(context: click.Context, name: str | None) -> bool:
    source = context.get_parameter_source(name or "")
    return source not in (None, ParameterSource.DEFAULT)


def _value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _words(parameter: click.Parameter, context: click.Context) -> list[str]:
    """An option or argument as it is typed."""
    value = context.params[parameter.name or ""]
    texts = [str(one) for one in (value if isinstance(value, tuple) else (value,))]
    if isinstance(parameter, click.Argument):
        return texts
    flag = max(parameter.opts, key=len)
    if getattr(parameter, "is_flag", False):
        return [flag]
    return [word for text in texts for word in (flag, text)]
