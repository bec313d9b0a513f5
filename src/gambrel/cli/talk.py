"""``gambrel ask`` and ``gambrel chat``: questions in words."""

from __future__ import annotations

import sys
from typing import Any, Final

from gambrel.cli.command import JSON, argument, command, option
from gambrel.cli.output import Shown, write_text
from gambrel.errors import InputError

_LLM: Final = (
    option(
        "--llm",
        metavar="MODEL",
        envvar="GAMBREL_LLM",
        help="Let a language model call gambrel's tools; needs OPENAI_API_KEY, ANTHROPIC_API_KEY "
        "or a local server, see docs/chat.md.",
    ),
    option("--llm-url", help="Its endpoint (OpenAI-compatible), e.g. http://localhost:11434/v1."),
)


@command(
    "ask",
    argument("question", "QUESTION", nargs=-1, required=True),
    *_LLM,
    JSON,
    examples="""
  gambrel ask "Is ResNet-50 compute-bound or memory-bound on an A100?"
  gambrel ask "Can ResNet-50 achieve 5ms latency on a Jetson Orin Nano?"
  gambrel ask "best hardware for yolov8n at 30fps under 10W" --json
  gambrel ask "explain ridge point"
  gambrel ask "What would you change about bert-base on a t4?" --llm gpt-5-mini

Exit code: 0 answered, 2 not understood.
""",
)
def ask(question: tuple[str, ...], llm: str | None, llm_url: str | None, as_json: bool) -> None:
    """Answer one question in words; offline, without a language model unless one is named."""
    from gambrel.chat.session import render, to_data

    session, options = _session(llm, llm_url)
    reply = session.ask(" ".join(question))
    if reply.problem:
        meant = f" Did you mean: {' / '.join(reply.candidates)}?" if reply.candidates else ""
        raise InputError(f"{reply.problem}{meant} Run 'gambrel ask help' for what can be asked.")
    if as_json:
        from gambrel.report.json_head import encoded

        write_text(encoded(to_data(reply), indent=2))
        return
    write_text(render(reply, options))


@command(
    "chat",
    *_LLM,
    examples="""
  gambrel chat
  echo "how fast is yolov8n on an l4?" | gambrel chat
  gambrel chat --llm qwen3:8b --llm-url http://localhost:11434/v1

Inside: /help, /quit; Tab completes names, arrows recall lines, Ctrl-D leaves.
""",
)
def chat(llm: str | None, llm_url: str | None) -> None:
    """Talk about models and devices; offline, without a language model unless one is named."""
    from gambrel.chat.repl import converse

    converse(*_session(llm, llm_url))


def _session(llm: str | None, url: str | None) -> tuple[Any, Any]:
    from gambrel.chat.session import Conversation

    if sys.stdin is None:
        raise InputError("standard input is closed; ask one question with 'gambrel ask'.")
    options = Shown.of().options()
    session: Any = Conversation(options=options)
    if llm or url:
        from gambrel.chat.assistant.talk import assisted

        session = assisted(session, llm, url)
    return session, options
