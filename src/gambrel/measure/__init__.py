"""Measuring: the ceilings of this machine, and where a model's time goes.

Importing this package loads neither torch nor a compiler; calling it does.
"""
