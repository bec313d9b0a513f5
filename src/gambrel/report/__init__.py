"""Results for readers: each a document, shown by renderers that know no kind of result.

document(analysis)                 -> sections of facts, tables, charts and notes
render(analysis, "table")          -> text for a terminal; "markdown", "csv", "json", ...
write(analysis, "report.html")     -> a file, complete or not at all; the suffix chooses
envelope(analysis)                 -> plain data under the one head of every JSON answer
load_analysis("report.json")       -> the analysis, without loss
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gambrel.report.files import (
    check_file,
    check_target,
    content_of,
    format_of,
    replace_file,
    write,
)
from gambrel.report.options import Options, terminal_options, wants_color
from gambrel.report.registry import (
    FORMATS,
    KINDS,
    ReportFormat,
    ResultKind,
    document,
    kind_of,
    render,
)

if TYPE_CHECKING:
    from gambrel.report.analysis_json import load_analyses, load_analysis
    from gambrel.report.json_head import envelope, json_text, with_head

__all__ = [
    "FORMATS",
    "KINDS",
    "Options",
    "ReportFormat",
    "ResultKind",
    "check_file",
    "check_target",
    "content_of",
    "document",
    "envelope",
    "format_of",
    "json_text",
    "kind_of",
    "load_analyses",
    "load_analysis",
    "render",
    "replace_file",
    "terminal_options",
    "wants_color",
    "with_head",
    "write",
]

#: Loaded when first used: writing a table needs none of them.
_LAZY = {
    "envelope": "json_head",
    "json_text": "json_head",
    "with_head": "json_head",
    "load_analyses": "analysis_json",
    "load_analysis": "analysis_json",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
