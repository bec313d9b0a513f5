"""What drivers say of a board: recorded answers of nvidia-smi, and a library that answers alike."""

import stat
import sys
import types

import pytest

from gambrel.measure.gpu.board import BoardState, board_reader, over, parsed

#: An H100 SXM under load at its power cap, and a consumer card without ECC.
LOADED = "1755, 1980, 698.73, 700.00, 61, 0, 0, 16, 16, 0x0000000000000004\n"
CONSUMER = "2520, 3105, 401.22, 450.00, 67, [N/A], [N/A], 8, 16, 0x0000000000000000\n"
FAULTY = "1980, 1980, 310.00, 700.00, 88, 12, 2, 16, 16, 0x0000000000000048\n"


def test_what_nvidia_smi_says():
    assert parsed(LOADED) == BoardState(
        clock_hz=1.755e9,
        clock_limit_hz=1.98e9,
        power_w=698.73,
        power_limit_w=700.0,
        celsius=61.0,
        ecc_corrected=0,
        ecc_uncorrected=0,
        pcie_lanes=16,
        pcie_lanes_limit=16,
        throttled=("power cap",),
    )
    assert str(parsed(LOADED)) == "1.755 GHz of 1.98 GHz, 699 of 700 W, 61 °C, power cap"
    assert parsed(LOADED).faults == ()
    consumer = parsed(CONSUMER)
    assert (consumer.ecc_corrected, consumer.throttled, consumer.narrow) == (None, (), True)
    assert str(consumer).endswith("67 °C, PCIe x8 of x16")
    # Bits 8 and 64 of the reasons, and two errors that ECC could not correct.
    assert parsed(FAULTY).faults == (
        "hardware slowdown",
        "hardware thermal slowdown",
        "2 uncorrected ECC errors",
    )


@pytest.mark.parametrize("said", ["", "No devices were found\n", "1, 2, 3\n", ", " * 9])
def test_what_is_no_answer(said):
    assert parsed(said) is None


def test_a_summary_is_the_median_clock_and_the_most_of_the_rest():
    seen = [parsed(LOADED), parsed(FAULTY), parsed(CONSUMER)]
    found = over(seen)
    assert found.clock_hz == 1.98e9
    assert (found.power_w, found.celsius, found.ecc_uncorrected) == (698.73, 88.0, 2)
    assert found.throttled == ("power cap", "hardware slowdown", "hardware thermal slowdown")
    assert over([]) is None


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_the_command_is_asked_where_the_library_is_missing(tmp_path, monkeypatch):
    fake = tmp_path / "nvidia-smi"
    fake.write_text(f'#!/bin/sh\necho "$@" > "$0.args"\necho "{LOADED.strip()}"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert board_reader("1234-abcd")() == parsed(LOADED)
    assert "--id=GPU-1234-abcd" in (tmp_path / "nvidia-smi.args").read_text()
    assert board_reader("") is None
    fake.write_text("#!/bin/sh\nexit 9\n")
    assert board_reader("1234-abcd") is None


def test_the_library_is_asked_figure_by_figure(monkeypatch):
    """A library that answers what the recorded H100 did, and refuses what boards may refuse."""

    class Refused(Exception):
        pass

    def refuse(*_):
        raise Refused

    nvml = types.SimpleNamespace(
        NVMLError=Refused,
        NVML_MEMORY_ERROR_TYPE_CORRECTED=0,
        NVML_MEMORY_ERROR_TYPE_UNCORRECTED=1,
        NVML_VOLATILE_ECC=0,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: {"GPU-1": "board"}[uuid],
        nvmlDeviceGetClockInfo=lambda board, kind: 1755,
        nvmlDeviceGetMaxClockInfo=lambda board, kind: 1980,
        nvmlDeviceGetPowerUsage=lambda board: 698_730,
        nvmlDeviceGetEnforcedPowerLimit=lambda board: 700_000,
        nvmlDeviceGetTemperature=lambda board, sensor: 61,
        nvmlDeviceGetTotalEccErrors=lambda board, kind, counter: 0,
        nvmlDeviceGetCurrPcieLinkWidth=lambda board: 16,
        nvmlDeviceGetMaxPcieLinkWidth=lambda board: 16,
        # Drivers before 535 have the older name of the question alone.
        nvmlDeviceGetCurrentClocksEventReasons=refuse,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda board: 4,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert board_reader("GPU-1")() == parsed(LOADED)
    nvml.nvmlDeviceGetTotalEccErrors = refuse
    assert board_reader("1")().ecc_corrected is None
    nvml.nvmlInit = refuse
    monkeypatch.setenv("PATH", "")
    assert board_reader("1") is None


def test_the_real_library_has_what_is_asked():
    nvml = pytest.importorskip("pynvml")
    asked = (
        *("ClockInfo", "MaxClockInfo", "PowerUsage", "EnforcedPowerLimit", "Temperature"),
        *("TotalEccErrors", "CurrPcieLinkWidth", "MaxPcieLinkWidth", "HandleByUUID"),
        *("CurrentClocksEventReasons", "CurrentClocksThrottleReasons"),
    )
    assert all(hasattr(nvml, f"nvmlDeviceGet{name}") for name in asked)
    assert nvml.nvmlClocksEventReasonSwPowerCap == 4
    assert nvml.nvmlClocksThrottleReasonHwSlowdown == 8
    assert nvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown == 128


def test_torch_says_milliwatts(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "clock_rate", lambda device=None: 1755)
    monkeypatch.setattr(torch.cuda, "power_draw", lambda device=None: 689120)
    monkeypatch.setattr(torch.cuda, "temperature", lambda device=None: 61)
    assert str(board_reader("", 0)()) == "1.755 GHz, 689 W, 61 °C"

    def missing(device=None):
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed")

    for name in ("clock_rate", "power_draw", "temperature"):
        monkeypatch.setattr(torch.cuda, name, missing)
    assert board_reader("", 0) is None


def test_a_part_of_a_gpu_has_no_power_of_its_own():
    assert parsed(LOADED.replace("698.73", "[N/A]")).power_w is None
