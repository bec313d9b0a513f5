"""Linear layers in a chosen number format, with the scales that stand beside narrow weights."""

from __future__ import annotations

from msgspec.structs import replace

from gambrel.dtypes import width_bytes
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.workload import Dim, Role


def linear(
    e: Emitter,
    x: Index,
    name: str,
    rows: Dim,
    k: int,
    n: int,
    *,
    bias: bool = False,
    part: str = "weights",
    out: tuple[Index, ...] | None = None,
    weight: Index | None = None,
) -> Index:
    """A projection of ``rows`` rows from ``k`` to ``n`` values.

    Args:
        e: Where to write.
        x: The input.
        name: Of the module.
        rows: Rows of the input.
        k: Its width.
        n: Width of the output.
        bias: Whether there is one.
        part: Which format of `Precisions` the weights have.
        out: Tensors that it writes; None makes a new one.
        weight: An existing matrix (tied weights).

    Returns:
        The first output.
    """
    with e.inside(name):
        inputs = [x, *_weights(e, k, n, bias, part, weight)]
        stored = e.tensors[inputs[1]].dtype
        outputs = out or (e.activation(rows, n),)
        attrs = product_attrs(e, x, stored, part)
        if bias:
            attrs["bias"] = True
        if e.decodes:
            attrs["padded_rows"] = True  # serving engines pad batches to those of recorded graphs
        e.op("matmul", tuple(inputs), outputs, name="linear", b=1, m=rows, n=n, k=k, attrs=attrs)
    return outputs[0]


def keep_weights(e: Emitter, name: str, k: int, n: int, *, bias: bool = False) -> None:
    """Weights that are in memory but that this step does not read."""
    with e.inside(name):
        _weights(e, k, n, bias)


def _weights(
    e: Emitter, k: int, n: int, bias: bool, part: str = "weights", matrix: Index | None = None
) -> list[Index]:
    """The matrix, its scales and the bias, as far as there are such."""
    p = e.precisions
    made = [e.weight("weight", (n, k), p.of(part)) if matrix is None else matrix]
    scaled = part == "weights" or (part == "lm_head" and p.of(part) == p.weights)
    if scaled and p.scales(k, n):
        made.append(e.buffer("scales", (p.scales(k, n),), p.scale))
    if bias:
        made.append(e.weight("bias", (n,)))
    return made


def product_attrs(
    e: Emitter, x: Index, stored: str, part: str
) -> dict[str, bool | int | float | str]:
    """In which format a product is formed, where its operands do not say so already."""
    p = e.precisions
    given = e.tensors[x].dtype
    narrow = part in ("weights", "experts") and width_bytes(stored) < width_bytes(given)
    multiplied = p.multiply if narrow else given
    attrs: dict[str, bool | int | float | str] = {}
    if multiplied != given or stored != given:
        attrs["compute_dtype"] = multiplied
    if width_bytes(stored) < width_bytes(multiplied):
        attrs["dequantize"] = True
    return attrs


def as_output(e: Emitter, index: Index) -> None:
    """Marks a tensor as what the model returns."""
    e.tensors[index] = replace(e.tensors[index], role=Role.OUTPUT)
