"""Hardware counters of Linux: measured FLOP and bytes of a call, or what is missing for them."""

from gambrel.measure.counters.events import CounterEvent, Unavailable, find
from gambrel.measure.counters.reading import CounterReading, count

__all__ = ["CounterEvent", "CounterReading", "Unavailable", "count", "find"]
