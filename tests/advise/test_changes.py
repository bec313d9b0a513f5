"""Changes by hand on the toy perceptron, and what is refused."""

import msgspec
import pytest

import gambrel
from gambrel.advise.changes import (
    CATALOGUE,
    case_of,
    describe_changes,
    parse_change,
)
from gambrel.advise.transforms import narrow_weights
from gambrel.advise.whatif import what_if, with_change
from gambrel.analysis.analyze import Settings, analyze
from gambrel.capture import zoo
from gambrel.device.catalog import list_devices
from gambrel.errors import InputError, UnknownNameError
from gambrel.report import render
from gambrel.report.answers import Changed
from tests.analysis.small import device, perceptron

A100 = next(d for d in list_devices() if d.id == "a100-sxm4-80gb")


def toy(**settings):
    return analyze(perceptron(), device(), Settings(precision="fp16", **settings))


def llama():
    return gambrel.analyze("llama-3-8b", A100, phase="decode", precision="fp16")


def test_no_change_gives_the_same_analysis():
    found = toy(sizes={"batch": 4}, runtime="torch-compile", sparsity=True, warm=True)
    assert case_of(found).analyzed() == found


def test_batch_and_precision():
    found = with_change(toy(), ["batch=4", "precision=fp32"])
    assert found.model.symbols == {"batch": 4}
    # twice the bytes for each of: 48 weights, and 4 times 4 + 8 + 8 + 8 + 2 activations
    by_hand = 4 * (32 + 16 + 4 * (4 + 8 + 8 + 8 + 8 + 2))
    assert found.traffic_bytes == by_hand


def test_weights_only():
    found = with_change(toy(), ["weights=int8"])
    # w1 and w2 have 32 + 16 elements: one byte less for each of them
    assert toy().traffic_bytes - found.traffic_bytes == 48
    assert found.total.matrix_flops == toy().total.matrix_flops
    # a subtraction and a multiplication per weight
    assert found.total.vector_flops == toy().total.vector_flops + 2 * 48
    assert {w.dtype for w in found.total.work if w.work_class == "matrix"} == {"fp16"}


def test_weights_that_others_read_stay():
    first, relu, last = perceptron().ops
    table = {"rows": "batch", "width": 8, "table_rows": 4}
    tied = msgspec.structs.replace(relu, kind="embedding", inputs=(1, 0), sizes=table)
    changed = narrow_weights(perceptron(ops=(first, tied, last)), "int8")
    assert [t.dtype for t in changed.tensors if t.role == "weight"] == ["fp32", "int8"]


def test_cache():
    before, after = llama(), with_change(llama(), ["kv=fp8"])
    assert after.footprint.kv_cache_bytes * 2 == before.footprint.kv_cache_bytes
    assert after.footprint.weights_bytes == before.footprint.weights_bytes
    assert after.flops == before.flops


def test_sparsity_and_fusion():
    assert with_change(toy(), ["sparsity"]).sparsity
    fused = with_change(toy(), ["fuse"])
    assert fused.runtime == "torch-compile"
    assert fused.traffic_bytes <= toy().traffic_bytes
    with pytest.raises(InputError, match="fuses already what it can; fuse changes nothing"):
        with_change(fused, ["fuse"])


def test_recorded_launches_leave_the_kernels_and_take_the_host_away():
    before = analyze(zoo.load("resnet18"), A100, Settings(runtime="pytorch"))
    after = with_change(before, ["graphs"])
    assert after.runtime == "pytorch-graph"
    assert after.roofline_time_s == before.roofline_time_s
    assert after.expected_time_s.host_s == 0 < before.expected_time_s.host_s
    with pytest.raises(InputError, match="has no host launches to record"):
        with_change(after, ["graphs"])


def test_another_device_chooses_its_own_precision_unless_one_was_asked_for():
    chosen = analyze(zoo.load("resnet18"), A100, Settings())
    assert with_change(chosen, ["hardware=coral-edge-tpu"]).model.precision == "int8"
    asked = analyze(zoo.load("resnet18"), A100, Settings(precision="fp16"))
    assert with_change(asked, ["hardware=h200"]).model.precision == "fp16"


def test_another_device_chooses_its_own_runtime_unless_one_was_asked_for():
    chosen = analyze(zoo.load("resnet18"), A100, Settings())
    assert chosen.runtime == "pytorch"
    assert with_change(chosen, ["hardware=coral-edge-tpu"]).runtime == "edgetpu"
    fused = with_change(chosen, ["fuse", "hardware=h200"])
    assert fused.runtime == "torch-compile"
    asked = analyze(zoo.load("resnet18"), A100, Settings(runtime="tensorrt"))
    with pytest.raises(InputError, match="NVIDIA TensorRT does not run on mi300x"):
        with_change(asked, ["hardware=mi300x"])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ("speed=2", UnknownNameError, r"unknown change 'speed=2'\. Use fuse, attention"),
        ("batch", InputError, r"change 'batch' needs a value, e\.g\. batch=8"),
        ("fuse=2", InputError, r"change 'fuse=2' takes no value"),
        ("batch=two", InputError, "write a whole number"),
        ("seq=4", InputError, "perceptron has no size 'seq'; it has batch"),
        ("kv=fp8", InputError, "has no key/value cache"),
        ("weights=fp32", InputError, "has no matrix weights wider than fp32"),
        ("precision=fp7", UnknownNameError, "unknown precision 'fp7'"),
        ("hardware=h1000", UnknownNameError, "unknown device 'h1000'"),
        ("runtime=magic", UnknownNameError, "unknown runtime 'magic'"),
        ("runtime=tensorrt", InputError, "NVIDIA TensorRT does not run on toy"),
        ("graphs", InputError, "PyTorch eager in a CUDA graph does not run on toy"),
        ("checkpoint", InputError, "no backward pass"),
    ],
)
def test_what_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        with_change(toy(), [change])


def test_no_change_is_refused():
    with pytest.raises(InputError, match="name at least one change"):
        with_change(toy(), [])


def test_sparsity_needs_a_sparse_peak():
    plain = device(ceilings=tuple(c for c in device().ceilings if c.engine == "vector"))
    found = analyze(perceptron(), plain, Settings(precision="fp32"))
    with pytest.raises(InputError, match="no peak with sparsity in fp32"):
        with_change(found, ["sparsity"])


def test_spellings_mean_the_same():
    assert parse_change("dtype=fp8") == ("precision", "fp8")
    assert parse_change(" Batch_Size = 4 ") == ("batch", "4")
    assert describe_changes(["fuse", "batch=8"]).startswith("Compile the model")


def test_every_kind_parses_its_own_example():
    for name, kind in CATALOGUE.items():
        assert parse_change(kind.example)[0] == name


def test_differences_add_up():
    before = toy()
    after = with_change(before, ["batch=4"])
    found = what_if(before, after, ["batch=4"])
    assert found.before.items == 1
    assert found.after.items == 4
    assert {d.name for d in found.ops} == {"fc1", "act", "fc2"}
    total = sum(d.change_s for d in found.ops)
    side = found.after.total.time_s - found.before.total.time_s
    assert total == pytest.approx(side)
    assert found.gain == pytest.approx(found.before.total.time_s / (found.after.total.time_s / 4))
    changed = Changed(found=found, before=before, after=after)
    text = render(changed)
    assert text.startswith("perceptron: batch=4\n")
    assert '"type": "gambrel/what-if"' in render(changed, "json")


@pytest.mark.parametrize(
    ("change", "memory", "compute"),
    [("bandwidth=2x", 0.5, 1.0), ("bandwidth=6.7T", 0.5, 1.0), ("peak=2x", 1.0, 0.5)],
)
def test_a_device_that_does_not_exist(change, memory, compute):
    """A decode step of one sequence waits for the memory (3.35 TB/s), a product for its engine."""
    words = {"hardware": "h100-sxm5-80gb", "precision": "bf16", "runtime": "perfect"}
    read = gambrel.what_if("llama-3.1-8b", change=[change], phase="decode", **words)
    assert read.after.total.roofline_time_s == pytest.approx(
        memory * read.before.total.roofline_time_s, rel=0.01
    )
    product = "matmul:m=8192,n=8192,k=8192,bf16"
    busy = gambrel.what_if(product, change=[change], hardware=words["hardware"], runtime="perfect")
    assert busy.after.total.roofline_time_s == pytest.approx(
        compute * busy.before.total.roofline_time_s
    )


@pytest.mark.parametrize(
    ("change", "device", "said"),
    [
        ("bandwidth=0x", "h100", r"bandwidth=0x: write a multiple .* from 0\.05x to 20x"),
        ("bandwidth=1k", "h100", r"write a multiple"),
        ("peak=fast", "h100", r"peak=fast: write a multiple"),
        ("peak=inf", "h100", r"write a multiple"),
        ("bandwidth=2x", "hailo-8", r"the bandwidth of hailo-8 is unknown"),
    ],
)
def test_what_cannot_be_imagined(change, device, said):
    with pytest.raises(InputError, match=said):
        gambrel.what_if("resnet50", hardware=device, change=[change])
