"""Look-ups in a table: only the rows that are touched move."""

from __future__ import annotations

from gambrel.ops.base import (
    Cost,
    OpView,
    Size,
    distinct_bytes,
    formula,
    minimum,
    to_bytes,
    work,
)


@formula("embedding")
def embedding(op: OpView) -> Cost:
    """Reads the touched rows and the indices, writes the rows; bags add or average them.

    No more than all rows of the table can be touched, so a small table that many tokens look into
    (token types) is read once. A bag of s rows takes s - 1 additions a column: (rows - bags)·width
    in all; its mean one division a column more; ``weighted`` one multiplication a looked-up value.

    Sizes: rows (looked up), width, table_rows (rows), bags (by default from the output).
    Attrs: mode (gather, bag_sum, bag_mean, bag_max), weighted. Inputs: table, then indices.
    """
    rows, width = op.size("rows"), op.size("width")
    done = work(op.operand_dtype(1), vector=_bag_flops(op, rows, width))
    if not op.inputs:
        return Cost(work=done)
    table, *indices = op.inputs
    touched = minimum(rows, op.size("table_rows", rows)) * width
    return Cost(
        work=done, read_bytes=to_bytes(touched, table.dtype) + distinct_bytes(tuple(indices))
    )


@formula("embedding_backward")
def embedding_backward(op: OpView) -> Cost:
    """rows·width additions into a gradient that starts at zero.

    Reads the gradients of the rows and the indices. A dense gradient is written as large as the
    table; with ``sparse`` the output is the touched rows.

    Sizes: rows, width. Inputs: grad_output, indices. Outputs: the gradient of the table.
    """
    flops = op.size("rows") * op.size("width")
    return Cost(work=work(op.operand_dtype(1), vector=flops))


def _bag_flops(op: OpView, rows: Size, width: Size) -> Size:
    mode = op.attrs.get("mode", "gather")
    if mode == "gather":
        return 0
    outputs = op.outputs[0].elements if op.outputs else width
    bags = op.size("bags", outputs // width)
    mean = bags * width if mode == "bag_mean" else 0
    weighted = rows * width if op.attrs.get("weighted") else 0
    return (rows - bags) * width + mean + weighted
