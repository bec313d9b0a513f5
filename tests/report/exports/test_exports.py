"""Exports for other tools: each read back by a reader of its own."""

import itertools
import json
import re
import struct

import pytest

import gambrel
from gambrel.errors import GambrelError
from gambrel.report.exports import EXPORTERS, exporter_of
from gambrel.report.exports.schedule import schedule
from gambrel.workload import Op, Tensor, Workload


@pytest.fixture(scope="module")
def analysis():
    return gambrel.analyze("resnet18", "a100", batch_size=2)


def test_the_suffix_chooses_where_it_is_clear(tmp_path):
    assert exporter_of(tmp_path / "a.json", None).name == "perfetto"
    assert exporter_of(tmp_path / "a.ONNX", None).name == "onnx"
    assert exporter_of(tmp_path / "a.et", None).name == "chakra"
    assert exporter_of(tmp_path / "a.json", "zigzag").name == "zigzag"
    assert all(exporter_of(tmp_path / "a", name) is e for name, e in EXPORTERS.items())


@pytest.mark.parametrize(
    ("name", "to", "words"),
    [
        ("a.yaml", None, "timeloop or zigzag"),
        ("a.foo", None, "no export format has the ending '.foo'"),
        ("a", None, r"\(none\)"),
        ("a.json", "vtune", "unknown export format 'vtune'"),
        ("missing/a.json", None, "missing"),
    ],
)
def test_what_cannot_be_exported(tmp_path, analysis, name, to, words):
    with pytest.raises(GambrelError, match=words) as caught:
        gambrel.export(analysis, tmp_path / name, to)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_model_without_products(tmp_path):

    tensors = (
        Tensor(shape=(4,), dtype="fp32", storage=0),
        Tensor(shape=(4,), dtype="fp32", storage=1),
    )
    op = Op(kind="elementwise", inputs=(0,), outputs=(1,), sizes={"elements": 4},
            attrs={"function": "relu"})  # fmt: skip
    analysis = gambrel.analyze(Workload(name="w", dtype="fp32", tensors=tensors, ops=(op,)), "a100")
    with pytest.raises(GambrelError, match="no convolution and no GEMM"):
        gambrel.export(analysis, tmp_path / "a.yaml", "zigzag")


# --- the timeline


@pytest.fixture(scope="module")
def trace(analysis, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    assert gambrel.export(analysis, path) == path
    return json.loads(path.read_text("utf-8"))


#: Fields that the Trace Event Format asks of each phase.
_FIELDS = {
    "M": {"name", "pid", "args"},
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "C": {"name", "ts", "pid", "args"},
    "i": {"name", "ts", "pid", "tid", "s"},
}


def test_every_event_has_the_fields_of_its_phase(trace):
    assert set(trace) >= {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    for event in trace["traceEvents"]:
        assert _FIELDS[event["ph"]] <= set(event)
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
        if event["ph"] == "C":
            assert all(isinstance(v, (int, float)) for v in event["args"].values())


def test_rows_do_not_overlap_and_launches_come_first(trace):
    rows = {1: [], 2: []}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            rows[event["tid"]].append(event)
    for events in rows.values():
        ends = [0.0, *(e["ts"] + e["dur"] for e in events)]
        assert all(e["ts"] >= end - 1e-6 for e, end in zip(events, ends, strict=False))
    launches = [e for e in rows[2] if e["name"].startswith("launch ")]
    for event, launch in zip(rows[1], launches, strict=True):
        assert launch["name"] == f"launch {event['name']}"
        assert event["ts"] >= launch["ts"]


def test_the_timeline_is_as_long_as_the_expected_time(analysis, trace):
    expected = float(analysis.total.expected_time_s)
    assert schedule(analysis).end_s == pytest.approx(expected, rel=0.02)
    ends = [e["ts"] + e["dur"] for e in trace["traceEvents"] if e["ph"] == "X"]
    assert max(ends) * 1e-6 == pytest.approx(expected, rel=0.02)


def test_the_timeline_of_layers_is_as_long_as_the_expected_time():
    """Host and device take about as long: what one layer hides must not be counted twice."""
    analysis = gambrel.analyze("llama-2-7b", "a100", runtime="pytorch", phase="decode", context=512)
    planned = schedule(analysis)
    assert planned.end_s == pytest.approx(float(analysis.total.expected_time_s), rel=1e-6)
    assert all(a.end_s <= b.start_s + 1e-9 for a, b in itertools.pairwise(planned.ops))


def test_sums_of_the_events_are_those_of_the_analysis(analysis, trace):
    ops = [e for e in trace["traceEvents"] if e.get("tid") == 1 and e["ph"] == "X"]
    for count in ("matrix_flops", "vector_flops"):
        assert sum(e["args"][count] for e in ops) == getattr(analysis.total, count)
    assert sum(e["args"]["traffic_bytes"] for e in ops) == analysis.total.traffic_bytes
    memory = [e for e in trace["traceEvents"] if e["name"].startswith("memory")]
    assert len(memory) == len(ops)
    peak = max(sum(e["args"].values()) for e in memory)
    assert peak == analysis.memory_timeline().peak_bytes


def test_an_op_without_a_formula_has_no_time(tmp_path):

    tensors = (
        Tensor(shape=(4,), dtype="fp32", storage=0),
        Tensor(shape=(4,), dtype="fp32", storage=1),
    )
    workload = Workload(
        name="w", dtype="fp32", tensors=tensors, ops=(Op(kind="my.op", inputs=(0,), outputs=(1,)),)
    )
    path = gambrel.export(gambrel.analyze(workload, "a100"), tmp_path / "t.json")
    marks = [e for e in json.loads(path.read_text("utf-8"))["traceEvents"] if e["ph"] == "i"]
    assert [e["name"] for e in marks] == ["my.op (time unknown)"]


# --- the graph


def test_the_graph_carries_the_figures(analysis, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(gambrel.export(analysis, tmp_path / "a.onnx"), load_external_data=False)
    assert len(model.SerializeToString()) < 500_000
    nodes = [n for n in model.graph.node if n.op_type != "View"]
    notes = [{p.key: p.value for p in n.metadata_props} for n in nodes]
    assert sum(int(n["gambrel.matrix_flops"]) for n in notes) == analysis.total.matrix_flops
    assert {n["gambrel.bound"] for n in notes} <= {"compute", "memory", "network", "unknown"}
    assert float(notes[0]["gambrel.expected_time_s"]) > 0
    # Every name is made before it is read, and by one node only.
    known = {t.name for t in (*model.graph.input, *model.graph.initializer)}
    for node in model.graph.node:
        assert set(node.input) <= known
        assert not set(node.output) & known
        known.update(node.output)
    assert {o.name for o in model.graph.output} <= known
    held = sum(_elements(t.dims) for t in model.graph.initializer)
    assert held >= analysis.model.parameters
    props = {p.key: p.value for p in model.metadata_props}
    assert props["gambrel.device"].startswith("NVIDIA A100")


def test_the_graph_of_a_model_with_fixed_sizes(tmp_path):
    onnx = pytest.importorskip("onnx")
    tensors = tuple(Tensor(shape=s, dtype="fp32", storage=i) for i, s in enumerate([(4, 8), (4,)]))
    op = Op(kind="reduction", inputs=(0,), outputs=(1,), sizes={"elements": 32, "outputs": 4},
            attrs={"function": "sum"})  # fmt: skip
    analysis = gambrel.analyze(Workload(name="w", dtype="fp32", tensors=tensors, ops=(op,)), "a100")
    model = onnx.load(gambrel.export(analysis, tmp_path / "a.onnx"), load_external_data=False)
    attributes = {a.name: a.i for a in model.graph.node[0].attribute if a.type == 2}
    assert attributes == {"elements": 32, "outputs": 4}


def _elements(dims):
    count = 1
    for n in dims:
        count *= n
    return count


# --- loop nests


def test_timeloop_problems_hold_all_the_work(analysis, tmp_path):
    text = gambrel.export(analysis, tmp_path / "a.yaml", "timeloop").read_text("utf-8")
    total = 0
    for document in text.split("---\n")[1:]:
        executions = int(re.search(r": (\d+) executions", document)[1])
        sizes = dict(re.findall(r"(\w+): (\d+)", re.search(r"instance: {(.*)}", document)[1]))
        strides = {sizes.pop("Pstride", "1"), sizes.pop("Qstride", "1")}
        assert strides <= {"1", "2"}
        named = re.search(r"dimensions: \[(.*)\]", document)[1].split(", ")
        assert set(named) == set(sizes)
        total += executions * 2 * _elements(map(int, sizes.values()))
    assert total == analysis.total.matrix_flops


def test_zigzag_layers_hold_all_the_work(analysis, tmp_path):
    text = gambrel.export(analysis, tmp_path / "a.yaml", "zigzag").read_text("utf-8")
    layers = text.split("- id: ")[1:]
    assert [int(layer.split()[0]) for layer in layers] == list(range(len(layers)))
    total = 0
    for layer in layers:
        dims = re.search(r"loop_dims: \[(.*)\]", layer)[1].split(", ")
        sizes = [int(n) for n in re.search(r"loop_sizes: \[(.*)\]", layer)[1].split(", ")]
        assert len(dims) == len(sizes)
        equation = re.search(r"equation: (.*)", layer)[1].upper()
        assert all(f"[{d}]" in equation or d in ("OY", "OX", "FY", "FX") for d in dims)
        total += 2 * _elements(sizes)
    assert total == analysis.total.matrix_flops
    assert "ix=2*ox+1*fx" in layers[0]


# --- Chakra


def _fields(data):
    """(field, value) of a protobuf message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
        elif tag & 7 == 1:
            value, at = struct.unpack("<d", data[at : at + 8])[0], at + 8
        else:
            assert tag & 7 == 2
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        yield tag >> 3, value


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def test_a_chakra_trace(analysis, tmp_path):
    data = gambrel.export(analysis, tmp_path / "a.et").read_bytes()
    messages, at = [], 0
    while at < len(data):
        length, at = _varint(data, at)
        messages.append(list(_fields(data[at : at + length])))
        at += length
    assert dict(messages[0])[1] == b"0.0.4"
    nodes = messages[1:]
    assert len(nodes) == len(analysis.ops)
    flops = 0
    for number, node in enumerate(nodes):
        fields = dict(node)
        assert fields[1] == number
        assert fields[3] == 4
        needed, place = [], 0
        while place < len(fields.get(5, b"")):
            value, place = _varint(fields[5], place)
            needed.append(value)
        assert all(n < number for n in needed)
        assert number == 0 or needed
        attrs = {dict(_fields(v))[1]: dict(_fields(v)) for field, v in node if field == 10}
        flops += attrs[b"num_ops"][9]
        assert attrs[b"is_cpu_op"][27] == 0
    assert flops == analysis.total.matrix_flops + analysis.total.vector_flops
