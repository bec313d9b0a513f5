"""What makes a recorded run slow: ten lines, ranked by the time that each can give back."""

from gambrel.analysis.samples.diagnosis import Diagnosis, DiagnosisItem
from gambrel.traces.diagnose.run import diagnose

__all__ = ["Diagnosis", "DiagnosisItem", "diagnose"]
