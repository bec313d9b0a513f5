"""Attention where PyTorch's fused kernels were not measured: AMD's GPUs.

With a fused kernel scores stay on chip, and the products are what batched ones are. Without one
(`Runtime.split_attention`) scores go to memory and come back: two batched products and a softmax
between them, each with what the same libraries attain of such kernels alone; masked pairs are
computed as well. The gradients take four products (dV and dP, dQ and dK) around the softmax's own,
which read the scores that were kept.
"""

from __future__ import annotations

from gambrel import roofline
from gambrel.analysis.estimate.features import Task
from gambrel.analysis.estimate.forms import Chip, Constants
from gambrel.analysis.estimate.torchlib.rows import LONG_ROW
from gambrel.analysis.estimate.torchlib.streams import streamed
from gambrel.ops.attention import split_scores
from gambrel.ops.base import Size, where
from gambrel.roofline import maximum


def attention(c: Constants, machine: Chip, task: Task) -> Size:
    """Seconds of one fused kernel, or of the kernels apart."""
    view = task.view
    if not view.attrs.get("split"):
        work = roofline.seconds(task.matrix_flops, task.matrix_peak * c["compute"])
        return maximum(work, streamed(machine, task.traffic_bytes, c["memory"]))
    scores, keys, head = split_scores(view), view.size("kv_len"), view.size("head_dim")
    forward = view.kind == "attention"
    pairs = view.size("batch") * view.size("heads") * view.size("q_len") * keys
    flops = (1 if forward else 2) * 2 * pairs * (head + view.size("v_head_dim", head))
    work = roofline.seconds(flops, task.matrix_peak * c["compute"])
    moved = task.traffic_bytes - scores.softmax
    products = maximum(work, streamed(machine, moved, c["memory"]))
    again = where(keys > LONG_ROW, c["extra"], 0.0) if forward else 0.0
    return products + streamed(machine, scores.softmax + again * scores.once, c["softmax"])
