"""Sizes of layers where the batch is open: each follows from the layer's first input."""

from __future__ import annotations

from math import prod

from gambrel.errors import FileFormatError, told

#: Keep the number of elements.
_RESHAPES = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Transpose"})
ADVICE = (
    "fix them with model.reshape({...}) and openvino.save_model, or convert the model with "
    "input shapes"
)


def batch_of(shape: tuple[int, ...], name: str, batch: int) -> tuple[int, ...]:
    """The shape of an input at a batch.

    Raises:
        FileFormatError: More than its first size is open.
    """
    if -1 in shape[1:]:
        raise FileFormatError(
            f"the input {told(name)} leaves more open than the batch ({_text(shape)}); {ADVICE}."
        )
    return tuple(batch if n == -1 else n for n in shape)


def completed(
    kind: str, name: str, shape: tuple[int, ...], inputs: list[tuple[int, ...]], batch: int
) -> tuple[int, ...]:
    """The shape of a result whose open sizes follow from the inputs at a batch.

    Raises:
        FileFormatError: They do not.
    """
    if -1 not in shape:
        return shape
    known = prod(n for n in shape if n != -1)
    if kind in _RESHAPES and shape.count(-1) == 1 and inputs and known:
        rest, left = divmod(prod(inputs[0]), known)
        if not left:
            return tuple(rest if n == -1 else n for n in shape)
    if shape[0] == -1 and -1 not in shape[1:]:
        return (_batch_along(inputs, len(shape), batch), *shape[1:])
    raise FileFormatError(
        f"the sizes of {told(name)} ({kind}) stay open ({_text(shape)}); {ADVICE}."
    )


def _batch_along(inputs: list[tuple[int, ...]], rank: int, batch: int) -> int:
    """The first size that inputs of the same rank broadcast to, else that of the first input."""
    same = [s[0] for s in inputs if len(s) == rank]
    return max(same) if same else (inputs[0][0] if inputs and inputs[0] else batch)


def _text(shape: tuple[int, ...]) -> str:
    return "x".join("?" if n == -1 else str(n) for n in shape)
