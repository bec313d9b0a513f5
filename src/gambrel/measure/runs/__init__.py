"""Two runs side by side: profiles or analyses of resolutions, batch sizes, versions, devices."""

from gambrel.measure.runs.load import Run, RunPoint, load_run
from gambrel.measure.runs.pair import Pair, Pairing, pair

__all__ = ["Pair", "Pairing", "Run", "RunPoint", "load_run", "pair"]
