"""A process that answers calls for the tests of fleets; what it imports is what it needs."""

import os
import time

from gambrel.measure.fleet.probe import FleetEffort, checkup


def half_speed():
    """A clock that says half of what has passed."""
    return time.perf_counter() * 0.5


def lying(effort):
    return FleetEffort(seconds=effort.seconds / 2, clock=half_speed)


def serve(pipe, hindrance):
    """Answers calls until it is told to stop."""
    while True:
        call = pipe.recv()
        if call is None:
            return
        function, args = call
        if hindrance == "dies" and function is checkup:
            os._exit(9)
        if hindrance == "hangs" and function is checkup:
            time.sleep(60)
        if hindrance == "lies":
            args = [lying(one) if isinstance(one, FleetEffort) else one for one in args]
        pipe.send(function(*args))
