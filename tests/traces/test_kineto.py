"""PyTorch traces: joining, shapes, time by activity, and damaged files."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.analysis.samples import Known, place
from gambrel.errors import FileFormatError, GambrelError
from gambrel.traces import read
from gambrel.traces.devices import roofs_for
from gambrel.traces.kineto import join, stream
from gambrel.traces.kineto.spans import Covered, length
from tests.traces.kineto_files import kernel, launch, mm, op, trace

# 2 x 64 x 128 x 32; (64 x 128 + 128 x 32 + 64 x 32) x 2 bytes.
MM_FLOPS, MM_BYTES = 524_288, 28_672


@pytest.fixture
def write(tmp_path):
    def write(text, name="trace.json"):
        path = tmp_path / name
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_kernel_meets_its_op_by_id(write, name):
    path = write(trace([mm(0, 5), kernel("gemm", 100, 20, 1, number=5)]), name)
    samples = read(path)
    (sample,) = samples.launches
    assert (sample.name, sample.group, sample.flops) == ("gemm", "aten::mm", MM_FLOPS)
    assert sample.bytes_at("DRAM") == MM_BYTES
    assert sample.time_s == pytest.approx(20e-6)
    device, notes = roofs_for(samples)
    assert device.id == "a100-sxm4-80gb"
    assert "by the device's name" in notes[0]
    # 524,288 FLOP at 312 TFLOP/s take 1.68 ns, 28,672 bytes at 2.039 TB/s 14.06 ns.
    placed = place(samples, device).kernels[0]
    assert placed.binding == "DRAM"
    assert placed.roofline_efficiency == pytest.approx(28_672 / 2.039e12 / 20e-6, rel=1e-6)


def test_kernel_meets_its_op_by_correlation(write):
    events = [mm(0, 5), launch(3, 77), kernel("gemm", 100, 20, 77)]
    assert read(write(trace(events))).launches[0].flops == MM_FLOPS


def test_old_spellings(write):
    event = mm(0, 5, cat="Operator", id_name="external id")
    event["args"]["Input dims"] = event["args"].pop("Input Dims")
    path = write(trace([event, kernel("gemm", 100, 20, 1, number=5, cat="Kernel")], device=""))
    samples = read(path)
    assert samples.launches[0].flops == MM_FLOPS
    assert samples.device_name == ""


def test_kernels_of_one_op_share_its_work_once(write):
    events = [mm(0, 5), kernel("gemm", 100, 20, 1, 5), kernel("splitKreduce", 110, 20, 2, 5)]
    (sample,) = read(write(trace(events))).launches
    assert sample.flops == MM_FLOPS
    # 100 to 120 and 110 to 130 overlap: 30 us, not 40.
    assert sample.time_s == pytest.approx(30e-6)
    assert "+1 kernels" in sample.name


def test_kernel_inside_an_op_without_formula_takes_the_outer_one(write):
    outer = op("aten::linear", 0, 50, 1, [[4, 8], [16, 8]], ["float", "float"], ["", ""])
    events = [outer, op("mylib::inner", 5, 10, 2), kernel("k", 100, 1, 1, number=2)]
    # 2 x 4 x 8 x 16.
    assert read(write(trace(events))).launches[0].flops == 1024


def test_convolution_from_recorded_strides(write):
    args = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "1"]
    kinds = ["float", "float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar"]
    dims = [[1, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], []]
    events = [op("aten::conv2d", 0, 9, 1, dims, kinds, args), kernel("k", 20, 5, 1, 1)]
    work = read(write(trace(events))).launches[0].work
    # 4 x 4 x 4 results, 27 products each.
    assert [w.flops for w in work if w.work_class == "matrix"] == [2 * 64 * 27]


def test_tf32_kernels_are_held_against_tf32(write):
    events = [mm(0, 1, kind="float"), kernel("ampere_sgemm_tf32_128x64", 20, 5, 1, 1)]
    assert read(write(trace(events))).launches[0].work[0].dtype == "tf32"


def test_modules_and_annotations_are_ranges(write):
    def inside(name, cat, ts, dur):
        return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 1, "ts": ts, "dur": dur}

    events = [
        inside("ProfilerStep#1", "user_annotation", 0, 500),
        inside("forward", "user_annotation", 0, 100),
        inside("nn.Module: Linear_0", "python_function", 10, 50),
        inside("train.py(3): main", "python_function", 0, 500),
        *(mm(20, 5), mm(70, 6), mm(200, 7)),
        *(kernel(f"k{i}", 1000 + 50 * i, 20, i, number=i) for i in (5, 6, 7)),
    ]
    samples = read(write(trace(events)))
    assert [s.range for s in samples.launches] == ["Linear_0", "forward", ""]
    found = [k.sample.name for k in place(samples, by="range").kernels]
    assert sorted(found) == ["Linear_0", "aten::mm", "forward"]


class TestPieces:
    """The same answer for every way to cut the file, and with alike launches added up."""

    EVENTS: ClassVar = [
        mm(0, 5),
        mm(50, 6, m=8),
        launch(3, 77),
        *(kernel(f"k{i % 3} }},{{", 100 + 30 * i, 20, 77 + i, 5 + i % 2) for i in range(40)),
        *(kernel("alone", 9000 + 20 * i, 7, 500 + i) for i in range(5)),
    ]

    @pytest.mark.parametrize("piece", [64, 500, 4096])
    @pytest.mark.parametrize("indent", [None, 2])
    @pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
    def test_cut_anywhere(self, write, monkeypatch, piece, indent, name):
        whole = read(write(trace(self.EVENTS), "whole.json"))
        text = json.dumps(json.loads(trace(self.EVENTS)), indent=indent)
        monkeypatch.setattr(stream, "PIECE", piece)
        cut = read(write(text, name))
        assert cut.launches == whole.launches
        assert cut.device_name == "NVIDIA A100-SXM4-80GB"

    def test_many_launches_are_added_up(self, write, monkeypatch):
        path = write(trace(self.EVENTS))
        single = read(path)
        monkeypatch.setattr(join, "MOST_SINGLE", 1)
        added = read(path)
        assert len(added.launches) < len(single.launches)
        assert "added up" in added.notes[-1]
        for part in ("flops", "time_s"):
            sums = [sum(getattr(s, part) or 0 for s in x.launches) for x in (single, added)]
            assert sums[0] == pytest.approx(sums[1])

    def test_keys_after_the_events(self, write):
        events = json.dumps([mm(0, 5), kernel("gemm", 100, 20, 1, number=5)])
        text = '{"traceEvents": %s, "x": "},{", "deviceProperties": [{"name": "NVIDIA A10"}]}'
        assert read(write(text % events)).device_name == "NVIDIA A10"
        assert len(read(write(events)).launches) == 1

    @pytest.mark.parametrize(
        ("info", "said"),
        [
            ({"rank": 3, "world_size": 8, "pg_config": []}, ["rank 3 of 8 processes"]),
            ({"rank": 0, "world_size": 1}, []),
            ([1], []),
        ],
    )
    def test_rank(self, write, info, said):
        text = json.loads(trace([kernel("k", 0, 1, 1)])) | {"distributedInfo": info}
        notes = read(write(json.dumps(text))).notes
        assert [n for n in notes if n.startswith("rank")] == said

    def test_refusal_names_the_offset(self, write):
        text = trace([mm(0, 5), kernel("gemm", 100, 20, 1, number=5)])
        at = text.index('"gemm"')
        with pytest.raises(FileFormatError, match=rf"offset {at + 1}\b"):
            read(write(text[:at] + "'" + text[at + 1 :]))


class TestUnknown:
    def test_without_shapes(self, write):
        (s,) = read(write(trace([op("aten::mm", 0, 9, 1), kernel("k", 20, 5, 1, 1)]))).launches
        assert (s.state, s.flops) == (Known.MISSING, None)
        assert "record_shapes=True" in s.why

    def test_without_an_op(self, write):
        (s,) = read(write(trace([kernel("k", 20, 5, 1)]))).launches
        assert "CUDA graph" in s.why

    @pytest.mark.parametrize(
        "shape",
        [[2] * 5_000, [1] * 5_000, [10**9] * 5_000, [10**12, 10**12], [-1, 64], [64, 0.5]],
    )
    @pytest.mark.parametrize("name", ["add", "matmul", "bmm", "cat", "copy_", "linear", "sum"])
    def test_shapes_that_no_tensor_has(self, write, shape, name):
        dims, types = [shape, shape, shape], ["float"] * 3
        events = [op(f"aten::{name}", 0, 10, 1, dims, types), kernel("k", 3, 2, 5, number=1)]
        samples = read(write(trace(events)))
        (k,) = samples.launches
        assert k.flops is None
        assert place(samples, roofs_for(samples)[0]).kernels

    def test_counts_that_no_call_has(self, write):
        # A padding of 10^30 makes a result of as many elements.
        pads = ["", "", "", "[1]", f"[{10**30}]", "[1]", "False", "[0]", "1"]
        dims = [[1, 1, 8], [1, 1, 3], [], [], [], [], [], [], []]
        types = ["float", "float", "", "ScalarList", "ScalarList", "ScalarList"] + ["Scalar"] * 3
        events = [
            op("aten::convolution", 0, 10, 1, dims, types, pads),
            kernel("k", 3, 2, 5, number=1),
        ]
        (k,) = read(write(trace(events))).launches
        assert k.flops is None

    def test_unknown_result_is_not_guessed(self, write):
        event = op("aten::sum", 0, 9, 1, [[8, 8], [], []], ["float", "ScalarList", "Scalar"])
        (s,) = read(write(trace([event, kernel("k", 20, 5, 1, 1)]))).launches
        assert s.state is Known.MISSING


def test_time_by_activity(write):
    events = [
        mm(0, 1),
        launch(2, 1),
        kernel("gemm", 100, 100, 1),
        kernel("ncclDevKernel_AllReduce", 150, 100, 2),
        kernel("Memcpy HtoD", 300, 20, 3, cat="gpu_memcpy"),
    ]
    spans = read(write(trace(events))).spans
    # Compute 100 to 200, communication 150 to 250 of which 50 are hidden, nothing 250 to 300.
    assert spans == pytest.approx(
        {
            "compute": 100e-6,
            "communication": 100e-6,
            "exposed communication": 50e-6,
            "copy": 20e-6,
            "idle": 50e-6,
            "launch calls": 4e-6,
        }
    )


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12))
def test_union_against_counting(pairs):
    spans = [(start, start + size) for start, size in pairs]
    covered = {t for start, end in spans for t in range(start, end)}
    assert length(spans) == len(covered)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=5), max_size=8),
    st.integers(1, 6),
)
def test_union_block_by_block(blocks, most):
    """Blocks that follow one another, overlapping into the next, in little memory."""
    busy = Covered()
    busy._MOST = most
    covered = set()
    for i, block in enumerate(blocks):
        spans = np.array([(10 * i + a, 10 * i + a + n) for a, n in block], dtype=np.int64)
        spans = spans.reshape(-1, 2)
        busy.add(spans[:, 0], spans[:, 1])
        covered |= {t for a, b in spans.tolist() for t in range(a, b)}
    # Within a block the order is free; across blocks what lies before the frontier may be lost.
    assert busy.total() <= len(covered)
    if sum(map(len, blocks)) <= most:
        assert busy.total() == len(covered)


def test_union_of_many_sorted_intervals():
    busy = Covered()
    busy._MOST = 10
    for i in range(0, 1000, 4):
        starts = np.arange(i, i + 4) * 5
        busy.add(starts, starts + 3)
    assert (busy.total(), busy.first, busy.last) == (3000, 0, 4998)


@pytest.mark.torch
def test_real_trace_of_a_cpu_run(tmp_path):
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile

    model = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ReLU())
    x = torch.randn(4, 32)
    with (
        torch.no_grad(),
        profile(activities=[ProfilerActivity.CPU], record_shapes=True) as run,
    ):
        model(x)
    path = tmp_path / "t.json"
    run.export_chrome_trace(str(path))
    flops = {s.name: s.work for s in read(path).launches if s.state is Known.COUNTED}
    # 2 x 4 x 32 x 16.
    assert [w.flops for w in flops["aten::linear"] if w.work_class == "matrix"] == [4096]
    assert "aten::relu" in flops


class TestBroken:
    def test_truncated(self, write):
        text = trace([mm(0, 5), kernel("gemm", 100, 20, 1, number=5)])
        for end in range(1, len(text), 23):
            with pytest.raises(FileFormatError):
                read(write(text[:end]))

    def test_cut_and_damaged_gzip(self, write, tmp_path):
        data = gzip.compress(trace([kernel("k", 0, 1, 1)] * 400).encode())
        for broken in (data[: len(data) // 2], data[:40] + b"\0" * 30 + data[70:]):
            path = tmp_path / "broken.json.gz"
            path.write_bytes(broken)
            with pytest.raises(FileFormatError):
                read(path)

    def test_gzip_bomb(self, tmp_path):
        path = tmp_path / "bomb.json.gz"
        path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 40_000_000))
        with pytest.raises(FileFormatError, match="unpacks to more than"):
            read(path)

    def test_negative_and_absurd_times_are_skipped_and_counted(self, write):
        events = [kernel("a", 0, -5, 1), kernel("b", "x", 5, 2), kernel("c", 0, 5, 3)]
        samples = read(write(trace(events)))
        assert [s.name for s in samples.launches] == ["c"]
        assert samples.skipped == {"events without a usable time": 2}

    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_damaged_events_never_crash(self, data, tmp_path_factory):
        text = trace([mm(0, 5), launch(1, 1), kernel("gemm", 100, 20, 1, number=5)])
        at = data.draw(st.integers(0, len(text) - 1))
        char = data.draw(st.sampled_from('0-"[]{},ax\\'))
        path = tmp_path_factory.mktemp("k") / "t.json"
        path.write_text(text[:at] + char + text[at + 1 :])
        with suppress(GambrelError):
            read(path)
