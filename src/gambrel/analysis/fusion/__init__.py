"""Ops grouped into kernels as software stacks do it, and what that leaves of the traffic."""

from gambrel.analysis.fusion.costs import fused_costs, kernel_costs, launches
from gambrel.analysis.fusion.kernel import Kernel, Stack, parse_stack
from gambrel.analysis.fusion.measures import Fused, describe_kernels, fuse
from gambrel.analysis.fusion.stacks import group

__all__ = [
    "Fused",
    "Kernel",
    "Stack",
    "describe_kernels",
    "fuse",
    "fused_costs",
    "group",
    "kernel_costs",
    "launches",
    "parse_stack",
]
