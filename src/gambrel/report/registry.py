"""The formats by name and suffix, and writing a file that is complete or not there."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gambrel.analysis.result import Analysis
from gambrel.errors import InputError, UnknownNameError
from gambrel.report.options import Options

Rendered = str | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format.

    Attributes:
        name: As the user writes it.
        suffixes: Of files, lower case; empty when it is for the terminal only.
        about: One line for a list of formats.
        module: Module of this package, imported when the format is used.
        single: Name of its function for one analysis.
        several: Name of its function for a list; empty when it takes one only.
    """

    name: str
    suffixes: tuple[str, ...]
    about: str
    module: str
    single: str = "render"
    several: str = "render_many"


_ALL: Final = (
    Format(name="table", suffixes=(".txt",), about="text for a terminal", module="table"),
    Format(
        name="roofline",
        suffixes=(),
        about="a roofline chart for a terminal",
        module="plot_terminal",
        several="",
    ),
    Format(name="json", suffixes=(".json",), about="everything, loads again", module="json_"),
    Format(
        name="html",
        suffixes=(".html", ".htm"),
        about="an interactive page that opens offline",
        module="html",
    ),
    Format(name="csv", suffixes=(".csv",), about="one row an op, SI base units", module="csv_"),
    Format(name="markdown", suffixes=(".md",), about="tables for a text", module="markdown"),
    Format(
        name="svg",
        suffixes=(".svg",),
        about="the chart, for papers",
        module="plot_static",
        single="render_svg",
        several="",
    ),
    Format(
        name="png",
        suffixes=(".png",),
        about="the chart as a picture",
        module="plot_static",
        single="render_png",
        several="",
    ),
    Format(
        name="pdf",
        suffixes=(".pdf",),
        about="the chart, for papers",
        module="plot_static",
        single="render_pdf",
        several="",
    ),
)

#: All formats by name.
FORMATS: Final[dict[str, Format]] = {f.name: f for f in _ALL}
_BY_SUFFIX: Final[dict[str, Format]] = {s: f for f in _ALL for s in f.suffixes}


def render(analysis: Analysis, name: str, options: Options | None = None) -> Rendered:
    """Renders one analysis.

    Args:
        analysis: What to report.
        name: A key of `FORMATS`.
        options: Width, colour, ...; None takes the defaults.

    Returns:
        Text, or bytes for ``png`` and ``pdf``.

    Raises:
        UnknownNameError: No such format.
    """
    found = _by_name(name)
    return _function(found, found.single)(analysis, options or Options())


def render_many(
    analyses: Sequence[Analysis], name: str, options: Options | None = None
) -> Rendered:
    """Renders several analyses side by side, e.g. one model at several batch sizes.

    Raises:
        UnknownNameError: No such format.
        InputError: No analyses, or a format that draws a single one.
    """
    found = _by_name(name)
    if not analyses:
        raise InputError("there is nothing to report: the list of analyses is empty.")
    if not found.several:
        able = ", ".join(f.name for f in _ALL if f.several)
        raise InputError(
            f"format {name!r} shows one analysis, not {len(analyses)}; these show several: {able}."
        )
    return _function(found, found.several)(analyses, options or Options())


def format_of(path: str | Path) -> Format:
    """Returns the format that a file name asks for by its suffix.

    Raises:
        UnknownNameError: No format has that suffix.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _BY_SUFFIX:
        raise UnknownNameError(
            "file suffix", suffix, hint=f"{path}: write one of {', '.join(_BY_SUFFIX)}."
        )
    return _BY_SUFFIX[suffix]


def write(
    analyses: Analysis | Sequence[Analysis],
    path: str | Path,
    options: Options | None = None,
    name: str | None = None,
) -> Path:
    """Writes a report; the file appears complete or not at all.

    Args:
        analyses: One, or several for a format that shows several.
        path: Where to; its suffix chooses the format unless ``name`` does.
        options: As for `render`.
        name: A key of `FORMATS`.

    Returns:
        The path written.

    Raises:
        InputError: The folder does not exist, or cannot be written to.
        UnknownNameError: The suffix or name belongs to no format.
    """
    target = Path(path)
    chosen = format_of(target).name if name is None else _by_name(name).name
    check_target(target)
    if isinstance(analyses, Analysis):
        content = render(analyses, chosen, options)
    else:
        content = render_many(analyses, chosen, options)
    replace_file(target, content.encode() if isinstance(content, str) else content)
    return target


def _by_name(name: str) -> Format:
    if name not in FORMATS:
        raise UnknownNameError("format", name, FORMATS)
    return FORMATS[name]


def _function(found: Format, name: str) -> Callable[..., Rendered]:
    module = importlib.import_module(f"{__package__}.{found.module}")
    function: Callable[..., Rendered] = getattr(module, name)
    return function


def check_target(target: Path) -> None:
    """Refuses a path that cannot become a file.

    Raises:
        InputError: It is a folder, or its folder does not exist.
    """
    if not target.parent.is_dir():
        raise InputError(f"cannot write {target}: there is no folder {target.parent}.")
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder.")


def replace_file(target: Path, content: bytes) -> None:
    """Writes beside the target and renames, so that an interrupted run leaves no half file."""
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a device or a pipe cannot be replaced
            return
        real = target.resolve()  # keeps a symbolic link a link
        beside = real.with_name(f".{real.name}.{os.getpid()}.part")
        try:
            beside.write_bytes(content)
            beside.replace(real)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}.") from None
