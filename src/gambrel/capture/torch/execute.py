"""Runs one op: on meta tensors with the four parts that make that work, or for real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from gambrel.capture.aten.convolution import lies_last
from gambrel.capture.torch import policy
from gambrel.capture.torch.chance import CHANCE_SENTENCE
from gambrel.capture.torch.ledger import FROM_CHANCE
from gambrel.capture.torch.shapes import SHAPES
from gambrel.capture.torch.signature import Operands, Overload, replace_tensors
from gambrel.capture.torch.twins import Twins
from gambrel.capture.torch.unknowns import without_value
from gambrel.workload import Role

_META: Final = torch.device("meta")

_CONVOLUTION: Final = "aten.convolution"
#: ``tensor.item()``, ``int(tensor)``.
_NUMBER: Final = "aten._local_scalar_dense"
#: As the in-place views of torch (`unsqueeze_`, `resize_`), but not tagged as one.
_RESIZED: Final = "aten._resize_output_"

#: Results of a call that depend on nothing but its key: a position among the arguments' tensors,
#: or shape, strides and dtype of a fresh tensor.
Pattern = tuple["int | tuple[Any, Any, Any]", ...]


class Assumptions:
    """The sentences of a capture, each with the modules where it was needed."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, None]] = {}

    def add(self, sentence: str, module: str = "") -> None:
        """Notes that ``sentence`` was assumed in ``module``."""
        self._seen.setdefault(sentence, {})[module] = None

    def sentences(self) -> tuple[str, ...]:
        """One sentence each, with up to three of the places."""
        return tuple(_sentence(text, [m for m in at if m]) for text, at in self._seen.items())


def _sentence(text: str, places: list[str]) -> str:
    shown = ", ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
    where = f" (in {shown})" if places else ""
    return f"assumed that {text}{where}."


class MetaExecutor:
    """Runs ops on meta tensors."""

    real: Final = False

    def __init__(self, twins: Twins, assumptions: Assumptions) -> None:
        self.twins = twins
        self.assumptions = assumptions
        self._keeps_channels_last = False

    def prepare(
        self, overload: Overload, args: Sequence[Any], kwargs: dict[str, Any], operands: Operands
    ) -> tuple[Sequence[Any], dict[str, Any], Operands]:
        """Moves what is not yet on meta there: stray real tensors, devices of factories."""
        changed = False
        if (
            overload.takes_device
            and kwargs.get("device") != _META
            and ("device" in kwargs or not operands.tensors)
        ):
            kwargs = {**kwargs, "device": _META}
            kwargs.pop("pin_memory", None)
            changed = True
        if not all(t.is_meta for t in operands.tensors):
            args = [replace_tensors(v, self._on_meta) for v in args]
            kwargs = {k: replace_tensors(v, self._on_meta) for k, v in kwargs.items()}
            changed = True
        if changed:
            operands = Operands(overload.func, args, kwargs)
        return args, kwargs, operands

    def _on_meta(self, tensor: Any) -> Any:
        return tensor if tensor.is_meta else self.twins.adopt(tensor)

    def is_fill(self, overload: Overload, args: Sequence[Any]) -> bool:
        """Whether a copy writes one number of the host everywhere, as ``x[i:j] = 3`` does.

        On the CPU torch turns such an assignment into a fill; on meta it copies a scalar tensor.
        """
        if overload.name != "aten.copy_" or any(args[1].stride()) or not args[0].dim():
            return False
        source = self.twins.ledger.storage(args[1])
        owned = source.role in (Role.WEIGHT, Role.BUFFER)
        return source.id < 0 and source.value is not None and not owned

    def run(self, overload: Overload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Runs an op on meta tensors."""
        shaped = SHAPES.get(overload.name)
        result = None if shaped is None else shaped(*args, **kwargs)
        if result is None:
            result = overload.func(*args, **kwargs)
        return self._laid_out(args, result) if overload.name == _CONVOLUTION else result

    def _laid_out(self, args: Sequence[Any], result: Any) -> Any:
        """The result of a convolution with channels last where a model keeps them so.

        On meta tensors torch returns channels first. Weights of one pixel or one channel look the
        same in both layouts: the others say what the model keeps.
        """
        x, weight = args[:2]
        self._keeps_channels_last |= lies_last(weight.shape, weight.stride())
        last = self._keeps_channels_last and lies_last(x.shape, x.stride())
        if not last or result.dim() != 4:
            return result
        fresh = torch.empty(result.shape, dtype=result.dtype, device=_META)
        return fresh.to(memory_format=torch.channels_last)

    def remember(self, overload: Overload, result: Any) -> None:
        """Notes results that say whether all elements pass a test."""
        if overload.name in _ALL_OF:
            self.twins.ledger.storage(result).all_of = True

    def decide(
        self,
        overload: Overload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        operands: Operands,
        module: tuple[str, Any],
    ) -> tuple[bool, Any]:
        """Answers an op whose result depends on data: from known values, else by its policy.

        Returns:
            Whether the op is such a one, and its result.
        """
        found = policy.find(overload.name)
        if found is None:
            if overload.name in _INDEXED:
                return self._index(overload, args, kwargs, operands, module)
            return False, None
        if self.twins.all_known(operands.tensors):
            self._mention_chance(operands.tensors, module[0])
            values = self.twins.on_values(overload.func, args, kwargs)
            return True, _mapped(values, self.twins.from_value)
        assume, sentence = found
        absent = [s for t in operands.tensors if (s := self.twins.ledger.storage(t)).absent]
        if absent and overload.name == _NUMBER:
            raise without_value(absent[0].name)
        all_of = bool(operands.tensors) and self.twins.ledger.storage(operands.tensors[0]).all_of
        result = assume(policy.DataDependentCall(args, kwargs, policy.share_of(module[1]), all_of))
        self.assumptions.add(sentence, module[0])
        return True, result

    def _mention_chance(self, tensors: Sequence[Any], module: str) -> None:
        if self.twins.sources(tensors) & FROM_CHANCE:
            self.assumptions.add(CHANCE_SENTENCE, module)

    def _index(
        self,
        overload: Overload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        operands: Operands,
        module: tuple[str, Any],
    ) -> tuple[bool, Any]:
        """Indexing by a boolean mask selects by value; every other indexing does not."""
        indices = args[1]
        if all(i is None or i.dtype not in (torch.bool, torch.uint8) for i in indices):
            return False, None
        masks = [i for i in indices if i is not None]
        if self.twins.all_known(masks):
            self._mention_chance(masks, module[0])
            known = [None if i is None else self.twins.value(i) for i in indices]
            where = [
                self.twins.from_value(part)
                for i in known
                for part in ([i] if i is None or i.dtype not in _MASKS else torch.where(i))
            ]
        else:
            where = policy.expand_masks(indices, policy.share_of(module[1]))
            self.assumptions.add(policy.MASK_SENTENCE, module[0])
        result = overload.func(args[0], where, *args[2:], **kwargs)
        written = [args[0]] if overload.written else []
        self.twins.follow(overload.func, args, kwargs, operands, written, result)
        return True, result

    def replay(self, pattern: Pattern, operands: Operands) -> list[Any]:
        """The results that a call with the same key gave before, without running it."""
        tensors = operands.tensors
        return [
            tensors[p]
            if isinstance(p, int)
            else torch.empty_strided(p[0], p[1], dtype=p[2], device=_META)
            for p in pattern
        ]


#: Ops whose result says whether all elements pass a test.
_ALL_OF: Final = frozenset({"aten.all", "aten._is_all_true"})

_MASKS: Final = (torch.bool, torch.uint8)
_INDEXED: Final = frozenset(
    {
        "aten.index",
        "aten.index_put",
        "aten.index_put_",
        "aten._unsafe_index",
        "aten._unsafe_index_put",
        "aten._index_put_impl_",
    }
)


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([change(v) for v in value])
    return change(value)


def pattern_of(overload: Overload, results: Any, operands: Operands) -> Pattern | None:
    """What a replay needs; None when the call must run every time."""
    # What gives its argument another shape must really run.
    reshapes = torch.Tag.inplace_view in overload.func.tags or overload.name == _RESIZED
    if reshapes or "out" in overload.overload:
        return None
    found: list[Any] = []
    for result in results if isinstance(results, (list, tuple)) else (results,):
        place = _pattern(result, operands)
        if place is None:
            return None
        found.append(place)
    return tuple(found)


def _pattern(result: Any, operands: Operands) -> Any:
    if not isinstance(result, torch.Tensor) or result.is_neg() or result.is_conj():
        return None
    memory = result.untyped_storage()._cdata
    for position, tensor in enumerate(operands.tensors):
        if tensor is result:
            return position
        if tensor.untyped_storage()._cdata == memory:
            return None
    if result.storage_offset():
        return None
    return (result.shape, result.stride(), result.dtype)
