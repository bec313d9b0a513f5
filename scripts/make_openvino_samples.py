"""Makes the OpenVINO files of the tests: ``python scripts/make_openvino_samples.py FOLDER``.

Needs openvino and nncf (2026.4 and 3.4 made the files in the repository), which are no dependency
of the project, besides torch and torchvision. Only the .xml are kept; the weights are random.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nncf
import numpy as np
import openvino
import torch
from torch import nn

from gambrel.capture.torch import ensure_torchvision

ensure_torchvision()
import torchvision  # noqa: E402

torch.backends.mha.set_fastpath_enabled(False)


class Block(nn.Module):
    """Attention, a perceptron, grouped and transposed convolutions, a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 2, batch_first=True)
        self.norm = nn.LayerNorm(32)
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.grouped = nn.Conv1d(32, 32, 3, padding=1, groups=4)
        self.transposed = nn.ConvTranspose1d(32, 16, 2, 2)
        self.recurrent = nn.GRU(16, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.layers(x)
        y = self.transposed(self.grouped(x.transpose(1, 2)))
        return self.recurrent(y.transpose(1, 2))[0]


def saved(model: nn.Module, shape: list[int], path: Path, *, narrow: bool) -> openvino.Model:
    """Converts a module at a shape (-1: open) and saves it."""
    example = torch.zeros([1 if n < 0 else n for n in shape])
    made = openvino.convert_model(model.eval(), example_input=example, input=shape)
    openvino.save_model(made, path, compress_to_fp16=narrow)
    return made


def main() -> None:
    """Writes all files."""
    folder = Path(sys.argv[1])
    image = [1, 3, 224, 224]
    vision = torchvision.models
    saved(vision.resnet18(), [-1, 3, 224, 224], folder / "resnet18.xml", narrow=True)
    made = saved(vision.resnet18(), image, folder / "resnet18_static.xml", narrow=False)
    data = nncf.Dataset([np.random.rand(*image).astype("f4") for _ in range(2)])
    openvino.save_model(nncf.quantize(made, data, subset_size=2), folder / "resnet18_int8.xml")
    saved(vision.mobilenet_v3_small(), image, folder / "mobilenet_v3_small.xml", narrow=False)
    made = saved(Block(), [2, 16, 32], folder / "block.xml", narrow=False)
    mode = nncf.CompressWeightsMode.INT4_SYM
    made = nncf.compress_weights(made, mode=mode, group_size=16, all_layers=True)
    openvino.save_model(made, folder / "block_int4.xml")


if __name__ == "__main__":
    main()
