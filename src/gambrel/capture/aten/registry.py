"""The table of rules and its one entry: `describe`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from gambrel.capture.aten.call import Call, Described
from gambrel.ops.rules import RuleTable

Rule: TypeAlias = Callable[[Call], Described]

#: Registers the decorated function for ops named ``namespace.name``, without overload. An in-place
#: form (``aten.add_``) uses the rule of the plain one unless it has its own.
rule: Final[RuleTable[Rule]] = RuleTable("op")


def by_op(table: Mapping[str, str]) -> dict[str, str]:
    """Neutral function of each op, from a table of the ops' names of each function.

    Args:
        table: Function → ATen names apart by blanks; a name with a dot has its own namespace.
    """
    return {
        op if "." in op else f"aten.{op}": function
        for function, names in table.items()
        for op in names.split()
    }


def function_of(op: str, table: Mapping[str, str]) -> str:
    """Neutral function of an op or, of an in-place form, of the plain one."""
    return table.get(op) or table[op.removesuffix("_")]


def describe(
    op: str,
    overload: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    outputs: Any,
) -> Described:
    """Says what a call of an ATen op is, in neutral kinds.

    Args:
        op: Namespace and name, e.g. ``"aten.addmm"``.
        overload: For example ``"default"`` or ``"out"``.
        args: Positional arguments in the order of the schema, every tensor a `TensorArg` (in lists
            as well), everything else plain Python; trailing defaults may be missing.
        kwargs: Keyword arguments, likewise.
        outputs: What the call returned: a `TensorArg`, a nest of them, or None.

    Returns:
        The neutral description. A call that no rule understands keeps the op's name as its kind,
        with all tensors in and out: it shows as unmodelled, never as free.
    """
    call = Call(op, overload, args, kwargs, outputs)
    found = find(op)
    if found is None:
        return call.described(op)
    try:
        return found(call)
    except (TypeError, IndexError, ValueError, KeyError, AttributeError, ZeroDivisionError):
        # Arguments of another form than the schema that the rule was written for.
        return call.described(op)


def find(op: str) -> Rule | None:
    """The rule of an op, or of the plain op when it is an in-place form."""
    found = rule.get(op)
    if found is None and op.endswith("_"):
        found = rule.get(op[:-1])
    return found


def is_known(op: str) -> bool:
    """Whether some rule covers the op, e.g. ``"aten.add_"``."""
    return find(op) is not None


def known_ops() -> tuple[str, ...]:
    """Names of all ops that have a rule of their own."""
    return tuple(sorted(rule))
