"""Readings of clock, power and temperature; where nothing answers there is none."""

import stat
import sys

import pytest

torch = pytest.importorskip("torch")

from gambrel.measure.gpu import telemetry  # noqa: E402
from gambrel.measure.gpu.telemetry import Reading, middle, parse, reader, watched  # noqa: E402


def test_what_nvidia_smi_says():
    assert parse("1755, 689.12, 61\n") == Reading(clock_hz=1.755e9, power_w=689.12, celsius=61.0)
    # A part of a GPU (MIG) has no power of its own.
    assert parse("1755, [N/A], 61\n") == Reading(clock_hz=1.755e9, celsius=61.0)
    assert parse("[N/A], [N/A], [N/A]\n") is None
    assert parse("No devices were found\n") is None
    assert parse("") is None


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_a_real_command_is_asked_for_the_device_by_its_uuid(tmp_path, monkeypatch):
    fake = tmp_path / "nvidia-smi"
    fake.write_text('#!/bin/sh\necho "$@" > "$0.args"\necho "1980, 350.5, 45"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    read = reader(0, "1234-abcd")
    assert read() == Reading(clock_hz=1.98e9, power_w=350.5, celsius=45.0)
    assert "--id=GPU-1234-abcd" in (tmp_path / "nvidia-smi.args").read_text()
    assert reader(0, "") is None
    fake.write_text("#!/bin/sh\nexit 9\n")
    assert reader(0, "1234-abcd") is None


def test_torch_is_asked_first_and_says_milliwatts(monkeypatch):
    monkeypatch.setattr(torch.cuda, "clock_rate", lambda device=None: 1755)
    monkeypatch.setattr(torch.cuda, "power_draw", lambda device=None: 689120)
    monkeypatch.setattr(torch.cuda, "temperature", lambda device=None: 61)
    assert str(reader(0)()) == "1.755 GHz, 689 W, 61 °C"

    def missing(device=None):
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed")

    for name in ("clock_rate", "power_draw", "temperature"):
        monkeypatch.setattr(torch.cuda, name, missing)
    assert reader(0) is None


def test_readings_are_taken_while_something_runs(monkeypatch):
    import threading

    monkeypatch.setattr(telemetry, "_EVERY_S", 0.001)
    enough = threading.Event()
    values = iter([1e9, None, 3e9])

    def read():
        value = next(values, 2e9)
        if value == 2e9:
            enough.set()
        return None if value is None else Reading(clock_hz=value)

    with watched(read) as seen:
        assert enough.wait(10)
    count = len(seen)
    assert middle(seen[:2]) == Reading(clock_hz=2e9)
    assert len(seen) == count
    with watched(None) as seen:
        pass
    assert middle(seen) is None
