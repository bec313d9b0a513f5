"""The very calls that a GPU gets, on tensors that say they lie on one: torch checks them."""

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from gambrel.measure.gpu import products, streams  # noqa: E402
from tests.measure.gpu.doubles import bench  # noqa: E402


@pytest.fixture
def thought():
    with FakeTensorMode(), torch.no_grad():
        yield


def made(task_list):
    return [(str(task), way) for task in task_list for way in task.ways]


def on_gpu(**changes):
    return bench(
        **(
            {"device": "cuda:0", "sides": (64,), "level2_bytes": 1 << 20, "repeated": None}
            | changes
        )
    )


PRODUCTS = made(products.products(on_gpu()))


@pytest.mark.parametrize(("name", "way"), PRODUCTS, ids=[f"{n}, {w.note}" for n, w in PRODUCTS])
def test_every_product_is_one_that_torch_takes(thought, name, way):
    call = way.prepare()
    result = call()
    assert result.device.type == "cuda"
    assert tuple(result.shape) == (64, 64)
    wanted = {"int8": torch.int32, "fp8": torch.bfloat16, "fp64": torch.float64}
    plain = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16}
    kinds = wanted | plain | {"bf16": torch.bfloat16}
    assert result.dtype == kinds[name.split()[0]]
    # 2 * 64^3 FLOP.
    assert way.work == 524288


def test_layouts_that_the_library_would_refuse_are_refused_here_too(thought):
    def drawn(side, kind=torch.float8_e4m3fn):
        return torch.randn(side, side, device="cuda:0").to(kind)

    one = torch.ones((), device="cuda:0")
    scales = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16}
    torch._scaled_mm(drawn(64), drawn(64).t(), **scales)
    for wrong in (
        lambda: torch._scaled_mm(drawn(64), drawn(64), **scales),
        lambda: torch._scaled_mm(drawn(60), drawn(60).t(), **scales),
        lambda: torch._scaled_mm(drawn(64), drawn(64).t(), **(scales | {"scale_a": one.double()})),
    ):
        with pytest.raises(RuntimeError):
            wrong()


def test_default_formats_and_devices_of_the_user_change_nothing(thought):
    torch.set_default_dtype(torch.bfloat16)
    try:
        kinds = {name: way.prepare()().dtype for name, way in PRODUCTS}
        assert kinds["fp32 matmul"] == torch.float32
        assert kinds["fp8 matmul"] == torch.bfloat16
        for _, way in made(streams.memory(on_gpu())):
            if "driver" not in way.note:
                assert way.prepare()().dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_operands_of_a_gpu_whose_fp8_is_its_own(thought):
    made = on_gpu(fp8="float8_e4m3fnuz")
    task = next(t for t in products.products(made) if t.dtype == "fp8")
    seen = []
    original = torch._scaled_mm

    def spy(a, b, **named):
        seen.append((a.dtype, b.dtype, b.stride()))
        return original(a, b, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "_scaled_mm", spy)
        task.ways[0].prepare()()
    assert seen == [(torch.float8_e4m3fnuz, torch.float8_e4m3fnuz, (1, 64))]


def test_streams_on_a_gpu(thought):
    # What copies between devices needs a GPU even in thought; it runs on the processor elsewhere.
    ways = {
        (name, way.note): way
        for name, way in made([*streams.memory(on_gpu()), *streams.level2(on_gpu())])
        if "driver" not in way.note
    }
    results = {key: way.prepare()() for key, way in ways.items()}
    assert all(r.device.type == "cuda" and r.dtype == torch.float32 for r in results.values())
    assert results["DRAM read", "a sum"].shape == ()
    assert results["DRAM triad", "a = b + 0.5 * c"].shape == (1024,)
    shapes = {r.shape for (name, _), r in results.items() if name == "L2 read"}
    assert shapes == {(64,)}


def test_memory_is_counted_before_it_is_taken():
    def held(name):
        return next(way.holds_bytes for n, way in PRODUCTS if n == name)

    # Three matrices of 64 * 64 in fp64; two of one byte, their source in fp32, and a result.
    assert held("fp64 matmul") == 3 * 4096 * 8
    assert held("bf16 matmul") == 3 * 4096 * 2
    assert held("int8 matmul") == 4096 * (2 + 4 + 4)
    copies = [w for n, w in made(streams.memory(on_gpu())) if n == "DRAM copy"]
    assert [(w.work, w.holds_bytes) for w in copies] == [(8192.0, 8192)] * 2


def test_a_row_that_is_read_again_and_again_is_one_memory():
    on_cpu = bench(level2_bytes=1 << 20)
    (task,) = streams.level2(on_cpu)
    assert task.mix == "read"
    # 64 times an eighth, a quarter and a half of one MiB.
    assert [w.work for w in task.ways] == [64 * 131072, 64 * 262144, 64 * 524288]
    sums = task.ways[0].prepare()()
    assert torch.equal(sums, sums[:1].expand(64))
    # 32,768 numbers between 0 and 1.
    assert sums[0].item() == pytest.approx(16384, rel=0.05)
