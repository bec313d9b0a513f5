"""Files of OpenVINO's converter against the same networks in torch."""

from math import prod
from pathlib import Path

import pytest

import gambrel
from gambrel.capture.files.identify import FileKind, identify
from gambrel.capture.openvino.reader import read_openvino
from gambrel.errors import FileFormatError, GambrelError
from gambrel.workload import Role, Workload

DATA = Path(__file__).parents[2] / "data" / "openvino"
#: Convolutions and the last layer of ResNet-18 at 224 x 224.
RESNET18 = 3_628_146_688


def matrix(workload: Workload, **more: object) -> int:
    return gambrel.analyze(workload, "h100", **more).total.matrix_flops


def formats(workload: Workload) -> set[tuple[str, object]]:
    """Storage of weights and format of computing of each product."""
    ops = [op for op in workload.ops if op.kind in ("convolution", "matmul")]
    return {(workload.tensors[op.inputs[1]].dtype, op.attrs.get("compute_dtype")) for op in ops}


def test_a_file_is_told_by_its_content(tmp_path):
    path = tmp_path / "model"
    path.write_bytes((DATA / "block.xml").read_bytes())
    assert identify(path) is FileKind.OPENVINO


@pytest.mark.parametrize("name", ["resnet18", "resnet18_static", "resnet18_int8"])
def test_resnet18_in_three_forms(name):
    workload = read_openvino(DATA / f"{name}.xml")
    assert matrix(workload) == RESNET18 == matrix(gambrel.load_model("resnet18"))
    seen = {t.storage: t for t in workload.tensors if t.role is Role.WEIGHT}
    # Batch norms are folded; their shifts, zero before training, are left out by the converter.
    convolved = 11_166_912  # weights of the convolutions
    last = 512 * 1000 + 1000
    assert sum(prod(t.shape) for t in seen.values()) == convolved + last


def test_modules_are_those_of_torch():
    """A colon would part an op from the others, as the runs of a pipeline are."""
    modules = {op.module for op in read_openvino(DATA / "block.xml").ops}
    assert "norm" in modules
    assert not any(":" in module for module in modules)


def test_storage_and_compute_formats():
    assert formats(read_openvino(DATA / "resnet18.xml")) == {("fp16", None)}
    assert formats(read_openvino(DATA / "resnet18_int8.xml")) == {("int8", "int8")}
    workload = read_openvino(DATA / "block_int4.xml")
    assert ("int4", "fp32") in formats(workload)


def test_an_open_batch_is_a_size():
    workload = read_openvino(DATA / "resnet18.xml")
    assert [s.name for s in workload.symbols] == ["batch"]
    assert matrix(workload, batch_size=8) == 8 * RESNET18


@pytest.mark.parametrize("name", ["block", "block_int4"])
def test_block_equals_hand_counts(name):
    workload = read_openvino(DATA / f"{name}.xml")
    tokens = 2 * 16
    attention = tokens * 32 * (3 * 32 + 32) + 2 * 2 * 2 * 16 * 16 * 16
    perceptron = 2 * tokens * 32 * 64
    grouped = tokens * 32 * 8 * 3
    transposed = tokens * 32 * 16 * 2
    recurrent = 2 * 32 * 3 * 8 * (16 + 8)
    total = 2 * (attention + perceptron + grouped + transposed + recurrent)
    assert matrix(workload) == total
    assert gambrel.analyze(workload, "h100").coverage == 1


def test_mobilenet_equals_torch():
    workload = read_openvino(DATA / "mobilenet_v3_small.xml")
    assert matrix(workload) == 113_020_800


WHOLE = (DATA / "block.xml").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WHOLE[: len(WHOLE) // 2], "truncated"),
        ("<net version='11'><layers></layers></net>", "no layers"),
        ("<svg><net/></svg>", "another kind"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><net version='11'/>", "refused"),
        (WHOLE.replace('from-layer="0"', 'from-layer="x"'), "does not exist"),
        (WHOLE.replace("<dim>2</dim>", "<dim>-1</dim>").replace("<dim>16</dim>", "<dim>-1</dim>"),
         "leaves more open than the batch"),
        (WHOLE.replace("<dim>16</dim>", "<dim>-16</dim>"), "impossible sizes"),
        ("<net version='7'><layers/></net>", "or newer"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path, text, words):
    path = tmp_path / "model.xml"
    path.write_text(text, "utf-8")
    with pytest.raises(FileFormatError, match=words) as caught:
        read_openvino(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_circle_is_refused(tmp_path):
    path = tmp_path / "model.xml"
    layer = (
        "<layer id='{0}' name='n{0}' type='ReLU'><input><port id='0'><dim>1</dim></port></input>"
        "<output><port id='1' precision='FP32'><dim>1</dim></port></output></layer>"
    )
    edge = "<edge from-layer='{}' from-port='1' to-layer='{}' to-port='0'/>"
    edges = edge.format(0, 1) + edge.format(1, 0)
    layers = layer.format(0) + layer.format(1)
    path.write_text(
        f"<net version='11'><layers>{layers}</layers><edges>{edges}</edges></net>", "utf-8"
    )
    with pytest.raises(GambrelError, match="circle"):
        read_openvino(path)
