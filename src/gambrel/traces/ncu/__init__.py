"""Nsight Compute's CSV exports.

`table` finds the launches in any layout, `numbers` and `metric_units` turn cells into values,
`work`, `traffic` and `ceilings` turn values into FLOP, bytes and roofs, and `reader` puts a sample
together. What each counter means is in docs/traces.md.
"""
