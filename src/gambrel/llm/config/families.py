"""Which function reads which ``model_type``; one small reader a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from gambrel.llm.config.fields import Fields
from gambrel.llm.spec import ModelSpec

Reader: TypeAlias = Callable[[Fields], ModelSpec]

READERS: Final[dict[str, Reader]] = {}


def family(*model_types: str, **defaults: Any) -> Callable[[Reader], Reader]:
    """Registers the decorated function as the reader of these types.

    Args:
        *model_types: As configurations name them.
        **defaults: What the family's own configuration class has for fields that a file leaves out.

    Raises:
        ValueError: A type has a reader already.
    """

    def register(reader: Reader) -> Reader:
        def read(f: Fields) -> ModelSpec:
            return reader(f.with_defaults(**defaults))

        for name in model_types:
            if name in READERS:
                raise ValueError(f"model type {name!r} is registered twice")
            READERS[name] = read
        return read

    return register
