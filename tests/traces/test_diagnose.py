"""Each cause is recognised in a small trace written by hand, and not where it is absent."""

import gzip
import json
import shlex

import pytest

from gambrel.cli import run
from gambrel.errors import FileFormatError, InputError
from gambrel.traces.diagnose import diagnose
from gambrel.traces.diagnose.timeline import TraceSpan, covered_s, outside_s

FLOAT, DOUBLE, HALF = "float", "double", "c10::BFloat16"


class Trace:
    """Events one after another on a clock that is moved by hand."""

    def __init__(self):
        self.events, self.now = [], 0.0

    def span(self, name, dur, *, cat="cpu_op", tid=1, start=None, shapes=(), types=(), **more):
        start = self.now if start is None else start
        args = {"Input Dims": list(map(list, shapes)), "Input type": list(types)}
        args |= {key.replace("_", " "): value for key, value in more.items()}
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur,
             "args": args}
        )  # fmt: skip
        self.now = max(self.now, start + dur)
        return start

    def product(self, side=1024, types=FLOAT, dur=1000.0):
        self.span("aten::mm", dur, shapes=[(side, side)] * 2, types=[types] * 2)

    def inside(self, outer, inner, dur, types=(FLOAT, FLOAT)):
        """Ops around one another, each a microsecond longer than what it holds."""
        start = self.now
        for depth, name in enumerate((*outer, inner)):
            last = depth == len(outer)
            margin = len(outer) - depth
            shapes = [(64, 64)] * 2
            self.span(name, dur + margin, start=start, shapes=shapes, types=types if last else ())

    def causes(self, tmp_path):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events}))
        return {item.cause: item for item in diagnose([path]).items}


@pytest.fixture
def trace():
    made = Trace()
    for _ in range(8):
        made.product()
    return made


def test_products_alone_have_no_cause(trace, tmp_path):
    assert trace.causes(tmp_path) == {}


def test_work_of_the_program_between_ops(trace, tmp_path):
    trace.now += 8000
    trace.product()
    gap = trace.causes(tmp_path)["Python between ops"]
    assert gap.saves_s == pytest.approx(8e-3)
    assert gap.saves_share == pytest.approx(8 / 17)
    assert "between aten::mm and aten::mm" in gap.evidence


def test_gaps_of_microseconds_are_the_launching(tmp_path):
    trace = Trace()
    for _ in range(20):
        trace.product(dur=50)
        trace.now += 30
    assert set(found := trace.causes(tmp_path)) == {"gaps between launches"}
    assert found["gaps between launches"].saves_s == pytest.approx(19 * 30e-6)


def test_one_pause_of_the_system_is_no_cause(tmp_path):
    """Nineteen gaps of 120 µs, and one of 50 ms that counts as three of them."""
    trace = Trace()
    for i in range(21):
        trace.product(dur=400)
        trace.now += 50_000 if i == 7 else 120
    assert trace.causes(tmp_path)["Python between ops"].saves_s == pytest.approx((19 + 3) * 120e-6)


def test_short_and_long_gaps_between_the_same_ops(tmp_path):
    """Two layers of a step with 20 µs between them, and 5 ms of the program after each step."""
    trace = Trace()
    for _ in range(20):
        trace.product()
        trace.now += 20
        trace.product()
        trace.now += 5000
    assert trace.causes(tmp_path)["Python between ops"].saves_s == pytest.approx(19 * 5e-3)


@pytest.mark.parametrize(("every", "saved_s"), [(100, None), (10, 30 * 2e-3)])
def test_rare_pauses_between_ops_that_follow_soon(tmp_path, every, saved_s):
    """300 gaps of 10 µs, of which three, or each tenth, are 2 ms: the system's or the program's."""
    trace = Trace()
    for i in range(301):
        trace.product(dur=200)
        trace.now += 2000 if i % every == 5 else 10
    found = trace.causes(tmp_path).get("Python between ops")
    assert (found and found.saves_s) == (saved_s and pytest.approx(saved_s))


def test_a_wait_for_a_loader_is_no_gap(trace, tmp_path):
    trace.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 8000,
               cat="user_annotation")  # fmt: skip
    trace.product()
    found = trace.causes(tmp_path)
    assert set(found) == {"data loading"}
    assert found["data loading"].saves_s == pytest.approx(8e-3)


def test_a_chain_saves_all_but_its_longest_op(trace, tmp_path):
    for name, dur in (("mul", 1000), ("add", 2000), ("tanh", 1500)):
        trace.span(f"aten::{name}", dur, shapes=[(4096, 64)], types=[FLOAT])
    assert trace.causes(tmp_path)["small ops to fuse"].saves_s == pytest.approx(2.5e-3)


def test_two_ops_are_no_chain(trace, tmp_path):
    for name in ("mul", "add"):
        trace.span(f"aten::{name}", 2000, shapes=[(4096, 64)], types=[FLOAT])
    trace.product()
    trace.span("aten::tanh", 2000, shapes=[(4096, 64)], types=[FLOAT])
    assert trace.causes(tmp_path) == {}


def test_double_precision_products(trace, tmp_path):
    trace.product(types=DOUBLE, dur=4000)
    assert trace.causes(tmp_path)["wrong precision"].saves_s == pytest.approx(2e-3)


def test_copies_for_layout_and_for_format_are_told_apart(trace, tmp_path):
    trace.inside(("aten::contiguous", "aten::clone"), "aten::copy_", 3000)
    trace.inside(("aten::to", "aten::_to_copy"), "aten::copy_", 2000, types=(HALF, FLOAT))
    found = trace.causes(tmp_path)
    assert found["layout transposes"].saves_s == pytest.approx(3e-3)
    assert found["format conversions"].saves_s == pytest.approx(2e-3)


def test_odd_sides_are_named_without_a_promise(trace, tmp_path):
    trace.product(side=1021)
    item = trace.causes(tmp_path)["unaligned shapes"]
    assert item.saves_s is None
    assert "1021" in item.evidence


def test_values_that_the_host_reads(trace, tmp_path):
    for _ in range(5):
        trace.product()
        trace.inside(("aten::item",), "aten::_local_scalar_dense", 5)
    assert "5 values" in trace.causes(tmp_path)["host syncs"].evidence


def test_collectives_count_where_nothing_is_computed_beside(trace, tmp_path):
    start = trace.now
    trace.span("gloo:all_reduce", 4000, cat="user_annotation", tid=7)
    trace.span("aten::mm", 1000, start=start, shapes=[(64, 64)] * 2, types=[FLOAT] * 2)
    assert trace.causes(tmp_path)["unhidden communication"].saves_s == pytest.approx(3e-3)


def test_calls_that_get_slower(tmp_path):
    trace = Trace()
    for i in range(30):
        trace.product(dur=1000 if i < 15 else 2000)
    assert trace.causes(tmp_path)["clock throttling"].saves_s == pytest.approx(15e-3)


def test_short_kernels_and_an_idle_gpu(tmp_path):
    trace = Trace()
    for i in range(20):
        trace.span("aten::mul", 8, start=20.0 * i, shapes=[(8,)], types=[FLOAT])
        trace.span("mul_kernel", 3, cat="kernel", tid=9, start=20.0 * i + 9)
    found = trace.causes(tmp_path)
    assert found["gaps between launches"].saves_s == pytest.approx(19 * 17e-6)
    assert "short kernels" in found


def launch(trace, name, kernel, dur, *, types, number, grid=1.0, parents=()):
    """An op of 8 µs and a kernel of its own that runs later."""
    start = trace.span(name, 8, shapes=[(512, 512)] * 2, types=types, External_id=number)
    for around in parents:
        trace.span(around, 8.5, start=start - 0.2, shapes=[(512, 512)], types=types[:1])
    more = {"External_id": number, "blocks_per_SM": grid}
    trace.span(kernel, dur, cat="kernel", tid=9, start=2000.0 * number, **more)
    trace.now = start + 10


def test_copies_of_a_gpu_cost_what_their_kernels_take(tmp_path):
    trace = Trace()
    for i in range(1, 6):
        launch(trace, "aten::mm", "gemm", 1400, types=[HALF, HALF], number=2 * i)
        launch(trace, "aten::copy_", "copy", 600, types=[HALF, FLOAT], number=2 * i + 1,
               parents=("aten::_to_copy",))  # fmt: skip
    assert trace.causes(tmp_path)["format conversions"].saves_s == pytest.approx(5 * 600e-6)


def test_kernels_with_few_blocks_leave_multiprocessors_idle(tmp_path):
    """A kernel of 1 ms on a quarter of the multiprocessors gives back 750 µs at most."""
    trace = Trace()
    for i in range(1, 5):
        launch(trace, "aten::mm", "gemm", 1000, types=[HALF, HALF], number=i, grid=0.25)
    assert trace.causes(tmp_path)["low occupancy"].saves_s == pytest.approx(4 * 750e-6)


def test_ops_of_a_loader_are_only_loading(trace, tmp_path):
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    start = trace.now
    trace.span(name, 9000, cat="user_annotation")
    for i in range(8):
        trace.span("aten::tanh", 900, start=start + 1000 * i, shapes=[(4096, 64)], types=[FLOAT])
    assert set(trace.causes(tmp_path)) == {"data loading"}


def test_a_copy_to_another_layout_by_to(trace, tmp_path):
    trace.inside(("aten::to", "aten::_to_copy"), "aten::copy_", 3000)
    assert set(trace.causes(tmp_path)) == {"layout transposes"}


CLOCKS = """timestamp, clocks.sm [MHz], clocks.max.sm [MHz], clocks_throttle_reasons.active
2026/11/02 10:00:01.100, 990 MHz, 1980 MHz, 0x0000000000000004
"""


def test_clocks_beside_a_trace_tell_throttling(trace, tmp_path):
    trace.causes(tmp_path)
    (tmp_path / "clocks.csv").write_text(CLOCKS)
    found = diagnose([tmp_path / "clocks.csv", tmp_path / "trace.json"])
    (item,) = found.items
    assert (item.cause, item.saves_share) == ("clock throttling", pytest.approx(0.5))
    assert "power cap" in item.evidence
    assert any("990 MHz" in note for note in found.notes)


def test_full_clocks_contradict_calls_that_get_slower(tmp_path):
    trace = Trace()
    for i in range(30):
        trace.product(dur=1000 if i < 15 else 2000)
    trace.causes(tmp_path)
    (tmp_path / "clocks.csv").write_text(CLOCKS.replace("990", "1980"))
    assert diagnose([tmp_path / "trace.json", tmp_path / "clocks.csv"]).items == ()


def test_every_command_runs(trace, tmp_path, capsys):
    trace.product(types=DOUBLE, dur=4000)
    trace.product(side=1021, dur=4000)
    trace.inside(("aten::contiguous", "aten::clone"), "aten::copy_", 3000)
    for name, dur in (("mul", 1000), ("add", 2000), ("tanh", 1500)):
        trace.span(f"aten::{name}", dur, shapes=[(4096, 64)], types=[FLOAT])
    trace.now += 9000
    trace.product()
    trace.causes(tmp_path)
    path = tmp_path / "trace.json"
    commands = []
    for model, device in (("", None), ("resnet18", "a100")):
        found = diagnose([path], device, model)
        assert len(found.items) == 5
        commands += [item.command for item in found.items]
    assert "gambrel what-if resnet18 --hardware a100 --change fuse" in commands
    for command in dict.fromkeys(commands):
        program, *words = shlex.split(command)
        assert program == "gambrel"
        assert run(words) == 0, command
    capsys.readouterr()


def test_two_recordings_are_refused(trace, tmp_path):
    trace.causes(tmp_path)
    with pytest.raises(InputError, match=r"one recording at a time.*; 2 are named"):
        diagnose([tmp_path / "trace.json", tmp_path / "trace.json"])


def test_a_trace_of_another_model_is_said(trace, tmp_path, capsys):
    trace.causes(tmp_path)
    words = ["diagnose", str(tmp_path / "trace.json"), "--model", "resnet18", "-d", "a100", "-v"]
    assert run(words) == 0
    assert "may be a recording of another model" in " ".join(capsys.readouterr().out.split())


def spans(*ends):
    return [TraceSpan(name="", start_s=a, end_s=b) for a, b in ends]


def test_intervals_by_hand():
    assert covered_s(spans((2, 4), (0, 1), (3, 6))) == [(0, 1), (2, 6)]
    assert outside_s(spans((0, 10)), spans((1, 2), (1.5, 4), (9, 20))) == 6
    assert outside_s(spans((0, 1)), ()) == 1.0


def test_the_command_prints_ten_lines_at_most(trace, tmp_path, capsys):
    trace.product(types=DOUBLE, dur=9000)
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": trace.events}).encode()))
    assert run(["diagnose", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("Wrong precision, up to ")
    assert run(["diagnose", str(path), "--model", "resnet18"]) == 2
    assert run(["diagnose", str(path), "--model", "resnet18", "-d", "a100", "-v"]) == 0
    assert "expected to take" in capsys.readouterr().out


def test_what_is_no_trace_is_refused(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(FileFormatError):
        diagnose([path])
