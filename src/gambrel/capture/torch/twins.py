"""Meta twins of real tensors, and real twins (values) of small meta tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import torch

from gambrel.capture.torch.chance import expect
from gambrel.capture.torch.ledger import FROM_CHANCE, FROM_INPUTS, FROM_WEIGHTS, Ledger
from gambrel.capture.torch.signature import Operands, replace_tensors, tensors_in
from gambrel.errors import CaptureError
from gambrel.workload import Role

#: Tensors up to this many elements keep their values: enough for masks, positions, anchors and
#: routing of common models, little enough that keeping them costs neither time nor memory.
KNOWN_ELEMENTS: Final = 65_536

_META: Final = torch.device("meta")
_SOURCES: Final = {Role.WEIGHT: FROM_WEIGHTS, Role.INPUT: FROM_INPUTS}
#: What ``model.to(torch.bfloat16)`` and the caller cast.
_CAST: Final = (Role.WEIGHT, Role.BUFFER, Role.INPUT)
_MIXED: Final = FROM_WEIGHTS | FROM_INPUTS


class Twins:
    """Pairs of tensors: meta for real ones that enter, real values for small meta ones.

    Args:
        ledger: Of the capture.
        narrow: The format in which what is fp32 of the model and its inputs enters, as after
            ``model.to(torch.bfloat16)``; None leaves it.
    """

    def __init__(self, ledger: Ledger, narrow: Any = None) -> None:
        self.ledger = ledger
        self._narrow = narrow
        # The real tensors stay referenced so that no other gets their identity.
        self._adopted: dict[int, tuple[Any, Any]] = {}
        self._memory: dict[int, Any] = {}
        self._parameters: dict[int, Any] = {}
        self._borrowed: set[int] = set()  # addresses of the user's own memory

    def adopt(
        self, real: Any, role: Role = Role.CONSTANT, name: str = "", *, known: bool = True
    ) -> Any:
        """The meta twin of a tensor; tensors that share memory have twins that share memory.

        Args:
            real: Any strided tensor, meta included (its twin is another one).
            role: What its memory is to the model, unless it was seen before.
            name: Parameter, buffer or argument name.
            known: Keep the values of a small tensor.

        Raises:
            CaptureError: A sparse, nested, quantized or wrapped tensor.
        """
        found = self._adopted.get(id(real))
        if found is not None:
            return found[1]
        _refuse_exotic(real, name)
        if role is Role.CONSTANT and real.dtype is torch.float32 and real.numel():
            self.ledger.asks_fp32 = True
        with torch.no_grad():
            twin = self._twin(real, role, name, known)
        self._adopted[id(real)] = (real, twin)
        return twin

    def _twin(self, real: Any, role: Role, name: str, known: bool) -> Any:
        memory = real.untyped_storage()
        dtype, size = real.dtype, memory.nbytes()
        casts = self._narrow is not None and role in _CAST and dtype is torch.float32
        if casts:
            dtype, size = self._narrow, size * self._narrow.itemsize // real.itemsize
        base = self._memory.get(memory._cdata)
        if base is None:
            whole = real.is_contiguous() and real.nbytes == memory.nbytes()
            base = (
                torch.empty(real.shape, dtype=dtype, device=_META)
                if whole
                else torch.empty(size, dtype=torch.uint8, device=_META)
            )
            self._memory[memory._cdata] = base
            self.ledger.label(base, role, name)
            self.ledger.storage(base).absent = real.is_meta and role in (Role.WEIGHT, Role.BUFFER)
            if known and not real.is_meta and memory.nbytes() <= KNOWN_ELEMENTS * real.itemsize:
                storage = self.ledger.storage(base)
                storage.value = _cast(memory, real.dtype, dtype) if casts else memory.cpu()
                storage.sources = _SOURCES.get(role, 0)
                self._borrowed.add(storage.value.data_ptr())
            if whole:
                return base
        twin = torch.empty(0, dtype=dtype, device=_META)
        return twin.set_(base.untyped_storage(), real.storage_offset(), real.shape, real.stride())

    def parameter(self, real: Any, name: str) -> Any:
        """The meta twin of a parameter, a leaf that asks for gradients where that one does."""
        found = self._parameters.get(id(real))
        if found is None:
            twin = (
                self._wrapped(real, name)
                if is_wrapper(real)
                else self.adopt(real, Role.WEIGHT, name)
            )
            found = torch.nn.Parameter(twin, requires_grad=real.requires_grad)
            self._parameters[id(real)] = found
        return found

    def _wrapped(self, real: Any, name: str) -> Any:
        """A quantized weight of torchao and the like, with its parts on meta.

        The largest part stands for the parameter; scales and zero points are kept beside it.
        """
        names, context = real.__tensor_flatten__()
        parts = {n: getattr(real, n) for n in names}
        main = max(parts, key=lambda n: parts[n].numel())
        inner = {
            n: self.adopt(part, Role.WEIGHT if n == main else Role.BUFFER, f"{name}.{n}")
            for n, part in parts.items()
        }
        return type(real).__tensor_unflatten__(inner, context, real.shape, real.stride())

    def value(self, tensor: Any) -> Any:
        """The real twin of a meta tensor, sharing memory with those of its views, or None."""
        memory = self.ledger.storage(tensor).value
        if memory is None:
            return None
        return torch.empty(0, dtype=tensor.dtype).set_(
            memory, tensor.storage_offset(), tensor.shape, tensor.stride()
        )

    def sources(self, tensors: Sequence[Any]) -> int:
        """Of what the values of these tensors are made."""
        found = 0
        for tensor in tensors:
            found |= self.ledger.storage(tensor).sources
        return found

    def all_known(self, tensors: Sequence[Any]) -> bool:
        """Whether the values of all these tensors are known."""
        storage = self.ledger.storage
        return all(storage(t).value is not None for t in tensors)

    def on_values(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Calls ``func`` on the real twins of its arguments, on the CPU."""
        named = {k: replace_tensors(v, self.value) for k, v in kwargs.items()}
        if "device" in named:
            named["device"] = torch.device("cpu")
        return func(*[replace_tensors(v, self.value) for v in args], **named)

    def keep(self, tensor: Any, value: Any) -> None:
        """Makes ``value`` known as the contents of a fresh meta tensor."""
        if tensor.shape != value.shape or tensor.dtype != value.dtype:
            return
        storage = self.ledger.storage(tensor)
        if tensor.stride() == value.stride() and value.storage_offset() == 0:
            storage.value = value.untyped_storage()
        else:
            storage.value = torch.UntypedStorage(tensor.untyped_storage().nbytes())
            self.value(tensor).copy_(value)

    def from_value(self, value: Any) -> Any:
        """A fresh meta tensor whose contents are ``value``; anything but a tensor unchanged."""
        if not isinstance(value, torch.Tensor):
            return value
        twin = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
        if value.numel() <= KNOWN_ELEMENTS:
            self.keep(twin, value)
        return twin

    def follow(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        operands: Operands,
        written: Sequence[Any],
        fresh: Any,
    ) -> None:
        """Updates the values after a call: computes them where all are known, else forgets them.

        Args:
            func: The overload that was called.
            args: Its arguments, meta.
            kwargs: Its keyword arguments, meta.
            operands: The tensors among them.
            written: Those that it wrote to.
            fresh: What it returned.
        """
        results = list(tensors_in(fresh))
        small = all(prod(t.shape) <= KNOWN_ELEMENTS for t in results)
        sources = self.sources(operands.tensors)
        if not (small and self.all_known(operands.tensors)) or sources & _MIXED == _MIXED:
            self._forget(written)
            return
        if torch.Tag.nondeterministic_seeded in func.tags:
            sources |= FROM_CHANCE
        self._own(written)
        try:
            values = list(tensors_in(self.on_values(func, args, kwargs)))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            self._forget(written)
            return
        for tensor, value in zip(results, values, strict=False):
            storage = self.ledger.storage(tensor)
            storage.sources |= sources
            if storage.value is None:
                self.keep(tensor, value)
            if sources & FROM_CHANCE and value.numel() == 1:
                expect(func, args, self.value(tensor))

    def _own(self, written: Sequence[Any]) -> None:
        """Copies the user's memory before an op writes over its values."""
        for tensor in written:
            storage = self.ledger.storage(tensor)
            if storage.value is not None and storage.value.data_ptr() in self._borrowed:
                storage.value = storage.value.clone()

    def _forget(self, written: Sequence[Any]) -> None:
        for tensor in written:
            self.ledger.storage(tensor).value = None


def _cast(memory: Any, dtype: Any, to: Any) -> Any:
    """A copy of memory that holds numbers of one format, in another."""
    return torch.empty(0, dtype=dtype).set_(memory.cpu()).to(to).untyped_storage()


def is_wrapper(tensor: Any) -> bool:
    """Whether a tensor is made of others, which a capture can look into."""
    return type(tensor) not in _PLAIN and hasattr(type(tensor), "__tensor_unflatten__")


def _refuse_exotic(tensor: Any, name: str) -> None:
    called = f"tensor {name!r}" if name else "a tensor"
    if tensor.layout is not torch.strided or tensor.is_nested:
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        advice = (
            "pad the rows to the longest one"
            if tensor.is_nested
            else "give it dense (.to_dense()), or choose --sparse for 2:4 sparsity"
        )
        raise CaptureError(
            f"{called} is {kind}; capture takes dense strided tensors only: {advice}."
        )
    if tensor.is_quantized:
        raise CaptureError(
            f"{called} is quantized ({tensor.dtype}); capture the floating-point model and choose "
            "the precision in the analysis, e.g. --precision int8."
        )
    if type(tensor) not in _PLAIN and hasattr(type(tensor), "__tensor_flatten__"):
        raise CaptureError(
            f"{called} is a {type(tensor).__name__}, a wrapper that capture cannot look into; "
            "capture the model before wrapping or quantizing it."
        )


_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
