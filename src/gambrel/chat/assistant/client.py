"""The endpoint of a language model: how it is configured, asked, and what is said when it fails."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gambrel.errors import GambrelError, InputError, MissingExtraError

#: Anthropic serves the chat-completions protocol here:
#: https://docs.anthropic.com/en/api/openai-sdk (read 2025-06).
ANTHROPIC_URL: Final = "https://api.anthropic.com/v1/"
TIMEOUT_S: Final = 60.0
OFFLINE: Final = "Without --llm, gambrel answers offline."


class EndpointError(GambrelError):
    """The language model cannot be asked; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a language model is.

    Attributes:
        model: Its name there.
        url: Base URL of the chat-completions protocol; empty for OpenAI's own.
        key: Sent as bearer token; never shown.
        timeout_s: After which an answer is given up.
    """

    model: str
    url: str = ""
    key: str = ""
    timeout_s: float = TIMEOUT_S

    def __repr__(self) -> str:
        """Without the key."""
        return f"Endpoint(model={self.model!r}, url={self.url!r})"


def configured(
    model: str | None, url: str | None, environ: Mapping[str, str] | None = None
) -> Endpoint:
    """The endpoint that options and environment name.

    Args:
        model: As the user names it.
        url: Of the endpoint; None takes ``OPENAI_BASE_URL``, or what the model's name implies.
        environ: None for the process's own.

    Raises:
        InputError: No model, or no key for a service that needs one.
    """
    env = os.environ if environ is None else environ
    if not model:
        raise InputError("--llm-url without --llm: name the model, e.g. --llm qwen3:8b.")
    place = url or env.get("OPENAI_BASE_URL", "")
    if not place and model.startswith("claude"):
        return Endpoint(model=model, url=ANTHROPIC_URL, key=_key(env, "ANTHROPIC_API_KEY", model))
    if not place:
        return Endpoint(model=model, key=_key(env, "OPENAI_API_KEY", model))
    if not place.startswith(("http://", "https://")):
        raise InputError(f"--llm-url {place!r}: write http://... or https://...")
    # A local server needs no key, but the client insists on one.
    key = env.get("ANTHROPIC_API_KEY" if "anthropic" in place else "OPENAI_API_KEY", "")
    return Endpoint(model=model, url=place, key=key or "none")


def _key(env: Mapping[str, str], name: str, model: str) -> str:
    key = env.get(name, "").strip()
    if not key:
        raise InputError(
            f"{model} needs a key: set {name}, or give --llm-url of a local server. {OFFLINE}"
        )
    return key


def complete(endpoint: Endpoint, messages: list[Any], tools: list[Any]) -> Any:
    """Asks for the next message.

    Args:
        endpoint: Where.
        messages: Of the conversation, in the form of the chat-completions protocol.
        tools: As `gambrel.chat.assistant.tools.schemas` gives them.

    Returns:
        The message, with ``content`` and ``tool_calls``.

    Raises:
        EndpointError: Down, slow, refused, or what comes back is no message.
        MissingExtraError: The client is not installed.
    """
    try:
        import openai
    except ModuleNotFoundError:
        raise MissingExtraError("openai", "chat", "a language model in chat") from None
    try:
        with openai.OpenAI(
            api_key=endpoint.key,
            base_url=endpoint.url or None,
            timeout=endpoint.timeout_s,
            max_retries=1,
        ) as client:
            reply = client.chat.completions.create(
                model=endpoint.model, messages=messages, tools=tools
            )
    except openai.OpenAIError as error:
        raise EndpointError(_sentence(error, endpoint)) from None
    except ValueError:  # JSON that is none
        raise EndpointError(_nonsense(endpoint)) from None
    choices = getattr(reply, "choices", None)
    message = getattr(choices[0], "message", None) if choices else None
    if message is None:
        raise EndpointError(_nonsense(endpoint))
    return message


def _where(endpoint: Endpoint) -> str:
    return endpoint.url or "api.openai.com"


def _nonsense(endpoint: Endpoint) -> str:
    return (
        f"{_where(endpoint)} answered something that is no chat completion; check --llm-url (it "
        f"usually ends in /v1). {OFFLINE}"
    )


def _sentence(error: Any, endpoint: Endpoint) -> str:
    import openai

    where = _where(endpoint)
    if isinstance(error, openai.APITimeoutError):
        return f"{where} did not answer within {endpoint.timeout_s:g} s; try again. {OFFLINE}"
    if isinstance(error, openai.APIConnectionError):
        return f"cannot reach {where}; is the server running and the address right? {OFFLINE}"
    if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
        return f"{where} refuses the key; check OPENAI_API_KEY or ANTHROPIC_API_KEY. {OFFLINE}"
    if isinstance(error, openai.NotFoundError):
        return f"{where} knows no model {endpoint.model!r}, or the address is wrong. {OFFLINE}"
    if isinstance(error, openai.RateLimitError):
        return f"{where} takes no more requests now (rate or quota); try later. {OFFLINE}"
    if isinstance(error, openai.APIStatusError):
        return f"{where} failed with status {error.status_code}; try again. {OFFLINE}"
    return _nonsense(endpoint)
