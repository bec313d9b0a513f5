"""Keras archives: the graph of their ``config.json``, layer by layer, without Keras."""
