"""``gambrel ask``: one question in words, one answer with the command that gives it again."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gambrel.cli import choices
from gambrel.cli.output import json_text, write_text
from gambrel.errors import InputError

EXAMPLES = """Examples:

gambrel ask "Is ResNet-50 compute-bound or memory-bound on an A100?"

gambrel ask "Can ResNet-50 achieve 5ms latency on a Jetson Orin Nano?"

gambrel ask "best hardware for yolov8n at 30fps under 10W" --json

gambrel ask "explain ridge point"

gambrel ask "What would you change about bert-base on a t4?" --llm gpt-5-mini

Exit code: 0 answered, 2 not understood.
"""

Llm = Annotated[
    str | None,
    typer.Option(
        "--llm",
        metavar="MODEL",
        envvar="GAMBREL_LLM",
        help="Let a language model call gambrel's tools; needs OPENAI_API_KEY, ANTHROPIC_API_KEY "
        "or a local server, see docs/chat.md.",
    ),
]
LlmUrl = Annotated[
    str | None,
    typer.Option(
        "--llm-url", help="Its endpoint (OpenAI-compatible), e.g. http://localhost:11434/v1."
    ),
]


def ask(
    question: Annotated[
        list[str], typer.Argument(metavar="QUESTION", help="In words.", show_default=False)
    ],
    llm: Llm = None,
    llm_url: LlmUrl = None,
    json_: choices.Json = False,
) -> None:
    """Answer one question in words; offline, without a language model unless one is named."""
    from gambrel.chat.session import Session, render, to_data
    from gambrel.report import terminal_options

    options = terminal_options(sys.stdout)
    session = Session(options=options)
    text = " ".join(question)
    if llm or llm_url:
        from gambrel.chat.assistant.talk import assisted

        session = assisted(session, llm, llm_url)  # type: ignore[assignment]
    reply = session.ask(text)
    if reply.problem:
        meant = f" Did you mean: {' / '.join(reply.candidates)}?" if reply.candidates else ""
        raise InputError(f"{reply.problem}{meant} Run 'gambrel ask help' for what can be asked.")
    write_text(json_text(to_data(reply)) if json_ else render(reply, options))
