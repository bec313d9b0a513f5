"""What a training step may compute again instead of keeping it: by class of op, in every layer.

A class that runs again frees what its ops wrote, in all layers of all microbatches in flight, and
costs their forward time once more. The names are those by which training stacks choose (Megatron's
``--recompute-modules``: layernorm, core_attn, mla_up_proj, moe, mlp).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import Final

from gambrel.errors import InputError
from gambrel.llm.attention_kernels import PART

#: Class → what runs again.
CLASSES: Final = {
    "norms": "norms",
    "activations": "activation functions",
    "attention": "attention itself, not its projections",
    "projections": "projections of queries, keys and values",
    "feed-forward": "the first product of a dense feed-forward part",
    "experts": "the first product of experts",
}
#: Choices beside classes: nothing; all but what crosses layers, attention and every second product
#: (PyTorch's selective checkpointing in torchtitan; Megatron's "selective" is ``attention``); all
#: but what crosses layers; the least time that fits.
WHOLE: Final = ("none", "selective", "full", "auto")


def parse(text: str) -> str:
    """A choice as it is kept: one of `WHOLE`, or classes in order, joined by commas.

    Raises:
        InputError: No such class.
    """
    names = {name.strip() for name in str(text).split(",")}
    if names <= set(WHOLE) and len(names) == 1:
        return names.pop()
    wrong = sorted(names - set(CLASSES))
    if wrong:
        raise InputError(
            f"recompute={wrong[0]!r}: use {', '.join(WHOLE)}, or some of {', '.join(CLASSES)}."
        )
    return ",".join(name for name in CLASSES if name in names)


def classes_of(choice: str) -> frozenset[str]:
    """The classes of a choice; of ``"full"`` all, of ``"selective"`` all but attention."""
    if choice in ("none", "auto"):
        return frozenset()
    if choice == "selective":
        return frozenset(CLASSES) - {"attention"}
    return frozenset(CLASSES) if choice == "full" else frozenset(choice.split(","))


def choices(classes: frozenset[str]) -> Iterator[str]:
    """Every choice that a model with these classes has."""
    named = [name for name in CLASSES if name in classes]
    yield "none"
    for count in range(1, len(named) + 1):
        yield from (",".join(some) for some in combinations(named, count))
    yield "full"


@lru_cache(maxsize=4096)
def class_of(kind: str, module: str, name: str) -> str:
    """The class of a forward op of a layer; empty for what is always kept."""
    if ".*" not in module:
        return ""
    part = module.rpartition(".")[2]
    if kind == "normalization":
        return "norms"
    if kind == "attention" or part == PART:
        return "attention"
    if kind in ("elementwise", "softmax"):
        return "activations" if name != "add" else ""
    if kind == "grouped_matmul":
        return "experts" if part.startswith(("gate", "up")) else ""
    if kind == "matmul" and part.startswith(("gate_up", "up", "gate_proj")):
        return "feed-forward"
    if kind == "matmul" and ".attention" in module and part != "o_proj":
        return "projections"
    return ""
