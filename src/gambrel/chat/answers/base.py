"""What every answer is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gambrel.chat.command import advises, command_of
from gambrel.chat.frame import Frame
from gambrel.report import Options, envelope
from gambrel.report.blocks import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one frame.

    Attributes:
        frame: What was asked.
        sentence: The answer in words.
        record: The result that it rests on, as `gambrel.report` renders it; None for terms.
        blocks: What of its report stands below the sentence.
        notes: What was assumed for the user.
        later: Works out further parts that take longer; None when nothing is missing.
    """

    frame: Frame
    sentence: str
    record: object = None
    blocks: tuple[Block, ...] = ()
    notes: tuple[str, ...] = ()
    later: Callable[[], tuple[Answer, ...]] | None = None

    @property
    def command_line(self) -> str:
        """The command that gives every figure again, as it is typed."""
        return command_of(self.frame)

    @property
    def parts(self) -> Iterator[Answer]:
        """The answer, and the parts that take longer."""
        yield self
        if self.later is not None:
            yield from self.later()

    def data(self) -> dict[str, Any] | None:
        """What its command prints with ``--json``."""
        if self.record is None:
            return None
        return envelope(self.record, Options(recommend=advises(self.frame)))
