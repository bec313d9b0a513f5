"""Counters behind two seams: a folder like the kernel's, and descriptors that hold counts."""

import errno
import os
import struct

import pytest

from gambrel.measure.counters import CounterEvent, count, find
from gambrel.measure.counters.events import Unavailable


@pytest.fixture
def system(tmp_path):
    """A machine as the kernel describes it; files by path below it."""

    def make(files):
        (tmp_path / "devices").mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "devices", tmp_path / "cpuinfo", tmp_path / "paranoid"

    return make


INTEL = {"cpuinfo": "vendor_id : GenuineIntel\n", "devices/cpu/type": "4\n"}


def test_intel_counts_each_width_with_its_lanes(system):
    flops, traffic, missing = find(*system(INTEL))
    # Event 0xC7; the mask in the second byte: 0x80 is 512 bits of single, 16 lanes.
    assert [(e.config, e.factor) for e in flops][-1] == (0x80C7, 16)
    assert [e.factor for e in flops] == [1, 1, 2, 4, 4, 8, 8, 16]
    assert traffic == ()
    assert [m.what for m in missing] == ["bytes"]


def test_amd_counts_flop_as_such(system):
    files = {"cpuinfo": "vendor_id : AuthenticAMD\n", "devices/cpu/type": "4\n"}
    (event,), _, _ = find(*system(files))
    assert (event.config, event.factor) == (0x0F03, 1.0)


def test_memory_controllers_count_lines(system):
    files = INTEL | {
        "devices/uncore_imc_0/type": "17",
        "devices/uncore_imc_0/cpumask": "0,16",
        "devices/uncore_imc_0/events/cas_count_read": "event=0x05,umask=0xcf",
        "devices/uncore_imc_0/events/cas_count_write": "event=0x05,umask=0xf0",
        "paranoid": "0",
    }
    _, traffic, missing = find(*system(files))
    assert [(e.kind, e.config, e.cpu, e.factor) for e in traffic] == [
        (17, 0xCF05, 0, 64.0),
        (17, 0xF005, 0, 64.0),
    ]
    assert missing == ()


def test_what_is_missing_is_named(system, tmp_path):
    guest = {"cpuinfo": "vendor_id : GenuineIntel\nflags : fpu hypervisor\n"}
    flops, _, missing = find(*system(guest))
    assert flops == ()
    assert "a virtual machine: the hypervisor shows none" in str(missing[0])
    assert "uncore_imc" in str(missing[1])
    nowhere = find(tmp_path / "none", tmp_path / "x", tmp_path / "y")
    assert "facility of Linux" in str(nowhere[2][0])
    other = {"cpuinfo": "Features : asimd\n", "devices/cpu/type": "8"}
    assert "no counter of FLOP is known" in str(find(*system(other))[2][0])


FLOP = CounterEvent(name="a", kind=4, config=1, factor=8.0)
LINES = CounterEvent(name="b", kind=9, config=2, factor=64.0, cpu=0)


class Descriptors:
    """Opens files whose counts grow with every call that is counted."""

    def __init__(self, folder):
        self.folder = folder
        self.files = []
        self.calls = 0

    def open(self, event, thread):
        path = self.folder / f"{len(self.files)}"
        path.write_bytes(b"")
        descriptor = os.open(path, os.O_RDWR)
        self.files.append((event, thread, descriptor))
        return descriptor

    def call(self):
        self.calls += 1
        self.write(self.calls)

    def write(self, calls, running=100):
        for _, _, descriptor in self.files:
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, struct.pack("<QQQ", 10 * calls, 100, running))


def test_counts_become_flop_and_bytes_of_one_call(tmp_path, monkeypatch):
    made = Descriptors(tmp_path)
    monkeypatch.setattr("gambrel.measure.counters.reading._threads", lambda: [11, 12])
    reads = []

    def read(descriptor, size):
        value = made.calls * 10
        reads.append(descriptor)
        return struct.pack("<QQQ", value, 100, 50)

    monkeypatch.setattr("gambrel.measure.counters.reading.os.read", read)
    found = ((FLOP,), (LINES,), ())
    seen = count(made.call, 5, found=found, opened=made.open)
    assert made.calls == 5
    # 10 counts a call, seen half of the time: 20. Two threads of 8 FLOP; one controller of 64 B.
    assert seen.flops == 2 * 20 * 8
    assert seen.traffic_bytes == 20 * 64
    assert seen.missing == ()
    assert [(e.name, t) for e, t, _ in made.files] == [("a", 11), ("a", 12), ("b", -1)]
    for _, _, descriptor in made.files:
        with pytest.raises(OSError):
            os.fstat(descriptor)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (errno.EACCES, "perf_event_paranoid=1"),
        (errno.ENOENT, "the processor's counters are not there"),
        (errno.EMFILE, "too many open files"),
    ],
)
def test_a_kernel_that_refuses_gives_a_reason_and_never_a_zero(code, sentence):
    def refuse(event, thread):
        raise OSError(code, "no")

    ran = []
    missing = (Unavailable(what="bytes", reason="none here"),)
    seen = count(lambda: ran.append(1), found=((FLOP,), (), missing), opened=refuse)
    assert seen.flops is None
    assert seen.traffic_bytes is None
    assert seen.missing[0] == "bytes: none here"
    assert sentence in seen.missing[1]
    assert ran == []


def test_descriptors_are_closed_when_the_call_fails(tmp_path, monkeypatch):
    made = Descriptors(tmp_path)
    monkeypatch.setattr(
        "gambrel.measure.counters.reading.os.read", lambda d, n: struct.pack("<QQQ", 0, 1, 1)
    )

    def broken():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        count(broken, found=((FLOP,), (), ()), opened=made.open)
    for _, _, descriptor in made.files:
        with pytest.raises(OSError):
            os.fstat(descriptor)


def test_this_machine_counts_or_says_why():
    seen = count(lambda: sum(range(1000)))
    assert (seen.flops is not None) or any(m.startswith("FLOP") for m in seen.missing)
    assert (seen.traffic_bytes is not None) or any("bytes" in m for m in seen.missing)
