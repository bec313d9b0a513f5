"""Attention in kernels of their own: scores, softmax, dropout, values.

Before fused kernels (Dao et al., "FlashAttention", 2022) training stacks wrote the scores of every
head to memory: a batched GEMM, one kernel that scales, masks and normalizes in place, dropout, a
second batched GEMM (Korthikanti et al., "Reducing activation recomputation in large transformer
models", 2022, section 4.1). All positions are computed, masked or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gambrel.llm.dims import times
from gambrel.workload import Dim, Op, Tensor, Workload

#: Last part of the path of these ops, after the attention that they belong to.
PART: Final = "core"


def with_scores(forward: Workload) -> Workload:
    """The forward pass with every attention spelled out."""
    tape = _Tape(tensors=list(forward.tensors), storages=_storages(forward))
    ops: list[Op] = []
    for op in forward.ops:
        ops += tape.attention(op) if op.kind == "attention" else [op]
    return msgspec.structs.replace(forward, tensors=tuple(tape.tensors), ops=tuple(ops))


def _storages(forward: Workload) -> int:
    return 1 + max(t.storage for t in forward.tensors)


@dataclass(kw_only=True)
class _Tape:
    """The tensors of the workload, with those that are added."""

    tensors: list[Tensor]
    storages: int

    def attention(self, op: Op) -> tuple[Op, ...]:
        """The ops that one attention stands for."""
        s: dict[str, Any] = dict(op.sizes)
        count, rows, seen = times(s["batch"], s["heads"]), s["q_len"], s["kv_len"]
        lines = times(count, rows)
        elements = {"elements": times(lines, seen)}
        query, key, value = op.inputs[:3]
        dtype = self.tensors[op.outputs[0]].dtype
        scores = self._new((lines, seen), dtype)
        shares = self._new((lines, seen), dtype, over=scores)
        part = msgspec.structs.replace(op, module=f"{op.module}.{PART}", attrs={})
        product = {"b": count, "m": rows}

        def made(kind: str, name: str, inputs: Any, outputs: Any, **sizes: Any) -> Op:
            attrs: Any = {"function": name} if kind == "elementwise" else {}
            return msgspec.structs.replace(
                part, kind=kind, name=name, inputs=inputs, outputs=outputs, sizes=sizes, attrs=attrs
            )

        ops = [
            made("matmul", "scores", (query, key), (scores,), **product, n=seen, k=s["head_dim"]),
            made("softmax", "softmax", (scores,), (shares,), **elements, rows=lines),
        ]
        # Models with rotary positions have no dropout of scores in their published configurations.
        if "rotary_dim" not in op.attrs:
            kept, mask = self._new((lines, seen), dtype), self._new((lines, seen), "bool")
            ops.append(made("elementwise", "native_dropout", (shares,), (kept, mask), **elements))
            shares = kept
        width = {"n": s["v_head_dim"], "k": seen}
        ops.append(made("matmul", "values", (shares, value), op.outputs, **product, **width))
        return tuple(ops)

    def _new(self, shape: tuple[Dim, ...], dtype: str, over: int | None = None) -> int:
        """A tensor in memory of its own, or in the place of another."""
        if over is None:
            tensor = Tensor(shape=shape, dtype=dtype, storage=self.storages)
            self.storages += 1
        else:
            tensor = msgspec.structs.replace(self.tensors[over], version=1)
        self.tensors.append(tensor)
        return len(self.tensors) - 1
