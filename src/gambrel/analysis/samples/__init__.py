"""What profilers recorded, and how it stands under the roofs of a device.

`records` holds what any reader of `gambrel.traces` returns; `aggregate` adds launches up; `place`
holds them against a device, with `warn` for what looks wrong.
"""

from gambrel.analysis.samples.aggregate import GROUPINGS, aggregate, times_traffic, times_work
from gambrel.analysis.samples.place import LevelPlace, Placed, Standing, place
from gambrel.analysis.samples.records import (
    PROFILED,
    Known,
    MeasuredTraffic,
    MeasuredWork,
    Sample,
    Samples,
)

__all__ = [
    "GROUPINGS",
    "PROFILED",
    "Known",
    "LevelPlace",
    "MeasuredTraffic",
    "MeasuredWork",
    "Placed",
    "Sample",
    "Samples",
    "Standing",
    "aggregate",
    "place",
    "times_traffic",
    "times_work",
]
