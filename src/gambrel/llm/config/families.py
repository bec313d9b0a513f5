"""Which function reads which ``model_type``; one small reader a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import ModelSpec

Reader: TypeAlias = Callable[[Fields], ModelSpec]

READERS: Final[dict[str, Reader]] = {}


def family(*model_types: str) -> Callable[[Reader], Reader]:
    """Registers the decorated function as the reader of these types.

    Raises:
        ValueError: A type has a reader already.
    """

    def register(reader: Reader) -> Reader:
        for name in model_types:
            if name in READERS:
                raise ValueError(f"model type {name!r} is registered twice")
            READERS[name] = reader
        return reader

    return register
