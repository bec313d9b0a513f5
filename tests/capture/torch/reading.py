"""Helpers to read a captured workload in tests."""

from __future__ import annotations

from gambrel.workload import Op, Phase, Workload


def matrix_flops(workload: Workload, *phases: Phase) -> int:
    """Multiply-add work by its definition, 2 per multiply-add, over some phases (or all)."""
    total = 0
    for op in workload.ops:
        if phases and op.phase not in phases:
            continue
        s = op.sizes
        if op.kind == "matmul":
            total += 2 * s.get("b", 1) * s["m"] * s["n"] * s["k"]
        elif op.kind == "grouped_matmul":
            total += 2 * s["rows"] * s["n"] * s["k"]
        elif op.kind in ("convolution", "convolution_backward"):
            one = 2 * s["batch"] * s["out_channels"] * (s["in_channels"] // s["groups"])
            for size in (*s["kernel"], *s["spatial"]):
                one *= size
            times = 1
            if op.kind == "convolution_backward":
                times = op.attrs["grad_input"] + op.attrs["grad_weight"]
            total += one * times
        elif op.kind == "attention":
            total += _attention(op)
    return total


def _attention(op: Op) -> int:
    s = op.sizes
    pairs = sum(min(i + 1, s["kv_len"]) for i in range(s["q_len"]))
    if not op.attrs["causal"]:
        pairs = s["q_len"] * s["kv_len"]
    return 2 * s["batch"] * s["heads"] * pairs * (s["head_dim"] + s["v_head_dim"])


def only(workload: Workload, kind: str) -> Op:
    """The one op of that kind."""
    found = [op for op in workload.ops if op.kind == kind]
    assert len(found) == 1, [op.kind for op in workload.ops]
    return found[0]


def shapes(workload: Workload, indices: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [workload.tensors[i].shape for i in indices]
