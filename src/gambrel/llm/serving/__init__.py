"""Serving a language model: latency, throughput, memory, cost, and the layout to choose."""
