"""What devices exchange after each part of a layer, at the look-up, the head and between stages."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from gambrel.dtypes import width_bytes
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.dims import share, times
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import Attention, LatentAttention, Layer, Mixture, ModelSpec
from gambrel.workload import Dim, Op, Tensor, Workload

_replace = msgspec.structs.replace


class Exchange:
    """Emits what devices exchange after a part of a layer.

    Args:
        spec: One device's share of the model.
        sharding: The layout.
    """

    def __init__(self, spec: ModelSpec, sharding: Sharding) -> None:
        self._sharding = sharding
        self._layers = {group.name: group.layer for group in spec.layers}

    def __call__(self, e: Emitter, part: str, x: Index, rows: Dim, width: int) -> Index:
        """Writes the collectives behind a part of a layer.

        Args:
            e: Where to write.
            part: ``"mixer"`` or ``"feed_forward"``.
            x: Its output.
            rows: Tokens on this device.
            width: Of the stream.

        Returns:
            The output as all devices have it.
        """
        layer = self._layers[e.scope.module.removesuffix(".*")]
        if part == "mixer":
            self._over_context(e, layer, rows)
            return self._reduce(e, "attention", x, rows, width)
        if isinstance(layer.feed_forward, Mixture):
            return self._over_experts(e, layer.feed_forward, x, rows, width)
        return self._reduce(e, "attention", x, rows, width)

    def _reduce(self, e: Emitter, axis: str, x: Index, rows: Dim, width: int) -> Index:
        """Every device has a part of each sum: they are added."""
        s = self._sharding
        devices = s.tensor if axis == "tensor" else s.attention_tensor
        if devices > 1:
            _collective(e, "all_reduce", axis, x, times(rows, width), devices)
        return x

    def _over_experts(self, e: Emitter, m: Mixture, x: Index, rows: Dim, width: int) -> Index:
        """Devices with the same tokens add their experts' results; others exchange tokens.

        With attention of its own sequences, a device sends a token to each device that holds one
        of its experts, once, and gets as many results back.
        """
        s = self._sharding
        if s.attention_data == 1:
            return self._reduce(e, "tensor", x, rows, width)
        # Whole blocks of 32 values of a row: any number of rows then has whole bytes.
        each = 32 * max(1, round((m.latent or width) * reached(m.top_k, s.expert) / 32))
        elements = times(rows, each)
        for function in ("dispatch", "combine"):
            _collective(e, "all_to_all", "expert", x, elements, s.expert, name=function)
        return x

    def _over_context(self, e: Emitter, layer: Layer, rows: Dim) -> None:
        """Prefill: keys and values of all tokens to all devices. Decode: partial outputs added."""
        s, mixer = self._sharding, layer.mixer
        if s.context == 1 or not isinstance(mixer, (Attention, LatentAttention)):
            return
        decoding = all(group.new_tokens == 1 for group in e.groups)
        out = mixer.heads * (mixer.value_dim if isinstance(mixer, Attention) else mixer.v_head_dim)
        width = out if decoding else mixer.kv_elements * s.context
        x = e.activation(rows, width, None if decoding else e.precisions.of("kv_cache"))
        function = "all_reduce" if decoding else "all_gather"
        _collective(e, function, "context", x, times(rows, width), s.context)


def reached(top_k: int, groups: int) -> float:
    """Devices that hold at least one of a token's experts, on average, of ``groups``.

    Experts picked evenly: a device holds none of ``top_k`` with probability (1 - 1/groups)^top_k.
    """
    return float(groups * (1 - (1 - 1 / groups) ** top_k))


def _collective(
    e: Emitter, function: str, axis: str, x: Index, elements: Dim, devices: int, name: str = ""
) -> None:
    payload = _payload(elements, e.tensors[x].dtype)
    e.op(
        "collective",
        (x,),
        (x,),
        name=name or function,
        payload_bytes=payload,
        devices=devices,
        attrs={"function": function, "axis": axis, "routed": axis == "expert"},
    )


def _payload(elements: Dim, dtype: str) -> Dim:
    width = Fraction(width_bytes(dtype)).limit_denominator(32)
    return share(elements, width.numerator, width.denominator)


def with_ends(workload: Workload, sharding: Sharding) -> Workload:
    """Collectives behind the look-up and the head, and what a stage hands to the next."""
    ops: list[Op] = []
    split = sharding.attention_tensor
    for op in workload.ops:
        ops.append(op)
        x = op.outputs[0] if op.outputs else -1
        if split > 1 and op.kind == "embedding" and op.module == "embedding":
            ops.append(_end(workload.tensors[x], x, "all_reduce", "attention", split, op.module))
        elif split > 1 and op.module == "lm_head":
            ops.append(_end(workload.tensors[x], x, "all_gather", "attention", split, op.module))
    if sharding.pipeline > 1:
        x = next(op.outputs[0] for op in workload.ops if op.kind == "embedding")
        ops.append(_end(workload.tensors[x], x, "send", "pipeline", 2, "stage"))
    return _replace(workload, ops=tuple(ops))


def _end(t: Tensor, x: Index, function: str, axis: str, devices: int, module: str) -> Op:
    elements = times(*t.shape)
    if function == "all_gather":
        elements = times(elements, devices)
    return Op(
        kind="collective",
        inputs=(x,),
        outputs=(x,),
        sizes={"payload_bytes": _payload(elements, t.dtype), "devices": devices},
        attrs={"function": function, "axis": axis},
        name=function,
        module=module,
    )
