"""LoRA adapters in serving: what they add to every layer of a device.

An adapter of rank r adds x·A·B to each linear layer of k inputs and n outputs, with A of k by r
and B of r by n (Hu et al., "LoRA", 2021). Requests of a batch use different adapters: one kernel
gathers the rows of each for x·A, a second one for the rest (Chen et al., "Punica", 2023), so that a
step reads the adapters that its rows need. All that may be in a batch stay in memory, in 16 bits.
"""

from __future__ import annotations

import msgspec

from gambrel.errors import InputError
from gambrel.workload import Op, Role, Tensor, Workload

#: Last part of the path of the ops.
PART = "lora"
_FORMAT = "bf16"
_LARGEST = 1024
#: Layers that engines store as one: each part has an A of its own.
_SLICES = {"qkv_proj": 3, "gate_up_proj": 2}


class Adapters(msgspec.Struct, frozen=True, kw_only=True):
    """The adapters that a replica holds.

    Attributes:
        rank: Of each.
        count: In memory; rows of a batch use them evenly.

    Raises:
        InputError: No rank, or no adapter.
    """

    rank: int
    count: int = 1

    def __post_init__(self) -> None:
        if type(self.rank) is not int or not 1 <= self.rank <= _LARGEST:
            raise InputError(f"lora_rank={self.rank!r}: give 1 to {_LARGEST:,}.")
        if type(self.count) is not int or not 1 <= self.count <= _LARGEST:
            raise InputError(f"lora_adapters={self.count!r}: give 1 to {_LARGEST:,}.")


def with_adapters(workload: Workload, adapters: Adapters) -> Workload:
    """The step with adapters on every linear layer of the repeated layers, routers apart.

    Experts of a mixture have none: engines adapt attention and dense parts of such models.
    """
    tensors, ops = list(workload.tensors), []
    storage = 1 + max(t.storage for t in tensors)
    for op in workload.ops:
        ops.append(op)
        if not _adapted(op, workload):
            continue
        made = _pair(op, workload, adapters, len(tensors), storage)
        tensors += made[0]
        storage += len(made[0])
        ops += made[1]
    return msgspec.structs.replace(workload, tensors=tuple(tensors), ops=tuple(ops))


def _adapted(op: Op, workload: Workload) -> bool:
    """Whether an op is a linear layer inside the layers."""
    return (
        op.kind == "matmul"
        and ".*" in op.module
        and not op.module.endswith(("router", "shared_expert_gate"))
        and len(op.inputs) > 1
        and workload.tensors[op.inputs[1]].role is Role.WEIGHT
        and op.sizes.get("b", 1) == 1
    )


def _pair(
    op: Op, workload: Workload, adapters: Adapters, first: int, storage: int
) -> tuple[list[Tensor], list[Op]]:
    """The two products of one linear layer with their tensors."""
    rows, n, k = (op.sizes[name] for name in ("m", "n", "k"))
    rank, count = adapters.rank, adapters.count
    wide = rank * _SLICES.get(op.module.rpartition(".")[2], 1)
    copies = workload.tensors[op.inputs[1]].copies
    path = f"{op.module}.{PART}"

    def weight(place: int, name: str, shape: tuple[object, ...]) -> Tensor:
        return Tensor(
            shape=shape,  # type: ignore[arg-type]  # whole numbers
            dtype=_FORMAT,
            storage=storage + place,
            role=Role.WEIGHT,
            name=f"{path}.{name}",
            copies=copies,
        )

    inner = Tensor(shape=(rows, wide), dtype=_FORMAT, storage=storage + 2)  # type: ignore[arg-type]
    made = [weight(0, "a", (count, wide, k)), weight(1, "b", (count, n, rank)), inner]
    common = {"rows": rows, "tokens": rows, "experts": count, "top_k": 1}

    def product(name: str, inputs: tuple[int, ...], output: int, n: object, k: object) -> Op:
        return msgspec.structs.replace(
            op,
            kind="grouped_matmul",
            name=name,
            module=path,
            inputs=inputs,
            outputs=(output,),
            sizes=common | {"n": n, "k": k},
            attrs={"compute_dtype": _FORMAT},
        )

    x, y = op.inputs[0], op.outputs[0]
    return made, [
        product("shrink", (x, first), first + 2, wide, k),
        product("expand", (first + 2, first + 1), y, n, rank),
    ]
