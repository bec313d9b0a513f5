"""Decompositions recognised as the operators they stand for, in files and in programs of XLA."""
