"""What a grouping yields: kernels, each with the ops it runs and the bytes it moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

#: Kinds of kernels that no library provides.
POINTWISE: Final = "fused pointwise"
REDUCTION: Final = "fused reduction"
WHOLE: Final = "whole model"


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """Ops that run as one kernel. Indices refer to ``workload.ops``.

    Attributes:
        ops: The ops that belong to it, in execution order. Every op that runs belongs to exactly
            one kernel.
        recomputed: Ops of other kernels whose cheap results this one computes again instead of
            reading them.
        kind: The op kind of a kernel around a library call (``"matmul"``), ``"fused pointwise"``,
            ``"fused reduction"``, or ``"whole model"``.
        read_bytes: Bytes read, all executions together.
        write_bytes: Bytes written, likewise.
        op_read_bytes: The same by op: what an op is the first to read.
        op_write_bytes: The same by op: what an op writes for others.
        repeat: How many identical executions the kernel stands for.
        launches: Kernels started for one execution; more than one where a stack splits the work
            (a concatenation of several buffers is one copy each).
    """

    ops: tuple[int, ...]
    kind: str
    recomputed: tuple[int, ...] = ()
    op_read_bytes: Mapping[int, int] = {}
    op_write_bytes: Mapping[int, int] = {}
    repeat: int = 1
    launches: int = 1

    @property
    def read_bytes(self) -> int:
        """Bytes read, all executions together."""
        return sum(self.op_read_bytes.values())

    @property
    def write_bytes(self) -> int:
        """Bytes written, all executions together."""
        return sum(self.op_write_bytes.values())

    @property
    def traffic_bytes(self) -> int:
        """Bytes read and written, all executions together."""
        return self.read_bytes + self.write_bytes
