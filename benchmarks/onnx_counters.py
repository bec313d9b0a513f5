"""Multiply-adds of ONNX files beside those of onnx-tool, with what makes the difference.

``python benchmarks/onnx_counters.py`` writes ``results/onnx_counters.md``. It exports models of
`scripts.sweeps.onnx_exports` and needs onnx-tool (MIT), which is no dependency of the project.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from math import prod
from pathlib import Path
from typing import Any

from scripts.sweeps import onnx_exports

import gambrel
from common import report
from gambrel.capture.torch import ensure_torchvision

MODELS = """
    alexnet densenet121 mobilenet_v2 resnet18 resnet50 shufflenet_v2_x0_5 vgg11 vit_b_32
    timm/convnextv2_atto timm/deit_tiny_patch16_224 timm/efficientvit_b0 timm/mobilevit_xxs hf/bert
    hf/distilbert hf/llama hf/qwen3 yolo-like diffusion-unet lstm
"""
#: Operators that are products of matrices, as both count them.
PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM"})


def main() -> None:
    """Writes the table."""
    warnings.simplefilter("ignore")
    ensure_torchvision()
    wanted = MODELS.split()
    rows = [row(name, build) for name, build in onnx_exports.models() if name in wanted]
    report(
        "onnx_counters",
        "Multiply-adds of ONNX files beside those of onnx-tool",
        ("model", "gambrel", "onnx-tool", "biases", "left"),
        rows,
        notes=(
            "Convolutions, Gemm, MatMul and LSTM alone; all pairs of an attention. onnx-tool "
            "counts the addition of a bias as a multiply-add: one for each value that has one.",
            "Left: the LSTM's biases and element-wise steps, which onnx-tool adds to its products.",
        ),
        packages=("gambrel", "torch", "onnx", "onnx-tool"),
    )


def row(name: str, build: Any) -> tuple[object, ...]:
    """One line: what both count, and the values that have a bias."""
    import torch

    torch.backends.mha.set_fastpath_enabled(False)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        model, args = build()
        path = Path(folder) / "model.onnx"
        onnx_exports.distinct(model.eval())
        with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):
            newer = name in onnx_exports.NEWER
            torch.onnx.export(model, args, str(path), dynamo=newer)
        try:
            theirs = _onnx_tool(path)
        except NotImplementedError as error:  # "this Node IsNaN-... has no value_infer"
            theirs, stopped = 0, str(error).split()[2].partition("-")[0]
        found = gambrel.analyze(path, "h100", causal="full")
        ours, biases = int(found.total.matrix_flops) // 2, _biases(found.workload)
    if not theirs:
        return name, f"{ours:,}", f"stops at {stopped}", "", ""
    return name, f"{ours:,}", f"{theirs:,}", f"{biases:,}", f"{theirs - ours - biases:,}"


def _onnx_tool(path: Path) -> int:
    import onnx_tool

    model = onnx_tool.Model(str(path))
    model.graph.shape_infer()
    model.graph.profile()
    nodes = model.graph.nodemap.values()
    return sum(round(float(n.macs[0])) for n in nodes if n.op_type in PRODUCTS)


def _biases(workload: Any) -> int:
    """Values of convolutions and Gemm to which a bias is added."""
    made = (
        workload.tensors[op.outputs[0]].shape
        for op in workload.ops
        if op.name in ("onnx.Conv", "onnx.ConvTranspose", "onnx.Gemm") and op.attrs.get("bias")
    )
    return sum(prod(map(int, shape)) for shape in made)


if __name__ == "__main__":
    main()
