"""The sizes that a model leaves open: their names, and the forms of its inputs at given values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gambrel.capture.files.dynamic import DynamicSize, label_of
from gambrel.capture.files.sizes import evaluate_size, symbols_in
from gambrel.capture.onnx.attributes import checked_shape
from gambrel.capture.onnx.shapes import Form
from gambrel.errors import FileFormatError, told

#: How people name the sizes of inputs → how gambrel names them.
_USUAL: Final[dict[str, str]] = {
    "batch": r"n|b|bs|batch|batch_?size|batch_?dim|num_?batch(es)?",
    "seq": r"s|seq|sequence|seq_?len(gth)?|sequence_?len(gth)?|max_?seq_?len|tokens|num_?tokens",
    "height": r"h|height|img_?h|image_?height",
    "width": r"w|width|img_?w|image_?width",
}
#: Where nothing is said: one item, a usual length, a usual image. An assumption names them.
_DEFAULTS: Final[dict[str, int]] = {"batch": 1, "seq": 128, "height": 224, "width": 224}
_OTHER: Final = 128

#: A dimension: a number, the name of a size, or an expression of such.
_Dimension: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class OpenInputs:
    """The inputs of a model with their dimensions.

    Attributes:
        dimensions: Of each input; None for one without known rank.
        codes: Number format of each input.
        sizes: What is open.
        defaulted: Sizes for which nobody gave a value.
    """

    dimensions: Mapping[str, tuple[_Dimension, ...] | None]
    codes: Mapping[str, int]
    sizes: tuple[DynamicSize, ...]
    defaulted: tuple[str, ...]

    def at(self, values: Mapping[str, int]) -> dict[str, Form]:
        """The forms of the inputs at values of the open sizes, by name."""
        keyed = {d.key: values[d.name] for d in self.sizes}
        found: dict[str, Form] = {}
        for name, dims in self.dimensions.items():
            shape = None
            if dims is not None:
                shape = tuple(d if isinstance(d, int) else evaluate_size(d, keyed) for d in dims)
                checked_shape(shape, name)
            found[name] = (shape, self.codes[name])
        return found


def open_inputs(graph: Any, chosen: Mapping[str, int | None]) -> OpenInputs:
    """The inputs of a graph.

    Args:
        graph: An ``onnx.GraphProto``.
        chosen: Sizes that the user gave; their names win over gambrel's usual ones.

    Raises:
        FileFormatError: An input has impossible dimensions.
    """
    stored = {t.name for t in graph.initializer}
    given = {name: value for name, value in chosen.items() if value is not None}
    dimensions: dict[str, tuple[_Dimension, ...] | None] = {}
    codes: dict[str, int] = {}
    sizes: dict[str, DynamicSize] = {}
    for value in graph.input:
        if value.name in stored:
            continue
        tensor = _tensor_type(value.type)
        codes[value.name] = 0 if tensor is None else tensor.elem_type
        if tensor is None or not tensor.HasField("shape"):
            dimensions[value.name] = None
            continue
        dims = [_dimension(d, value.name) for d in tensor.shape.dim]
        for position, dim in enumerate(dims):
            for key in _keys(dim, value.name, position):
                if key not in sizes:
                    sizes[key] = _size(key, value.name, position, len(dims), given, sizes)
            dims[position] = _written(dim, value.name, position)
        dimensions[value.name] = tuple(dims)
    defaulted = tuple(d.name for d in sizes.values() if d.name not in given and d.name != "batch")
    return OpenInputs(dimensions, codes, tuple(sizes.values()), defaulted)


def _tensor_type(proto: Any) -> Any:
    """The tensor that an input is; None for sequences and maps."""
    if proto.HasField("optional_type"):
        proto = proto.optional_type.elem_type
    if proto.HasField("tensor_type"):
        return proto.tensor_type
    return proto.sparse_tensor_type if proto.HasField("sparse_tensor_type") else None


def _dimension(dim: Any, name: str) -> _Dimension:
    """A number; a text as the file has it; empty where it says nothing."""
    if dim.HasField("dim_value"):
        if dim.dim_value < -1:
            raise FileFormatError(f"the input {told(name)} has a dimension of {dim.dim_value}.")
        return "" if dim.dim_value == -1 else int(dim.dim_value)
    text = dim.dim_param.strip()
    return "" if text.startswith(("?", "unk__", "-1")) else str(text[:1000])


def _keys(dim: _Dimension, name: str, position: int) -> list[str]:
    if isinstance(dim, int):
        return []
    return sorted(symbols_in(_written_text(dim, name, position)))


def _written(dim: _Dimension, name: str, position: int) -> _Dimension:
    return dim if isinstance(dim, int) else _written_text(dim, name, position)


def _written_text(text: str, name: str, position: int) -> str:
    """A dimension as an expression of identifiers."""
    if not text:
        # Unnamed first dimensions of all inputs are one batch.
        return "unnamed_batch" if position == 0 else _identifier(f"{name}_{position}")
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return text
    try:
        symbols_in(text)
    except FileFormatError:
        return _identifier(text)
    # NameScope with dots or slashes are no arithmetic, though they may look like it.
    return text if re.fullmatch(r"[\w\s+*()/,-]+", text) else _identifier(text)


def _identifier(text: str) -> str:
    found = re.sub(r"\W+", "_", text).strip("_")[:80] or "size"
    return found if not found[0].isdigit() else f"size_{found}"


def _size(
    key: str,
    name: str,
    position: int,
    rank: int,
    given: Mapping[str, int],
    taken: Mapping[str, DynamicSize],
) -> DynamicSize:
    used = {d.name for d in taken.values()}
    label = key
    if key not in given:
        patterns = _USUAL.items()
        usual = next((u for u, p in patterns if re.fullmatch(p, key, re.IGNORECASE)), None)
        if key == "unnamed_batch" or key == _identifier(f"{name}_{position}"):
            usual = label_of(_identifier(name), position, rank, used)
        label = usual if usual and usual not in used else key
    hint = given.get(label, _DEFAULTS.get(label, _OTHER))
    about = f"dimension {position} of input {name}"
    return DynamicSize(key, label, max(hint, 1), 1, None, about)
