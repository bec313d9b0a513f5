"""Results of rocprofv3 as JSON: times, counters, the GPU, damaged files."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.analysis.samples import Known
from gambrel.errors import FileFormatError, GambrelError
from gambrel.traces import read


def dispatch(number, kernel, start, end):
    shape = {"x": 256, "y": 1, "z": 1}
    info = {"dispatch_id": number, "kernel_id": kernel, "agent_id": {"handle": 5}}
    info |= {"grid_size": {"x": 1024, "y": 1, "z": 1}, "workgroup_size": shape}
    return {"dispatch_info": info, "start_timestamp": start, "end_timestamp": end, "size": 1}


def count(number, start, end, **values):
    handles = {"TCC_READ_sum": 1, "TCC_WRITE_sum": 2, "SQ_INSTS_VALU_ADD_F32": 3}
    records = [{"counter_id": {"handle": handles[n]}, "value": v} for n, v in values.items()]
    return {"dispatch_data": dispatch(number, 7, start, end), "records": records}


def result(dispatches=(), collected=(), **more):
    tool = {
        "metadata": {"pid": 1},
        "agents": [
            {"id": {"handle": 4}, "name": "AMD EPYC", "product_name": "AMD EPYC"},
            {"id": {"handle": 5}, "name": "gfx942", "product_name": "AMD Instinct MI300X"},
        ],
        "counters": [
            {"id": {"handle": i}, "name": n}
            for i, n in enumerate(("TCC_READ_sum", "TCC_WRITE_sum", "SQ_INSTS_VALU_ADD_F32"), 1)
        ],
        "kernel_symbols": [{"kernel_id": 7, "formatted_kernel_name": "copy(float*)"}],
        "buffer_records": {"kernel_dispatch": list(dispatches), "hip_api": [{"any": 1}]},
        "callback_records": {"counter_collection": list(collected)},
    }
    return json.dumps({"rocprofiler-sdk-tool": [tool | more]})


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "out_results.json"
        path.write_text(text)
        return path

    return write


def test_times_of_dispatches(write):
    samples = read(write(result([dispatch(1, 7, 1_000, 3_500), dispatch(2, 8, 4_000, 4_100)])))
    copy, other = samples.launches
    assert (copy.name, copy.grid, copy.block) == ("copy(float*)", "(1024, 1, 1)", "(256, 1, 1)")
    assert copy.time_s == pytest.approx(2.5e-6)
    assert (other.name, other.state) == ("kernel 8", Known.MISSING)
    assert samples.device_name == "AMD Instinct MI300X"


def test_counters_meet_their_dispatch(write):
    counters = count(1, 0, 9_000, TCC_READ_sum=10, TCC_WRITE_sum=4, SQ_INSTS_VALU_ADD_F32=2)
    more = count(1, 0, 9_000, TCC_READ_sum=1)
    (k,) = read(write(result([dispatch(1, 7, 1_000, 3_500)], [counters, more]))).launches
    assert k.flops == 128
    # Reads of an MI300 are of 128 bytes.
    assert k.bytes_at("L2") == 128 * 11 + 64 * 4
    assert k.time_s == pytest.approx(2.5e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (result(), "no dispatch of a kernel"),
        (result([dispatch(1, 7, 1, 2)])[:-9], "no complete result"),
        ('{"rocprofiler-sdk-tool": 3}', "no complete result"),
        (result(kernel_symbols=3), "no complete result"),
    ],
)
def test_one_clear_sentence(write, text, said):
    with pytest.raises(FileFormatError, match=said):
        read(write(text))


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 900), text=st.sampled_from(["", "}", "-", "9" * 40, '"', "null", "[]"]))
def test_damaged_text_never_crashes(tmp_path_factory, at, text):
    whole = result([dispatch(1, 7, 1, 2)], [count(1, 0, 9, TCC_READ_sum=1)])
    path = tmp_path_factory.mktemp("r") / "r.json"
    path.write_text(whole[:at] + text + whole[at + 1 :])
    with suppress(GambrelError):
        read(path)
