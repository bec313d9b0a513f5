"""The folder of a run: its partitions, what they are of, and who is writing.

A partition appears whole or not at all, under a name that says what it holds: a run that is started
again goes on from what is there, and two processes that compute the same partition write the same
file. The folder is locked while a run writes, by a lock that ends with its process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gambrel.engine import parts
from gambrel.engine.tables import DataField, PointTable
from gambrel.engine.work import Partition
from gambrel.errors import FileFormatError, InputError
from gambrel.fileio import replace_file

#: Readers of Parquet folders skip names that begin so.
MANIFEST: Final = "_gambrel.json"
_LOCK: Final = "_lock"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class PartFolder:
    """Where partitions are.

    Attributes:
        path: The folder.
        form: `gambrel.engine.parts.PARQUET` or ``ARRAYS``.
        fields: The columns.
        identity: Hash of all that the content depends on.
    """

    path: Path
    form: str
    fields: tuple[DataField, ...]
    identity: str

    def file(self, part: Partition) -> Path:
        """Where a partition is, or will be."""
        return self.path / f"part-{part.index:05d}-{part.key}.{self.form}"

    def holds(self, part: Partition) -> int | None:
        """Rows of a partition that is there whole; None where it is not."""
        path = self.file(part)
        if not path.is_file():
            return None
        try:
            note = parts.note_of(path)
        except FileFormatError:
            return None
        return int(note["rows"]) if note.get("key") == part.key else None

    def write(self, part: Partition, table: PointTable, rows: int, **more: Any) -> None:
        """Writes a partition.

        Raises:
            OSError: It cannot be written; nothing half written is left.
        """
        note = {"key": part.key, "start": part.start, "stop": part.stop, "rows": rows, **more}
        replace_file(self.file(part), parts.encoded(table, self.fields, note, self.form))

    def read(self, part: Partition) -> PointTable:
        """A partition that is there.

        Raises:
            FileFormatError: It is not.
        """
        return parts.read(self.file(part), self.fields)[0]

    def note(self, part: Partition) -> dict[str, Any]:
        """What the file of a partition says of it."""
        return parts.note_of(self.file(part))

    def visible(self) -> bool:
        """Whether this process sees the folder that the run was started on."""
        found = _manifest(self.path)
        return found is not None and found.get("identity") == self.identity

    def begin(self, about: dict[str, Any]) -> None:
        """Makes the folder, or finds that it is of the same question.

        Raises:
            InputError: It holds something else.
            FileFormatError: Its manifest is of another version or broken.
        """
        known = _manifest(self.path) if self.path.is_dir() else None
        if known is None:
            self._make()
        elif known.get("identity") != self.identity:
            raise InputError(
                f"{self.path} holds another sweep ({known.get('question', 'unknown')}), or one of "
                "another version or device file; name another folder, or remove this one."
            )
        units = {f.name: f.unit for f in self.fields if f.unit}
        columns = [f.name for f in self.fields]
        self._say({"columns": columns, "units": units, **about, "complete": False})

    def finish(self, about: dict[str, Any], partitions: Sequence[Partition]) -> None:
        """Says that all partitions are there, and removes what an older run left."""
        known = {self.file(part).name for part in partitions}
        for path in self.path.glob("part-*"):
            if path.name not in known:
                path.unlink(missing_ok=True)
        found = _manifest(self.path) or {}
        self._say({**found, **about, "complete": True})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs out while it lasts.

        Raises:
            InputError: Another process is writing here.
        """
        path = self.path / _LOCK
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            if not _lock(handle):
                raise InputError(
                    f"another run is writing to {self.path}; wait for it, or name another folder."
                )
            yield
        finally:
            os.close(handle)

    def _make(self) -> None:
        if self.path.exists() and (not self.path.is_dir() or any(_others(self.path))):
            kind = "a folder of other files" if self.path.is_dir() else "a file"
            raise InputError(f"{self.path} is {kind}; name another path, or remove it.")
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make {self.path}: {error.strerror}.") from None

    def _say(self, about: dict[str, Any]) -> None:
        head = {"type": "gambrel/sweep-parts", "version": _VERSION, "identity": self.identity}
        text = json.dumps({**about, **head}, indent=1, sort_keys=True) + "\n"
        try:
            replace_file(self.path / MANIFEST, text.encode())
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror}.") from None


def _others(path: Path) -> Iterator[Path]:
    return (p for p in path.iterdir() if p.name != _LOCK and not p.name.startswith(".gambrel-"))


def _manifest(path: Path) -> dict[str, Any] | None:
    try:
        text = (path / MANIFEST).read_text("utf-8")
    except OSError:
        return None
    try:
        found = json.loads(text)
        if found["version"] != _VERSION:
            raise FileFormatError(
                f"{path} was written by a version of gambrel whose partitions this one does not "
                "read; name another folder."
            )
    except (ValueError, KeyError, TypeError):
        raise FileFormatError(f"{path / MANIFEST} is broken; remove the folder.") from None
    return dict(found)


def _lock(handle: int) -> bool:
    """Takes the lock; where the system has none, the run goes on without."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
