"""Advice: will it do, which device, what to change; every answer is a re-analysis, not a tip."""
