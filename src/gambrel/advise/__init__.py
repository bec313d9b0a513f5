"""Advice by analyzing again: does it meet the target, which device, what to change."""
