"""Hardware counters of Linux: measured FLOP and bytes of a call, or what is missing for them."""

from gambrel.measure.counters.events import Event, Unavailable, find
from gambrel.measure.counters.reading import Counted, count

__all__ = ["Counted", "Event", "Unavailable", "count", "find"]
