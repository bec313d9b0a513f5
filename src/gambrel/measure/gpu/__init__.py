"""Measures the ceilings of a GPU through torch: CUDA, and ROCm by the same calls.

What touches the device stands behind `Bench`, so that everything else runs anywhere.
"""

from gambrel.measure.gpu.place import identity, index_of
from gambrel.measure.gpu.surveying import measure, survey
from gambrel.measure.gpu.timing import Bench, timed_by_clock

__all__ = ["Bench", "identity", "index_of", "measure", "survey", "timed_by_clock"]
