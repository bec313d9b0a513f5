"""Records every op that a model dispatches, with its data flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gambrel.capture.torch.execute import MetaExecutor
from gambrel.capture.torch.ledger import Ledger
from gambrel.capture.torch.plan import CallPlan, plan_of
from gambrel.capture.torch.scopes import Scopes, source_line
from gambrel.capture.torch.scripted import WHOLE
from gambrel.capture.torch.signature import Operands, Overload, overload_of, tensors_in
from gambrel.errors import CaptureError
from gambrel.workload import Attributes, Op, Phase, Role, Sizes

_FILL: Final = torch.ops.aten.fill_.Tensor

NESTED: Final = (
    "the model makes a nested tensor (torch.nested), whose rows have lengths of their own; capture "
    "it with padded tensors of the longest row instead"
)

#: Kinds that neither compute nor move data; not recorded.
_FREE: Final = frozenset({"view", "sync"})


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """The dispatch mode under which a model runs while it is captured.

    Attributes:
        ops: What was recorded so far.
        phase: Phase of the ops to come.
        scopes: Where they come from.
        last: The overload that was dispatched last, for messages.
        muted: While positive, nothing is recorded and ops run as they are.
    """

    def __init__(
        self,
        ledger: Ledger,
        scopes: Scopes,
        executor: MetaExecutor | None,
        *,
        source: bool = True,
        views: bool = False,
    ) -> None:
        super().__init__()
        self.ledger = ledger
        self.scopes = scopes
        self.executor = executor
        self.ops: list[Op] = []
        self.phase = Phase.FORWARD
        self.last = ""
        self.muted = 0
        self.owners: dict[int, str] = {}
        #: top_k of the routing under way, and for each expert weight the one it was used with.
        self.top_k = 0
        self.top_k_of: dict[int, int] = {}
        self._plans: dict[Any, CallPlan] = {}
        self._source = source
        self._views = views

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keeps torch from importing its compiler (about two seconds) at the first op."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(hasattr(kind, "__tensor_unflatten__") for kind in types):
            if any(kind.__name__ == "NestedTensor" for kind in types):
                raise CaptureError(NESTED)
            return NotImplemented  # the wrapper takes itself apart, and its parts come back here
        if self.muted:
            return func(*args, **kwargs)
        overload = overload_of(func)
        self.last = overload.name
        if overload.name.startswith("prim."):
            return func(*args, **kwargs)
        whole = self.executor is not None and overload.name in WHOLE
        if overload.composite and torch.is_inference_mode_enabled() and not whole:
            # Elsewhere autograd takes composites apart before they come here.
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if self.executor is None:
            return self._run(overload, args, kwargs, Operands(func, args, kwargs), None)
        args, kwargs, operands = self.executor.prepare(
            overload, args, kwargs, Operands(func, args, kwargs)
        )
        if self.executor.is_fill(overload, args):
            overload, args, kwargs = overload_of(_FILL), (args[0], args[1].as_strided((), ())), {}
            operands = Operands(_FILL, args, kwargs)
        return self._run(overload, args, kwargs, operands, self.executor)

    def _run(
        self,
        overload: Overload,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        operands: Operands,
        executor: MetaExecutor | None,
    ) -> Any:
        if overload.views:
            result = overload.func(*args, **kwargs)
            if overload.name == "aten.lift_fresh":  # a tensor made from Python numbers
                self.ledger.label(result, Role.CONSTANT, only=Role.ACTIVATION)
            if self._views:
                self._view(overload, operands, result)
            return result
        if executor is not None:
            module = (self.scopes.path, self.scopes.module)
            decided, result = executor.decide(overload, args, kwargs, operands, module)
            if decided:
                plan = plan_of(overload, args, kwargs, operands, result)
                self._note(overload, plan, operands, result)
                return result
        plan_or_none = self._plans.get(operands.key) if executor is not None else None
        if plan_or_none is not None and plan_or_none.pattern is not None and executor is not None:
            plan = plan_or_none
            made = executor.replay(plan.pattern, operands)  # type: ignore[arg-type]
            result = made[0] if plan.single else tuple(made)
        else:
            result = (
                overload.func(*args, **kwargs)
                if executor is None
                else executor.run(overload, args, kwargs)
            )
            plan = plan_of(overload, args, kwargs, operands, result)
            self._plans[operands.key] = plan
        if executor is not None:
            written = [operands.tensors[i] for i in plan.mutated]
            executor.twins.follow(overload.func, args, kwargs, operands, written, result)
            executor.remember(overload, result)
        self._note(overload, plan, operands, result)
        return result

    def _note(self, overload: Overload, plan: CallPlan, operands: Operands, result: Any) -> None:
        """Appends the op: inputs in their present version, then the writes, then the outputs."""
        if plan.kind in _FREE:
            return
        entry = self.ledger.entry
        tensors = operands.tensors
        if not tensors and any(t.dtype is torch.float32 for t in tensors_in(result)):
            self.ledger.asks_fp32 = True  # made of no tensor, whose format it would have
        inputs = tuple([entry(tensors[i]) for i in plan.reads])
        for i in plan.mutated:
            self.ledger.storage(tensors[i]).version += 1
        known = len(tensors)
        results = list(tensors_in(result)) if any(i >= known for i in plan.writes) else ()
        outputs = tuple(
            [entry(tensors[i]) if i < known else entry(results[i - known]) for i in plan.writes]
        )
        sizes = plan.sizes
        if plan.kind == "grouped_matmul":
            sizes = self._routed(sizes, tensors[plan.reads[1]])
        self._append(plan.kind, overload.name, inputs, outputs, sizes, plan.attrs)

    def _routed(self, sizes: Sizes, weight: Any) -> Sizes:
        """Adds what ATen does not say: to how many experts a token was sent."""
        memory = self.ledger.storage(weight).id
        if self.top_k:
            self.top_k_of[memory] = self.top_k
        top_k = self.top_k_of.get(memory, 1)
        rows = sizes["rows"]
        if top_k == 1 or not isinstance(rows, int) or rows % top_k:
            return sizes
        return {**sizes, "top_k": top_k, "tokens": rows // top_k}

    def _view(self, overload: Overload, operands: Operands, result: Any) -> None:
        inputs = tuple(self.ledger.entry(t) for t in operands.tensors)
        outputs = tuple(self.ledger.entry(t) for t in tensors_in(result))
        self._append("view", overload.name, inputs, outputs, {}, {})

    def semantic(
        self,
        name: str,
        described: tuple[str, Sizes, Attributes],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> None:
        """Records an op that gambrel ran in place of a library's many.

        Args:
            name: What to call it, e.g. ``"transformers.mamba_selective_scan"``.
            described: Kind, sizes and attributes.
            inputs: Tensors that it reads; None is skipped.
            outputs: Tensors that it writes for the first time; None is skipped.
        """
        entry = self.ledger.entry
        self.last = name
        self._append(
            described[0],
            name,
            tuple(entry(t) for t in inputs if t is not None),
            tuple(entry(t) for t in outputs if t is not None),
            *described[1:],
        )

    def update(
        self,
        name: str,
        described: tuple[str, Sizes, Attributes],
        *,
        reads: Sequence[Any],
        writes: Sequence[Any],
    ) -> None:
        """Records an op that writes over tensors that exist.

        Args:
            name: What to call it.
            described: Kind, sizes and attributes.
            reads: Tensors that it reads, in their present version.
            writes: Tensors that get a new version.
        """
        inputs = tuple(self.ledger.entry(t) for t in reads)
        for tensor in writes:
            self.ledger.storage(tensor).version += 1
        outputs = tuple(self.ledger.entry(t) for t in writes)
        kind, sizes, attrs = described
        self._append(kind, name, inputs, outputs, sizes, attrs)

    def _append(
        self,
        kind: str,
        name: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        sizes: Sizes,
        attrs: Attributes,
    ) -> None:
        backward = self.phase is Phase.BACKWARD
        self.ops.append(
            Op(
                kind=kind,
                inputs=inputs,
                outputs=outputs,
                sizes=sizes,
                attrs=attrs,
                name=name,
                module=self.scopes.of_backward(self.owners) if backward else self.scopes.path,
                source=source_line() if self._source and not backward else "",
                phase=self.phase,
            )
        )
