"""Reading only what is a file, and writing that nobody sees half done."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gambrel.errors import FileFormatError, InputError, cut, shown, told

if TYPE_CHECKING:
    import msgspec

_T = TypeVar("_T", bound="msgspec.Struct")


def path_of(value: object, label: str = "path") -> Path:
    """A path from a text or a path.

    Raises:
        InputError: It is something else, or empty.
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{label}: {shown(value)} is no path; give a text or a pathlib.Path.")
    return Path(text)


def read_bytes(path: Path, most: int, what: str, hint: str = "") -> bytes:
    """What a regular file of limited size holds.

    Args:
        path: Of the file.
        most: Bytes that are read.
        what: What it should be, e.g. "a device file".
        hint: A sentence for who names a file that is not there.

    Raises:
        FileFormatError: It is missing, no regular file, or larger.
    """
    try:
        size = file_size(path)
        if size > most:
            raise FileFormatError(f"{cut(str(path))} is not {what}: larger than {most:,} bytes.")
        return path.read_bytes()
    except FileFormatError as error:
        raise FileFormatError(f"{error} {hint}".rstrip()) from None
    except OSError as error:
        raise FileFormatError(
            f"cannot read {cut(str(path))}: {_reason(error)}. {hint}".rstrip()
        ) from None


def read_text(path: Path, most: int, what: str, hint: str = "") -> str:
    """As `read_bytes`, in UTF-8, with or without its mark.

    Raises:
        FileFormatError: As `read_bytes`, or it is no text.
    """
    try:
        return read_bytes(path, most, what, hint).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileFormatError(f"{cut(str(path))} is not {what}: it is not text in UTF-8.") from None


def read_toml(path: Path, most: int, what: str, hint: str = "") -> dict[str, Any]:
    """The tables of a TOML file; as `read_text`.

    Raises:
        FileFormatError: As `read_text`, or it is no TOML.
    """
    import tomllib

    text = read_text(path, most, what, hint)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOML errors are ValueErrors
        raise FileFormatError(f"{path}: not a TOML file: {error}. {hint}".rstrip()) from None


def read_json(path: Path, most: int, what: str, advice: str = "") -> Any:
    """The data of a JSON file; as `read_bytes`.

    Args:
        path: Of the file.
        most: Bytes that are read.
        what: What it should be.
        advice: What to give instead, as the end of a sentence.

    Raises:
        FileFormatError: As `read_bytes`, or it is no JSON.
    """
    import json

    data = read_bytes(path, most, what)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        said = f"; {advice}" if advice else f": {error}"
        raise FileFormatError(f"{path} is no JSON{said}.") from None


def read_record(kind: type[_T], table: Mapping[str, Any], what: str) -> _T:
    """The record of a table that someone wrote by hand.

    Raises:
        InputError: A field that the record has not, or a value of another type.
    """
    import msgspec

    known = kind.__struct_fields__
    unknown = next((key for key in table if key not in known), None)
    if unknown is not None:
        raise InputError(f"{what}: unknown field {told(unknown)}; it takes {', '.join(known)}.")
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{what}: {error}.") from None


@contextmanager
def text_lines(path: Path, what: str) -> Iterator[Iterator[str]]:
    """The lines of a regular file of any size, in UTF-8, with or without its mark.

    Raises:
        FileFormatError: It is missing, no regular file, or no text.
    """
    file_size(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            yield stream
    except UnicodeDecodeError:
        raise FileFormatError(f"{cut(str(path))} is not {what}: it is not text in UTF-8.") from None
    except OSError as error:
        raise FileFormatError(f"cannot read {cut(str(path))}: {_reason(error)}.") from None


def file_size(path: Path) -> int:
    """Returns the size of a regular file, in bytes.

    A pipe never ends or never begins, and a device such as ``/dev/zero`` is as large as the memory.

    Raises:
        FileFormatError: It is missing, a folder, no regular file, or its name is too long.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise FileFormatError(f"cannot read {cut(str(path))}: {_reason(error)}.") from None
    if stat.S_ISDIR(status.st_mode):
        raise FileFormatError(f"{cut(str(path))} is a folder; name the files in it.")
    if not stat.S_ISREG(status.st_mode):
        raise FileFormatError(
            f"{cut(str(path))} is no regular file; write what it holds to a file first."
        )
    return status.st_size


def check_writable(target: Path) -> None:
    """Refuses a path that no file can be written to, before any work is done for it.

    Raises:
        InputError: It is a folder, its folder does not exist or cannot be written to, or its name
            is too long.
    """
    try:
        status = target.stat()
    except FileNotFoundError:
        status = None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {cut(str(target))}: {_reason(error)}.") from None
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise InputError(f"cannot write {cut(str(target))}: it is a folder.")
    if not target.parent.is_dir():
        raise InputError(
            f"cannot write {cut(str(target))}: there is no folder {cut(str(target.parent))}."
        )
    if status is None or stat.S_ISREG(status.st_mode):
        try:
            os.close(_draft(target)[0])
        except OSError as error:
            raise InputError(f"cannot write {cut(str(target))}: {_reason(error)}.") from None


def replace_file(target: Path, content: bytes | Iterable[bytes]) -> None:
    """Writes a file whole: who reads it meanwhile sees the old content or the new.

    Each writer has a draft of its own beside the target, so that any number of processes and
    threads can write the same file; the last one wins. A symbolic link stays one, and a device or
    a pipe is written to.

    Args:
        target: The file.
        content: What it will hold, whole or part by part.

    Raises:
        OSError: It cannot be written; what was there is untouched.
    """
    parts = (content,) if isinstance(content, bytes) else content
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            file.writelines(parts)
        return
    real = target.resolve()
    handle, draft = _draft(real, keep=True)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
        if real.exists():
            draft.chmod(stat.S_IMODE(real.stat().st_mode))
        draft.replace(real)
    finally:
        draft.unlink(missing_ok=True)


def _draft(target: Path, *, keep: bool = False) -> tuple[int, Path]:
    """An empty file of a name that nobody else has, in the folder of the target."""
    draft = target.with_name(f".gambrel-{os.urandom(8).hex()}.part")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    if not keep:
        draft.unlink(missing_ok=True)
    return handle, draft


def check_name(path: Path) -> None:
    """Refuses a text that no file can be named, before anybody asks whether there is one.

    Raises:
        FileFormatError: It is too long, or has a character that no name has.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError) as error:
        raise FileFormatError(f"cannot read {cut(str(path))}: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
