"""The parts of a layer as ops."""
