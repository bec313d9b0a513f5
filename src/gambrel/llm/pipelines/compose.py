"""One workload from several: parts run in order, each any number of times.

A part keeps its weights in memory for the whole run; its ops repeat. Sizes of a part (the side of
a latent, the batch of a network that sees each image twice) are polynomials in the sizes of the
whole (the side of the image, the batch).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import Final

from msgspec.structs import replace

from gambrel.errors import InputError, WorkloadError
from gambrel.llm.dims import plus, times
from gambrel.workload import Dim, Op, Role, Symbol, Tensor, Workload
from gambrel.workload.binding import map_op, map_tensor
from gambrel.workload.formats import recorded_as
from gambrel.workload.symbols import parse

#: Between the name of a part and a module path within it.
SEPARATOR: Final = ":"

#: Most times that a part may run; no sampler takes more steps.
MAX_TIMES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One model of a pipeline.

    Attributes:
        name: What reports call it, e.g. ``"unet"``.
        workload: Its ops.
        times: How often it runs.
        sizes: Symbol of the part → its value, a number or a polynomial in the symbols of the
            whole. A symbol that is not named takes its default.
    """

    name: str
    workload: Workload
    times: int = 1
    sizes: Mapping[str, Dim] = field(default_factory=dict)


def compose(
    name: str,
    parts: Sequence[Part],
    *,
    symbols: Sequence[Symbol] = (),
    origin: str = "",
    assumptions: Sequence[str] = (),
) -> Workload:
    """The workload of a whole pipeline.

    Args:
        name: Of the pipeline.
        parts: In the order in which they run; all captured in the same number format.
        symbols: Sizes of the whole.
        origin: Where the pipeline comes from.
        assumptions: Sentences to be printed with every result; those of the parts follow.

    Returns:
        All ops, module paths led by ``"<part>:"``, repeated as often as their part runs.

    Raises:
        InputError: No part, two of the same name, or a count that is no number of times.
        WorkloadError: Parts in different number formats, or a size that a part does not have.
    """
    _check(name, parts)
    formats = {p.workload.recorded_dtype for p in parts} - {""}
    recorded = formats.pop() if formats else ""
    parts = [replaced(p, workload=recorded_as(p.workload, recorded)) for p in parts]
    tensors: list[Tensor] = []
    ops: list[Op] = []
    outputs: tuple[int, ...] = ()
    storage = 0
    for position, part in enumerate(parts):
        first = len(tensors)
        function = _Replaced(part)
        last = position == len(parts) - 1
        for tensor in part.workload.tensors:
            moved = map_tensor(tensor, function)
            role = _role(tensor.role, first=position == 0, last=last)
            tensors.append(replace(moved, storage=tensor.storage + storage, role=role))
        ops.extend(_op(op, part, first, function) for op in part.workload.ops)
        storage = 1 + max((t.storage for t in tensors), default=0)
        # What a part yields is needed: the next part reads it, through the sampler's arithmetic.
        outputs += tuple(i + first for i in part.workload.outputs)
    return Workload(
        name=name,
        dtype=parts[0].workload.dtype,
        tensors=tuple(tensors),
        ops=tuple(ops),
        outputs=outputs,
        symbols=tuple(symbols),
        origin=origin or ", ".join(dict.fromkeys(p.workload.origin for p in parts)),
        recorded_dtype=recorded,
        chosen_dtype=any(p.workload.chosen_dtype for p in parts),
        assumptions=(*assumptions, *_assumptions(parts)),
    )


def with_fixed(symbol: Symbol, value: int | None) -> Symbol:
    """A symbol that is part of the structure: it has one value in a composed workload.

    Args:
        symbol: With the range that may be asked for.
        value: Asked for; None is the default.

    Raises:
        WorkloadError: Out of the range.
    """
    chosen = symbol.default if value is None else value
    symbol.check(chosen)
    return replace(symbol, default=chosen, minimum=chosen, maximum=chosen)


def _check(name: str, parts: Sequence[Part]) -> None:
    if not parts:
        raise InputError(f"{name}: a pipeline needs at least one part.")
    names = [p.name for p in parts]
    for part in parts:
        if names.count(part.name) > 1:
            raise InputError(f"{name}: two parts are called {part.name!r}.")
        if type(part.times) is not int or not 1 <= part.times <= MAX_TIMES:
            raise InputError(
                f"{name}: {part.name} runs {part.times!r} times; give 1 to {MAX_TIMES:,}."
            )
        if part.workload.dtype != parts[0].workload.dtype:
            raise WorkloadError(
                f"{name}: {part.name} is in {part.workload.dtype} and {parts[0].name} in "
                f"{parts[0].workload.dtype}; capture them in one number format."
            )


def _op(op: Op, part: Part, first: int, function: Callable[[Dim], Dim]) -> Op:
    return replace(
        map_op(op, function),
        inputs=tuple(i + first for i in op.inputs),
        outputs=tuple(i + first for i in op.outputs),
        module=f"{part.name}{SEPARATOR}{op.module}",
        repeat=op.repeat * part.times,
    )


def _role(role: Role, *, first: bool, last: bool) -> Role:
    """What enters or leaves a part in the middle stays within the pipeline."""
    if (role is Role.INPUT and not first) or (role is Role.OUTPUT and not last):
        return Role.ACTIVATION
    return role


class _Replaced:
    """Writes dimensions of a part in the symbols of the whole; each distinct text once."""

    def __init__(self, part: Part) -> None:
        known = {s.name: s for s in part.workload.symbols}
        for name, value in part.sizes.items():
            if name not in known:
                have = ", ".join(known) or "none"
                raise WorkloadError(f"{part.name} has no size {name!r}; it has {have}.")
            if not isinstance(value, str):
                known[name].check(value)
        self._values: dict[str, Dim] = {n: s.default for n, s in known.items()}
        self._values.update(part.sizes)
        self._done: dict[str, Dim] = {}

    def __call__(self, dim: Dim) -> Dim:
        if not isinstance(dim, str):
            return dim
        if dim not in self._done:
            self._done[dim] = substituted(dim, self._values)
        return self._done[dim]


def substituted(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """A dimension with symbols replaced by numbers or by polynomials in other symbols.

    Args:
        dim: For example ``"4*batch*latent^2"``.
        values: For example ``{"batch": "2*batch", "latent": "1/8*image"}``; symbols that are not
            named stay.
    """
    if not isinstance(dim, str):
        return dim
    terms: list[Dim] = []
    for monomial, coefficient in parse(dim).terms.items():
        factors = [values.get(name, name) for name, power in monomial for _ in range(power)]
        terms.append(times(str(coefficient), *factors))
    return plus(*(_number(t) for t in terms))


def _number(dim: Dim) -> Dim:
    return parse(dim).as_dim() if isinstance(dim, str) else dim


def _assumptions(parts: Sequence[Part]) -> list[str]:
    """Those of the parts, each once, led by the part's name."""
    return [f"{part.name}: {text}" for part in parts for text in part.workload.assumptions]
