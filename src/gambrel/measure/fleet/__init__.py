"""Fleets: every device of many workers measured alike, compared with its peers."""
