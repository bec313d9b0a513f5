"""What profilers recorded, as samples: one reader a format, recognized by content.

`formats` lists the readers and finds the right one; `read` is the way in.
"""

from gambrel.traces.formats import read

__all__ = ["read"]
