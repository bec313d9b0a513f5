"""What every answer is made of."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gambrel.chat.frame import Frame


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
    """

    frame: Frame
    sentence: str
    body: str
    command: tuple[str, ...]
    data: Callable[[], str] | None
    notes: tuple[str, ...] = ()
    also: tuple[tuple[str, ...], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command_line(self) -> str:
        """The command as it is typed."""
        return shlex.join(self.command)

    @property
    def command_lines(self) -> tuple[str, ...]:
        """All commands as they are typed."""
        return (self.command_line, *map(shlex.join, self.also))
