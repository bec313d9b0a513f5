"""Which arguments of a function are parameters: one rule, printed with every result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gambrel.capture.xla.arguments import NAMES
from gambrel.workload import Role

RULE: Final = (
    "parameters are the arrays that the function closes over and the real arrays of {what}; other "
    "arguments are inputs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """An array among the arguments.

    Attributes:
        name: Its path, e.g. ``params['Dense_0']['kernel']``.
        role: What it is to the model.
    """

    name: str
    role: Role


def leaves_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Leaf]:
    """Every array of the arguments, in the order of the jaxpr's."""
    import jax

    names = _names(function, len(args))
    first = _is_tree(args[0]) and len(args) + len(kwargs) > 1 if args else False
    found: list[Leaf] = []
    for i, (name, value) in enumerate(zip(names, args, strict=True)):
        default = Role.WEIGHT if (first and i == 0) or _is_module(value) else Role.INPUT
        found += _leaves(jax, name, value, NAMES.get(name, default))
    for name in sorted(kwargs):
        found += _leaves(jax, name, kwargs[name], NAMES.get(name, Role.INPUT))
    return found


def _leaves(jax: Any, name: str, value: Any, role: Role) -> list[Leaf]:
    pairs = jax.tree_util.tree_flatten_with_path(value)[0]
    return [_leaf(jax, name, path, leaf, role) for path, leaf in pairs]


def _leaf(jax: Any, name: str, path: Any, leaf: Any, role: Role) -> Leaf:
    collection = str(getattr(path[0], "key", "")) if path else ""
    # Flax keeps parameters, statistics and caches under names of their own in one dictionary.
    known = NAMES.get(collection) if isinstance(collection, str) else None
    role = known if known is not None and role in (Role.WEIGHT, Role.INPUT) else role
    if role is Role.WEIGHT and not _is_real(leaf):
        role = Role.BUFFER
    return Leaf(name=f"{name}{jax.tree_util.keystr(path)}", role=role)


def said(leaves: Sequence[Leaf]) -> str:
    """The rule, with the arguments that it made parameters of."""
    owners = dict.fromkeys(x.name.partition("[")[0].partition(".")[0] for x in leaves if _owned(x))
    what = " and ".join(owners) or "an argument named params"
    return RULE.format(what=what)


def _owned(leaf: Leaf) -> bool:
    return leaf.role is Role.WEIGHT


def _names(function: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [plain[i] if i < len(plain) else f"arg{i}" for i in range(count)]


def _is_tree(value: Any) -> bool:
    """Whether an argument is nested: a dictionary, a list of arrays, a module."""
    import jax

    leaves, tree = jax.tree_util.tree_flatten(value)
    return bool(leaves) and tree != jax.tree_util.tree_structure(0)


def _is_module(value: Any) -> bool:
    """A module that is a tree of arrays, as Equinox has them."""
    return callable(value) and _is_tree(value)


def _is_real(leaf: Any) -> bool:
    from gambrel.capture.xla.elements import REAL, code_of

    return code_of(str(getattr(leaf, "dtype", ""))) in REAL
