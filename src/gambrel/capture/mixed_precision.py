"""Automatic mixed precision of a network from its ops, where its code is not at hand.

Where it is, the casts are recorded; see `gambrel.capture.torch.autocast`, whose rules these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from gambrel.dtypes import width_bytes
from gambrel.workload import Op, Role, Tensor, Workload
from gambrel.workload.formats import in_format
from gambrel.workload.model import AUTOCAST

#: Ops, most of them by kind, that PyTorch runs in 16 bits inside ``torch.autocast``.
_LOWER: Final = frozenset({"matmul", "convolution", "attention", "recurrent", "aten._prelu_kernel"})
#: What it calls the ops that it runs in fp32, and those of the widest format among their operands.
#: Source: https://docs.pytorch.org/docs/stable/amp.html
_IN_FP32: Final = frozenset(
    {
        *("aten.native_layer_norm", "aten.native_group_norm", "aten._fused_rms_norm"),
        *("aten._softmax", "aten._log_softmax", "aten.softplus", "aten.exp", "aten.log"),
        *("aten.pow", "aten.reciprocal", "aten.rsqrt", "aten.sum", "aten.cumsum"),
        *("aten.linalg_vector_norm", "aten.upsample_nearest2d", "aten.upsample_bilinear2d"),
        *("aten.upsample_bicubic2d", "aten.upsample_linear1d", "aten.upsample_nearest1d"),
    }
)
_WIDEST: Final = frozenset({"aten.grid_sampler_2d", "aten.index_put_"})
#: Kinds whose result is of the widest format that they read, where single numbers do not count.
_PROMOTES: Final = frozenset({"elementwise", "copy"})
_SOFTMAX: Final = frozenset({"aten._softmax", "aten._log_softmax"})
#: Formats that it casts between.
_CAST: Final = frozenset({"fp32", "fp16", "bf16"})
_ASSUMED: Final = "casts are those of torch.autocast around the forward pass, by kinds of ops"


def in_autocast(forward: Workload, precision: str) -> Workload:
    """A forward pass as it runs inside ``torch.autocast``.

    Args:
        forward: A network in one format; sizes may be open.
        precision: ``"fp16"`` or ``"bf16"``.
    """
    forward = in_format(forward, forward.dtype)
    return _Mixed(forward, precision).workload()


@dataclass(slots=True)
class _Mixed:
    """Casts on their way through a forward pass.

    Attributes:
        forward: The network.
        lower: The 16-bit format.
        tensors: Those of the forward pass, then what casts make.
        formats: What memory holds, where that is another format than before.
        weights: Casts of learned tensors by memory and format: made once in a pass.
    """

    forward: Workload
    lower: str
    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    formats: dict[int, str] = field(default_factory=dict)
    weights: dict[tuple[int, str], int] = field(default_factory=dict)
    storages: int = 0

    def workload(self) -> Workload:
        """The pass with its casts."""
        self.tensors = list(self.forward.tensors)
        self.storages = 1 + max((t.storage for t in self.tensors), default=-1)
        written = {t.storage for t in self.tensors if t.role in _GIVEN}
        for op in self.forward.ops:
            fresh = [i for i in op.outputs if self.tensors[i].storage not in written]
            self._run(op, fresh)
            written.update(self.tensors[i].storage for i in op.outputs)
        tensors = tuple(
            replace(t, dtype=self.formats[t.storage])
            if t.storage in self.formats and t.dtype in _CAST
            else t
            for t in self.tensors
        )
        return replace(
            self.forward,
            tensors=tensors,
            ops=tuple(self.ops),
            precisions=f"{AUTOCAST}{self.lower}",
            assumptions=(*self.forward.assumptions, _ASSUMED),
            recipe="",
        )

    def _run(self, op: Op, fresh: Sequence[int]) -> None:
        """Writes an op with its operands as torch casts them.

        Args:
            op: Of the forward pass.
            fresh: Results in memory that nothing wrote before; other memory keeps its format.
        """
        dtype, result = self._of(op)
        if dtype is not None:
            op = replace(op, inputs=tuple(self._cast(i, dtype, op) for i in op.inputs))
        self.ops.append(op)
        if result is not None:
            for index in fresh:
                self.formats[self.tensors[index].storage] = result

    def _of(self, op: Op) -> tuple[str | None, str | None]:
        """What an op casts its operands to, and the format of what it makes; None for as it is."""
        own = [self._format(i) for i in op.inputs]
        floats = [f for f in own if f in _CAST]
        if not floats or op.kind == "fill":
            return None, None
        if op.kind in _LOWER or op.name in _LOWER:
            return self.lower, self.lower
        widest = max(floats, key=width_bytes)
        if op.name in _IN_FP32:
            at_once = op.name in _SOFTMAX and own[0] == "fp16"  # a kernel that reads fp16
            return (None if at_once else "fp32"), "fp32"
        if op.name in _WIDEST:
            return widest, widest
        if op.attrs.get("function") == "cast":
            named = own[0] not in _CAST or self._makes_another(op)
            return None, None if named else own[0]
        if op.kind in _PROMOTES:
            spread = [f for i, f in zip(op.inputs, own, strict=True) if self.tensors[i].shape != ()]
            return None, max((f for f in spread if f in _CAST), key=width_bytes, default=widest)
        return None, own[0] if own[0] in _CAST else widest

    def _makes_another(self, op: Op) -> bool:
        """Whether a cast of the forward pass makes another format than the network's own."""
        return {self.tensors[i].dtype for i in op.outputs} != {self.forward.dtype}

    def _format(self, index: int) -> str:
        t = self.tensors[index]
        return self.formats.get(t.storage, t.dtype) if t.dtype in _CAST else t.dtype

    def _cast(self, index: int, dtype: str, op: Op) -> int:
        """A tensor in a format, by a kernel of its own where it is in another."""
        own, t = self._format(index), self.tensors[index]
        if own == dtype or own not in _CAST:
            return index
        key = (t.storage, dtype)
        learned = t.role is Role.WEIGHT
        if learned and key in self.weights:
            whole = self.tensors[self.weights[key]]
            return self._new(replace(t, role=Role.ACTIVATION, name=""), dtype, whole.storage)
        self.storages += 1
        made = self._new(
            replace(t, role=Role.ACTIVATION, name="", offset=0, version=0),
            dtype,
            self.storages - 1,
        )
        self.ops.append(
            Op(
                kind="copy",
                inputs=(index,),
                outputs=(made,),
                attrs={"function": "cast"},
                name="aten._to_copy",
                module=op.module,
                repeat=op.repeat,
            )
        )
        if learned:
            self.weights[key] = made
        return made

    def _new(self, t: Tensor, dtype: str, storage: int) -> int:
        self.tensors.append(replace(t, dtype=dtype, storage=storage))
        return len(self.tensors) - 1


#: What is there before a run.
_GIVEN: Final = frozenset(
    {Role.WEIGHT, Role.BUFFER, Role.INPUT, Role.CONSTANT, Role.KV_CACHE, Role.STATE}
)
