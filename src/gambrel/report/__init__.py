"""Reports of an analysis: one module a format, chosen by name or by the suffix of a file.

render(analysis, "table")          -> text for a terminal
write(analysis, "report.html")     -> a file, complete or not at all
load_analysis("report.json")       -> the analysis, without loss
"""

from __future__ import annotations

from gambrel.report.json_ import load_analyses, load_analysis
from gambrel.report.options import Options, terminal_options, wants_color
from gambrel.report.registry import (
    FORMATS,
    Format,
    check_target,
    format_of,
    render,
    render_many,
    write,
)

__all__ = [
    "FORMATS",
    "Format",
    "Options",
    "check_target",
    "format_of",
    "load_analyses",
    "load_analysis",
    "render",
    "render_many",
    "terminal_options",
    "wants_color",
    "write",
]
