"""Sweeps over other libraries' models: each prints a table and exits 1 on a mismatch."""
