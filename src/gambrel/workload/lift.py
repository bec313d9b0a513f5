"""From captures at a few sizes to one workload with symbolic sizes.

A capture fixes every number. Capturing the same model at several sizes and interpolating each
number (a dimension, an offset, an op's size) gives polynomials that are exact at all sizes: the
number of unknown coefficients is known (one per monomial), so that many captures determine them,
and the remaining captures check them. A number that no such polynomial describes, and a model
that does different things at different sizes, are errors that say where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import gcd, prod
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from gambrel.errors import WorkloadError
from gambrel.workload.binding import map_op, map_tensor, op_numbers, tensor_numbers
from gambrel.workload.model import Op, Tensor, Workload
from gambrel.workload.symbols import Dim, Monomial, Polynomial, Symbol

Point: TypeAlias = Mapping[str, int]

_OP_FIELDS: Final = ("kind", "name", "module", "inputs", "outputs", "attrs", "phase", "repeat")
_TENSOR_FIELDS: Final = ("dtype", "role", "name", "storage", "version")


def lift(
    captures: Sequence[tuple[Point, Workload]],
    symbols: Sequence[Symbol],
    degrees: Mapping[str, int] | None = None,
) -> Workload:
    """One symbolic workload from captures of the same model at several sizes.

    Args:
        captures: Sizes and the workload captured there, e.g. ``({"batch": 2, "seq": 64}, w)``.
            More captures than monomials; those beyond verify the result. A grid of
            ``degree + 1`` values per symbol and one or two points off the grid do.
        symbols: The sizes to become symbolic, with the ranges claimed for them.
        degrees: Highest power of each symbol; 1 unless given. The monomials are all products of
            powers up to these: ``{"batch": 1, "seq": 2}`` gives 1, B, S, BS, S², BS².

    Returns:
        The first workload with every number replaced by the polynomial of least degree that
        gives it at every point, and with ``symbols``.

    Raises:
        WorkloadError: The structure differs between two points (the message names the op and the
            points); a number follows no such polynomial; there are too few captures; or a symbol
            claims a range that the captures do not cover.
    """
    points = [dict(p) for p, _ in captures]
    workloads = [w for _, w in captures]
    if any(w.symbols for w in workloads):
        raise WorkloadError("lifting takes captures at fixed sizes; one of these has symbols.")
    _check_claims(points, symbols)
    basis = _Basis(points, symbols, degrees or {})
    _check_structure(points, workloads)
    first = workloads[0]
    tensors = zip(*(w.tensors for w in workloads), strict=True)
    ops = zip(*(w.ops for w in workloads), strict=True)
    return replace(
        first,
        symbols=tuple(symbols),
        tensors=tuple(_lift_tensor(i, same, basis) for i, same in enumerate(tensors)),
        ops=tuple(_lift_op(i, same, basis) for i, same in enumerate(ops)),
    )


class _Basis:
    """Interpolation in the monomials of a few symbols, over fixed points, exactly."""

    def __init__(
        self, points: list[dict[str, int]], symbols: Sequence[Symbol], degrees: Mapping[str, int]
    ) -> None:
        self.points = points
        self.symbols = symbols
        self.degrees = {s.name: degrees.get(s.name, 1) for s in symbols}
        self.monomials = _monomials(self.degrees)
        self.rows = [[Fraction(_value(m, p)) for m in self.monomials] for p in points]
        self.chosen = _independent(self.rows, len(self.monomials))
        if len(self.chosen) < len(self.monomials) or len(points) <= len(self.monomials):
            raise WorkloadError(
                f"lifting over {', '.join(self.degrees)} needs more than {len(self.monomials)} "
                f"captures at independent sizes; got {len(points)}."
            )
        self.inverse = _inverse([self.rows[i] for i in self.chosen])
        self._known: dict[tuple[Dim, ...], Dim | None] = {}

    @property
    def highest(self) -> str:
        """The highest powers in words, e.g. ``batch, seq^2``."""
        return ", ".join(n if d == 1 else f"{n}^{d}" for n, d in self.degrees.items())

    def fit(self, values: tuple[Dim, ...]) -> Dim | None:
        """The polynomial that takes these values at the points; None when there is none."""
        if values not in self._known:
            same = all(v == values[0] for v in values)
            self._known[values] = values[0] if same else self._interpolate(values)
        return self._known[values]

    def _interpolate(self, values: tuple[Dim, ...]) -> Dim | None:
        numbers = [Fraction(v) for v in values]
        coefficients = [
            sum((a * numbers[i] for a, i in zip(row, self.chosen, strict=True)), Fraction(0))
            for row in self.inverse
        ]
        for row, number in zip(self.rows, numbers, strict=True):
            if sum(a * c for a, c in zip(row, coefficients, strict=True)) != number:
                return None
        found = Polynomial(dict(zip(self.monomials, coefficients, strict=True)))
        return found.as_dim() if self._counts_everywhere(found) else None

    def _counts_everywhere(self, polynomial: Polynomial) -> bool:
        """Whether it is an integer, and none below zero at the smallest sizes.

        A polynomial of degree d is an integer at all multiples of a step as soon as it is at
        d + 1 consecutive ones (all its differences are integers then).
        """
        axes = [
            [_first(s) + i * s.multiple_of for i in range(self.degrees[s.name] + 1)]
            for s in self.symbols
        ]
        for corner in product(*axes):
            point = dict(zip(self.degrees, corner, strict=True))
            value = sum((c * _value(m, point) for m, c in polynomial.terms.items()), Fraction(0))
            if value.denominator != 1 or value < 0:
                return False
        return True


def _check_claims(points: list[dict[str, int]], symbols: Sequence[Symbol]) -> None:
    names = {s.name for s in symbols}
    for point in points:
        if set(point) != names:
            raise WorkloadError(f"a capture at {_at(point)} lacks or exceeds {sorted(names)}.")
    for symbol in symbols:
        values = [p[symbol.name] for p in points]
        for value in (*values, symbol.default):
            symbol.check(value)
        step = gcd(*values)
        if symbol.minimum < min(values) or symbol.multiple_of % step:
            raise WorkloadError(
                f"{symbol.name} claims multiples of {symbol.multiple_of} from {symbol.minimum}; "
                f"the captures cover multiples of {step} from {min(values)}."
            )


def _check_structure(points: list[dict[str, int]], workloads: list[Workload]) -> None:
    for point, workload in zip(points[1:], workloads[1:], strict=True):
        where = f"between {_at(points[0])} and {_at(point)}"
        difference = _difference(workloads[0], workload)
        if difference:
            raise WorkloadError(f"{workload.name}: its structure changes {where}: {difference}.")


def _difference(a: Workload, b: Workload) -> str:
    """The first difference in anything but numbers, in words; empty when there is none."""
    for i, (x, y) in enumerate(zip(a.ops, b.ops, strict=False)):
        field = _first_difference(_shape_of_op(x), _shape_of_op(y))
        if field:
            return f"op {i} ({x.name or x.kind} in {x.module or 'the model'}), {field}"
    if len(a.ops) != len(b.ops):
        longer = max(a.ops, b.ops, key=len)
        extra = longer[min(len(a.ops), len(b.ops))]
        return f"{len(a.ops)} ops become {len(b.ops)}, first {extra.name or extra.kind}"
    for i, (s, t) in enumerate(zip(a.tensors, b.tensors, strict=False)):
        field = _first_difference(_shape_of_tensor(s), _shape_of_tensor(t))
        if field:
            return f"tensor {i} ({s.name or s.role}), {field}"
    if len(a.tensors) != len(b.tensors):
        return f"{len(a.tensors)} tensors become {len(b.tensors)}"
    return "" if a.outputs == b.outputs else f"outputs {a.outputs} become {b.outputs}"


def _shape_of_op(op: Op) -> dict[str, Any]:
    sizes = {k: len(v) if isinstance(v, tuple) else None for k, v in op.sizes.items()}
    return {field: getattr(op, field) for field in _OP_FIELDS} | {"sizes": sizes}


def _shape_of_tensor(tensor: Tensor) -> dict[str, Any]:
    fields = {field: getattr(tensor, field) for field in _TENSOR_FIELDS}
    return fields | {"rank": len(tensor.shape)}


def _first_difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    changed = (f"{k}: {a[k]} becomes {b[k]}" for k in a if a[k] != b[k])
    return next(changed, "")


def _lift_tensor(index: int, same: tuple[Tensor, ...], basis: _Basis) -> Tensor:
    if any(t.elements is not None for t in same):
        # An expanded view of factor 1 is no expansion: there the count is that of the shape.
        same = tuple(replace(t, elements=_elements(t)) for t in same)
    numbers = _lifted([tensor_numbers(t) for t in same], basis, f"tensor {index}", same[0].name)
    return map_tensor(same[0], lambda _: next(numbers))


def _lift_op(index: int, same: tuple[Op, ...], basis: _Basis) -> Op:
    order = list(same[0].sizes)
    aligned = [replace(o, sizes={k: o.sizes[k] for k in order}) for o in same]
    label = f"op {index} ({same[0].name or same[0].kind})"
    numbers = _lifted([op_numbers(o) for o in aligned], basis, label, same[0].module)
    return map_op(same[0], lambda _: next(numbers))


def _lifted(rows: list[list[Dim]], basis: _Basis, label: str, place: str) -> Iterator[Dim]:
    for values in zip(*rows, strict=True):
        found = basis.fit(values)
        if found is None:
            seen = "; ".join(f"{v} at {_at(p)}" for v, p in zip(values, basis.points, strict=True))
            inside = f" in {place}" if place else ""
            raise WorkloadError(
                f"{label}{inside}: no polynomial up to {basis.highest} gives {seen}."
            )
        yield found


def _elements(tensor: Tensor) -> Dim:
    if tensor.elements is not None:
        return tensor.elements
    return prod(int(d) for d in tensor.shape)


def _monomials(degrees: Mapping[str, int]) -> list[Monomial]:
    """All products of powers up to the degrees, lowest first."""
    powers = product(*(range(d + 1) for d in degrees.values()))
    found = [tuple((n, e) for n, e in zip(degrees, p, strict=True) if e) for p in powers]
    return sorted((tuple(sorted(m)) for m in found), key=lambda m: (sum(e for _, e in m), m))


def _value(monomial: Monomial, point: Point) -> int:
    return prod(point[name] ** power for name, power in monomial)


def _independent(rows: list[list[Fraction]], rank: int) -> list[int]:
    """Indices of the first rows that are linearly independent, at most ``rank``."""
    chosen: list[int] = []
    reduced: list[tuple[int, list[Fraction]]] = []
    for index, row in enumerate(rows):
        rest = list(row)
        for pivot, other in reduced:
            factor = rest[pivot] / other[pivot]
            rest = [a - factor * b for a, b in zip(rest, other, strict=True)]
        lead = next((i for i, a in enumerate(rest) if a), None)
        if lead is not None and len(chosen) < rank:
            reduced.append((lead, rest))
            chosen.append(index)
    return chosen


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """The inverse of a regular matrix, by Gauss-Jordan elimination on ``[matrix | 1]``."""
    n = len(matrix)
    rows = [[*row, *(Fraction(i == j) for j in range(n))] for i, row in enumerate(matrix)]
    for column in range(n):
        pivot = next(r for r in range(column, n) if rows[r][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column][column]
        rows[column] = [a / head for a in rows[column]]
        for r in range(n):
            if r != column and rows[r][column]:
                factor = rows[r][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    return [row[n:] for row in rows]


def _first(symbol: Symbol) -> int:
    """The smallest allowed value: ``minimum`` rounded up to a multiple."""
    return -(-symbol.minimum // symbol.multiple_of) * symbol.multiple_of


def _at(point: Iterable[tuple[str, int]] | Point) -> str:
    items = point.items() if isinstance(point, Mapping) else point
    return ", ".join(f"{name}={value}" for name, value in items)
