"""Ops that a compiler leaves to the host: who runs what, and what crosses the link, by hand."""

import msgspec
import pytest

import gambrel
from gambrel.advise.check import check
from gambrel.advise.limits import parse_limits
from gambrel.advise.recommend import advise
from gambrel.analysis.analyze import analyze
from gambrel.analysis.costs import cost_table
from gambrel.analysis.evaluation import evaluate_table
from gambrel.analysis.host import sentence, split, words_of
from gambrel.analysis.measures import State
from gambrel.analysis.plan import KernelPlan
from gambrel.analysis.roofs import roofs_of
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Workbench
from gambrel.device.model import Link
from gambrel.ops import OpView, TensorView
from gambrel.report import render
from gambrel.runtimes import HostOps, Kernels, runtime, runtimes
from tests.analysis.small import NOWHERE, device, host_fed, perceptron

PCIE = Link(name="pcie", byte_per_s=5.0, direction="per direction", source=NOWHERE)


def rule(*supported, rest=False):
    return HostOps(supported=supported, rest=rest, source=NOWHERE)


def table(host_ops, kernels=Kernels.OP, resident=None):
    """x 4, hidden 8 twice, out 2 in fp16: 8, 16, 16 and 4 bytes; w1 64 and w2 32 bytes."""
    model = perceptron()
    bench = Workbench(model, {"batch": 1}, Settings().conventions)
    plan = KernelPlan(kernels=kernels, resident_bytes=resident, host_ops=host_ops)
    return cost_table(bench.sized("fp16"), plan)


def costs(found):
    return {p.op.module: found.items[p.item].cost for p in found.places}


@pytest.mark.parametrize("kernels", [Kernels.OP, Kernels.EPILOGUE, Kernels.TILED])
def test_an_op_in_the_middle_takes_its_operand_and_its_result_over_the_link(kernels):
    found = table(rule("matmul"), kernels, resident=1000)
    used = costs(found)
    assert [op.module for op in found.on_host] == ["act"]
    assert (used["fc1"].read_bytes, used["fc1"].write_bytes) == (8, 16)  # x; hidden to the host
    assert (used["fc2"].read_bytes, used["fc2"].write_bytes) == (16, 4)  # and back; the result
    assert (used["act"].read_bytes, used["act"].write_bytes) == (0, 0)
    held = evaluate_table(found, roofs_of(host_fed(1000)))
    times = {p.op.module: held.times[p.item] for p in found.places}
    # 24 and 20 bytes at 5 byte/s. 2 x 4 x 8 and 2 x 8 x 2 FLOP at 1,000 FLOP/s take less.
    assert times == {"fc1": pytest.approx(4.8), "act": None, "fc2": pytest.approx(4.0)}
    assert held.time_s is None


@pytest.mark.parametrize("kernels", [Kernels.OP, Kernels.TILED])
def test_a_graph_that_is_cut_once_stays_on_the_host(kernels):
    found = table(rule("matmul", rest=True), kernels, resident=1000)
    assert [op.module for op in found.on_host] == ["act", "fc2"]
    assert costs(found)["fc1"].write_bytes == 16
    assert costs(found)["fc2"].read_bytes == 0


def test_only_the_weights_of_the_device_compete_for_its_memory():
    # 96 bytes of weights, of which 64 stay: a third of each is streamed, in whole bytes. Without
    # fc2 w1 fits.
    shared, alone = table(None, resident=64), table(rule("matmul", rest=True), resident=64)
    assert costs(shared)["fc1"].read_bytes == 8 + 21
    assert costs(alone)["fc1"].read_bytes == 8


def test_a_device_with_memory_pays_both():
    used = costs(table(rule("matmul")))
    assert (used["fc1"].read_bytes, used["fc1"].write_bytes) == (8 + 64, 16)
    assert (used["fc1"].link_bytes, used["fc2"].link_bytes) == (16, 16)
    found = table(rule("matmul"))
    held = evaluate_table(found, roofs_of(device(links=(PCIE,))))
    # fc1: 88 bytes at 10 byte/s against 16 at 5; fc2: 16 + 32 + 4 at 10 against 16 at 5.
    times = {p.op.module: held.times[p.item] for p in found.places}
    assert times == {"fc1": pytest.approx(8.8), "act": None, "fc2": pytest.approx(5.2)}


def test_nothing_changes_where_everything_is_taken():
    taken = rule("matmul", "elementwise:relu", rest=True)
    for kernels in (Kernels.OP, Kernels.TILED):
        assert costs(table(taken, kernels)) == costs(table(None, kernels))
    assert not table(taken).on_host


def test_work_and_speed_of_light_are_those_of_the_whole_model():
    cut, whole = table(rule("matmul", rest=True)), table(None)
    assert cut.sums.work == whole.sums.work
    assert cut.sol_parts == whole.sol_parts


def test_an_op_is_sent_once_by_its_last_writer():
    model = perceptron()
    bench = Workbench(model, {"batch": 1}, Settings().conventions)
    found = split(bench.sized("fp16").priced, rule("matmul"))
    assert (found.ops, found.sent, found.fetched) == ({1}, {0: {2}}, {2: {3}})


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (OpView(kind="elementwise", attrs={"function": "relu"}), ("elementwise:relu",)),
        (OpView(kind="convolution", sizes={"kernel": (3, 3)}), ("convolution:2d",)),
        (OpView(kind="convolution", sizes={"kernel": (3, 3)}, attrs={"deformable": True}), ()),
        (OpView(kind="recurrent", attrs={"cell": "lstm"}), ("recurrent:lstm",)),
        (
            OpView(kind="recurrent", attrs={"cell": "lstm"}, sizes={"directions": 2}),
            ("recurrent:bidirectional_lstm",),
        ),
        (
            OpView(
                kind="matmul",
                inputs=(
                    TensorView(shape=(2, 2), dtype="fp16", elements=4, storage=0, role="weight"),
                ),
            ),
            ("matmul:weight",),
        ),
    ],
)
def test_what_an_op_is_called(view, words):
    assert words_of(view) == (view.kind, *words)


def test_an_edge_tpu_runs_what_its_compiler_takes():
    assert gambrel.analyze("resnet50", "coral-edge-tpu").host_ops == {}
    found = gambrel.analyze("mobilenet-v3-large", "coral-edge-tpu")
    first = next(op for op in found.ops if op.state is State.HOST)
    assert first.op.startswith("aten.hardswish")
    assert all(op.state is State.HOST for op in found.ops[found.ops.index(first) :])
    assert sum(found.host_ops.values()) == sum(o.count for o in found.ops if o.state is State.HOST)
    assert (found.roofline_time_s, found.bound, found.expected_time_s) == (None, None, None)
    perfect = analyze(found.workload, found.hardware, Settings(precision="int8", runtime="perfect"))
    assert found.sol_time_s == perfect.sol_time_s
    assert found.flops == perfect.flops


def test_every_face_names_the_op():
    found = gambrel.analyze("mobilenet-v3-large", "coral-edge-tpu")
    named = "hardswish in features.0.2 and 182 more ops, which the compiler leaves to the host"
    assert found.on_host.startswith(named)
    text = " ".join(render(found).split())
    assert f"Expected: unknown, as is the time of {named}" in text
    assert "features.0.2 (host)" in text
    assert msgspec.json.decode(render(found, "json"))["host_ops"]["convolution"] == 61
    checked = check(found, parse_limits({"latency": "1us"}))
    assert checked.verdict == "UNKNOWN"
    assert named in checked.reason
    assert advise(found).hints == (
        f"No gain can be computed: the time is not known of {found.on_host}.",
    )
    assert "Host" in render(runtime("edgetpu"))


def test_no_sentence_without_an_op():
    assert sentence([]) == ""


@pytest.mark.parametrize("one", [r for r in runtimes().values() if r.host_ops], ids=lambda r: r.id)
def test_lists_have_a_source(one):
    assert one.host_ops.source.url.startswith("https://")
    assert len(set(one.host_ops.supported)) == len(one.host_ops.supported)
