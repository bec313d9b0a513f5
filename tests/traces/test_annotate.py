"""A measured trace with work, bytes and share of the speed of light of each op."""

import gzip
import json

import pytest

from gambrel.device.lookup import find
from gambrel.errors import FileFormatError
from gambrel.traces.annotate import annotate
from gambrel.traces.formats import read

DEVICE = find("a100-sxm4-80gb").device
SHAPES = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"]}
OP = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10.0, "dur": 50.0}
KERNEL = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 40.0, "dur": 20.0}


def written(path, events, **more):
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events, **more}))
    return path


def added(path):
    return [e for e in json.loads(path.read_text())["traceEvents"] if e["pid"] == 9_000_001]


def test_an_op_gets_its_work_bytes_and_share(tmp_path):
    """2·512³ FLOP and 3·512² floats in 50 µs; an A100 does TF32 at 156 TFLOP/s."""
    source = written(tmp_path / "a.json", [OP | {"args": SHAPES}])
    assert annotate(source, tmp_path / "b.json", DEVICE).spans == 1
    (span,) = [e for e in added(tmp_path / "b.json") if e["ph"] == "X"]
    assert span["args"]["flops"] == 2 * 512**3
    assert span["args"]["traffic_bytes"] == 3 * 512 * 512 * 4
    assert span["args"]["sol_share"] == pytest.approx(2 * 512**3 / 156e12 / 50e-6, rel=1e-3)
    assert span["args"]["bound"] == "compute"
    counters = [e for e in added(tmp_path / "b.json") if e["ph"] == "C"]
    assert counters[0]["args"]["value"] == pytest.approx(2 * 512**3 / 50e-6)
    assert [c["args"]["value"] for c in counters if c["ts"] == 60.0] == [0, 0]


def test_a_kernel_has_the_work_of_the_op_that_launched_it(tmp_path):
    op = OP | {"args": SHAPES | {"External id": 3}}
    kernel = KERNEL | {"args": {"External id": 3}}
    annotate(written(tmp_path / "a.json", [op, kernel]), tmp_path / "b.json", DEVICE)
    (span,) = [e for e in added(tmp_path / "b.json") if e["ph"] == "X"]
    assert (span["ts"], span["dur"]) == (40.0, 20.0)


def test_what_was_recorded_stays_and_can_be_read_again(tmp_path):
    events = [OP | {"args": SHAPES}, {"ph": "i", "name": "mark", "pid": 1, "ts": 1, "odd": [1]}]
    source = written(tmp_path / "a.json", events, traceName="x", otherKey={"a": 1})
    annotate(source, tmp_path / "b.json", DEVICE)
    found = json.loads((tmp_path / "b.json").read_text())
    assert found["traceEvents"][-2:] == events
    assert (found["traceName"], found["otherKey"]) == ("x", {"a": 1})
    assert len(read([tmp_path / "b.json"]).launches) == len(read([source]).launches)


def test_events_are_of_the_trace_event_format(tmp_path):
    """Phases and fields that the format asks of slices, counters and metadata."""
    needs = {"X": {"ts", "dur", "tid", "name"}, "C": {"ts", "name", "args"}, "M": {"name", "args"}}
    source = tmp_path / "a.json.gz"
    source.write_bytes(gzip.compress(json.dumps({"traceEvents": [OP | {"args": SHAPES}]}).encode()))
    annotate(source, tmp_path / "b.json")
    for event in added(tmp_path / "b.json"):
        assert needs[event["ph"]] <= event.keys()
        assert isinstance(event["pid"], int)


@pytest.mark.parametrize("events", [[], [OP]])
def test_a_trace_without_shapes_is_refused(tmp_path, events):
    with pytest.raises(FileFormatError):
        annotate(written(tmp_path / "a.json", events), tmp_path / "b.json", DEVICE)


def test_the_handler_writes_a_trace_for_each_cycle(tmp_path):
    torch = pytest.importorskip("torch")
    import gambrel

    handler = gambrel.profiler_handler(tmp_path / "traces", "a100")
    model, x = torch.nn.Linear(64, 64), torch.randn(8, 64)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, record_shapes=True, on_trace_ready=handler):
        model(x)
    (path,) = (tmp_path / "traces").glob("trace-*.json")
    assert 2 * 8 * 64 * 64 + 8 * 64 in [
        e["args"]["flops"] for e in added(path) if "flops" in e["args"]
    ]
