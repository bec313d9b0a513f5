"""Results as files: the suffix chooses the format, and a file appears complete or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gambrel import fileio
from gambrel.errors import InputError, UnknownNameError, cut
from gambrel.report.blocks import Document
from gambrel.report.options import Options
from gambrel.report.registry import FORMATS, ReportFormat, as_one, kind_of, refuse_lacking, render

_BY_SUFFIX: Final = {suffix: f for f in FORMATS.values() for suffix in f.suffixes}


def format_of(path: str | Path) -> ReportFormat:
    """Returns the format that a file name asks for by its suffix.

    Raises:
        UnknownNameError: No format has that suffix.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _BY_SUFFIX:
        raise UnknownNameError(
            "file suffix", suffix, hint=f"{cut(str(path))}: write one of {', '.join(_BY_SUFFIX)}."
        )
    return _BY_SUFFIX[suffix]


def check_file(path: str | Path, record: object, name: str = "") -> Path:
    """Refuses, before any work, a file that a result could not be written to.

    Args:
        path: Its suffix chooses the format.
        record: The result, or the class of the result that is to come.
        name: The one format that it may have; empty for any.

    Raises:
        UnknownNameError: No format has that suffix.
        InputError: This kind of result does not have it, or it cannot become a file.
    """
    target, chosen = Path(path), format_of(path)
    if name and chosen.name != name:
        suffix = FORMATS[name].suffixes[0]
        raise InputError(
            f"--{name} {path}: name a {suffix} file; --output {path} is {chosen.name}."
        )
    refuse_lacking(kind_of(record), chosen.name, path)
    check_target(target)
    return target


def write(
    record: object,
    path: str | Path,
    options: Options | None = None,
    name: str | None = None,
) -> Path:
    """Writes a result; the file appears complete or not at all.

    Args:
        record: What `render` takes.
        path: Where to; its suffix chooses the format unless ``name`` does.
        options: As for `render`.
        name: A key of `FORMATS`.

    Returns:
        The path written.

    Raises:
        InputError: The folder does not exist or cannot be written to, or this kind of result does
            not have the format.
        UnknownNameError: The suffix or name belongs to no format.
    """
    target = Path(path)
    replace_file(target, content_of(record, target, options, name))
    return target


def content_of(
    record: object,
    path: str | Path,
    options: Options | None = None,
    name: str | None = None,
) -> bytes:
    """The content of the file that `write` writes; as there."""
    target = Path(path)
    if name is None:
        name = format_of(target).name
        if not isinstance(record, Document):
            refuse_lacking(kind_of(as_one(record)), name, path)
    check_target(target)
    content = render(record, name, options)
    return content.encode() if isinstance(content, str) else content


def check_target(target: Path) -> None:
    """Refuses a path that cannot become a file.

    Raises:
        InputError: It is a folder, its folder does not exist or cannot be written to, or its name
            is too long.
    """
    fileio.check_writable(target)


def replace_file(target: Path, content: bytes) -> None:
    """Writes beside the target and renames, so that an interrupted run leaves no half file."""
    try:
        fileio.replace_file(target, content)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}.") from None
