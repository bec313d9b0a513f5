"""The sparse peak serves products with weights only."""

import pytest

import gambrel
from gambrel.analysis.analyze import Settings, analyze
from gambrel.device.model import MemoryLevel
from gambrel.ops import OpView, TensorView, cost
from gambrel.workload import Op, Phase, Role, Tensor, Workload
from tests.analysis.small import device


def products(second, phase="forward"):
    """x[100, 100] · y[100, 100] in fp16, y in the given role: 2,000,000 FLOP."""
    roles = (Role.INPUT, second, Role.OUTPUT)
    return Workload(
        name="product",
        dtype="fp16",
        tensors=tuple(
            Tensor(shape=(100, 100), dtype="fp16", storage=i, role=r) for i, r in enumerate(roles)
        ),
        ops=(
            Op(
                kind="matmul",
                inputs=(0, 1),
                outputs=(2,),
                sizes={"m": 100, "n": 100, "k": 100},
                phase=Phase(phase),
            ),
        ),
        outputs=(2,),
    )


@pytest.mark.parametrize(
    ("role", "phase", "seconds"),
    [
        (Role.WEIGHT, "forward", 1000.0),  # 2e6 FLOP at the sparse 2,000 FLOP/s
        (Role.ACTIVATION, "forward", 2000.0),  # at the dense 1,000 FLOP/s
        (Role.KV_CACHE, "forward", 2000.0),
        (Role.WEIGHT, "backward", 2000.0),
    ],
)
@pytest.mark.parametrize("runtime", ["pytorch", "perfect"])
def test_only_forward_products_with_weights_are_faster(role, phase, seconds, runtime):
    # 60,000 bytes at 1e9 byte/s take no time beside that.
    on = device(memory=(MemoryLevel(name="DRAM", byte_per_s=1e9),))
    found = analyze(products(role, phase), on, Settings(sparsity=True, runtime=runtime))
    assert found.roofline_time_s == seconds
    dense = analyze(products(role, phase), on, Settings(runtime=runtime))
    assert dense.roofline_time_s == 2000.0
    assert any("structured sparsity" in text for text in found.assumptions)
    assert not any("structured sparsity" in text for text in dense.assumptions)


def test_attention_keeps_the_dense_peak():
    dense = gambrel.analyze("llama-3-8b", "h100")
    sparse = gambrel.analyze("llama-3-8b", "h100", sparsity=True)
    for before, after in zip(dense.ops, sparse.ops, strict=True):
        if before.kind == "attention":
            assert after.measures.roofline_time_s == before.measures.roofline_time_s
    peaks = {w.peak_flop_per_s for w in sparse.total.work if w.work_class == "matrix"}
    assert sorted(p / 1e14 for p in peaks) == pytest.approx([9.894, 19.788], rel=1e-3)
    # 989.4 TFLOP/s over 3.35 TB/s is 295 dense; the sparse ridge point is twice that.
    assert round(sparse.ridge_point / dense.ridge_point, 3) == 2


def test_the_cost_says_what_may_be_pruned():
    def view(kind, *roles):
        inputs = tuple(
            TensorView(shape=(2, 2), dtype="fp16", elements=4, storage=i, role=r)
            for i, r in enumerate(roles)
        )
        sizes = {"m": 2, "n": 2, "k": 2, "elements": 4, "rows": 2}
        return OpView(kind=kind, inputs=inputs, outputs=inputs[:1], sizes=sizes)

    assert cost(view("matmul", "activation", "weight")).prunable
    assert cost(view("matmul", "weight", "activation")).prunable
    assert not cost(view("matmul", "activation", "activation")).prunable
    assert not cost(view("matmul", "activation", "activation", "weight")).prunable  # a bias
    assert not cost(view("softmax", "activation", "weight")).prunable
