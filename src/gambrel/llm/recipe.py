"""How a workload in closed form was made, so that it can be made again at other sizes."""

from __future__ import annotations

import msgspec

from gambrel.llm.precision import Precisions
from gambrel.llm.spec import ModelSpec
from gambrel.workload import Workload


class Recipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Model, formats and phase.

    Attributes:
        spec: The model.
        precisions: Number formats that it was built in.
        asked: What a user named for them; empty for the model's own, or of a file.
        phase: ``"prefill"``, ``"decode"``, or None for one forward pass.
        layers: Whose layers run, as `gambrel.runtimes.Runtime.layers` has it.
        stored: The weights have the formats of a file, which ``precisions`` does not know.
        edited: Ops or tensors were changed.
    """

    spec: ModelSpec
    precisions: Precisions
    asked: str = ""
    phase: str | None = None
    layers: str = ""
    stored: bool = False
    edited: bool = False

    def text(self) -> str:
        """As `Workload.recipe` holds it."""
        return msgspec.json.encode(self).decode()


def recipe_of(workload: Workload | None) -> Recipe | None:
    """The recipe of a workload; None where it has none, or a damaged one."""
    if workload is None or not workload.recipe:
        return None
    try:
        return msgspec.json.decode(workload.recipe, type=Recipe)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return None
