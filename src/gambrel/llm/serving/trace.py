"""Requests that were recorded: a table of arrival, tokens in and tokens out, read line by line.

Columns are found by their names, of which each published trace has its own; files may be
compressed with gzip. Times are seconds, or dates; they are counted from the first request.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final

from gambrel.errors import FileFormatError, InputError, shown
from gambrel.fileio import check_name
from gambrel.llm.serving.replica import Request

#: What is read → names of its column, lower case, without other characters than letters.
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    # Azure LLM inference traces 2023 and 2024: TIMESTAMP, ContextTokens, GeneratedTokens.
    # Splitwise simulator: arrival_timestamp, prompt_size, token_size. BurstGPT: Timestamp,
    # Request tokens, Response tokens. Mooncake: timestamp (ms), input_length, output_length.
    "time": ("time", "arrival", "arrivaltime", "arrivaltimestamp", "arrivedat", "timestamp", "t"),
    "input": (
        *("input", "inputtokens", "contexttokens", "promptsize", "inputlength", "requesttokens"),
        *("prompttokens", "promptlen", "inputlen", "numprefilltokens"),
    ),
    "output": (
        *("output", "outputtokens", "generatedtokens", "tokensize", "outputlength"),
        *("responsetokens", "completiontokens", "outputlen", "numdecodetokens"),
    ),
}
_AZURE: Final = {"time": "TIMESTAMP", "input": "ContextTokens", "output": "GeneratedTokens"}
_GZIP: Final = b"\x1f\x8b"
_MOST: Final = 1 << 30


def read_trace(path: Path, *, longest: int | None = None) -> Iterator[Request]:
    """The requests of a file, in its order; a line is read when it is asked for.

    Args:
        path: CSV with a header, or JSON lines; ``.gz`` as well.
        longest: Most tokens of a request, prompt and answer together.

    Raises:
        FileFormatError: Not such a file, or a column that is missing.
        InputError: A line whose time or lengths cannot be; says which and what was there.
    """
    check_name(path)
    with _open(path) as file:
        yield from _requests(path, _rows(path, file), longest)


def _open(path: Path) -> IO[str]:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
        start = gzip.open if packed else open
        return start(path, "rt", encoding="utf-8-sig", newline="")
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read: {error.strerror or error}.") from None


def _rows(path: Path, file: IO[str]) -> Iterator[tuple[int, Any, Any, Any]]:
    """Line number, time, input, output, as they stand there."""
    try:
        first = file.readline()
        if first.lstrip().startswith("{"):
            yield from _json(path, first, file)
            return
        header = next(csv.reader([first]), [])
        places = _places(path, header)
        lines = csv.reader(file)
        at, inp, out = places["time"], places["input"], places["output"]
        for row in lines:
            if not row:
                continue
            if len(row) < len(header):
                raise FileFormatError(
                    f"{path}, line {lines.line_num + 1}: {len(row)} columns, the header has "
                    f"{len(header)}."
                )
            yield lines.line_num + 1, row[at], row[inp], row[out]
    except (UnicodeDecodeError, csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path}: not a table of text: {error}.") from None


def _json(path: Path, first: str, file: Iterable[str]) -> Iterator[tuple[int, Any, Any, Any]]:
    keys: dict[str, str] | None = None
    for i, line in enumerate(_chained(first, file), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise FileFormatError(f"{path}, line {i}: not JSON: {error}.") from None
        if keys is None:
            names = list(row)
            keys = {name: names[place] for name, place in _places(path, names).items()}
        try:
            at = row[keys["time"]]
            yield i, at / 1e3 if _milliseconds(row) else at, row[keys["input"]], row[keys["output"]]
        except (KeyError, TypeError):
            raise FileFormatError(f"{path}, line {i}: not an object like the first.") from None


def _milliseconds(row: dict[str, Any]) -> bool:
    """Mooncake's traces, which are told by their hashes, count in milliseconds."""
    return "hash_ids" in row


def _chained(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


def _places(path: Path, header: list[str]) -> dict[str, int]:
    """Where each column stands."""
    if not any(header):
        raise FileFormatError(f"{path}: the file is empty; give a header and a line per request.")
    plain = ["".join(c for c in name.lower() if c.isalpha()) for name in header]
    places = {}
    for what, names in _COLUMNS.items():
        place = next((plain.index(name) for name in names if name in plain), None)
        if place is None:
            raise FileFormatError(
                f"{path}: no column of {what} among {shown(', '.join(header)[:200])}; call it "
                f"{what!r}, or as in Azure's traces {_AZURE[what]!r}."
            )
        places[what] = place
    return places


def _requests(
    path: Path, rows: Iterable[tuple[int, Any, Any, Any]], longest: int | None
) -> Iterator[Request]:
    seconds: Callable[[Any], float] | None = None
    start = last = 0.0
    for line, at, tokens, output in rows:
        try:
            if seconds is None:
                seconds = _clock(at)
                start = last = seconds(at)
            now, prompt, answer = seconds(at), int(tokens), int(output)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"{path}, line {line}: time {shown(at)}, input {shown(tokens)}, output "
                f"{shown(output)}: give a number or a date, and two whole numbers."
            ) from None
        if not (last <= now < math.inf and start >= 0):
            wrong = "before that of the request above" if now < last else "not finite"
            raise InputError(
                f"{path}, line {line}: time {shown(at)} is {'negative' if start < 0 else wrong}; "
                "requests are sorted by time, from 0 on."
            )
        if not (1 <= prompt <= _MOST and 1 <= answer <= _MOST):
            raise InputError(
                f"{path}, line {line}: {prompt} tokens in, {answer} out: each is at least 1."
            )
        if longest is not None and prompt + answer > longest:
            raise InputError(
                f"{path}, line {line}: {prompt:,} tokens in + {answer:,} out are more than the "
                f"context of {longest:,}."
            )
        last = now
        yield now - start, prompt, answer
    if seconds is None:
        raise FileFormatError(f"{path}: no request in it.")


def _clock(at: Any) -> Callable[[Any], float]:
    """How times are read: as the first of them."""
    try:
        float(at)
    except ValueError:
        return _date
    return float


def _date(text: str) -> float:
    return datetime.fromisoformat(text.strip()).timestamp()
