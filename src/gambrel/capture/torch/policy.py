"""What is assumed where the shape or value of a result depends on data that does not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

import torch

from gambrel.capture.torch.unknowns import unknown_number
from gambrel.errors import CaptureError


@dataclass(frozen=True, slots=True)
class DataDependentCall:
    """A call whose result depends on data.

    Attributes:
        args: Its arguments, on the meta device.
        kwargs: Its keyword arguments.
        share: The share of elements that is assumed to pass a test.
        all_of: Whether the argument says if all elements pass a test.
    """

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    share: float = 1.0
    all_of: bool = False

    def passing(self, numel: int) -> int:
        """How many of ``numel`` elements are assumed to pass."""
        return round(numel * self.share)


#: Results on the meta device.
Assume: TypeAlias = Callable[[DataDependentCall], Any]

_TABLE: Final[dict[str, tuple[Assume, str]]] = {}

#: Modules that split their elements among branches: class name → share of one branch.
_SHARES: Final[dict[str, Callable[[Any], float]]] = {
    # Every region of interest is pooled from exactly one pyramid level.
    "MultiScaleRoIAlign": lambda module: 1 / max(1, len(module.scales or ())),
}


CONDITION_SENTENCE: Final = (
    "where the control flow tests data, 'all' of the elements pass and 'any' does not occur"
)


def share_of(module: Any) -> float:
    """The share of elements that pass a test on data inside ``module``; 1 unless it is known."""
    rule = _SHARES.get(type(module).__name__)
    return 1.0 if rule is None else rule(module)


def find(name: str) -> tuple[Assume, str] | None:
    """The policy for an op that needs data, and its sentence; None for every other op."""
    return _TABLE.get(name)


def _policy(sentence: str, *names: str) -> Callable[[Assume], Assume]:
    def register(function: Assume) -> Assume:
        for name in names:
            _TABLE[name] = (function, sentence)
        return function

    return register


def _indices(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.int64, device="meta")


@_policy("every element passes a test that selects by value", "aten.nonzero", "aten.argwhere")
def _nonzero(asked: DataDependentCall) -> Any:
    return _indices(asked.passing(asked.args[0].numel()), asked.args[0].dim())


@_policy("every element passes a test that selects by value", "aten.nonzero_numpy")
def _nonzero_numpy(asked: DataDependentCall) -> Any:
    return [
        _indices(asked.passing(asked.args[0].numel())) for _ in range(max(1, asked.args[0].dim()))
    ]


@_policy("every element passes a test that selects by value", "aten.masked_select")
def _masked_select(asked: DataDependentCall) -> Any:
    shape = torch.broadcast_shapes(asked.args[0].shape, asked.args[1].shape)
    return asked.args[0].new_empty((asked.passing(prod(shape)),))


@_policy("non-maximum suppression keeps every box", "torchvision.nms")
def _nms(asked: DataDependentCall) -> Any:
    return _indices(asked.args[0].shape[0])


@_policy(
    "all values of a 'unique' are distinct",
    "aten._unique2",
    "aten._unique",
    "aten.unique_dim",
    "aten.unique_consecutive",
    "aten.unique_dim_consecutive",
)
def _unique(asked: DataDependentCall) -> Any:
    numel = asked.args[0].numel()
    return asked.args[0].new_empty((numel,)), _indices(numel), _indices(numel)


@_policy(CONDITION_SENTENCE, "aten._local_scalar_dense", "aten.equal", "aten.is_nonzero")
def _condition(asked: DataDependentCall) -> Any:
    if len(asked.args) == 1 and asked.args[0].dtype is not torch.bool:
        raise unknown_number()
    return asked.all_of


@_policy("repeats add up to the size that is given for them", "aten.repeat_interleave")
def _repeat_interleave(asked: DataDependentCall) -> Any:
    size = asked.kwargs.get("output_size")
    if size is None:
        raise unknown_number()
    return _indices(size)


@_policy("a histogram of data has as many bins as its minimum length says", "aten.bincount")
def _bincount(asked: DataDependentCall) -> Any:
    length = asked.kwargs.get("minlength", asked.args[2] if len(asked.args) > 2 else 0)
    if not length:
        raise CaptureError("bincount of data without a minimum length has no known size")
    return _indices(length)


def expand_masks(indices: Sequence[Any], share: float) -> list[Any]:
    """Boolean indices as the integer indices that they stand for."""
    found: list[Any] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            found.append(index)
            continue
        count = round(index.numel() * share)
        found.extend(_indices(count) for _ in range(max(1, index.dim())))
    return found


MASK_SENTENCE: Final = "every element passes a test that selects by value"
