"""Events, graphs and settling, against a device that follows a script."""

import contextlib
import gc
import inspect
import weakref

import pytest

torch = pytest.importorskip("torch")

from gambrel.measure.gpu import timing  # noqa: E402
from tests.measure.gpu.doubles import bench, checked  # noqa: E402


class Clocked:
    """A device whose events read a script: the layer between torch and the driver."""

    def __init__(self):
        self.now = 0.0
        self.synchronized = []

    def event(self, **settings):
        assert settings == {"enable_timing": True}
        return Event(self)


class Event:
    def __init__(self, device):
        self.device, self.at = device, None

    def record(self, stream=None):
        self.at = self.device.now

    def elapsed_time(self, end_event):
        assert self.device.synchronized, "events are read before they happened"
        return end_event.at - self.at


def test_the_double_has_the_methods_of_the_real_event():
    for name in ("record", "elapsed_time"):
        real = inspect.signature(getattr(torch.cuda.Event, name))
        assert list(inspect.signature(getattr(Event, name)).parameters) == list(real.parameters)


def test_times_are_those_between_the_device_s_events(monkeypatch):
    device = Clocked()
    monkeypatch.setattr(torch.cuda, "Event", device.event)
    synchronize = checked(torch.cuda.synchronize)(device.synchronized.append)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    script = iter([2.0, 4.0, 0.0])

    def call():
        device.now += next(script)

    # Milliseconds of the events are seconds here; an event that saw no time passes is no zero.
    assert timing.timed_by_events(1)(call, 3) == pytest.approx([2e-3, 4e-3, 1e-9])
    assert device.synchronized == [1]


class Recorder:
    """Streams and graphs that run what is recorded only when it is replayed."""

    def __init__(self, monkeypatch):
        self.recording = None
        self.stream = self
        self.current = "main"
        graph = inspect.signature(torch.cuda.graph.__init__)

        def capture(made, **named):
            graph.bind(None, made, **named)
            return self.capture(made, **named)

        monkeypatch.setattr(torch.cuda, "Stream", lambda: self)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: self)
        monkeypatch.setattr(torch.cuda, "stream", lambda s: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "graph", capture)

    def wait_stream(self, stream):
        pass

    @contextlib.contextmanager
    def capture(self, graph, stream=None):
        assert stream is self, "torch's shared stream belongs to another device"
        Graph.open = graph
        try:
            yield
        finally:
            Graph.open = None


class Graph:
    open = None

    def __init__(self):
        self.calls = 0

    def replay(self):
        self.calls += 1


def test_what_a_graph_works_on_lives_as_long_as_the_graph(monkeypatch):
    Recorder(monkeypatch)
    recorded = []

    def prepare():
        data = torch.zeros(4)
        return weakref.ref(data), timing.repeated_by_graph(
            lambda: recorded.append(Graph.open is not None) or data.neg_(), 3
        )

    alive, call = prepare()
    gc.collect()
    # Once to load the kernel, then three times into the graph.
    assert recorded == [False, True, True, True]
    assert alive() is not None
    call()
    del call
    gc.collect()
    assert alive() is None


def clocked(script, **changes):
    """A bench whose calls take what the script says, the last for ever."""
    spent = []

    def timed(call, count):
        found = [script[min(len(spent) + i, len(script) - 1)] for i in range(count)]
        spent.extend(found)
        return found

    return bench(timed=timed, **changes), spent


def test_settling_lasts_until_the_clock_rests():
    # Half a second at least; one call fills a chunk of a tenth.
    made, spent = clocked([0.1] * 100, settle_s=0.5)
    timing.settle(made, lambda: None)
    assert sum(spent) == pytest.approx(0.6)
    # Slower and slower: the patience ends at four times that.
    made, spent = clocked([0.1 * 1.02**i for i in range(100)], settle_s=0.5)
    timing.settle(made, lambda: None)
    assert 2.0 <= sum(spent) < 2.6
    made, spent = clocked([0.1], settle_s=0.0)
    timing.settle(made, lambda: None)
    assert spent == []


def test_a_sustained_rate_lasts_as_long_as_was_asked():
    made, spent = clocked([0.03])
    times = timing.for_seconds(made, lambda: None, 1.0)
    assert times == spent
    assert 1.0 <= sum(times) < 1.2
    made, _ = clocked([5.0])
    assert timing.for_seconds(made, lambda: None, 1.0) == [5.0]
