"""Makes the Core ML files of the tests: ``python scripts/make_coreml_samples.py FOLDER``.

Needs coremltools (9.0 made the files in the repository) and scikit-learn, which are no dependencies
of the project, besides torch. The folder ``weights`` of each package is not kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

import coremltools as ct
import coremltools.optimize.coreml as narrow
import torch
from torch import nn


class Block(nn.Module):
    """Attention, a perceptron, grouped and transposed convolutions, a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))
        self.norm = nn.LayerNorm(32)
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.grouped = nn.Conv1d(32, 32, 3, padding=1, groups=4)
        self.transposed = nn.ConvTranspose1d(32, 16, 2, 2)
        self.recurrent = nn.LSTM(16, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        q, k, v = (
            layer(y).reshape(2, 16, 2, 16).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + mixed.transpose(1, 2).reshape(2, 16, 32)
        x = x + self.layers(x)
        y = self.transposed(self.grouped(x.transpose(1, 2)))
        return self.recurrent(y.transpose(1, 2))[0]


class Tiny(nn.Module):
    """A strided, a depthwise and a pointwise convolution, a layer at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8)
        self.depthwise, self.pointwise = nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Conv2d(8, 16, 1)
        self.last = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x)).relu()
        x = nn.functional.hardswish(self.pointwise(self.depthwise(x).relu()))
        return self.last(nn.functional.max_pool2d(x, 2).mean((2, 3))).softmax(-1)


def main() -> None:
    """Writes all files."""
    folder = Path(sys.argv[1])
    torch.manual_seed(0)

    def converted(model: nn.Module, shape: tuple[int, ...], **more: object) -> ct.models.MLModel:
        traced = torch.jit.trace(model.eval(), torch.zeros(shape))
        return ct.convert(traced, inputs=[ct.TensorType(shape=shape)], **more)

    image = (1, 3, 32, 32)
    converted(Block(), (2, 16, 32), convert_to="mlprogram").save(str(folder / "block.mlpackage"))
    converted(Tiny(), image, convert_to="neuralnetwork").save(str(folder / "tiny_nn.mlmodel"))
    tiny = converted(
        Tiny(), image, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS18
    )
    linear = narrow.OpLinearQuantizerConfig(weight_threshold=16)
    palette = narrow.OpPalettizerConfig(nbits=4, weight_threshold=16)
    narrow.linear_quantize_weights(tiny, narrow.OptimizationConfig(linear)).save(
        str(folder / "tiny_int8.mlpackage")
    )
    narrow.palettize_weights(tiny, narrow.OptimizationConfig(palette)).save(
        str(folder / "tiny_pal4.mlpackage")
    )


if __name__ == "__main__":
    main()
