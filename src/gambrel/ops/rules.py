"""A table of rules: for each name the one function that serves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class RuleTable(dict[str, T]):
    """Rules by name; called with names it registers the function that it decorates."""

    def __init__(self, what: str) -> None:
        """Starts an empty table.

        Args:
            what: What has a rule, for errors: ``"operator"``.
        """
        super().__init__()
        self.what = what

    def __call__(self, *names: str) -> Callable[[T], T]:
        """Registers the decorated function.

        Raises:
            ValueError: A name already has a rule.
        """

        def register(function: T) -> T:
            for name in names:
                if name in self:
                    raise ValueError(f"{self.what} {name!r} has two rules")
                self[name] = function
            return function

        return register
