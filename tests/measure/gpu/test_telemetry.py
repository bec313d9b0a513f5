"""Readings are taken while something runs."""

from gambrel.measure.gpu import telemetry
from gambrel.measure.gpu.board import BoardState, over
from gambrel.measure.gpu.telemetry import watched


def test_readings_are_taken_while_something_runs(monkeypatch):
    import threading

    monkeypatch.setattr(telemetry, "_EVERY_S", 0.001)
    enough = threading.Event()
    values = iter([1e9, None, 3e9])

    def read():
        value = next(values, 2e9)
        if value == 2e9:
            enough.set()
        return None if value is None else BoardState(clock_hz=value)

    with watched(read) as seen:
        assert enough.wait(10)
    count = len(seen)
    assert over(seen[:2]) == BoardState(clock_hz=2e9)
    assert len(seen) == count
    with watched(None) as seen:
        pass
    assert over(seen) is None
