"""Points written as they are computed: a folder of Parquet, or one file of text.

Parquet is a folder of partitions, which pandas, Polars, DuckDB, Spark and Dask read as one table.
A CSV or JSON-lines file is put together from partitions beside it when all are there, so that it is
complete or absent.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gambrel.engine import parts
from gambrel.engine.folder import PartFolder
from gambrel.engine.lines import csv_lines, json_lines
from gambrel.engine.run import RunRequest, RunResult, folder_identity, run
from gambrel.engine.work import PointWork
from gambrel.errors import InputError
from gambrel.fileio import check_writable

#: Suffix → form of the partitions.
FORMS: Final = {".parquet": parts.PARQUET, ".csv": parts.ARRAYS, ".jsonl": parts.ARRAYS}


def is_stream(target: Path) -> bool:
    """Whether a file of this name is written as its points are computed."""
    return target.suffix.lower() in FORMS


def save(work: PointWork, request: RunRequest, target: Path, *, asked: str = "") -> RunResult:
    """Computes all points and writes those that are kept.

    Args:
        work: What is asked.
        request: How.
        target: A ``.parquet`` folder, a ``.csv`` or a ``.jsonl`` file.
        asked: The question in words, for who finds the folder.

    Raises:
        InputError: It cannot be written, or holds something else.
        MissingExtraError: Parquet without pyarrow.
    """
    form = FORMS.get(target.suffix.lower())
    if form is None:
        raise InputError(f"{target}: points are written to {', '.join(FORMS)}.")
    whole = form == parts.PARQUET
    if whole:
        parts.need_parquet()
    else:
        check_writable(target)
    if not target.parent.is_dir():
        raise InputError(f"cannot write {target}: there is no folder {target.parent}.")
    folder = PartFolder(
        path=(target if whole else target.with_name(f"{target.name}.parts")).absolute(),
        form=form,
        fields=work.fields,
        identity=folder_identity(work, request),
    )
    folder.begin({"question": asked, "points": work.points})
    found = run(work, request, folder)
    try:
        if whole:
            folder.finish({"rows": found.rows}, found.partitions)
        else:
            _put_together(folder, found, target)
            shutil.rmtree(folder.path)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}.") from None
    return found


def _put_together(folder: PartFolder, found: RunResult, target: Path) -> None:
    draft = target.with_name(f".gambrel-{os.urandom(8).hex()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            for text in _texts(folder, found, target):
                file.write(text)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _texts(folder: PartFolder, found: RunResult, target: Path) -> Iterator[str]:
    csv = target.suffix.lower() == ".csv"
    if csv:
        yield csv_lines(None, folder.fields)
    for part in found.partitions:
        table = folder.read(part)
        yield csv_lines(table, folder.fields) if csv else json_lines(table, folder.fields)
