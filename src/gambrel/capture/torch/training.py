"""A training step."""

from __future__ import annotations

from typing import Any


def train_step(model: Any, args: Any, kwargs: Any, session: Any) -> Any:
    """Forward, backward, optimizer."""
    raise NotImplementedError
