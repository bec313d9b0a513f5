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
    p = e.precisions
    with e.inside(name):
        stored = p.of(part)
        matrix = e.weight("weight", (n, k), stored) if weight is None else weight
        stored = e.tensors[matrix].dtype
        inputs = [x, matrix]
        if part == "weights" and p.scales(k, n):
            inputs.append(e.buffer("scales", (p.scales(k, n),), p.scale))
        if bias:
            inputs.append(e.weight("bias", (n,)))
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
        e.weight("weight", (n, k), e.precisions.weights)
        if e.precisions.scales(k, n):
            e.buffer("scales", (e.precisions.scales(k, n),), e.precisions.scale)
        if bias:
            e.weight("bias", (n,))


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
