"""The page of the explorer: the page of an answer, with controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gambrel.explorer.controls import controls, names


def page(
    answer: Mapping[str, Any],
    state: Mapping[str, Any],
    engine: Mapping[str, Any],
    trusted: str = "",
) -> str:
    """The page as a text.

    Args:
        answer: To the first question, from `gambrel.explorer.desk.Desk`; painted at once.
        state: The first question: ``verb`` and ``given``.
        engine: How the page gets its answers: ``kind`` and what that needs.
        trusted: Further directives of its content security policy, each ended with ``;``.
    """
    from gambrel.report.page import filled
    from gambrel.report.page.data import empty_page

    data = answer.get("page") or empty_page("gambrel explore")
    first = {name: value for name, value in answer.items() if name != "page"}
    explorer = {**controls(), **names(), "state": state, "engine": engine, "first": first}
    return filled(data, explorer=explorer, policy=trusted)
