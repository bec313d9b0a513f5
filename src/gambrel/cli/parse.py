"""Texts of the command line to values."""

from __future__ import annotations

import re
from typing import NoReturn

from gambrel.errors import InputError


def parse_batches(text: str) -> tuple[int, ...]:
    """``"1,8,64"`` → (1, 8, 64).

    Raises:
        InputError: Not whole numbers of at least 1.
    """
    return tuple(_positive("--batch", part) for part in text.split(","))


def parse_shape(text: str) -> tuple[int, ...]:
    """``"1x3x224x224"`` → (1, 3, 224, 224)."""
    return tuple(_positive("--input", part) for part in re.split(r"[x×,]", text))


def parse_sizes(texts: list[str]) -> dict[str, int]:
    """``["seq=128"]`` → {"seq": 128}."""
    sizes = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--size {text!r}: write NAME=NUMBER, e.g. --size seq=2048.")
        sizes[name.strip()] = _positive(f"--size {name}", value)
    return sizes


def _positive(option: str, text: str) -> int:
    try:
        value = int(text.strip())
    except ValueError:
        _refuse(option, text)
    if value < 1:
        _refuse(option, text)
    return value


def _refuse(option: str, text: str) -> NoReturn:
    raise InputError(f"{option}: {text.strip()!r} is not a whole number of at least 1.")
