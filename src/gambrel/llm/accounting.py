"""Model FLOPs of a token: what MFU counts.

Model FLOPs are those of GEMMs, attention (the positions that a token sees, and no others), scans
and the LM head, of every token; embeddings are look-ups and count nothing, of experts only those
that a token is sent to. A training token takes three times its forward pass: each product has two
of the same size in backward. What is recomputed does not count.
"""

from __future__ import annotations

from typing import Final

from gambrel import roofline
from gambrel.analysis.evaluate import Evaluator
from gambrel.llm.backward import kept_scores, with_backward
from gambrel.llm.build import build
from gambrel.llm.spec import ModelSpec
from gambrel.llm.step import ForwardPass, SequenceGroup
from gambrel.ops import Conventions, cost
from gambrel.ops.base import Engine
from gambrel.workload import Workload

#: Kinds of op whose multiplications are model FLOPs.
_COUNTED: Final = frozenset({
    *("matmul", "bmm", "linear", "grouped_matmul", "attention", "convolution"),
})  # fmt: skip
#: Recurrences over the sequence, all of whose arithmetic is.
_SCANS: Final = frozenset({"delta_scan", "selective_scan", "ssd_scan"})


def forward_flops(spec: ModelSpec, seq: int) -> float:
    """FLOPs of a token in a forward pass over a sequence of so many tokens, mean over tokens.

    Args:
        spec: The model.
        seq: Tokens of a sequence; attention of a token sees those before it and itself.
    """
    outputs = seq if spec.causal and spec.head == "lm" else None
    step = ForwardPass(groups=(SequenceGroup(count=1, new_tokens=seq),), outputs=outputs)
    workload = build(spec, step, "bf16")
    evaluator = Evaluator(workload, {}, {}, Conventions())
    total = 0
    for op in workload.ops:
        if op.kind not in _COUNTED | _SCANS:
            continue
        priced = cost(evaluator.op(op))
        for (engine, _), flops in (priced.work if priced else {}).items():
            if engine is Engine.MATRIX or op.kind in _SCANS:
                total += op.repeat * flops
    return total / seq


def repeated(forward: Workload, recompute: str) -> float:
    """HFU over MFU: matrix FLOPs of a pass with what is recomputed over those without.

    Args:
        forward: The forward pass.
        recompute: What runs again, as of `gambrel.llm.recompute`.
    """
    whole, once = (
        _matrix_flops(kept_scores(with_backward(forward, recompute=name)))
        for name in (recompute, "none")
    )
    return roofline.ratio(whole, once)


def _matrix_flops(passes: Workload) -> float:
    """Of one pass on one device; masked positions not counted."""
    costs = Evaluator(passes, {}, {}, Conventions()).costs()
    return float(
        sum(
            op.repeat * flops
            for op, _, priced in costs
            for (engine, _), flops in (priced.work if priced else {}).items()
            if engine is Engine.MATRIX
        )
    )
