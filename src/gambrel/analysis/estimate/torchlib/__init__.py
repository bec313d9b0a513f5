"""Kernels of the libraries that PyTorch calls on GPUs: one formula per class of op.

`rules` says which formula serves an op; the other modules hold the formulas. Constants are shares
of data-sheet rates, lane cycles and latencies, fitted per device by scripts/fit_calibration.py.
"""
