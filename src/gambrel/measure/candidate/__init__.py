"""Running a candidate in a process of its own, checked against a reference that it never sees.

The process that is trusted keeps the reference, the expected outputs and the clock that counts. The
other one gets inputs and limits, calls the candidate and hands back outputs and times.
"""

from gambrel.measure.candidate.trial import try_candidate

__all__ = ["try_candidate"]
