"""Control flow as operators (torch.cond, while_loop, scan), and flex_attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from msgspec.structs import replace
from torch.utils import _pytree as pytree

from gambrel.capture.torch.attention import attention_sizes
from gambrel.capture.torch.semantic import Node, muted
from gambrel.errors import CaptureError

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

#: A loop of more steps than this is not followed.
_MOST_STEPS: Final = 100_000

_BRANCH: Final = "a torch.cond whose predicate depends on data takes its first branch"
_LOOP: Final = "a while_loop whose end depends on data runs once"
_MASK: Final = "flex_attention sees every key where its block mask depends on data"
_MODIFIERS: Final = "what score_mod and mask_mod compute in flex_attention costs nothing"

Maker = Callable[[Any, "Session"], "Callable[..., Any] | None"]


def make_cond(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for ``torch.cond``: the branch that is taken."""
    if not _is_torch(original) or session.options.execute:
        return None

    def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any] = ()) -> Any:
        taken = _known(pred, session)
        if taken is None:
            session.assumptions.add(_BRANCH, session.scopes.path)
            taken = True
        return (true_fn if taken else false_fn)(*operands)

    return cond


def make_while_loop(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for ``while_loop``: its steps, as many as are known."""
    if not _is_torch(original) or session.options.execute:
        return None

    def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any) -> Any:
        carried = tuple(carried_inputs)
        for step in range(_MOST_STEPS):
            goes_on = _known(cond_fn(*carried), session)
            if goes_on is None:
                session.assumptions.add(_LOOP, session.scopes.path)
                goes_on = step == 0
            if not goes_on:
                return carried
            carried = tuple(body_fn(*carried))
        raise CaptureError(f"while_loop: more than {_MOST_STEPS:,} steps; capture its body alone")

    return while_loop


def make_scan(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for ``scan``: one step, its ops counted as often as it runs.

    A training step runs all of them, for their backward.
    """
    if not _is_torch(original) or session.options.execute:
        return None

    def scan(combine_fn: Any, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
        leaves = pytree.tree_leaves(xs)
        steps = leaves[0].shape[dim] if leaves else 1
        order = range(steps - 1, -1, -1) if reverse else range(steps)
        if torch.is_grad_enabled():
            return _all_steps(combine_fn, init, xs, dim, order)
        before = len(session.recorder.ops)
        carry, y = combine_fn(init, _at(xs, dim, order[0]))
        ops = session.recorder.ops
        ops[before:] = [replace(op, repeat=op.repeat * steps) for op in ops[before:]]
        with muted(session):
            stacked = pytree.tree_map(lambda t: t.new_empty((steps, *t.shape)), y)
        return carry, stacked

    return scan


def _all_steps(combine_fn: Any, init: Any, xs: Any, dim: int, order: range) -> Any:
    carry, found = init, {}
    for i in order:
        carry, found[i] = combine_fn(carry, _at(xs, dim, i))
    rows = [found[i] for i in sorted(found)]
    return carry, pytree.tree_map(lambda *parts: torch.stack(parts), *rows)


def _at(xs: Any, dim: int, index: int) -> Any:
    return pytree.tree_map(lambda t: t.select(dim, index), xs)


def _known(value: Any, session: Session) -> bool | None:
    """A truth value; None where it depends on data."""
    if not isinstance(value, torch.Tensor):
        return bool(value)
    with muted(session):
        known = value if not value.is_meta else session.twins.value(value.detach())
        return None if known is None else bool(known)


def make_block_mask(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for ``create_block_mask``: the same on the CPU, where it has values."""
    if not _is_torch(original) or session.options.execute:
        return None

    def create_block_mask(*args: Any, **kwargs: Any) -> Any:
        named = {k: v for k, v in kwargs.items() if k != "_compile"}
        try:
            with muted(session):
                return original(*args[:5], **{**named, "device": "cpu"})
        except (RuntimeError, NotImplementedError):
            session.assumptions.add(_MASK, session.scopes.path)
            return None

    return create_block_mask


def make_flex_attention(original: Any, session: Session) -> Callable[..., Any] | None:
    """What stands in for ``flex_attention``: one op over the blocks that its mask leaves."""
    if not _is_torch(original):
        return None

    def flex_attention(
        query: Any,
        key: Any,
        value: Any,
        score_mod: Any = None,
        block_mask: Any = None,
        scale: float | None = None,
        enable_gqa: bool = False,
        return_lse: bool = False,
        *_: Any,
        return_aux: Any = None,
        **__: Any,
    ) -> Any:
        if return_aux is not None:
            raise CaptureError("flex_attention with return_aux is not known; leave it out")
        if score_mod is not None or block_mask is not None:
            session.assumptions.add(_MODIFIERS)
        sizes = attention_sizes(query, key, value, causal=False)
        if block_mask is not None:
            sizes["pairs"] = _pairs(block_mask, session) or sizes["q_len"] * sizes["kv_len"]  # type: ignore[operator]

        def empty(q: Any, _: Any, v: Any) -> tuple[Any, ...]:
            return q.new_empty((*q.shape[:-1], v.shape[-1])), q.new_empty(q.shape[:-1])

        def compute(q: Any, k: Any, v: Any) -> tuple[Any, ...]:
            options = {"enable_gqa": enable_gqa, "return_lse": True}
            return tuple(original(q, k, v, score_mod, block_mask, scale, **options))

        out, lse = Node(
            session=session,
            name="torch.flex_attention",
            kind="attention",
            sizes=sizes,
            attrs={"causal": False, "mask": False, "dropout": False},
            empty=empty,
            compute=compute,
        )((query, key, value))
        return (out, lse) if return_lse else out

    return flex_attention


def _pairs(mask: Any, session: Session) -> int | None:
    """Query-key pairs of one head in the blocks that are computed; None where not known."""
    rows, columns = mask.BLOCK_SIZE
    q_len, kv_len = mask.seq_lengths
    blocks, heads = 0, 1
    for counted in (mask.kv_num_blocks, mask.full_kv_num_blocks):
        if counted is None:
            continue
        with muted(session):
            known = counted if not counted.is_meta else session.twins.value(counted)
        if known is None:
            session.assumptions.add(_MASK, session.scopes.path)
            return None
        blocks += int(known.sum())
        heads = max(heads, known.shape[0] * known.shape[1])
    return min(int(q_len) * int(kv_len), round(blocks * int(rows) * int(columns) / heads))


def _is_torch(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).split(".")[0] == "torch"


#: By the name under which libraries import them.
MAKERS: Final[dict[str, Maker]] = {
    "cond": make_cond,
    "while_loop": make_while_loop,
    "scan": make_scan,
    "create_block_mask": make_block_mask,
    "flex_attention": make_flex_attention,
}
