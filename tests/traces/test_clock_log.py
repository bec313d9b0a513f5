"""Clocks and power beside a run: layouts, units, what slowed a GPU down."""

from __future__ import annotations

import pytest

from gambrel.cli import run
from gambrel.errors import FileFormatError, InputError
from gambrel.traces import read
from gambrel.traces.clock_log import read as read_log

HEAD = "timestamp, index, power.draw [W], power.limit [W], clocks.sm [MHz], clocks.max.sm [MHz], "
HEAD += "utilization.gpu [%], clocks_throttle_reasons.active"
STAMP = "2026/11/02 10:00:0{}.100"
POINTS = "name,flops,bytes,time_us,dtype\ngemm,2.5e9,1e8,250,fp16\n"


def row(i, clock, busy=99, power=400, reasons=0, gpu=0):
    return (
        f"{STAMP.format(i)}, {gpu}, {power} W, 400.00 W, {clock} MHz, 1980 MHz, {busy} %, "
        f"0x{reasons:016x}"
    )


@pytest.fixture
def log(tmp_path):
    def log(*lines, name="clocks.csv"):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return read_log(path).clocks

    return log


def test_a_power_cap_is_named_with_what_it_costs(log):
    """Idle readings do not count; (1485 + 1287) / 2 of 1980 MHz is 70 %."""
    found = log(HEAD, row(0, 120, busy=0), row(1, 1485, reasons=4), row(2, 1287, reasons=4))
    slow = found.slowdown()
    assert (slow.because, slow.share) == ("power cap", pytest.approx(0.3))
    assert "1.386 GHz, 400 W of 400 W, up to 1.98 GHz" in slow.evidence


@pytest.mark.parametrize(
    ("bit", "reason"),
    [(0x2, "clocks set by the user"), (0x8, "hardware slowdown"), (0x20, "temperature"),
     (0x40, "temperature"), (0x80, "power brake")],
)  # fmt: skip
def test_reasons_by_bit(log, bit, reason):
    assert log(HEAD, row(0, 990, reasons=bit)).slowdown().because == reason


def test_clocks_at_their_highest_are_no_slowdown(log):
    assert log(HEAD, row(0, 1980), row(1, 1965)).slowdown() is None


def test_without_a_reason_the_highest_clock_seen_counts(log):
    """Nothing tells that 1980 MHz were possible: 1500 against (1500 + 1000) / 2."""
    slow = log(HEAD, row(0, 1500), row(1, 1000)).slowdown()
    assert (slow.because, slow.share) == ("", pytest.approx(1 - 1250 / 1500))


def test_the_slowest_of_several_gpus(log):
    slow = log(HEAD, row(0, 1980), row(1, 990, gpu=1, reasons=4)).slowdown()
    assert slow.share == pytest.approx(0.5)


def test_flags_that_are_columns(log):
    found = log(
        "clocks.current.sm [MHz], clocks_event_reasons.sw_power_cap, "
        "clocks_event_reasons.sw_thermal_slowdown",
        "1000 MHz, Not Active, Active",
        "1500 MHz, Not Active, Not Active",
    )
    assert found.slowdown().because == "temperature"


def test_power_at_its_limit_without_reasons(log):
    found = log("clocks.sm [MHz], power.draw [W], power.limit [W]", "1000, 398, 400",
                "1200, 395, 400")  # fmt: skip
    assert found.slowdown().because == "power at its limit"


def test_no_units_other_units_and_a_decimal_comma(log):
    expected = (1.5e9, 398.5)
    for lines in (
        ("clocks.sm [MHz], power.draw [W]", "1500, 398.5"),
        ("clocks.sm, power.draw", "1500, 398.5"),
        ("clocks.sm [GHz], power.draw [mW]", "1.5, 398500"),
        ("clocks.sm [MHz];power.draw [W]", "1500 MHz;398,5 W"),
    ):
        (reading,) = log(*lines).readings
        assert (reading.clock_hz, reading.power_w) == (pytest.approx(expected[0]), expected[1])


def test_dcgm(log):
    found = log(
        "#Entity   GPUTL     SMCLK     POWER     DVCCTR",
        "ID                            W               ",
        "GPU 0     98        1410      385.300   4     ",
        "GPU 0     99        1005      399.100   4     ",
        "GPU 1     N/A       N/A       N/A       N/A   ",
    )
    assert [r.clock_hz for r in found.readings] == [1.41e9, 1.005e9, None]
    assert found.slowdown().because == "power cap"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((HEAD, row(0, 1500).replace("1500 MHz", "1500 rpm")), r"line 2: clocks.sm is in 'rpm'"),
        ((row(0, 1500),), "without a heading; leave noheader out"),
        ((HEAD,), "no reading of a clock or of power; record with: nvidia-smi"),
        ((HEAD, row(0, 1500).replace("1500 MHz", "[N/A]").replace("400 W", "[N/A]")), "no reading"),
    ],
)
def test_what_cannot_be_read_is_said(log, lines, says):
    with pytest.raises(FileFormatError, match=says):
        log(*lines)


def test_beside_a_recording(tmp_path, log):
    log(HEAD, row(0, 990, reasons=4))
    (tmp_path / "p.csv").write_text(POINTS)
    found = read([tmp_path / "p.csv", tmp_path / "clocks.csv"])
    assert found.format == "table of points"
    assert any("power cap" in note for note in found.notes)
    with pytest.raises(InputError, match=r"name the recording of the same run before it"):
        read([tmp_path / "clocks.csv"])


def test_the_command_says_the_clocks(tmp_path, log, capsys):
    log(HEAD, row(0, 990, reasons=4))
    (tmp_path / "p.csv").write_text(POINTS)
    words = ["import", str(tmp_path / "p.csv"), str(tmp_path / "clocks.csv"), "-d", "a100", "-v"]
    assert run(words) == 0
    assert "slowed down: clock 990 MHz" in " ".join(capsys.readouterr().out.split())
