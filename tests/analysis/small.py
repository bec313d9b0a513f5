"""A two-layer perceptron and a toy device, small enough to count by hand."""

from gambrel.device.model import Ceiling, Device, Link, MemoryLevel, Source
from gambrel.workload import Op, Role, Symbol, Tensor, Workload

NOWHERE = Source(title="made up for a test", confidence="user")


def device(**changes):
    """Matrix fp16 1000 FLOP/s, vector fp32 100 FLOP/s, memory 10 byte/s, 4,000 bytes.

    Its kin are the GPUs of compute capability 8.0, so that kernels under PyTorch have an expected
    time.
    """
    fields = {
        "id": "toy",
        "name": "Toy",
        "category": "datacenter gpu",
        "architecture": "sm_80",
        "ceilings": (
            Ceiling(
                engine="matrix",
                dtype="fp16",
                flop_per_s=1000.0,
                sparse_flop_per_s=2000.0,
                source=NOWHERE,
            ),
            Ceiling(engine="vector", dtype="fp32", flop_per_s=100.0, source=NOWHERE),
        ),
        "memory": (MemoryLevel(name="DRAM", capacity_bytes=4000, byte_per_s=10.0),),
    }
    return Device(**{**fields, **changes})


def host_fed(capacity):
    """An accelerator without DRAM: on-chip memory and a host link of 5 byte/s."""
    return device(
        memory=(MemoryLevel(name="SRAM", capacity_bytes=capacity),),
        links=(Link(name="pcie", byte_per_s=5.0, direction="per direction", source=NOWHERE),),
    )


def perceptron(**changes):
    """x[batch, 4] · w1[4, 8] → relu → · w2[8, 2]; storages 0 to 5 in that order."""

    def tensor(shape, storage, **more):
        return Tensor(shape=shape, dtype="fp32", storage=storage, **more)

    fields = {
        "name": "perceptron",
        "dtype": "fp32",
        "chosen_dtype": False,
        "symbols": (Symbol(name="batch", default=1),),
        "tensors": (
            tensor(("batch", 4), 0, role=Role.INPUT, name="x"),
            tensor((4, 8), 1, role=Role.WEIGHT, name="w1"),
            tensor(("batch", 8), 2),
            tensor(("batch", 8), 3),
            tensor((8, 2), 4, role=Role.WEIGHT, name="w2"),
            tensor(("batch", 2), 5, role=Role.OUTPUT),
        ),
        "ops": (
            Op(
                kind="matmul",
                name="aten.mm",
                module="fc1",
                inputs=(0, 1),
                outputs=(2,),
                sizes={"b": 1, "m": "batch", "n": 8, "k": 4},
            ),
            Op(
                kind="elementwise",
                name="aten.relu",
                module="act",
                inputs=(2,),
                outputs=(3,),
                sizes={"elements": "8*batch"},
                attrs={"function": "relu"},
            ),
            Op(
                kind="matmul",
                name="aten.mm",
                module="fc2",
                inputs=(3, 4),
                outputs=(5,),
                sizes={"b": 1, "m": "batch", "n": 2, "k": 8},
            ),
        ),
        "outputs": (5,),
    }
    return Workload(**{**fields, **changes})
