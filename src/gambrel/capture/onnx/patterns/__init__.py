"""Decompositions that exporters write, recognised as the operators that they stand for."""
