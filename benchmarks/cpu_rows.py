"""Times whole models on one core of this machine, eagerly and under ONNX Runtime, as rows to fit.

    python benchmarks/cpu_rows.py OUT.csv [SECONDS_PER_MODEL]

Takes the least of the thread's own clock, so that other processes matter little; the load average
is written beside each row. scripts/fit_cpu.py reads the file.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

#: Name in the zoo → batches.
MODELS = {
    "resnet18": (1, 4), "resnet50": (1, 4), "mobilenet-v2": (1, 4), "efficientnet-b0": (1,),
    "convnext-tiny": (1,), "vit-b-16": (1,), "densenet121": (1,), "bert-base": (1,),
}  # fmt: skip
TOKENS = 128
LEAST = 4


def main(path: Path, budget_s: float) -> None:
    """Writes one row for each model, batch and runtime."""
    torch.set_num_threads(1)
    with path.open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(("runtime", "model", "batch", "seq", "ms", "load"))
        for name, batches in MODELS.items():
            module, shape = built(name)
            for batch in batches:
                inputs = shape(batch)
                seq = TOKENS if name.startswith("bert") else ""
                for runtime, call in calls(module, inputs):
                    ms = least(call, budget_s) * 1e3
                    row = (runtime, name, batch, seq, f"{ms:.4g}", f"{os.getloadavg()[0]:.0f}")
                    out.writerow(row)
                    print(*row, flush=True)


def built(name: str) -> tuple[Any, Callable[[int], Any]]:
    """A model with random weights, and its input at a batch."""
    if name.startswith("bert"):
        import transformers

        model = transformers.BertModel(transformers.BertConfig(return_dict=False))
        return model.eval(), lambda batch: torch.randint(0, 1000, (batch, TOKENS))
    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()
    from torchvision import models

    word = {"vit-b-16": "vit_b_16", "mobilenet-v2": "mobilenet_v2"}.get(name)
    made = models.get_model(word or name.replace("-", "_"), weights=None)
    return made.eval(), lambda batch: torch.randn(batch, 3, 224, 224)


def calls(module: Any, inputs: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The same model under each runtime; ONNX Runtime where it is installed."""

    def eager() -> Any:
        with torch.no_grad():
            return module(inputs)

    yield "pytorch", eager
    try:
        import onnxruntime
    except ImportError:
        return
    file = io.BytesIO()
    torch.onnx.export(module, (inputs,), file, dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file.getvalue(), options)
    given = {session.get_inputs()[0].name: inputs.numpy()}
    yield "onnxruntime", lambda: session.run(None, given)


def least(call: Callable[[], Any], budget_s: float) -> float:
    """The least seconds of the thread's clock over repeats."""
    call()
    times: list[float] = []
    while len(times) < LEAST or sum(times) < budget_s:
        begun = time.thread_time()
        call()
        times.append(time.thread_time() - begun)
    return min(times)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
