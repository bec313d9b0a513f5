"""What every answer is made of."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gambrel.chat.frame import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class More:
    """A part of an answer that takes longer than the rest.

    Attributes:
        body: Rendered.
        sentence: To stand before it; empty for none.
        extra: Its figures as plain data.
    """

    body: str
    sentence: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one frame.

    Attributes:
        frame: What was asked.
        sentence: The answer first, in words.
        body: The report that it rests on, rendered; empty for none.
        command: Words of the command that gives every figure again.
        data: Returns the JSON that this command prints with ``--json``; None where it has none.
        notes: What the user must know of the answer.
        also: Words of further commands that parts of the answer come from.
        extra: What those parts hold, as plain data.
        later: Works out the part that takes longer, so that the rest can be shown before; None
            when nothing is missing.
    """

    frame: Frame
    sentence: str
    body: str
    command: tuple[str, ...]
    data: Callable[[], str] | None
    notes: tuple[str, ...] = ()
    also: tuple[tuple[str, ...], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    later: Callable[[], More] | None = None

    def completed(self) -> Answer:
        """The answer with the part that takes longer."""
        if self.later is None:
            return self
        more = self.later()
        return replace(
            self,
            sentence=f"{self.sentence} {more.sentence}".strip(),
            body=f"{self.body.rstrip()}\n\n{more.body}",
            extra={**self.extra, **more.extra},
            later=None,
        )

    @property
    def command_line(self) -> str:
        """The command as it is typed."""
        return shlex.join(self.command)

    @property
    def command_lines(self) -> tuple[str, ...]:
        """All commands as they are typed."""
        return (self.command_line, *map(shlex.join, self.also))
