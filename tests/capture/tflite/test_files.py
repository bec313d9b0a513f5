"""Files of TensorFlow's converter against hand counts and the same networks in torch."""

from math import prod
from pathlib import Path

import pytest

import gambrel
from gambrel.capture.tflite.reader import read_tflite
from gambrel.workload import Role, Workload

pytest.importorskip("tflite")

DATA = Path(__file__).parents[2] / "data" / "tflite"

# Keyword spotting: 25 x 5 places; 64 filters of 10 x 4; four times 3 x 3 on each of 64 channels
# and 64 x 64; 64 x 12 at the end.
DS_CNN = 2 * (125 * 64 * 40 + 4 * (125 * 64 * 9 + 125 * 64 * 64) + 64 * 12)


def read(name: str) -> Workload:
    return read_tflite(DATA / f"{name}.tflite")


def matrix(workload: Workload) -> int:
    return gambrel.analyze(workload, "h100").total.matrix_flops


def products(workload: Workload) -> list:
    return [op for op in workload.ops if op.kind in ("convolution", "matmul")]


@pytest.mark.parametrize("kind", ["float", "fp16", "dynamic", "int8", "int8_tensor"])
def test_ds_cnn_counts_the_same_however_its_numbers_are_stored(kind):
    workload = read(f"ds_cnn_{kind}")
    assert matrix(workload) == DS_CNN
    assert len(products(workload)) == 10
    # Weights 64·40 + 4(64·9 + 64·64) + 64·12, and 64, 4·(64 + 64), 12 biases.
    assert parameters(workload) == 22_016 + 588


def parameters(workload: Workload) -> int:
    seen = {t.storage: t for t in workload.tensors if t.role is Role.WEIGHT}
    return sum(prod(t.shape) for t in seen.values())


@pytest.mark.parametrize(
    ("kind", "stored", "computed"),
    [
        ("float", "fp32", None),
        ("fp16", "fp16", None),
        ("dynamic", "int8", "int8"),
        ("int8", "int8", "int8"),
        ("int8_tensor", "int8", "int8"),
    ],
)
def test_formats_of_storage_and_of_computing(kind, stored, computed):
    workload = read(f"ds_cnn_{kind}")
    for op in products(workload):
        if kind == "dynamic" and prod(workload.tensors[op.inputs[1]].shape) < 1024:
            continue  # the converter leaves small weights as they are
        assert workload.tensors[op.inputs[1]].dtype == stored
        assert op.attrs.get("compute_dtype") == computed


def test_dynamic_ranges_are_quantized_on_the_way():
    workload = read("ds_cnn_dynamic")
    functions = [op.attrs.get("function") for op in workload.ops]
    # Nine inputs: those of depthwise and pointwise convolutions, the first, and of the last layer.
    assert functions.count("quantize") == functions.count("aminmax") > 0
    assert any("on the fly" in a for a in workload.assumptions)


def test_resnet8_equals_the_same_network_in_torch():
    torch = pytest.importorskip("torch")
    from torch import nn

    class Unit(nn.Module):
        def __init__(self, before, width, stride):
            super().__init__()
            self.a = nn.Conv2d(before, width, 3, stride, 1)
            self.b = nn.Conv2d(width, width, 3, 1, 1)
            self.c = nn.Conv2d(before, width, 1, stride) if stride > 1 else nn.Identity()

        def forward(self, x):
            return (self.b(self.a(x).relu()) + self.c(x)).relu()

    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1),
        nn.ReLU(),
        Unit(16, 16, 1),
        Unit(16, 32, 2),
        Unit(32, 64, 2),
        nn.AvgPool2d(8),
        nn.Flatten(),
        nn.Linear(64, 10),
        nn.Softmax(-1),
    )
    original = gambrel.analyze(net, "coral-edge-tpu", inputs=torch.zeros(1, 3, 32, 32))
    converted = gambrel.analyze(str(DATA / "resnet8_int8.tflite"), "coral-edge-tpu")
    assert converted.total.matrix_flops == original.total.matrix_flops == 25_003_264
    assert converted.coverage == 1
    held = sum(p.numel() for p in net.parameters())
    assert parameters(read("resnet8_int8")) == held


def test_attention_is_recognised():
    workload = read("transformer_float")
    attention = [op for op in workload.ops if op.kind == "attention"]
    assert len(attention) == 1
    sizes = attention[0].sizes
    assert (sizes["heads"], sizes["q_len"], sizes["head_dim"]) == (2, 16, 16)
    # Four projections 16·32·32, two products 2·16·16·16, two layers 16·32·64.
    assert matrix(workload) == 2 * (4 * 16 * 32 * 32 + 2 * 2 * 16 * 16 * 16 + 2 * 16 * 32 * 64)
    assert matrix(read("transformer_int8")) == matrix(workload)


def test_loops_count_their_trips():
    workload = read("lstm_float")
    # Ten steps of 4·16 gates from 8 inputs and 16 states, then 16 to 4.
    assert matrix(workload) == 10 * 2 * 64 * (8 + 16) + 2 * 16 * 4
    assert {op.repeat for op in workload.ops if op.kind == "matmul"} == {1, 10}


def test_control_flow_and_custom_ops():
    workload = read("control")
    # Four trips, and the branch with a product: 5 products of 1·8·8.
    assert matrix(workload) == 5 * 2 * 64
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.coverage < 1
    assert "tflite.CUSTOM:Igamma" in {op.kind for op in workload.ops}
    assert any("larger branch" in a for a in workload.assumptions)


def test_names_are_paths_of_modules():
    names = [op.module for op in read("ds_cnn_float").ops if op.kind == "convolution"]
    assert all("/" not in n and ";" not in n for n in names)
    assert any(n.startswith("ds_cnn_1.re_lu") for n in names)
