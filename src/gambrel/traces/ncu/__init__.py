"""Nsight Compute's CSV exports.

The file is read line by line: `cut` finds its tables, `table` the launches in any layout, `convert`
(with `numbers`, `metric_units`) turns cells into values, `work`, `traffic` and `ceilings` turn
values into FLOP, bytes and roofs, and `reader` puts samples together. What each counter means is in
docs/traces.md.
"""
