"""A conversation: each turn understood in the light of the one before, answered and rendered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from gambrel.chat.answers import Answer, answer
from gambrel.chat.frame import Frame, Unclear
from gambrel.chat.names import phases_of
from gambrel.chat.understand import understand
from gambrel.errors import GambrelError
from gambrel.report.options import Options

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Said with a question that was not understood.
CAN: Final = (
    "I can answer: what limits a model on a device, intensity, ridge points, latency, throughput, "
    "memory, energy, whether limits are met, comparisons, which device to take, what a change "
    "would bring, what to change, and terms. Examples: 'help'."
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
class Session:
    """A conversation.

    Attributes:
        options: Width and colour of reports.
        previous: What follow-ups refer to; None at the start.
    """

    options: Options = field(default_factory=Options)
    previous: Frame | None = None

    def ask(self, question: str) -> Reply:
        """Answers a question, or says why not; never raises for what a user can type."""
        try:
            found = understand(question, self.previous)
        except GambrelError as error:
            return Reply(question=question, problem=str(error))
        if isinstance(found, Unclear):
            self.previous = found.partial or self.previous
            return Reply(question=question, problem=found.reason, candidates=found.candidates)
        try:
            answers = tuple(answer(frame, self.options) for frame in frames_of(found.frame))
        except GambrelError as error:
            return Reply(question=question, problem=str(error), notes=found.notes)
        if found.frame.intent not in {"help", "explain", "models", "devices"}:
            self.previous = found.frame
        return Reply(question=question, answers=answers, notes=found.notes)


def frames_of(frame: Frame) -> tuple[Frame, ...]:
    """The frame; or one for the prompt and one for a token, where the question leaves it open."""
    phases = {phases_of(name) for name in frame.models}
    if frame.phase or frame.intent not in _BOTH_PHASES or len(phases) != 1:
        return (frame,)
    return tuple(replace(frame, phase=phase) for phase in phases.pop()) or (frame,)


def render(reply: Reply, options: Options) -> str:
    """The reply for a terminal: the answer first, the report, then how to get it again."""
    return "\n".join(rendered(reply, options))


def rendered(reply: Reply, options: Options) -> Iterator[str]:
    """The parts of `render`, each as soon as it is known; an empty line belongs between them."""
    from gambrel.report.terminal import line, listed, show

    if reply.problem:
        blocks: list[Sequence[RenderableType]] = [
            [line(reply.problem)],
            listed("Did you mean", reply.candidates),
        ]
        if not reply.candidates and len(reply.problem) < 80:
            blocks.append([line((CAN, "dim"))])
        yield show(blocks, options)
        return
    if reply.told:
        yield show([[line((reply.told, "bold"))]], options)
    for found in reply.answers:
        yield from _answered(found, reply, options)
    if reply.notes:
        yield show([listed("How I read it", reply.notes)], options)


def _answered(found: Answer, reply: Reply, options: Options) -> Iterator[str]:
    """One answer: in words unless a language model said it, the report, the command."""
    from gambrel.report.terminal import listed, show
    from gambrel.report.text import clean

    yield from _said("" if reply.told else found.sentence, found.body, options)
    if found.later is not None:
        more = found.later()
        yield from _said("" if reply.told else more.sentence, more.body, options)
    notes = [n for n in found.notes if n not in reply.notes]
    if notes:
        yield show([listed("Notes", notes)], options)
    # Not wrapped, so that it can be copied.
    yield "".join(f"Again: {clean(command)}\n" for command in found.command_lines)


def _said(sentence: str, body: str, options: Options) -> Iterator[str]:
    from gambrel.report.terminal import line, show

    if sentence:
        yield show([[line((sentence, "bold"))]], options)
    if body.strip():
        yield body.rstrip("\n") + "\n"


def to_data(reply: Reply) -> dict[str, object]:
    """The reply as plain data: question, intent, command, and the JSON of the command."""
    import json
    import shlex

    from gambrel.report import with_head

    def one(found: Answer) -> dict[str, object]:
        return {
            "intent": found.frame.intent,
            "command": found.command_line,
            "also": [shlex.join(words) for words in found.also],
            "answer": found.sentence,
            "result": json.loads(found.data()) if found.data else None,
        }

    told = [one(found.completed()) for found in reply.answers]
    head: dict[str, object] = {"question": reply.question}
    tail: dict[str, object] = {"notes": list(reply.notes)}
    if reply.told:
        tail["told"] = reply.told
    if len(told) == 1:
        return with_head("gambrel/answer", head | told[0] | tail)
    answers = {"intent": told[0]["intent"], "answers": told}
    return with_head("gambrel/answer", head | answers | tail)
