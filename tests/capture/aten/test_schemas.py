"""Every rule asks for arguments where torch's own signatures have them, kernels of GPUs included.

Calls are made up from the signatures; sizes need not fit, so a rule may give up, but never by
reading an argument at a wrong place or under a wrong name.
"""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from gambrel.capture.aten import TensorArg, known_ops  # noqa: E402
from gambrel.capture.aten.registry import find  # noqa: E402
from tests.capture.aten.dispatched import CheckedCall  # noqa: E402

pytestmark = pytest.mark.torch

_GIVES_UP = (TypeError, IndexError, ValueError, KeyError, AttributeError, ZeroDivisionError)
_numbers = itertools.count()


def tensor(rank: int = 4) -> TensorArg:
    return TensorArg(
        next(_numbers), (4,) * rank, "fp32", tuple(4**i for i in reversed(range(rank)))
    )


def made_up(kind: str, rank: int):
    """A value of a schema's type."""
    kind = kind.removeprefix("Optional[").removesuffix("]")
    if kind.startswith(("List[Tensor", "List[Optional[Tensor")):
        return [tensor(rank), tensor(rank)]
    if kind.startswith("List["):
        return [False, True, True] if "bool" in kind else [2, 2]
    return {"Tensor": tensor(rank), "bool": True, "float": 0.5, "str": "mean"}.get(kind, 1)


def schemas():
    for op in known_ops():
        namespace, name = op.split(".", 1)
        packet = getattr(getattr(torch.ops, namespace), name, None)
        in_place = getattr(getattr(torch.ops, namespace), name + "_", None)
        for found in (packet, in_place):
            if found is not None and hasattr(found, "overloads"):
                for overload in found.overloads():
                    yield getattr(found, overload)


def calls(overload):
    """All arguments given in order, and all optional ones left out; of several ranks."""
    schema = overload._schema
    plain = [a for a in schema.arguments if not a.kwarg_only]
    named = [a for a in schema.arguments if a.kwarg_only]
    for rank, full in itertools.product((4, 3, 2, 1), (True, False)):
        kept = [a for a in plain if full or not a.has_default_value()]
        args = [made_up(str(a.type), rank) for a in kept]
        kwargs = {a.name: made_up(str(a.type), rank) for a in named if full}
        results = [made_up(str(r.type), rank) for r in schema.returns]
        yield args, kwargs, results


def test_rules_read_arguments_where_they_are():
    checked = 0
    for overload in schemas():
        name = overload._schema.name.replace("::", ".")
        rule = find(name)
        for args, kwargs, results in calls(overload):
            call = CheckedCall(name, overload._overloadname, args, kwargs, results)
            call.schema = overload._schema
            try:
                rule(call)
                checked += 1
            except _GIVES_UP:
                continue
    assert checked > 5_000


def test_the_check_finds_a_wrong_place():
    schema = torch.ops.aten.addmm.default._schema
    call = CheckedCall("aten.addmm", "default", [tensor(2)] * 3, {}, tensor(2))
    call.schema = schema
    assert call.arg(1, "mat1")
    with pytest.raises(AssertionError, match="argument 1 is mat1, not mat2"):
        call.arg(1, "mat2")
    with pytest.raises(AssertionError, match="has no argument 7 or weight"):
        call.arg(7, "weight")
