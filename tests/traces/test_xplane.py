"""Profiles of XLA: times by op, loops around ops, devices, damaged files."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.analysis.samples import Known
from gambrel.errors import FileFormatError, GambrelError
from gambrel.traces import read


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def put(number, value):
    """One field: a number, 8 bytes of a float, a text or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(key, value):
    return put(1, key) + put(2, value)


def event(kind, offset, duration):
    return put(4, put(1, kind) + put(2, offset) + put(3, duration))


def line(name, *events):
    return put(3, put(1, 7) + put(2, name) + b"".join(events))


def kind(key, name, *stats):
    return put(4, entry(key, put(1, key) + put(2, name) + b"".join(put(5, s) for s in stats)))


def stat_name(key, name):
    return put(5, entry(key, put(1, key) + put(2, name)))


def plane(number, name, *parts):
    return put(1, put(1, number) + put(2, name) + b"".join(parts))


HOST = plane(1, "/host:CPU", line("python", event(1, 0, 10**9)), kind(1, "$main"))
STATS = stat_name(1, "flops") + stat_name(2, "bytes_accessed") + stat_name(3, "device_type_string")
TPU = plane(
    2,
    "/device:TPU:0",
    line("XLA Modules", event(9, 0, 9_000_000)),
    # A loop of 8 µs around two runs of a fusion, 3 µs and 2.5 µs.
    line(
        "XLA Ops",
        event(1, 500_000, 8_000_000),
        event(2, 1_000_000, 3_000_000),
        event(2, 5_000_000, 2_500_000),
    ),
    kind(1, "while.1", put(1, 1) + put(3, 10_000)),
    kind(2, "fusion.2", put(1, 1) + put(3, 4_000), put(1, 2) + put(2, 640.0)),
    kind(9, "jit_step"),
    STATS,
    put(6, put(1, 3) + put(5, "TPU v4")),
)
GPU = plane(
    3,
    "/device:GPU:0",
    line("Stream #14(Compute)", event(1, 0, 5_000_000), event(2, 6_000_000, 1_000_000)),
    line("XLA Ops", event(3, 0, 5_000_000)),
    kind(1, "gemm_fusion_dot"),
    kind(2, "MemcpyD2D"),
    kind(3, "dot.3"),
)


@pytest.fixture
def write(tmp_path):
    def write(data):
        path = tmp_path / "host.xplane.pb"
        path.write_bytes(data)
        return path

    return write


def test_ops_within_a_loop_are_counted_once(write):
    samples = read(write(HOST + TPU))
    loop, fusion = samples.launches
    assert (loop.name, loop.count, loop.state) == ("while.1", 1, Known.MISSING)
    assert loop.time_s == pytest.approx(2.5e-6)
    assert (fusion.name, fusion.count, fusion.flops) == ("fusion.2", 2, 8_000)
    assert fusion.time_s == pytest.approx(5.5e-6)
    assert fusion.bytes_at("DRAM") == 1_280
    assert samples.device_name == "TPU v4"


def test_streams_of_a_gpu(write):
    (kernel,) = read(write(HOST + GPU)).launches
    assert (kernel.name, kernel.time_s, kernel.flops) == (
        "gemm_fusion_dot",
        pytest.approx(5e-6),
        None,
    )


def test_devices_stay_apart(write):
    found = read(write(TPU + GPU)).launches
    assert {s.origin for s in found} == {"/device:TPU:0", "/device:GPU:0"}


def test_a_host_alone_says_what_to_do(write):
    with pytest.raises(FileFormatError, match=r"no op of a device .* jax\.profiler\.trace"):
        read(write(HOST))


def test_a_file_that_is_cut_off(write):
    with pytest.raises(FileFormatError, match="no complete profile"):
        read(write((HOST + TPU)[:-5]))


def test_a_real_profile_of_a_processor(tmp_path):
    """Times and counts of ops as JAX itself reads them; each thread of XLA has some of them."""
    jax = pytest.importorskip("jax")
    step = jax.jit(lambda x, y: jax.numpy.tanh(x @ y).sum())
    x = jax.numpy.ones((192, 192))
    step(x, x).block_until_ready()
    with jax.profiler.trace(str(tmp_path)):
        for _ in range(4):
            step(x, x).block_until_ready()
    (path,) = tmp_path.rglob("*.xplane.pb")
    expected = {}
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
        for line in plane.lines:
            for event in line.events:
                if "hlo_op" in dict(event.stats):
                    count, time_ns = expected.get(event.name, (0, 0.0))
                    expected[event.name] = count + 1, time_ns + event.duration_ns
    samples = read(path)
    assert {s.name: s.count for s in samples.launches} == {k: n for k, (n, _) in expected.items()}
    for sample in samples.launches:
        assert sample.count == 4
        assert sample.time_s == pytest.approx(expected[sample.name][1] * 1e-9, rel=1e-3)
        assert sample.state is Known.MISSING


@settings(max_examples=100, deadline=None)
@given(at=st.integers(20, len(HOST + TPU) - 1), byte=st.integers(0, 255))
def test_damaged_bytes_never_crash(tmp_path_factory, at, byte):
    data = bytearray(HOST + TPU)
    data[at] = byte
    path = tmp_path_factory.mktemp("x") / "a.xplane.pb"
    path.write_bytes(bytes(data))
    with suppress(GambrelError):
        read(path)
