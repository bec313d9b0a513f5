"""Fleets: hand-made figures, and sixteen real processes of which some are hindered."""

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass, field

import msgspec
import pytest

from gambrel.errors import InputError
from gambrel.measure.fleet.compare import compared
from gambrel.measure.fleet.probe import FleetEffort, checkup, devices_here
from gambrel.measure.fleet.prometheus import textfile
from gambrel.measure.fleet.records import Checkup, FleetFigure
from gambrel.measure.fleet.reports import gathered, write_report
from gambrel.measure.fleet.run import measured
from gambrel.report import render


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
    assert "1 devices are not like their peers: w4 cpu" in str(render(report))
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


def half_speed():
    """A clock that says half of what has passed."""
    return time.perf_counter() * 0.5


def serve(pipe, hindrance):
    """A worker: answers calls until it is told to stop."""
    while True:
        call = pipe.recv()
        if call is None:
            return
        function, args = call
        if hindrance == "dies" and function is checkup:
            os._exit(9)
        if hindrance == "hangs" and function is checkup:
            time.sleep(60)
        if hindrance == "lies" and function is checkup:
            args = (args[0], FleetEffort(seconds=args[1].seconds / 2, clock=half_speed), *args[2:])
        pipe.send(function(*args))


def hog():
    """Keeps a processor and the memory busy."""
    import numpy as np

    a, b = np.zeros(1 << 23), np.ones(1 << 23)
    while True:
        np.copyto(b, a)


def ration(pid):
    """Lets a process run a tenth of the time."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.045)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.005)


@dataclass
class Local:
    """A worker process of this machine, which takes its turn with the others."""

    name: str
    hindrance: str = ""
    host: str = "here"
    pipe: object = field(default=None, repr=False)
    process: object = field(default=None, repr=False)
    hogs: list = field(default_factory=list, repr=False)

    def start(self, context):
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.hindrance), daemon=True)
        self.process.start()
        other.close()

    def ask(self, function, *args, timeout_s):
        if function is time.time:
            self.free()
        self.pipe.send((function, args))
        if not self.pipe.poll(timeout_s):
            raise TimeoutError
        found = self.pipe.recv()
        if function is devices_here and self.hindrance in ("quota", "memory"):
            self.hinder()
        return found

    def hinder(self):
        """A quota of a tenth of a processor; or all memory bandwidth taken, at low priority."""
        context = multiprocessing.get_context("spawn")
        if self.hindrance == "quota":
            self.hogs.append(context.Process(target=ration, args=(self.process.pid,), daemon=True))
        else:
            os.setpriority(os.PRIO_PROCESS, self.process.pid, 19)
            hogs = range(3 * (os.cpu_count() or 1))
            self.hogs += [context.Process(target=hog, daemon=True) for _ in hogs]
        for one in self.hogs:
            one.start()
        time.sleep(1.5)

    def free(self):
        for one in self.hogs:
            one.kill()
            one.join()
        if self.hogs and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGCONT)
        self.hogs.clear()


def asked_in_turns(hindered, count, patience_s):
    """Real processes of this machine, measured one after another."""
    context = multiprocessing.get_context("spawn")
    workers = [Local(f"w{i}", hindered.get(i, "")) for i in range(count)]
    for worker in workers:
        worker.start(context)
    try:
        for worker in workers:
            worker.ask(os.getpid, timeout_s=120)
        return compared(measured(workers, FleetEffort(seconds=0.15), patience_s=patience_s))
    finally:
        for worker in workers:
            worker.free()
            worker.process.kill()
            worker.process.join()


@pytest.fixture
def quiet(request):
    """Processes that are compared by what they measure need a machine of their own."""
    if not request.config.getoption("--quiet-machine"):
        pytest.skip("needs a machine on which nothing else runs; see --quiet-machine")


@pytest.mark.slow
def test_processes_that_die_or_hang_are_found():
    report = asked_in_turns({3: "dies", 4: "hangs"}, count=5, patience_s=15)
    silent = {worker for worker, cause in causes(report) if cause == "silent"}
    assert silent == {"w3", "w4"}


@pytest.mark.slow
def test_processes_that_die_hang_or_lie_are_found(quiet):
    report = asked_in_turns({1: "lies", 3: "dies", 4: "hangs"}, count=6, patience_s=15)
    wrong = {(worker, cause) for worker, cause in causes(report) if cause != "slow"}
    assert wrong == {("w1", "clock"), ("w3", "silent"), ("w4", "silent")}


@pytest.mark.slow
def test_hindered_processes_are_found_and_no_others(quiet):
    """Sixteen workers, each hindrance in its own turn: a quota, taken memory, a clock."""
    report = asked_in_turns({2: "quota", 7: "memory", 11: "lies"}, count=16, patience_s=60)
    said = [s.evidence for s in report.suspects]
    assert {s.worker for s in report.suspects} == {"w2", "w7", "w11"}, said
    assert ("w11", "clock") in causes(report)
