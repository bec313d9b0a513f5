"""``gambrel chat``: questions in words, one after another."""

from __future__ import annotations

import sys

from gambrel.cli.ask import Llm, LlmUrl

EXAMPLES = """Examples:

gambrel chat

echo "how fast is yolov8n on an l4?" | gambrel chat

gambrel chat --llm qwen3:8b --llm-url http://localhost:11434/v1

Inside: /help, /quit; Tab completes names, arrows recall lines, Ctrl-D leaves.
"""


def chat(llm: Llm = None, llm_url: LlmUrl = None) -> None:
    """Talk about models and devices; offline, without a language model unless one is named."""
    from gambrel.chat.repl import converse
    from gambrel.chat.session import Session
    from gambrel.report import terminal_options

    options = terminal_options(sys.stdout)
    session = Session(options=options)
    if llm or llm_url:
        from gambrel.chat.assistant.talk import assisted

        session = assisted(session, llm, llm_url)  # type: ignore[assignment]
    converse(session, options)
