"""A measured trace with work, bytes and share of the speed of light of each op."""

import gzip
import json

import pytest

from gambrel.cli import run
from gambrel.device.lookup import find
from gambrel.errors import FileFormatError
from gambrel.traces.annotate import annotate
from gambrel.traces.formats import read

#: Torch says once that each cycle of a schedule has events of its own.
pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")

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


def test_kernels_that_run_at_once_stand_on_rows_of_their_own(tmp_path):
    """Two kernels of 2·512³ FLOP in 20 µs that overlap by 10 µs: twice the rate in the middle."""
    events = []
    for i, ts in ((1, 40.0), (2, 50.0)):
        events.append(OP | {"ts": 10.0 * i, "dur": 5.0, "args": SHAPES | {"External id": i}})
        events.append(KERNEL | {"ts": ts, "args": {"External id": i, "stream": i}})
    annotate(written(tmp_path / "a.json", events), tmp_path / "b.json", DEVICE)
    rows = {e["tid"] for e in added(tmp_path / "b.json") if e["ph"] == "X"}
    counter = [e for e in added(tmp_path / "b.json") if e["name"] == "achieved FLOP/s"]
    one = 2 * 512**3 / 20e-6
    assert len(rows) == 2
    assert [(e["ts"], e["args"]["value"]) for e in counter] == [
        (40.0, pytest.approx(one)),
        (50.0, pytest.approx(2 * one)),
        (60.0, pytest.approx(one)),
        (70.0, 0),
    ]


def test_kernels_of_one_op_share_its_work(tmp_path):
    op = OP | {"args": SHAPES | {"External id": 3}}
    kernels = [KERNEL | {"ts": ts, "args": {"External id": 3}} for ts in (40.0, 60.0)]
    annotate(written(tmp_path / "a.json", [op, *kernels]), tmp_path / "b.json", DEVICE)
    (span,) = [e for e in added(tmp_path / "b.json") if e["ph"] == "X"]
    assert (span["ts"], span["dur"], span["args"]["flops"]) == (40.0, 40.0, 2 * 512**3)


def test_a_bare_list_and_a_spaced_head(tmp_path):
    event = OP | {"args": SHAPES}
    for text in (json.dumps([event]), '\n { "schemaVersion": 1, "traceEvents" : [\n\n'
                 + json.dumps(event) + "]}"):  # fmt: skip
        (tmp_path / "a.json").write_text(text)
        annotate(tmp_path / "a.json", tmp_path / "b.json")
        made = json.loads((tmp_path / "b.json").read_text())
        made = made["traceEvents"] if isinstance(made, dict) else made
        assert made[-1] == event
        assert [e["args"]["sol_share"] for e in made if e.get("cat") == "gambrel"] == [None]


@pytest.mark.parametrize("keep", [0.3, 0.8])
def test_a_file_that_was_cut_off_is_refused(tmp_path, keep):
    whole = json.dumps({"traceEvents": [OP | {"args": SHAPES}] * 50}).encode()
    for name, data in (("a.json", whole), ("a.json.gz", gzip.compress(whole))):
        (tmp_path / name).write_bytes(data[: int(len(data) * keep)])
        with pytest.raises(FileFormatError, match=r"cut off"):
            annotate(tmp_path / name, tmp_path / "b.json", DEVICE)
    assert not (tmp_path / "b.json").exists()


def test_json_that_is_no_trace_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"loss": [1, 2, 3]}')
    with pytest.raises(FileFormatError, match="no trace"):
        annotate(tmp_path / "a.json", tmp_path / "b.json", DEVICE)


def test_the_command_annotates_a_trace_that_is_there(tmp_path, capsys):
    source = written(tmp_path / "a.json", [OP | {"args": SHAPES}])
    target = tmp_path / "b.json"
    words = ["import", str(source), "--hardware", "a100", "--annotate", str(target)]
    assert run(words) == 0
    assert "1 ops or kernels annotated" in capsys.readouterr().err
    assert [e["args"]["flops"] for e in added(target) if e["ph"] == "X"] == [2 * 512**3]
    assert run([*words, str(source)]) == 2
    assert "takes one trace" in capsys.readouterr().err
    points = tmp_path / "p.csv"
    points.write_text("name,flops,bytes,time_us\na,1e9,1e6,10\n")
    assert run(["import", str(points), "--hardware", "a100", "--annotate", str(target)]) == 2
    assert "is table of points" in capsys.readouterr().err


@pytest.fixture(scope="module")
def training():
    """A loop of a small model for so many steps under a profiler."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def run(handler, steps=8, **options):
        options = {"record_shapes": True} | options
        schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
        cpu = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(
            activities=cpu, schedule=schedule, on_trace_ready=handler, **options
        ) as profiler:
            for _ in range(steps):
                optimizer.zero_grad()
                model(torch.randn(8, 64)).square().mean().backward()
                optimizer.step()
                profiler.step()

    return run


def test_the_handler_writes_a_trace_for_each_cycle(tmp_path, training):
    """Two cycles of two steps: the forward GEMM of 2·8·64·64 FLOP and its bias twice in each."""
    import gambrel

    training(gambrel.profiler_handler(tmp_path / "traces", "a100"))
    paths = sorted((tmp_path / "traces").glob("trace-*.json"))
    assert len(paths) == 2
    for path in paths:
        flops = [e["args"]["flops"] for e in added(path) if e["ph"] == "X"]
        assert flops.count(2 * 8 * 64 * 64 + 8 * 64) == 2
        assert {e["name"] for e in added(path) if e["ph"] == "C"} == {
            "achieved FLOP/s",
            "achieved byte/s",
        }
    assert sorted(p.name for p in (tmp_path / "traces").iterdir()) == [p.name for p in paths]


def test_a_recording_without_shapes_never_ends_the_training(tmp_path, training):
    import gambrel

    with pytest.warns(UserWarning, match="not annotated: no op of known work; record with"):
        training(gambrel.profiler_handler(tmp_path, "a100"), record_shapes=False)
    assert len(read([next(tmp_path.glob("trace-*.json"))]).launches)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scalars_for_tensorboard(tmp_path, training):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    import gambrel

    training(gambrel.profiler_handler(tmp_path, "a100", tensorboard=True))
    shown = EventAccumulator(str(tmp_path))
    shown.Reload()
    assert set(shown.Tags()["scalars"]) == {
        f"gambrel/{name}" for name in ("achieved_flop_per_s", "achieved_byte_per_s", "sol_share")
    }
    points = shown.Scalars("gambrel/sol_share")
    assert [p.step for p in points] == [4, 8]
    assert all(0 < p.value < 1 for p in points)
