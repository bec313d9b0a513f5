"""What the arguments of a compiled program are, told by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gambrel.capture.onnx.edges import Edge
from gambrel.capture.xla.elements import REAL
from gambrel.capture.xla.graph import Form
from gambrel.workload import Role

#: First names of arguments, or of the collections of Flax within one, and what they hold.
NAMES: Final[dict[str, Role]] = {
    **dict.fromkeys(("params", "parameters", "weights", "variables", "theta"), Role.WEIGHT),
    **dict.fromkeys(("model", "net", "network", "module"), Role.WEIGHT),
    **dict.fromkeys(("batch_stats", "buffers", "constants"), Role.BUFFER),
    **dict.fromkeys(("cache", "kv_cache", "caches"), Role.KV_CACHE),
    **dict.fromkeys(("opt_state", "optimizer_state"), Role.OPTIMIZER_STATE),
}
_WORD: Final = re.compile(r"[A-Za-z_]\w*")

RULE: Final = (
    "parameters are the arguments whose names in the file begin with params, variables, weights or "
    "model, and the constants; other arguments are inputs"
)


def role_of(name: str) -> Role:
    """The role of an argument: ``params['w']``, ``variables['batch_stats']['mean']``."""
    words = _WORD.findall(name)
    role = NAMES.get(words[0], Role.INPUT) if words else Role.INPUT
    inner = NAMES.get(words[1]) if len(words) > 1 else None
    return inner if inner is not None and role in (Role.WEIGHT, Role.INPUT) else role


def constant_role(form: Form) -> Role:
    """Real constants are parameters."""
    return Role.WEIGHT if form[1] in REAL else Role.CONSTANT


def said(edges: Iterable[Edge]) -> str:
    """The rule; where no argument has a name, that it could not be applied."""
    if all(re.fullmatch(r"arg\d+", e.name) for e in edges):
        return (
            "the file does not name its arguments, so that all are inputs and only constants are "
            "parameters"
        )
    return RULE
