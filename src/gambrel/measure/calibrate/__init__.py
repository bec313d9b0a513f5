"""Fits the expected-time model to this machine: kernels timed one by one, or a profile."""

from gambrel.measure.calibrate.fit import (
    calibrate_machine,
    fit_rows,
    measure_kernels,
    rows_of_profile,
)

__all__ = ["calibrate_machine", "fit_rows", "measure_kernels", "rows_of_profile"]
