"""Traffic at each memory level: blocking inside an op, reuse between ops."""

from gambrel.analysis.levels.blocking import Product, Tile, choose_tile
from gambrel.analysis.levels.hierarchy import Level, hierarchy_of
from gambrel.analysis.levels.predict import USABLE, Step, Traffic, predict
from gambrel.analysis.levels.reuse import Access, Reuse
from gambrel.analysis.levels.total import (
    add_levels,
    binding_level,
    cached_roofline,
    cached_time,
    describe_caches,
    with_levels,
)

__all__ = [
    "USABLE",
    "Access",
    "Level",
    "Product",
    "Reuse",
    "Step",
    "Tile",
    "Traffic",
    "add_levels",
    "binding_level",
    "cached_roofline",
    "cached_time",
    "choose_tile",
    "describe_caches",
    "hierarchy_of",
    "predict",
    "with_levels",
]
