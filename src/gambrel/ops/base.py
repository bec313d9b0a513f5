"""What a cost formula sees and returns, and the registry that holds one formula per kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cmp_to_key
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from gambrel.dtypes import width_bytes
from gambrel.errors import InputError
from gambrel.roofline import maximum

#: An exact int at one point, a float64 array over the points of a sweep. Formulas use only
#: arithmetic that works on both (``+ - * / //``, and `minimum`, `maximum`, `where` from here).
Size: TypeAlias = Any


class Engine(StrEnum):
    """The class of hardware unit that a piece of work can run on."""

    MATRIX = "matrix"  # multiply-accumulate work: matmul, convolution, attention products
    VECTOR = "vector"  # element-wise arithmetic, reductions
    SPECIAL = "special"  # transcendental functions: exp, erf, tanh, rsqrt, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """Where the field disagrees, the choice that was made; printed with results.

    Attributes:
        causal: ``"half"`` counts S(S+1)/2 query-key pairs of a causal attention, ``"full"`` all S².

    Raises:
        InputError: A choice that is none of these.
    """

    causal: str = "half"

    def __post_init__(self) -> None:
        if self.causal not in ("half", "full"):
            raise InputError(f"causal convention {self.causal!r}: choose 'half' or 'full'.")


class TensorView(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor with its sizes filled in.

    Attributes:
        shape: Sizes.
        dtype: Number format, after any change of precision.
        elements: Distinct elements (an expanded view has fewer than its shape says).
        storage: Id of the memory behind it.
        offset: First element within that memory.
        role: ``"weight"``, ``"activation"``, ...
    """

    shape: tuple[Size, ...]
    dtype: str
    elements: Size
    storage: int
    offset: Size = 0
    role: str = "activation"

    @property
    def nbytes(self) -> Size:
        """Bytes of the distinct elements."""
        return to_bytes(self.elements, self.dtype)


class OpView(msgspec.Struct, frozen=True, kw_only=True):
    """An op with its sizes filled in: all that a formula may look at."""

    kind: str
    inputs: tuple[TensorView, ...] = ()
    outputs: tuple[TensorView, ...] = ()
    sizes: Mapping[str, Size | tuple[Size, ...]] = msgspec.field(default_factory=dict)
    attrs: Mapping[str, Any] = msgspec.field(default_factory=dict)
    phase: str = "forward"
    conventions: Conventions = Conventions()

    def size(self, name: str, default: Size | None = None) -> Size:
        """A size by name; KeyError names the kind and the size when a front end forgot it."""
        if name in self.sizes:
            return self.sizes[name]
        if default is None:
            raise KeyError(f"op kind {self.kind!r} needs the size {name!r}")
        return default

    @property
    def dtype(self) -> str:
        """Format in which the op computes: ``compute_dtype``, else the widest real input's.

        Integers count only where nothing else is there. A complex format is named by its
        component: complex64 arithmetic is made of fp32 operations.
        """
        return self.operand_dtype(len(self.inputs))

    def operand_dtype(self, count: int) -> str:
        """As `dtype`, but only the first ``count`` inputs are looked at (masks, scales are not)."""
        named = self.attrs.get("compute_dtype")
        if named:
            return str(named)
        candidates = [t.dtype for t in self.inputs[:count] if t.dtype not in _INDEX] or [
            t.dtype for t in self.inputs + self.outputs
        ]
        widest = max(candidates, key=width_bytes, default="fp32")
        return _COMPONENT.get(widest, widest)

    @property
    def is_complex(self) -> bool:
        """Whether any tensor holds complex numbers."""
        return any(t.dtype in _COMPONENT for t in self.inputs + self.outputs)


_INDEX: Final = frozenset({"int64", "int32", "int16", "bool"})
_COMPONENT: Final[dict[str, str]] = {"complex64": "fp32", "complex128": "fp64"}

Work: TypeAlias = dict[tuple[Engine, str], Size]


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one execution of an op asks for.

    Attributes:
        work: FLOP (FMA = 2) by engine and number format; integer operations count alike;
            on `Engine.SPECIAL`, function evaluations.
        read_bytes: Compulsory bytes read; None means "every distinct input once".
        touched: Elements that it reads, at most, by position of the input, where it skips some;
            empty where it reads its inputs whole, or where only the sum is known.
        write_bytes: Compulsory bytes written; None means "every output once".
        least_read_bytes: Bytes read where routing sends all tokens to the same experts, which no
            run can go below; None: as ``read_bytes``.
        link_bytes: Bytes that each device sends over its link to the devices of its node.
        network_bytes: Bytes that each device sends over the network between nodes.
        least_link_bytes: Bytes over its link that no algorithm goes below; None: as ``link_bytes``.
        least_network_bytes: The same between nodes.
        prunable: Whether its matrix work multiplies by a weight, in which a structure of zeros can
            be made; `cost` fills it in.
    """

    work: Work = msgspec.field(default_factory=dict)
    read_bytes: Size = None
    touched: Mapping[int, Size] = msgspec.field(default_factory=dict)
    write_bytes: Size = None
    least_read_bytes: Size = None
    link_bytes: Size = 0
    network_bytes: Size = 0
    least_link_bytes: Size = None
    least_network_bytes: Size = None
    prunable: bool = False


#: None: the kind is known, but not this variant of it; the op is then unmodelled, never zero.
Formula: TypeAlias = Callable[[OpView], Cost | None]

_FORMULAS: Final[dict[str, Formula]] = {}
_FREE: Final[dict[str, str]] = {}


def formula(*kinds: str) -> Callable[[Formula], Formula]:
    """Registers the decorated function as the one formula of ``kinds``.

    Raises:
        ValueError: A kind already has a formula or is free.
    """

    def register(function: Formula) -> Formula:
        for kind in kinds:
            _refuse_duplicate(kind)
            _FORMULAS[kind] = function
        return function

    return register


def free(kind: str, why: str) -> None:
    """Registers a kind that moves no data and does no arithmetic, with the reason."""
    _refuse_duplicate(kind)
    _FREE[kind] = why


def is_free(kind: str) -> bool:
    """Whether the kind is known to cost nothing."""
    return kind in _FREE


def is_modelled(kind: str) -> bool:
    """Whether the kind has a formula or is known to be free."""
    return kind in _FORMULAS or kind in _FREE


def kinds() -> dict[str, str]:
    """All known kinds: name → first line of the formula's docstring, or why it is free."""
    counted = {k: (f.__doc__ or "").strip().splitlines()[0] for k, f in _FORMULAS.items()}
    return dict(sorted((counted | {k: f"free: {why}" for k, why in _FREE.items()}).items()))


def cost(op: OpView) -> Cost | None:
    """The cost of one execution of ``op``, traffic filled in; None when it is unmodelled."""
    if op.kind in _FREE:
        return Cost(read_bytes=0, write_bytes=0)
    function = _FORMULAS.get(op.kind)
    if function is None:
        return None
    found = function(op)
    if found is None:
        return None
    read = found.read_bytes
    return replace(
        found,
        read_bytes=distinct_bytes(as_read(op.inputs, found)) if read is None else read,
        write_bytes=distinct_bytes(op.outputs) if found.write_bytes is None else found.write_bytes,
        prunable=is_prunable(op.kind, op.phase, [t.role for t in op.inputs[:2]]),
    )


#: Kinds that multiply their first operand by the second.
_PRODUCTS: Final = frozenset({"matmul", "grouped_matmul", "convolution"})


def is_prunable(kind: str, phase: str, roles: Iterable[str]) -> bool:
    """Whether an op is a forward matmul with a parameter, which a sparse engine can serve.

    Attention multiplies activations by activations, and the products of a backward pass meet the
    weight transposed or not at all: there is nothing to prune to a structure along the contraction.

    Args:
        kind: Of the op.
        phase: Of the op.
        roles: Of its two operands.
    """
    return kind in _PRODUCTS and phase == "forward" and "weight" in roles


def distinct_bytes(tensors: tuple[TensorView, ...]) -> Size:
    """Bytes of the distinct regions that ``tensors`` cover: the same region counts once.

    Two views of one storage that start at different elements are different regions (q, k and v
    sliced out of one projection); of several that start at the same element the largest counts
    (x and x.T are one region).
    """
    if len(tensors) == 1:
        return tensors[0].nbytes
    regions: dict[tuple[int, Any], Size] = {}
    for t in tensors:
        # An array (a sweep) cannot be a key; its bytes can.
        key = (t.storage, t.offset.tobytes() if hasattr(t.offset, "tobytes") else t.offset)
        regions[key] = maximum(regions[key], t.nbytes) if key in regions else t.nbytes
    return total(regions.values())


def as_read(inputs: tuple[TensorView, ...], cost: Cost) -> tuple[TensorView, ...]:
    """The inputs of an op with the elements that it reads of each."""
    if not cost.touched:
        return inputs
    return tuple(
        replace(t, elements=minimum(t.elements, cost.touched[i])) if i in cost.touched else t
        for i, t in enumerate(inputs)
    )


def to_bytes(elements: Size, dtype: str) -> Size:
    """Bytes of ``elements`` numbers; exact int for int elements (sub-byte formats round up)."""
    width = _width_128ths(dtype)
    # Floor division of arrays is slow, and formats of whole bytes have nothing to round.
    return -(-elements * width // 128) if width % 128 else elements * (width // 128)


@cache
def _width_128ths(dtype: str) -> int:
    """Every width is a multiple of 1/128 byte (a 16th of a bit), so that integers stay exact."""
    return round(width_bytes(dtype) * 128)


def work(dtype: str, *, matrix: Size = 0, vector: Size = 0, special: Size = 0) -> Work:
    """Work in one number format; engines with nothing to do are left out.

    Args:
        dtype: Number format of the operands.
        matrix: Multiply-accumulate work, FLOP.
        vector: Element-wise arithmetic, FLOP.
        special: Function evaluations.
    """
    amounts = {Engine.MATRIX: matrix, Engine.VECTOR: vector, Engine.SPECIAL: special}
    return {(e, dtype): n for e, n in amounts.items() if not (isinstance(n, int) and n == 0)}


def product(sizes: tuple[Size, ...]) -> Size:
    """The product of sizes; 1 for none. Exact for ints."""
    result: Size = 1
    for size in sizes:
        result = result * size
    return result


def total(sizes: Any) -> Size:
    """The sum of sizes; 0 for none. Exact for ints."""
    result: Size = 0
    for size in sizes:
        result = result + size
    return result


def minimum(a: Size, b: Size) -> Size:
    """The smaller, element by element over arrays."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return min(a, b)
    import numpy as np

    return np.minimum(a, b)


def where(condition: Any, a: Size, b: Size) -> Size:
    """``a`` where ``condition`` holds, else ``b``; over arrays element by element."""
    if isinstance(condition, bool):
        return a if condition else b
    import numpy as np

    return np.where(condition, a, b)


class MixedError(Exception):
    """A question about sizes that some points of a sweep answer with yes and others with no.

    Formulas ask `holds` where they choose a form; who evaluates arrays takes the points apart.

    Attributes:
        mask: Where the answer is yes.
    """

    def __init__(self, mask: Any) -> None:
        super().__init__("points differ in the form that applies; evaluate them apart")
        self.mask = mask


def holds(condition: Any) -> bool:
    """Whether a condition on sizes holds: a bool, or an array of one per point.

    Raises:
        MixedError: At some points it does, at others not.
    """
    if isinstance(condition, (bool, int)):
        return bool(condition)
    if condition.all():
        return True
    if condition.any():
        raise MixedError(condition)
    return False


def ceil_div(a: Size, b: Size) -> Size:
    """``ceil(a / b)``."""
    return -(-a // b)


def log2(value: Size) -> Size:
    """The binary logarithm, of 1 where ``value`` is less; over arrays element by element."""
    if isinstance(value, (int, float)):
        return math.log2(max(value, 1))
    import numpy as np

    return np.log2(np.maximum(value, 1))


def root(value: Size) -> Size:
    """The square root: the same of a number as of that number in an array, as powers are not."""
    if isinstance(value, (int, float)):
        return math.sqrt(value)
    import numpy as np

    return np.sqrt(value)


def cube_root(value: Size) -> Size:
    """The cube root, likewise."""
    if isinstance(value, (int, float)):
        return math.cbrt(value)
    import numpy as np

    return np.array([math.cbrt(v) for v in value.flat]).reshape(value.shape)


def real(value: Size) -> Size:
    """A count as a float, or as an array of them."""
    return float(value) if isinstance(value, (int, float)) else value.astype(float)


def is_zero(value: Size) -> bool:
    """Whether a count is none, at every point."""
    return not value if isinstance(value, (int, float)) else not value.any()


def largest_first(amounts: Mapping[str, Size]) -> tuple[str, ...]:
    """Names by their amounts; of equals the first stays first.

    Raises:
        MixedError: The order differs from point to point.
    """

    def order(a: str, b: str) -> int:
        return -1 if holds(amounts[a] > amounts[b]) else int(holds(amounts[b] > amounts[a]))

    return tuple(sorted(amounts, key=cmp_to_key(order)))


def rounded(value: Size) -> Size:
    """An expectation as a count: the nearest whole number, an int for a scalar."""
    if isinstance(value, (int, float)):
        return round(value)
    import numpy as np

    return np.rint(value)


def _refuse_duplicate(kind: str) -> None:
    if kind in _FORMULAS or kind in _FREE:
        raise ValueError(f"op kind {kind!r} is registered twice")
