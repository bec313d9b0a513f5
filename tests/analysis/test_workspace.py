"""Workspace of CPU kernels: what torch 2.13 allocated for single ops, and one figure everywhere.

The bytes were read off `torch.profiler` (profile_memory) on an Intel Xeon with AVX-512:
the peak of the allocations of the op alone, less its output.
"""

import pytest

from gambrel.advise.fleet import Fleet
from gambrel.analysis.analyze import analyze
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import footprint
from gambrel.analysis.settings import Settings
from gambrel.analysis.workspace import workspaces
from gambrel.device.model import MemoryLevel
from gambrel.ops import Conventions
from gambrel.runtimes import runtime
from gambrel.workload import Op, Role, Tensor, Workload
from tests.analysis.small import device

RULES = runtime("pytorch").workspace


def one_op(kind, shapes, out, sizes, dtype="fp32", training=False, name="", **attrs):
    """A workload of one op: inputs of the given shapes, the second one a weight."""
    tensors = [
        Tensor(shape=s, dtype=dtype, storage=i, role=Role.WEIGHT if i == 1 else Role.INPUT)
        for i, s in enumerate(shapes)
    ]
    tensors.append(Tensor(shape=out, dtype=dtype, storage=len(shapes), role=Role.OUTPUT))
    op = Op(
        kind=kind,
        name=name,
        inputs=tuple(range(len(shapes))),
        outputs=(len(shapes),),
        sizes=sizes,
        attrs=attrs,
    )
    return Workload(
        name="w",
        dtype=dtype,
        chosen_dtype=True,
        tensors=tuple(tensors),
        ops=(op,),
        outputs=(len(shapes),),
        training=training,
    )


def conv(batch, cin, image, cout, kernel, out, groups=1, **more):
    """A convolution; ``out`` is its output's spatial shape."""
    transposed = more.get("transposed", False)
    sizes = {
        "batch": batch,
        "in_channels": cin,
        "out_channels": cout,
        "kernel": kernel,
        "spatial": image if transposed else out,
        "groups": groups,
    }
    weight = (cin, cout // groups, *kernel) if transposed else (cout, cin // groups, *kernel)
    shapes = ((batch, cin, *image), weight)
    return one_op("convolution", shapes, (batch, cout, *out), sizes, **more)


def needed(workload):
    """Bytes of the one op, or the kinds of which no rule is known."""
    found, unknown = workspaces(workload, Evaluator(workload, {}, {}, Conventions()), RULES)
    return unknown or sum(life.nbytes for life in found)


@pytest.mark.parametrize(
    ("workload", "nbytes"),
    [
        # 4 * (2*64*56*56 + 64*64*9): input and weight again
        (conv(2, 64, (56, 56), 64, (3, 3), (56, 56)), 1_753_088),
        (conv(1, 64, (56, 56), 64, (3, 3), (56, 56)), 950_272),  # 200,704 elements: not small
        (conv(4, 64, (1000,), 64, (3,), (998,)), 1_073_152),
        (conv(2, 64, (8, 28, 28), 64, (3, 3, 3), (8, 28, 28)), 3_653_632),
        # the output in both layouts is more: 4 * 2*256*56*56
        (conv(2, 64, (56, 56), 256, (1, 1), (56, 56)), 6_422_528),
        (conv(2, 256, (56, 56), 64, (1, 1), (56, 56)), 6_488_064),
        # three channels are read as they are: 4 * 2*64*112*112
        (conv(2, 3, (224, 224), 64, (7, 7), (112, 112)), 6_422_528),
        (conv(4, 64, (56, 56), 64, (3, 3), (56, 56), groups=64), 3_213_568),
        (conv(2, 128, (28, 28), 128, (3, 3), (28, 28), groups=32), 821_248),
        # transposed: the output twice more, 4 * 2 * 4*64*56*56
        (conv(4, 64, (28, 28), 64, (2, 2), (56, 56), transposed=True), 6_422_528),
        # one small item: columns, 4 * 64 * 9 * 14*14
        (conv(1, 64, (14, 14), 64, (3, 3), (14, 14)), 451_584),
        (conv(1, 64, (14, 14), 64, (3, 3), (7, 7)), 112_896),
        (conv(1, 64, (100,), 64, (5,), (96,)), 122_880),
        (conv(1, 64, (8, 28, 28), 64, (3, 3, 3), (8, 28, 28)), 43_352_064),
        (conv(1, 64, (8, 28, 28), 64, (1, 3, 3), (8, 26, 26)), 12_460_032),
        (conv(1, 64, (14, 14), 64, (2, 2), (28, 28), transposed=True), 200_704),
        # nothing to unroll
        (conv(1, 64, (14, 14), 64, (1, 1), (14, 14)), 0),
        (conv(1, 64, (8, 28, 28), 64, (1, 1, 1), (8, 28, 28)), 0),
    ],
)
def test_convolution(workload, nbytes):
    assert needed(workload) == nbytes


def test_gradients_of_a_convolution():
    sizes = {"batch": 2, "groups": 1, "kernel": (3, 3), "spatial": (28, 28)}
    sizes |= {"in_channels": 512, "out_channels": 256}
    shapes = ((2, 256, 28, 28), (256, 512, 3, 3), (2, 512, 28, 28))
    gradient, weight, image = shapes
    found = one_op("convolution_backward", (gradient, image, weight), image, sizes)
    # 4 * (2*256*28*28 + 2*512*28*28)
    assert needed(found) == 4_816_896
    sizes |= {"in_channels": 2048, "spatial": (7, 7)}
    shapes = ((2, 256, 7, 7), (2, 2048, 7, 7), (256, 2048, 3, 3))
    # the gradient of the weight, 4 * 256*2048*9
    assert needed(one_op("convolution_backward", shapes, shapes[1], sizes)) == 18_874_368


def recurrent(cell, batch, seq, width, hidden, name="", training=False, **sizes):
    sizes |= {"batch": batch, "seq": seq, "input_size": width, "hidden": hidden}
    shapes = ((seq, batch, width), (4 * hidden, width))
    out = (seq, batch, hidden * sizes.get("directions", 1))
    return one_op("recurrent", shapes, out, sizes, name=name, training=training, cell=cell)


@pytest.mark.parametrize(
    ("workload", "nbytes"),
    [
        # gates 4 * 3*512*800 + results of the steps 4 * 512*800
        (recurrent("gru", 8, 100, 512, 512), 6_553_600),
        (recurrent("rnn_tanh", 8, 100, 512, 512), 3_276_800),
        # gates of one direction 614,400; of both, results of steps 409,600 and stacked 409,600
        (recurrent("gru", 4, 50, 128, 256, directions=2), 1_433_600),
        # and the results of the first layer: 6,553,600 + 1,638,400 (8,208,384 with its states)
        (recurrent("gru", 8, 100, 512, 512, layers=2), 8_192_000),
        # weights 4 * 4*512*(512+512) + gates 4 * 4*512*800: 14,942,208 of 15,250,424
        (recurrent("lstm", 8, 100, 512, 512), 14_942_208),
        # with a projection step by step: gates 4 * 4*256*200 + results 4 * 64*200 (of 874,496)
        (recurrent("lstm", 4, 50, 128, 256, projection=64), 870_400),
    ],
)
def test_recurrent(workload, nbytes):
    assert needed(workload) == nbytes


@pytest.mark.parametrize(
    "workload",
    [
        conv(2, 36, (56, 56), 36, (3, 3), (56, 56), groups=4),  # 9 channels a group: per thread
        conv(2, 64, (49,), 64, (128,), (50,)),  # a window of 128
        conv(2, 64, (56, 56), 64, (3, 3), (56, 56), dtype="bf16"),
        conv(2, 64, (56, 56), 64, (3, 3), (56, 56), deformable=True),
        recurrent("lstm", 8, 100, 512, 512, training=True),
        recurrent("lstm", 8, 1, 512, 512, name="aten.lstm_cell"),
    ],
)
def test_no_rule_is_no_zero(workload):
    assert needed(workload) == (workload.ops[0].kind,)


def cpu(capacity=None, **changes):
    memory = (MemoryLevel(name="DRAM", capacity_bytes=capacity, byte_per_s=10.0),)
    return device(category="cpu", architecture="Zen 4", vendor="AMD", memory=memory, **changes)


def test_the_parts_add_up_and_the_timeline_agrees():
    workload = conv(2, 64, (56, 56), 64, (3, 3), (56, 56))
    found = analyze(workload, cpu(), Settings(runtime="pytorch"))
    # weight 147,456; input and output 1,605,632 each; workspace 1,753,088
    assert found.footprint.workspace_bytes == 1_753_088
    assert found.footprint.total_bytes == 147_456 + 2 * 1_605_632 + 1_753_088
    line = found.memory_timeline()
    assert line.peak_bytes == found.footprint.total_bytes
    assert line.peak.workspace_bytes == 1_753_088
    assert any(t.part == "workspace" and t.nbytes == 1_753_088 for t in line.at_peak)
    assert not any("workspace" in text for text in found.assumptions)


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({"category": "datacenter gpu", "architecture": "sm_80"}, {"runtime": "pytorch"}),
        ({"vendor": "Ampere"}, {"runtime": "pytorch"}),
        ({}, {"runtime": "torch-compile"}),
    ],
)
def test_elsewhere_it_is_unknown_and_said(changes, settings):
    workload = conv(2, 64, (56, 56), 64, (3, 3), (56, 56))
    fields = {"category": "cpu", "vendor": "AMD"} | changes
    found = analyze(workload, device(**fields), Settings(**settings))
    assert found.footprint.workspace_bytes is None
    assert found.footprint.total_bytes == 147_456 + 2 * 1_605_632
    assert any("library workspace, which is unknown" in text for text in found.assumptions)


def test_ops_without_a_rule_are_named():
    found = analyze(recurrent("lstm", 8, 1, 512, 512, name="aten.lstm_cell"), cpu(),
                    Settings(runtime="pytorch"))  # fmt: skip
    assert found.footprint.workspace_unknown == ("recurrent",)
    assert any(text.endswith("of some ops: recurrent.") for text in found.assumptions)


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_every_face_has_the_same_need_and_verdict(spare, fits):
    workload = conv(2, 64, (56, 56), 64, (3, 3), (56, 56))
    settings = Settings(runtime="pytorch")
    machine = cpu(147_456 + 2 * 1_605_632 + 1_753_088 + spare)
    one, fleet = analyze(workload, machine, settings), Fleet(workload, settings)
    for point in (fleet.on(machine), fleet.best_case(machine)):
        assert point.facts.memory_bytes == one.footprint.total_bytes
        assert point.fits is one.footprint.fits is fits


def test_without_rules_nothing_changes():
    workload = conv(2, 64, (56, 56), 64, (3, 3), (56, 56))
    found = footprint(workload, Evaluator(workload, {}, {}, Conventions()), None)
    assert (found.workspace_bytes, found.workspace_unknown) == (None, ())
