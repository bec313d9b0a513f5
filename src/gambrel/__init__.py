"""gambrel: roofline analysis of machine-learning models.

The public API is loaded on first use, so that ``import gambrel`` stays cheap.
"""

__version__ = "0.1.0"
