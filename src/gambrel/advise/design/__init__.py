"""Devices that do not exist yet: arrays, on-chip memory and DRAM as parameters.

A `DesignSpec` states a device as expressions over named parameters; `products` holds the layers of
a model against any number of such devices at once, `tiles` finds the best tiling of a layer for
any on-chip memory, `systolic` counts the cycles of an array.
"""
