"""Formats of measured kernels, by name and suffix; writing a file complete or not at all."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

from gambrel.analysis.samples import Standing
from gambrel.analysis.samples.join import Joined
from gambrel.analysis.samples.movement import Movement
from gambrel.errors import InputError, UnknownNameError
from gambrel.report.options import Options
from gambrel.report.registry import Rendered, replace_file

#: Name → module of this package and function.
_FORMATS: Final = {
    "table": ("samples_table", "render"),
    "roofline": ("samples_chart", "render_terminal"),
    "instructions": ("samples_instructions", "render_terminal"),
    "json": ("samples_data", "render_json"),
    "csv": ("samples_data", "render_csv"),
    "html": ("samples_html", "render"),
    "svg": ("samples_static", "render_svg"),
    "png": ("samples_static", "render_png"),
    "pdf": ("samples_static", "render_pdf"),
}
_SUFFIXES: Final = {".txt": "table", ".htm": "html"} | {
    f".{name}": name for name in ("json", "csv", "html", "svg", "png", "pdf")
}


#: Formats that show more than the kernels themselves.
_WIDE: Final = frozenset({"table", "json", "html"})
#: Formats that draw where kernels stood in the other run.
_MOVED: Final = frozenset({"svg", "png", "pdf"})


def render(
    standing: Standing,
    name: str,
    options: Options | None = None,
    *,
    joined: Joined | None = None,
    movement: Movement | None = None,
) -> Rendered:
    """Renders samples.

    Args:
        standing: What to report.
        name: ``table``, ``roofline``, ``json``, ``csv``, ``html``, ``svg``, ``png`` or ``pdf``.
        options: Width, colour, ...; None takes the defaults.
        joined: The kernels under the prediction of a model; for table, JSON and HTML.
        movement: The kernels beside another run; for the same and SVG, PNG, PDF.

    Raises:
        UnknownNameError: No such format.
    """
    if name not in _FORMATS:
        raise UnknownNameError("format", name, _FORMATS)
    module, function = _FORMATS[name]
    more: dict[str, Any] = {"joined": joined, "movement": movement} if name in _WIDE else {}
    if name in _MOVED:
        more = {"movement": movement}
    draw = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    found: Rendered = draw(standing, options or Options(), **more)
    return found


def check_target(path: Path) -> str:
    """Returns the format that a file name asks for, and refuses one that cannot be written.

    Raises:
        UnknownNameError: No format has that suffix.
        InputError: There is no such folder.
    """
    name = _SUFFIXES.get(path.suffix.lower())
    if name is None:
        raise UnknownNameError(
            "file suffix", path.suffix, hint=f"{path}: write one of {', '.join(_SUFFIXES)}."
        )
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}.")
    return name


def write(
    standing: Standing,
    path: Path,
    options: Options | None = None,
    *,
    joined: Joined | None = None,
    movement: Movement | None = None,
) -> Path:
    """Writes a report; its suffix chooses the format, the rest is as for `render`.

    Raises:
        UnknownNameError: No format has that suffix.
        InputError: The file cannot be written.
    """
    name = check_target(path)
    content = render(standing, name, options, joined=joined, movement=movement)
    replace_file(path, content.encode() if isinstance(content, str) else content)
    return path
