"""Ops grouped into kernels as runtimes do it, and what that leaves of the traffic."""

from gambrel.analysis.fusion.costs import fused_costs, kernel_costs, launches
from gambrel.analysis.fusion.grouping import Grouping, group
from gambrel.analysis.fusion.kernel import Kernel
from gambrel.analysis.fusion.onchip import Allowance

__all__ = ["Allowance", "Grouping", "Kernel", "fused_costs", "group", "kernel_costs", "launches"]
