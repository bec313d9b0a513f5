"""Writing ops and tensors of a workload, one layer type at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from gambrel.analysis.estimate.features import DECODE_QUERIES
from gambrel.llm.dims import plus, times
from gambrel.llm.precision import Precisions
from gambrel.llm.step import SequenceGroup
from gambrel.workload import Dim, Op, Role, Symbol, Tensor

Index: TypeAlias = int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where ops are being written.

    Attributes:
        module: Path of the module.
        repeat: How many layers the ops stand for.
        copies: How many sets of weights these layers have.
    """

    module: str = ""
    repeat: int = 1
    copies: int = 1


@dataclass(slots=True)
class Emitter:
    """Collects the ops and tensors of a workload.

    Attributes:
        precisions: Number formats of the parts.
        groups: The sequences that pass.
        symbols: Sizes that are open, with their limits.
        routing_skew: Exponent of a Zipf distribution of tokens over experts; 0 is uniform.
        absorbed: How latent attention runs: True, False, or None for absorbed in decode and
            where drafted tokens are checked.
        as_code: Every op of the model's code is a kernel of its own; see `gambrel.llm.blocks.code`.
        shifted_norms: As in `ModelSpec`.
        written_norms: As in `ModelSpec`.
        rotation: Cosine and sine of the positions, where ``as_code`` and rotated.
        tensors: All tensors so far.
        ops: All ops so far.
        scope: Where the next op is.
    """

    precisions: Precisions
    groups: tuple[SequenceGroup, ...]
    symbols: tuple[Symbol, ...] = ()
    routing_skew: float = 0.0
    absorbed: bool | None = None
    as_code: bool = False
    shifted_norms: bool = False
    written_norms: bool = False
    rotation: tuple[Index, ...] = ()
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)
    _storages: int = 0
    _weights: dict[str, Index] = field(default_factory=dict)

    def split(self) -> Iterator[tuple[SequenceGroup, Dim]]:
        """Each group with the row of the stream at which its tokens begin."""
        start: Dim = 0
        for group in self.groups:
            yield group, start
            start = plus(start, group.tokens)

    @property
    def decodes(self) -> bool:
        """Whether every sequence adds one token, or the few that a draft proposes."""
        news = (group.new_tokens for group in self.groups)
        return all(isinstance(new, int) and new <= DECODE_QUERIES for new in news)

    @contextmanager
    def _within(self, scope: Scope) -> Iterator[None]:
        before, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = before

    def inside(
        self, name: str, repeat: int | None = None, copies: int = 1
    ) -> AbstractContextManager[None]:
        """Ops within are of the submodule ``name``, and of ``repeat`` layers where given."""
        path = f"{self.scope.module}.{name}" if self.scope.module else name
        if repeat is None:
            return self._within(replace(self.scope, module=path))
        return self._within(Scope(module=path, repeat=repeat, copies=copies))

    def outside(self) -> AbstractContextManager[None]:
        """Ops within are of no submodule and run once."""
        return self._within(Scope())

    def keep_weights(self, tensors: int, ops: int) -> None:
        """Takes back all that was written since, but for parameters: they are in memory unused.

        Args:
            tensors: Number of tensors then.
            ops: Number of ops then.
        """
        kept = [t for t in self.tensors[tensors:] if t.role in (Role.WEIGHT, Role.BUFFER)]
        del self.ops[ops:]
        del self.tensors[tensors:]
        for offset, tensor in enumerate(kept):
            self._weights[tensor.name] = tensors + offset
        self.tensors.extend(kept)

    def each_use(self) -> AbstractContextManager[None]:
        """Weights within are not shared: each of the repeated layers has its own."""
        return self._within(replace(self.scope, copies=self.scope.repeat))

    def tensor(self, shape: tuple[Dim, ...], dtype: str, **fields: Any) -> Index:
        """A tensor in memory of its own, unless ``storage`` names another's."""
        storage = fields.pop("storage", None)
        if storage is None:
            storage = self._storages
            self._storages += 1
        self.tensors.append(Tensor(shape=shape, dtype=dtype, storage=storage, **fields))
        return len(self.tensors) - 1

    def activation(self, rows: Dim, width: int, dtype: str | None = None) -> Index:
        """An intermediate of ``rows`` by ``width``."""
        return self.tensor((rows, width), dtype or self.precisions.activations)

    def view(self, of: Index, shape: tuple[Dim, ...], offset: Dim = 0) -> Index:
        """A part of a tensor, from an element on."""
        t = self.tensors[of]
        return self.tensor(shape, t.dtype, storage=t.storage, offset=offset, role=t.role)

    def weight(self, name: str, shape: tuple[int, ...], dtype: str | None = None) -> Index:
        """A parameter of the current module: the same one for the same name."""
        path = f"{self.scope.module}.{name}" if self.scope.module else name
        return self._kept(path, shape, dtype or self.precisions.activations, Role.WEIGHT)

    def buffer(self, name: str, shape: tuple[int, ...], dtype: str) -> Index:
        """What is stored beside the parameters: scales of quantized weights, indices."""
        path = f"{self.scope.module}.{name}" if self.scope.module else name
        return self._kept(path, shape, dtype, Role.BUFFER)

    def _kept(self, path: str, shape: tuple[int, ...], dtype: str, role: Role) -> Index:
        if path not in self._weights:
            self._weights[path] = self.tensor(
                shape, dtype, role=role, name=path, copies=self.scope.copies
            )
        return self._weights[path]

    def named(self, path: str) -> Index:
        """A weight that was made before, by its full path."""
        return self._weights[path]

    def cache(self, name: str, rows: Dim, width: int, dtype: str | None = None) -> Index:
        """Keys, values or latents kept of every layer; it holds what earlier steps wrote."""
        stored = dtype or self.precisions.of("kv_cache")
        return self._between_steps(name, (rows, width), stored, Role.KV_CACHE)

    def state(self, name: str, shape: tuple[Dim, ...], dtype: str | None = None) -> Index:
        """Recurrent state of every layer and sequence, in the format that the model keeps."""
        kept = self.precisions.state_format(dtype)
        return self._between_steps(name, shape, kept, Role.STATE)

    def _between_steps(self, name: str, shape: tuple[Dim, ...], dtype: str, role: Role) -> Index:
        return self.tensor(
            shape,
            dtype,
            role=role,
            version=1,
            name=f"{self.scope.module}.{name}",
            copies=self.scope.repeat,
        )

    def op(
        self,
        kind: str,
        inputs: tuple[Index, ...],
        outputs: tuple[Index, ...],
        /,
        name: str = "",
        **sizes_and_attrs: Any,
    ) -> None:
        """Writes an op. Numbers and polynomials are sizes; ``attrs`` holds the rest."""
        attrs = sizes_and_attrs.pop("attrs", {})
        self.ops.append(
            Op(
                kind=kind,
                inputs=inputs,
                outputs=outputs,
                sizes=sizes_and_attrs,
                attrs=attrs,
                name=name or kind,
                module=self.scope.module,
                repeat=self.scope.repeat,
            )
        )

    def elementwise(
        self, function: str, inputs: tuple[Index, ...], rows: Dim, width: int, dtype: str = ""
    ) -> Index:
        """A function of each element; the result is ``rows`` by ``width``."""
        out = self.activation(rows, width, dtype or None)
        self.op(
            "elementwise",
            inputs,
            (out,),
            name=function,
            elements=times(rows, width),
            attrs={"function": function},
        )
        return out
