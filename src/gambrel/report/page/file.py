"""The page as one file: data, script and style inside, and nothing that loads.

Names from models and files are data: the script writes them as text, and a content security policy
lets no script and no style run but the page's own, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import zlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from string import Template
from typing import Any, Final

import msgspec

from gambrel.report.options import Options
from gambrel.report.page.data import page_data

#: Characters of data above which they are compressed.
_LARGE: Final = 300_000


def render(record: object, options: Options | None = None) -> str:
    """Returns the page of a result, or of a document."""
    return filled(page_data(record, options))


def filled(
    data: Mapping[str, Any], explorer: Mapping[str, Any] | None = None, policy: str = ""
) -> str:
    """The page of some data, see `page_data`.

    Args:
        data: What is painted first.
        explorer: Controls, where the page has any; see `gambrel.explorer.page`.
        policy: Further directives of the content security policy, each ended with ``;``.
    """
    script, style = asset("page.js"), asset("page.css")
    form, text = _embedded(data)
    controls = (
        _element("gambrel-explorer", "application/json", _plain(explorer)) if explorer else ""
    )
    return Template(_template()).substitute(
        title=html.escape(str(data["title"])),
        version=html.escape(str(data["version"])),
        style=style,
        style_hash=digest(style),
        script=script,
        script_hash=digest(script),
        policy=policy,
        data=_element("gambrel-data", form, text) + controls,
        fallback=_fallback(data),
    )


def digest(text: str) -> str:
    """The source expression that allows exactly this inline text (CSP Level 3, section 2.3.1)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _element(name: str, form: str, text: str) -> str:
    return f'<script type="{form}" id="{name}">{text}</script>'


def _embedded(data: Mapping[str, Any]) -> tuple[str, str]:
    """Media type and text of the data; large ones are deflated (RFC 1950) and in base64."""
    text = msgspec.json.encode(data)
    if len(text) > _LARGE:
        packed = base64.b64encode(zlib.compress(text, 4)).decode()
        return "application/zlib;base64", packed
    return "application/json", _plain(data)


def _plain(data: Mapping[str, Any]) -> str:
    """JSON within a page.

    ``<`` and ``>`` occur in its texts only, where the escapes mean the same: no text can end the
    element or open another.
    """
    plain = msgspec.json.encode(data).decode()
    for char in "<>&\u2028\u2029":
        plain = plain.replace(char, f"\\u{ord(char):04x}")
    return plain


def _fallback(data: Mapping[str, Any]) -> str:
    """The answer for readers without a script."""
    lines = [line for view in data["views"][:1] for line in view["answer"]]
    return "".join(f"<p>{html.escape(line)}</p>" for line in lines)


@cache
def asset(name: str) -> str:
    """A built file of the front end."""
    return (resources.files(__package__) / "asset" / name).read_text(encoding="utf-8")


@cache
def _template() -> str:
    return (resources.files(__package__) / "page.html").read_text(encoding="utf-8")
