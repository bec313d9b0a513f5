"""Commands and their options; those of a question are made from its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from gambrel.analysis.commandline import word_of
from gambrel.analysis.fields import FLAG, PRICES, Field
from gambrel.analysis.question import FIELDS, PRINT, Question, ask, fields_of, needed
from gambrel.closest import closest

#: Sections of a help text, in order; what belongs to none comes last.
OTHER: Final = "Options"


class Option(click.Option):
    """An option that knows its section of the help.

    Args:
        section: Heading.
    """

    def __init__(self, *args: Any, section: str = OTHER, **more: Any) -> None:
        super().__init__(*args, **more)
        self.section = section


class Argument(click.Argument):
    """A positional argument with a line in the help, under a section.

    Args:
        about: What it is.
        section: Heading.
    """

    def __init__(self, *args: Any, about: str = "", section: str = OTHER, **more: Any) -> None:
        super().__init__(*args, **more)
        self.about, self.section = about, section

    def get_help_record(self, _: click.Context) -> tuple[str, str]:
        """Metavar and help."""
        return self.metavar or "", self.about


class Command(click.Command):
    """A command whose help groups its options and ends with examples that can be copied.

    Args:
        verb: The question that it asks; empty for none.
        fields: Of the question, those that it has an option for.
    """

    def __init__(self, *args: Any, verb: str = "", fields: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.verb, self.fields = verb, fields

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes one list for each section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and record[1]:
                sections.setdefault(getattr(parameter, "section", OTHER), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records, col_max=26)

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples as they are."""
        if self.epilog:
            formatter.write(f"\n{self.epilog.strip()}\n")


def command(
    name: str,
    *options: click.Parameter,
    examples: str,
    verb: str = "",
    words: Sequence[str] | None = None,
    about: str = "",
) -> Callable[[Callable[..., Any]], Command]:
    """Makes a command of a function; its docstring is the help.

    Args:
        name: Of the command.
        *options: Its own options and arguments.
        examples: Shown at the end of the help, one a line.
        verb: The question it asks: the function gets it as its first argument, a `Question`, and
            the command has an option for each field.
        words: Fields that are given without an option; None takes that of the verb.
        about: The help, where it is not the function's docstring.
    """
    fields = list(fields_of(verb, "cli")) if verb else []
    names = [field.name for field in fields]
    plain = (word_of(verb),) if words is None else words

    def decorate(function: Callable[..., Any]) -> Command:
        def callback(**values: Any) -> Any:
            given = {name: _given(values.pop(name)) for name in names}
            return function(*([ask(verb, given, "cli")] if verb else []), **values)

        return Command(
            name,
            callback=callback,
            params=[*(_parameter(field, verb, plain) for field in fields), *options],
            help=about or function.__doc__,
            epilog=f"Examples:\n  {examples.strip()}",
            verb=verb,
            fields=names,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )

    return decorate


def argument(name: str, metavar: str, **more: Any) -> click.Argument:
    """A word of the command itself."""
    return Argument([name], metavar=metavar, **more)


def option(*flags: str, help: str, section: str = OTHER, **more: Any) -> Option:
    """An option of one command."""
    return Option(list(flags), help=help, section=section, **more)


def number(*flags: str, help: str, default: int, least: int = 0, section: str = OTHER) -> Option:
    """An option that takes a whole number; its help says the default."""
    kind = click.IntRange(least)
    return option(*flags, help=f"{help} [{default}]", type=kind, default=default, section=section)


def rows(default: int, section: str = PRINT) -> Option:
    """How many rows the table of an answer has."""
    return number("--top", help="Rows of the table; 0 shows all.", default=default, section=section)


def flag(*flags: str, help: str, section: str = PRINT) -> Option:
    """An option without a value."""
    return Option(list(flags), help=help, section=section, is_flag=True)


def path(*flags: str, help: str, section: str = PRINT, **more: Any) -> Option:
    """An option that names a file to write."""
    return Option(list(flags), help=help, section=section, type=Path, metavar="FILE", **more)


#: Options of every command that prints a result.
JSON: Final = flag("--json", "as_json", help="Print JSON and nothing else.")
VERBOSE: Final = flag("--verbose", "-v", help="Show assumptions, sources and definitions as well.")
HTML: Final = path("--html", help="Write an interactive page.")
_WRITES: Final = (
    "Write a file; the suffix chooses: .html .svg .png .pdf .json .csv .md; repeatable."
)
OUTPUT: Final = path("--output", "-o", help=_WRITES, multiple=True)
#: The same where an output is that of a language model.
WRITE: Final = path("--write", "-o", "write", help=_WRITES, multiple=True)
#: Of the commands that compute many points.
POINTS: Final = path(
    *("--output", "-o"),
    help="Write the points: .parquet (a folder), .csv, .jsonl; or a report: .html .svg .png .pdf "
    ".json .md; repeatable.",
    multiple=True,
)
FIGURE: Final = option(
    *("--figure",),
    help="Size and style of .svg, .png and .pdf: for a screen, or a paper's column or page.",
    section=PRINT,
    type=click.Choice(["screen", "column", "page"]),
    default="screen",
)
SHOWN: Final = (JSON, VERBOSE, HTML, OUTPUT, FIGURE)
SERVED: Final = (JSON, VERBOSE, HTML, WRITE, FIGURE)


def asking(
    name: str,
    about: str,
    *options: click.Parameter,
    verb: str = "",
    exit_code: Callable[[Any], int] | None = None,
    **more: Any,
) -> Command:
    """A command that prints the record that answers a question.

    Args:
        name: Of the command.
        about: The help.
        *options: Of the order of a list; the function that answers takes them.
        verb: The question; by default it is called as the command.
        exit_code: From the record; None is always 0.
        **more: As for `command`.
    """
    asked = verb or name
    own = [option.name for option in options]

    @command(name, *options, *SHOWN, verb=asked, about=about, **more)
    def run(question: Question, **given: Any) -> int:
        from gambrel.api.verbs import answer, record_of
        from gambrel.cli.output import Shown

        order = {key: given.pop(key) for key in own if key is not None}
        top: dict[str, Any] = {"top": question.top} if asked in FIELDS["top"].verbs else {}
        shown = Shown.of(**given, **top).check(record_of(asked))
        found = answer(question, **order)
        shown.emit(found)
        return exit_code(found) if exit_code else 0

    return run


def _given(value: Any) -> Any:
    """What the question takes for an option: None where it was not given."""
    if value in ((), False):
        return None
    return list(value) if isinstance(value, tuple) else value


def _parameter(field: Field, verb: str, words: Sequence[str]) -> click.Parameter:
    kind = field.kind
    if field.name in words:
        required = needed(field, verb, "cli")
        metavar = kind.metavar if required else f"[{kind.metavar}]"
        about = {"about": field.help, "section": field.group}
        return Argument([field.name], required=required, metavar=metavar, **about)
    more: Mapping[str, Any] = {"is_flag": True, "default": None}
    if kind is not FLAG:
        several = verb in field.several or kind.metavar == "NAME=N" or kind is PRICES
        more = {"metavar": kind.metavar, "multiple": several}
    return Option([*field.flags, field.name], help=_help(field), section=field.group, **more)


def loose(name: str) -> click.Parameter:
    """An option that takes any text for a field, for commands that pass it on unread."""
    field = FIELDS[name]
    if name == "model":
        return Argument(
            [name], required=False, metavar="[MODEL]", about=field.help, section=field.group
        )
    more = {"metavar": field.kind.metavar, "section": field.group}
    return Option([*field.flags, name], help=field.help, **more)


def _help(field: Field) -> str:
    value = field.default
    if field.kind is FLAG or value in (None, (), 0, 0.0):
        return field.help
    text = ",".join(map(str, value)) if isinstance(value, tuple) else value
    return f"{field.help} [{text}]"


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called.

    Args:
        name: Of the group.
        help: One paragraph.
        lazy: Command → ``module:attribute``.
        examples: Shown at the end of the help.
    """

    def __init__(
        self, name: str, help: str, lazy: Mapping[str, str], examples: str, **more: Any
    ) -> None:
        super().__init__(
            name,
            help=help,
            no_args_is_help=True,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            **more,
        )
        self._lazy = lazy
        self.epilog = examples

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples as they are."""
        formatter.write(f"\n{self.epilog}\n")

    def list_commands(self, _: click.Context) -> list[str]:
        """Their names, in the order of the help."""
        return list(self._lazy)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """One of them; None where there is none of that name."""
        if name not in self._lazy:
            return None
        from importlib import import_module

        module, attribute = self._lazy[name].split(":")
        found: click.Command = getattr(import_module(f"gambrel.cli.{module}"), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names.

        Raises:
            UsageError: No such command; the closest ones are given.
        """
        if args and args[0] not in self._lazy and not args[0].startswith("-"):
            near = closest(args[0], self._lazy, 3, 50)
            meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise click.UsageError(f"No such command {args[0][:200]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)
