"""Fleets: hand-made figures, and sixteen real processes of which some are hindered."""

import multiprocessing
import os
import random
import re
import signal
import threading
from dataclasses import dataclass, field

import msgspec
import pytest

from gambrel.errors import InputError
from gambrel.measure.fleet.compare import compared
from gambrel.measure.fleet.links import pairs
from gambrel.measure.fleet.neighbours import linked
from gambrel.measure.fleet.probe import FleetEffort, checkup
from gambrel.measure.fleet.prometheus import textfile
from gambrel.measure.fleet.records import Checkup, FleetFigure
from gambrel.measure.fleet.reports import gathered, write_report
from gambrel.measure.fleet.retest import confirmed
from gambrel.measure.fleet.run import FleetAsker
from gambrel.measure.fleet.shares import ThreadTimes
from gambrel.measure.gpu.board import BoardState
from gambrel.report import render
from tests.measure.fleet_worker import serve


def one(index, rate, host="", **more):
    figures = (FleetFigure(name="gemm", value=rate, unit="FLOP/s"),)
    return Checkup(
        worker=f"w{index}", host=host or f"n{index}", device="cpu", sku="x", figures=figures, **more
    )


def causes(report):
    return {(s.worker, s.cause) for s in report.suspects}


def test_a_device_a_tenth_below_its_peers_is_slow():
    rates = [100.0, 101.0, 99.0, 100.5, 99.5, 88.0]
    report = compared([one(i, rate) for i, rate in enumerate(rates)])
    # Median 99.75; the deviations 0.25, 1.25, 0.75, 0.75, 0.25, 11.75 have the median 0.75.
    assert report.peers[0].median == 99.75
    assert report.peers[0].mad_share == pytest.approx(0.75 / 99.75)
    assert causes(report) == {("w5", "slow")}
    assert report.suspects[0].lag_share == pytest.approx(1 - 88 / 99.75)
    assert "11.8% below the median of 6 devices" in report.suspects[0].evidence


@pytest.mark.parametrize(
    "rates",
    [
        [100.0, 95.0, 105.0, 91.0],  # within a tenth
        [100.0, 60.0, 140.0, 80.0, 120.0, 70.0],  # all scatter as much
        [100.0, 50.0],  # too few to say who is right
    ],
)
def test_what_is_usual_is_not_reported(rates):
    assert not compared([one(i, rate) for i, rate in enumerate(rates)]).suspects


def test_two_groups_and_slow_nodes_are_said():
    rates = [100.0] * 6 + [80.0] * 4
    report = compared([one(i, rate) for i, rate in enumerate(rates)])
    assert "two groups: 4 devices up to 80 FLOP/s and 6 from 100 FLOP/s" in report.warnings[0]
    node = [one(i, 100.0 + i % 3, host=f"n{i // 2}") for i in range(10)]
    node += [one(10, 50.0, host="bad"), one(11, 52.0, host="bad")]
    assert any("bad: 2 of its 2 devices" in text for text in compared(node).warnings)


def test_clocks_that_lie_and_silence_are_found():
    fleet = [one(i, 100.0, claimed_s=2.0, waited_s=2.05, ahead_s=0.0) for i in range(4)]
    fleet += [one(4, 200.0, claimed_s=1.0, waited_s=2.0), one(5, 100.0, ahead_s=-90.0)]
    fleet += [Checkup(worker="w6", host="n6", device="all", problem="no answer within 5 s.")]
    report = compared(fleet)
    assert causes(report) == {("w4", "clock"), ("w5", "clock"), ("w6", "silent")}
    # Rates by a wrong clock are compared with nobody's.
    assert report.peers[0].fastest == 100.0


def test_drift_against_an_earlier_run():
    before = [one(i, 100.0) for i in range(3)]
    after = [one(0, 100.0), one(1, 95.0), one(2, 88.0)]
    # Median 95, deviations 5, 0, 7: three devices that scatter so much have no slow one.
    assert causes(compared(after, before)) == {("w2", "drift")}


def test_every_face_of_a_report(tmp_path):
    report = compared([one(i, 100.0) for i in range(4)] + [one(4, 50.0)])
    assert "1 device differs from the others of its kind: w4 cpu" in str(render(report))
    found = msgspec.json.decode(str(render(report, "json")))
    assert found["type"] == "gambrel/fleet"
    assert found["suspects"][0]["worker"] == "w4"
    assert len(str(render(report, "csv")).splitlines()) == 6
    lines = textfile(report).splitlines()
    assert 'gambrel_suspect{worker="w4",device="cpu",cause="slow",confidence="high"} 1' in lines


def test_reports_of_workers_that_nobody_asks(tmp_path):
    write_report(tmp_path, "a", FleetEffort(seconds=0.01))
    (tmp_path / "half.json").write_bytes((tmp_path / "a.json").read_bytes()[:50])
    found = gathered(tmp_path)
    assert [c.worker for c in found] == ["a", "half"]
    assert found[0].figures[0].value > 0
    assert "no whole report" in found[1].problem
    with pytest.raises(InputError, match="no reports"):
        gathered(tmp_path / "empty")


# --- real processes ---------------------------------------------------------------------------


def ration(pid, done):
    """Lets a process run a tenth of the time."""
    while not done.wait(0.005):
        os.kill(pid, signal.SIGSTOP)
        done.wait(0.045)
        os.kill(pid, signal.SIGCONT)


@dataclass
class Local:
    """A worker process of this machine, which takes its turn with the others."""

    name: str
    hindrance: str = ""
    host: str = "here"
    pipe: object = field(default=None, repr=False)
    process: object = field(default=None, repr=False)

    def start(self, context):
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.hindrance), daemon=True)
        self.process.start()
        other.close()

    def ask(self, function, *args, timeout_s):
        slowed = self.hinder() if function is checkup and self.hindrance == "quota" else None
        try:
            self.pipe.send((function, args))
            if not self.pipe.poll(timeout_s):
                raise TimeoutError
            return self.pipe.recv()
        finally:
            if slowed is not None:
                slowed[0].set()
                slowed[1].join()

    def hinder(self):
        """A quota of a tenth of a processor while it lasts."""
        done = threading.Event()
        thread = threading.Thread(target=ration, args=(self.process.pid, done))
        thread.start()
        return done, thread


def asked_in_turns(hindered, count, patience_s):
    """Real processes of this machine, measured one after another."""
    context = multiprocessing.get_context("spawn")
    workers = [Local(f"w{i}", hindered.get(i, "")) for i in range(count)]
    for worker in workers:
        worker.start(context)
    try:
        for worker in workers:
            worker.ask(os.getpid, timeout_s=120)
        asker = FleetAsker(effort=FleetEffort(seconds=0.15), patience_s=patience_s)
        return compared(asker.measured(workers))
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def test_processes_that_are_hindered_die_or_lie_are_found():
    """Real processes, each hindrance in its own turn, on a machine that may do other things."""
    report = asked_in_turns({1: "quota", 3: "lies", 4: "dies"}, count=5, patience_s=15)
    said = [s.evidence for s in report.suspects]
    assert {("w1", "slow"), ("w3", "clock"), ("w4", "silent")} <= causes(report), said
    assert {worker for worker, cause in causes(report) if cause != "slow"} == {"w3", "w4"}, said


@pytest.mark.slow
def test_processes_that_hang_are_found():
    report = asked_in_turns({1: "hangs"}, count=2, patience_s=5)
    assert ("w1", "silent") in causes(report)


# --- clocks, boards, a second look, links, the textfile ----------------------------------------


def test_a_clock_is_wrong_outside_what_the_asker_saw():
    # Between 1.9 and 2.4 s passed; 2 % and 20 ms are what two clocks may differ by.
    inside = [
        one(i, 100.0, claimed_s=s, waited_least_s=1.9, waited_s=2.4)
        for i, s in enumerate((1.9, 2.4))
    ]
    assert not compared(inside).suspects
    for claimed, said in ((1.8, "at least 1.90 s"), (2.5, "at most 2.40 s")):
        (suspect,) = compared(
            [one(0, 1.0, claimed_s=claimed, waited_least_s=1.9, waited_s=2.4)]
        ).suspects
        assert suspect.cause == "clock"
        assert said in suspect.evidence


def test_a_board_at_fault_is_named_by_what_its_driver_says():
    board = BoardState(clock_hz=1.2e9, celsius=91.0, throttled=("hardware thermal slowdown",))
    report = compared([one(i, 100.0) for i in range(3)] + [one(3, 99.0, board=board)])
    assert causes(report) == {("w3", "board")}
    assert report.suspects[0].evidence == (
        "hardware thermal slowdown; while measured 1.2 GHz, 91 °C, hardware thermal slowdown."
    )
    assert "Boards" in str(render(report))
    assert msgspec.json.decode(str(render(report, "json")))["units"]["celsius"] == "°C"


def test_what_was_slow_by_chance_is_cleared_beside_its_peers():
    fleet = [one(i, 100.0 + i) for i in range(5)] + [one(5, 50.0), one(6, 40.0)]
    asked = []

    def measure(some):
        """Everybody is slower now, w6 more so."""
        asked.append([c.worker for c in some])
        rates = {"w6": 20.0}
        return {(c.worker, "cpu"): one(int(c.worker[1:]), rates.get(c.worker, 48.0)) for c in some}

    found = confirmed(fleet, measure)
    # Both, and three peers nearest to the median of 102, in turns; then the one that is left.
    assert asked == [["w5", "w2", "w6", "w1", "w3"], ["w6", "w2", "w1", "w3"]]
    report = compared(found)
    assert causes(report) == {("w6", "slow")}
    assert "1 devices were slow at first" in " ".join(report.warnings)


def test_figures_that_scatter_too_much_are_said():
    report = compared([one(i, rate) for i, rate in enumerate([100.0, 60.0, 140.0, 80.0, 120.0])])
    assert not report.suspects
    # Deviations 0, 40, 40, 20, 20 have the median 20, three times 1.4826 of which is 89 %.
    assert (
        "too noisy to name any that is less than 89.0% slow by one measurement"
        in report.warnings[0]
    )


#: Around the median of 100 they deviate by 0, 0, 5, 20, 30, 30, 40, 45, 50: 4.4478 x 30 is 133 %.
NOISY = (60.0, 70.0, 100.0, 130.0, 145.0, 50.0, 95.0, 120.0, 100.0)


@pytest.mark.parametrize(
    ("rates", "named"),
    [
        ((30.0,) * 6, {("w5", "slow")}),
        ((30.0,) * 5 + (90.0,), set()),  # once before one of its peers
        ((78.0,) * 6, set()),  # always the last, and not a tenth below the middle one
    ],
)
def test_where_figures_scatter_the_last_of_every_round_is_slow(rates, named):
    rounds = []

    def measure(some):
        """Peers are w2, w7 and w8, who are nearest to 110, the median of who is not tried."""
        said = {"w2": 80.0, "w7": 85.0, "w8": 86.0, "w0": 99.0, "w1": 99.0}
        said["w5"] = rates[len(rounds)]
        rounds.append([c.worker for c in some])
        return {(c.worker, "cpu"): one(int(c.worker[1:]), said[c.worker]) for c in some}

    found = confirmed([one(i, rate) for i, rate in enumerate(NOISY)], measure)
    assert len(rounds) == 6
    # The three that are a tenth below the median, then peers; those that were not last once go.
    assert rounds[0] == ["w5", "w0", "w1", "w2", "w7", "w8"]
    assert sorted(rounds[1]) == ["w2", "w5", "w7", "w8"]
    report = compared(found)
    assert causes(report) == named
    if named:
        # 30 beside 80, 85 and 86.
        assert "in each of 6 rounds, 64.7% below their median" in report.suspects[0].evidence
        assert report.suspects[0].confidence == "medium"
    assert "too noisy to name any by one measurement" in report.warnings[0]


def test_noise_alone_names_nobody():
    chance = random.Random(17)

    def measure(some):
        return {
            (c.worker, "cpu"): one(int(c.worker[1:]), chance.lognormvariate(0.0, 1.0)) for c in some
        }

    said = []
    for _ in range(200):
        fleet = [one(i, chance.lognormvariate(0.0, 1.0)) for i in range(16)]
        said += [s.evidence for s in compared(confirmed(fleet, measure)).suspects]
    # In rounds at most four of each fleet are tried: 800 / 4,096 by chance.
    assert sum("rounds" in text for text in said) <= 1
    assert len(said) <= 4


def test_neighbours_have_one_partner_at_a_time():
    assert pairs("a") == []
    assert pairs("ab") == [[("a", "b")]]
    assert pairs("abcd") == [[("a", "b"), ("c", "d")], [("b", "c"), ("d", "a")]]
    assert pairs("abc") == [[("a", "b")], [("b", "c")], [("c", "a")]]
    for size in range(3, 9):
        rounds = pairs(range(size))
        assert all(len({x for pair in r for x in pair}) == 2 * len(r) for r in rounds)
        assert sorted(x for r in rounds for pair in r for x in pair) == sorted([*range(size)] * 2)


def test_an_all_reduce_of_two_processes():
    pytest.importorskip("torch")
    pytest.importorskip("psutil")
    context = multiprocessing.get_context("spawn")
    workers = [Local(f"w{i}", host=address) for i, address in enumerate(("127.0.0.1", "127.0.0.2"))]
    for worker in workers:
        worker.start(context)
    try:
        found = linked(
            workers, [one(0, 1.0), one(1, 1.0)], seconds=0.05, patience_s=90.0, at_once=2
        )
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
    assert [c.figures[-1].name for c in found] == ["all-reduce gloo"] * 2
    assert found[0].figures[-1] == found[1].figures[-1]
    assert found[0].figures[-1].value > 0


def test_a_share_is_what_the_system_says():
    before = ThreadTimes(wall=10.0, used=1.0, waited=2.0, limited=0.5)
    # Ten seconds: two on a processor, six waiting, of which five because of a quota; two stopped.
    spent = ThreadTimes(wall=20.0, used=3.0, waited=8.0, limited=5.5).since(before)
    assert spent == ThreadTimes(wall=10.0, used=2.0, waited=6.0, limited=5.0)
    # Others had one second, so nine were its own.
    assert spent.allowed == pytest.approx(2 / 9)
    assert spent.stolen == pytest.approx(0.1)
    # Among other threads the quota alone counts: two seconds of seven.
    shared = ThreadTimes(wall=10.0, used=2.0, waited=6.0, limited=5.0, alone=False)
    assert shared.allowed == pytest.approx(2 / 7)
    assert ThreadTimes(wall=1.0, used=0.5, waited=None, limited=0.0).allowed is None


#: A line of the exposition format (https://prometheus.io/docs/instrumenting/exposition_formats/).
SAMPLE = re.compile(r'([a-z_][a-z0-9_]*){((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)} (\S+)')


def test_the_textfile_is_what_prometheus_reads():
    hostile = 'a "b" \\ c\nd'
    board = BoardState(power_w=700.0, celsius=88.0, ecc_uncorrected=2, throttled=("power brake",))
    fleet = [one(i, 100.0) for i in range(3)]
    fleet.append(one(3, 40.0, board=board, claimed_s=1.0, waited_s=2.0, ahead_s=90.0, host=hostile))
    text = textfile(compared(fleet))
    assert text.endswith("\n")
    series, typed = set(), {}
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            if word == "TYPE":
                assert name not in typed, "a second TYPE line"
                typed[name] = rest
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        assert typed[name] == "gauge"
        assert (name, labels) not in series, "a series twice"
        series.add((name, labels))
        float(value)
    assert {name for name, _ in series} == set(typed)
    assert {"gambrel_rate", "gambrel_suspect", "gambrel_board_throttled"} <= set(typed)
    assert "gambrel_board_ecc_corrected_errors" not in typed
