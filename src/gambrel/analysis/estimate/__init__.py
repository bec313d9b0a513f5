"""Expected time: what a stopwatch will show, with a range, beside the bound."""

from gambrel.analysis.estimate.constants import Calibration, Kin, Set, packaged
from gambrel.analysis.estimate.estimator import Estimator
from gambrel.analysis.estimate.formula_input import Predicted
from gambrel.analysis.estimate.totals import total

__all__ = ["Calibration", "Estimator", "Kin", "Predicted", "Set", "packaged", "total"]
