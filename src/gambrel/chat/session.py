"""A conversation: each turn understood in the light of the one before, answered and rendered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gambrel.chat.answers import Answer, answer
from gambrel.chat.command import TOP
from gambrel.chat.frame import Frame, Unclear
from gambrel.chat.names import phases_of
from gambrel.chat.understand import understand
from gambrel.errors import GambrelError
from gambrel.report import Options
from gambrel.report.blocks import Block, Document, Notes, Section

#: Lines of a reply; 'more' shows the rest.
LINES: Final = 20
#: Lines of evidence below which none is shown: a heading without rows.
_LEAST: Final = 4
#: Said with a question that was not understood.
CAN: Final = (
    "I can answer: what limits a model on a device, intensity, ridge points, latency, throughput, "
    "memory, energy, whether limits are met, comparisons, which device to take, what a change "
    "would bring, what to change, how to serve, and terms. Examples: 'help'."
)
#: Questions that a language model answers differently for the prompt and for a token.
_BOTH_PHASES: Final = frozenset(
    {"bound", "intensity", "latency", "memory", "energy", "power", "utilization", "why", "ops",
     "recommend", "compare", "throughput"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a turn brings.

    Attributes:
        question: As it was typed.
        answers: One; two where a language model answers differently for prompt and token; none
            when the question was not understood or cannot be answered.
        problem: What to say when there is no answer.
        candidates: What the user may have meant.
        notes: How the question was read.
        told: What a language model says of the answers, checked; empty without one.
    """

    question: str
    answers: tuple[Answer, ...] = ()
    problem: str = ""
    candidates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    told: str = ""


@dataclass(slots=True, kw_only=True)
class Conversation:
    """A conversation.

    Attributes:
        options: Width and colour of reports.
        previous: What follow-ups refer to; None at the start.
    """

    options: Options = field(default_factory=Options)
    previous: Frame | None = None

    def ask(self, question: str) -> Reply:
        """Answers a question, or says why not; never raises for what a user can type."""
        notes: tuple[str, ...] = ()
        try:
            found = understand(question, self.previous)
            if isinstance(found, Unclear):
                self.previous = found.partial or self.previous
                return Reply(question=question, problem=found.reason, candidates=found.candidates)
            notes = found.notes
            frames = frames_of(found.frame)
            answers = tuple(map(answer, frames))
            if len(frames) > 1:  # there is no room for what takes longer
                answers = tuple(replace(one, later=None) for one in answers)
        except GambrelError as error:
            return Reply(question=question, problem=str(error), notes=notes)
        if found.frame.intent not in {"help", "explain", "models", "devices"}:
            self.previous = found.frame
        return Reply(question=question, answers=answers, notes=notes)


def frames_of(frame: Frame) -> tuple[Frame, ...]:
    """The frame; or one for the prompt and one for a token, where the question leaves it open."""
    phases = {phases_of(name) for name in frame.models}
    if frame.phase or frame.intent not in _BOTH_PHASES or len(phases) != 1:
        return (frame,)
    return tuple(replace(frame, phase=phase) for phase in phases.pop()) or (frame,)


def render(reply: Reply, options: Options) -> str:
    """The reply for a terminal: the answer first, its evidence, then how to get it again."""
    return "\n".join(rendered(reply, options))


def rendered(reply: Reply, options: Options) -> Iterator[str]:
    """The parts of `render`, each as soon as it is known; an empty line belongs between them."""
    if reply.problem:
        yield _problem(reply, options)
        return
    if reply.told:
        yield _text(reply.told, options)
    last = len(reply.answers) - 1
    for i, found in enumerate(reply.answers):
        notes = (*(reply.notes if i == last else ()), *found.notes)
        room = LINES // len(reply.answers) - (reply.told.count("\n") + 3 if reply.told else 0)
        yield from _answered(found, notes, options, room, told=bool(reply.told))


def in_full(reply: Reply, options: Options) -> Iterator[str]:
    """Everything about the answers: the reports of the results that they rest on."""
    from gambrel.report import render as report

    for part in (part for found in reply.answers for part in found.parts):
        if part.sentence:
            yield _text(part.sentence, options)
        if part.record is not None:
            yield str(report(part.record, "table", options))
        for block in part.blocks if part.record is None else ():
            yield _shown(options, block)


def _problem(reply: Reply, options: Options) -> str:
    blocks = [Notes(heading="Did you mean", items=reply.candidates)] if reply.candidates else []
    short = not reply.candidates and len(reply.problem) < 80
    text = _text(f"{reply.problem} {CAN}" if short else reply.problem, options)
    return "\n".join((text, _shown(options, *blocks))) if blocks else text


def _answered(
    found: Answer, notes: tuple[str, ...], options: Options, room: int, *, told: bool
) -> Iterator[str]:
    """One answer in so many lines: in words, its evidence, how it was read, the commands."""
    blocks: tuple[Block, ...] = ()
    commands: dict[str, None] = {}
    for part in found.parts:
        blocks = part.blocks or blocks
        commands[part.command_line] = None
        if part.sentence and not told:
            text = _text(part.sentence, options)
            yield text
            room -= _lines(text, options) + 1
    # Commands are not wrapped, so that they can be copied.
    tail = "".join(f"Again: {_clean(command)}\n" for command in commands)
    tail = (_text(f"Read as: {' '.join(notes)}", options, "") if notes else "") + tail
    room -= _lines(tail, options) + 1
    body = _shown(replace(options, top=TOP), *blocks).splitlines() if blocks else []
    if len(body) > room:
        rest = "The rest: 'more', or the command below."
        if found.frame.intent == "help":  # its command shows no more
            rest = "The rest: 'help', then 'more', in 'gambrel chat'."
        body = [*body[: room - 1], rest] if room > _LEAST else []
    if body:
        yield "\n".join(body) + "\n"
    yield tail


def _lines(text: str, options: Options) -> int:
    """Lines that a text takes on the terminal, those that it wraps by itself included."""
    return sum(-(-max(len(line), 1) // options.columns) for line in text.splitlines())


def _shown(options: Options, *blocks: Any) -> str:
    """Blocks of a report as text, without a title."""
    from gambrel.report import render as report

    made = Document(title="", sections=(Section(blocks=blocks),))
    return str(report(made, "table", options)).strip("\n") + "\n"


def _text(text: str, options: Options, style: str = "bold") -> str:
    from gambrel.report.terminal import line, show

    return show([[line((text, style))]], options)


def _clean(text: str) -> str:
    from gambrel.report.text import clean

    return clean(text)


def to_data(reply: Reply) -> dict[str, Any]:
    """The reply as plain data: question, intent, command, and the JSON of the command."""
    from gambrel.report import with_head

    told = [
        {
            "intent": found.frame.intent,
            "command": found.command_line,
            "answer": " ".join(part.sentence for part in parts if part.sentence),
            "result": found.data(),
            "also": [part.data() for part in parts[1:] if part.frame != found.frame],
        }
        for found, parts in ((found, tuple(found.parts)) for found in reply.answers)
    ]
    content: dict[str, Any] = {"question": reply.question, "notes": list(reply.notes)}
    content |= {"told": reply.told} if reply.told else {}
    content |= told[0] if len(told) == 1 else {"intent": told[0]["intent"], "answers": told}
    return with_head("gambrel/answer", content)
