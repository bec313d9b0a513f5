"""Attributes of StableHLO operations under the names that `vocabulary` and `lowering` read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_Read = Callable[[Any], "dict[str, Any]"]

#: Operation → attribute → its name in the dialect.
_LISTS: Final[dict[str, dict[str, str]]] = {
    "broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "transpose": {"perm": "permutation"},
    "slice": {"starts": "start_indices", "limits": "limit_indices", "strides": "strides"},
    "gather": {"slice_sizes": "slice_sizes"},
    "reduce": {"axes": "dimensions"},
    "reduce_window": {"window": "window_dimensions"},
    "select_and_scatter": {"window": "window_dimensions"},
    "reverse": {"dims": "dimensions"},
}
_NUMBERS: Final[dict[str, dict[str, str]]] = {
    "concatenate": {"axis": "dimension"},
    "iota": {"axis": "iota_dimension"},
    "sort": {"axis": "dimension"},
}
#: Names that other dialects or older versions use.
_RENAMED: Final[dict[str, str]] = {
    "rng_bit_generator": "rng",
    "dynamic_broadcast_in_dim": "broadcast_in_dim",
    "partition_id": "zeros",
    "replica_id": "zeros",
    "create_token": "key",
    "after_all": "key",
    "get_dimension_size": "zeros",
}
_COLLECTIVES: Final = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "collective_permute",
    "collective_broadcast",
)


def attributes_of(op: Any, name: str) -> tuple[str, dict[str, Any]]:
    """The operation that an op of MLIR is, and its attributes."""
    name = _RENAMED.get(name, name)
    found: dict[str, Any] = {}
    attributes = op.attributes
    for key, own in _LISTS.get(name, {}).items():
        found[key] = numbers(attributes[own])
    for key, own in _NUMBERS.get(name, {}).items():
        found[key] = int(attributes[own].value)
    read = _READ.get(name)
    if read is not None:
        found |= read(op)
    if name in _COLLECTIVES:
        found["devices"] = _devices(op)
    if name == "reduce" and len(op.results) > 1:
        return "argmax", found
    return name, found


def numbers(attribute: Any) -> list[int]:
    """A list of integers, however it is stored."""
    return [int(getattr(v, "value", v)) for v in attribute]


def _listed(op: Any, name: str) -> list[int]:
    """A list of integers that may be left out."""
    if name not in op.attributes:
        return []
    return numbers(op.attributes[name])


def combined_by(op: Any) -> str:
    """The operation that a region combines two values with; empty for any other region."""
    inner = [o.operation.name.partition(".")[2] for o in op.regions[0].blocks[0].operations]
    plain = [n for n in inner if n not in ("return", "convert")]
    return plain[0] if len(plain) == 1 else ""


def _dot(op: Any) -> dict[str, Any]:
    from jaxlib.mlir.dialects import stablehlo

    n = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return {
        "contract": (list(n.lhs_contracting_dimensions), list(n.rhs_contracting_dimensions)),
        "batch": (list(n.lhs_batching_dimensions), list(n.rhs_batching_dimensions)),
    }


def _convolution(op: Any) -> dict[str, Any]:
    from jaxlib.mlir.dialects import stablehlo

    n = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    dilation = _listed(op, "lhs_dilation")
    return {
        "lhs": [n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions],
        "rhs": [
            n.kernel_output_feature_dimension,
            n.kernel_input_feature_dimension,
            *n.kernel_spatial_dimensions,
        ],
        "out": [n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions],
        "groups": int(op.attributes["feature_group_count"].value),
        "batch_groups": int(op.attributes["batch_group_count"].value),
        "lhs_dilation": dilation,
    }


def _compare(op: Any) -> dict[str, Any]:
    from jaxlib.mlir.dialects import stablehlo

    direction = stablehlo.ComparisonDirectionAttr(op.attributes["comparison_direction"])
    return {"direction": str(direction.value)}


def _fft(op: Any) -> dict[str, Any]:
    from jaxlib.mlir.dialects import stablehlo

    kind = stablehlo.FftTypeAttr(op.attributes["fft_type"])
    return {"type": str(kind.value), "lengths": numbers(op.attributes["fft_length"])}


def _scatter(op: Any) -> dict[str, Any]:
    return {"accumulate": bool(combined_by(op))}


_READ: Final[dict[str, _Read]] = {
    "dot_general": _dot,
    "convolution": _convolution,
    "compare": _compare,
    "fft": _fft,
    "scatter": _scatter,
    "top_k": lambda _: {"axis": -1},
    "reduce": lambda op: {"function": combined_by(op)},
    "reduce_window": lambda op: {"function": combined_by(op)},
}


def _devices(op: Any) -> int | None:
    """How many devices a group has; None where the module leaves it open."""
    for name in ("replica_groups", "source_target_pairs"):
        if name in op.attributes:
            shape = op.attributes[name].type.shape
            if name == "source_target_pairs":
                return max(int(shape[0]), 1) + 1 if shape[0] == 1 else int(shape[0])
            return int(shape[-1]) or None
    return None
