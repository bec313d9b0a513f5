"""A CNN, a ViT and a language model in every format: the same work on the same devices.

``python benchmarks/agreement.py FOLDER`` writes ``results/agreement.md``. FOLDER holds the TFLite
files of ``agreement_keras.py`` and keeps what is converted. OpenVINO and coremltools, which are no
dependencies of the project, convert where they are installed; a format without one is left out.
"""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gambrel
from agreement_keras import LM, VIT, networks
from common import report
from gambrel.capture.torch import ensure_torchvision

DEVICES = ("hailo-8", "coral-edge-tpu", "tpu-v5e", "tpu-v5p")
COLUMNS = (
    *("network", "format", "matrix FLOP", "parameters", "vector FLOP", "bytes of the weights"),
    *("coverage", "read, s", *DEVICES),
)
NOTES = (
    "Cells of devices: speed of light / roofline time under the runtime that the device has by "
    "default, at its precision; x where it does not fit. Unknown: ops that the Edge TPU leaves to "
    "the host, whose time is not known. Bytes of the weights are those in int8 on the Hailo-8.",
    "ONNX, OpenVINO and Core ML: the exporter folds batch norms, which leaves one parameter a "
    "channel where there were two, and less vector work. TFLite folds them as well and stores "
    "tensors of equal values once, as the zero biases and unit scales of the untrained twin are.",
    "Language model: its attention is causal in every format, by a flag, by a mask that the file "
    "holds or makes, or by comparing places; all pairs would be 300.8 MFLOP more.",
    "Core ML and TFLite store constant masks and tables beside the parameters; in the Keras "
    "archive a layer of the user's own, the positions, is unmodelled with its parameters.",
    "HLO does not say which arguments are parameters: they are inputs, which cross the link of the "
    "Edge TPU in every run.",
)


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore")
    ensure_torchvision()
    twins = networks()
    rows = [
        row(name, form, model, inputs)
        for name in twins
        for form, model, inputs in forms(name, twins[name], folder)
    ]
    report(
        "agreement",
        "One network in every format, on accelerators",
        COLUMNS,
        rows,
        notes=NOTES,
        packages=("gambrel", "torch", "onnx", "jax", "keras"),
    )


def row(network: str, form: str, model: Any, inputs: Any) -> tuple[object, ...]:
    """One line: counts, then the times on every device."""
    given = {} if inputs is None else {"inputs": inputs}
    start = time.perf_counter()
    found = gambrel.analyze(model, DEVICES[0], **given)
    seconds = time.perf_counter() - start
    workload = found.workload
    total = found.total
    cells = []
    for device in DEVICES:
        try:
            one = gambrel.analyze(workload, device)
        except gambrel.errors.GambrelError as error:
            cells.append(str(error)[:60])
            continue
        times = " / ".join(_ms(t) for t in (one.sol_time_s, one.roofline_time_s))
        cells.append(times + ("" if one.footprint.fits is not False else " x"))
    return (
        *(network, form, f"{total.matrix_flops:,}", f"{found.model.parameters:,}"),
        *(
            f"{total.vector_flops / 1e6:.1f} M",
            f"{found.footprint.weights_bytes / 1e6:.3f} MB",
            f"{found.coverage:.1%}",
        ),
        *(f"{seconds:.2f}", *cells),
    )


def _ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1e3:.3f} ms"


def forms(name: str, twin: Any, folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """Format, model and inputs of one network."""
    import torch
    from scripts.sweeps.onnx_exports import distinct

    module, example = BUILDERS[name]()
    distinct(module)  # exporters join parameters of equal values
    yield "torch", module, example
    path = folder / f"{name}.onnx"
    if not path.is_file():
        with torch.no_grad():
            torch.onnx.export(module, (example,), str(path), dynamo=False)
    yield "ONNX", path, None
    for form, convert in (("OpenVINO IR", _openvino), ("Core ML", _coreml)):
        made = convert(module, example, path)
        if made is not None:
            yield form, made, None
    lite = folder / f"{name}.tflite"
    if lite.is_file():
        yield "TFLite", lite, None
    archive = folder / f"{name}.keras"
    twin.save(archive)
    yield "Keras archive", archive, None
    yield from _of_jax(name, twin, folder)


def _of_jax(name: str, twin: Any, folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """The Keras model as a function of JAX, and what XLA is given."""
    import jax

    shape, kind = twin.inputs[0].shape, twin.inputs[0].dtype
    given = jax.ShapeDtypeStruct(shape, kind)
    yield "JAX", twin, given
    params = [v.value for v in twin.trainable_variables]
    rest = [v.value for v in twin.non_trainable_variables]

    def network(params: Any, x: Any) -> Any:
        return twin.stateless_call(params, rest, x)[0]

    forms_of = [jax.ShapeDtypeStruct(p.shape, p.dtype) for p in params]
    lowered = jax.jit(network).lower(forms_of, given)
    texts = {
        "StableHLO": (f"{name}.mlir", lowered.as_text(debug_info=True)),
        "HLO": (f"{name}.hlo", lowered.as_text(dialect="hlo")),
    }
    for form, (file, text) in texts.items():
        (folder / file).write_text(text)
        yield form, folder / file, None


def _openvino(module: Any, example: Any, onnx: Path) -> Path | None:
    try:
        import openvino
    except ImportError:
        return None
    made = onnx.with_suffix(".xml")
    if not made.is_file():
        shape = [tuple(example.shape)]
        found = openvino.convert_model(module, example_input=example, input=shape)
        openvino.save_model(found, made, compress_to_fp16=False)
    return made


def _coreml(module: Any, example: Any, onnx: Path) -> Path | None:
    try:
        import coremltools
    except ImportError:
        return None
    import numpy as np
    import torch

    path = onnx.with_suffix(".mlpackage")
    if path.is_dir():
        return path
    kind = np.int32 if example.dtype == torch.int64 else np.float32
    traced = torch.jit.trace(module, example)
    made = coremltools.convert(
        traced,
        inputs=[coremltools.TensorType(shape=tuple(example.shape), dtype=kind)],
        convert_to="mlprogram",
        compute_precision=coremltools.precision.FLOAT32,
    )
    made.save(str(path))
    return path


def _resnet18() -> tuple[Any, Any]:
    import torch
    import torchvision

    return torchvision.models.resnet18().eval(), torch.randn(1, 3, 224, 224)


def _block(width: int, heads: int, *, causal: bool) -> Any:
    from torch import nn
    from torch.nn import functional as f

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            size, seq, _ = x.shape
            y = self.norms[0](x)
            q, k, v = (
                layer(y).view(size, seq, heads, width // heads).transpose(1, 2)
                for layer in (self.q, self.k, self.v)
            )
            mixed = f.scaled_dot_product_attention(q, k, v, is_causal=causal)
            x = x + self.o(mixed.transpose(1, 2).reshape(size, seq, width))
            return x + self.down(f.gelu(self.up(self.norms[1](x))))

    return Block()


def _vit() -> tuple[Any, Any]:
    import torch
    from torch import nn

    width, depth, heads = VIT

    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.positions = nn.Parameter(torch.randn(1, 196, width))
            self.blocks = nn.Sequential(*(_block(width, heads, causal=False) for _ in range(depth)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
            return self.head(self.norm(self.blocks(x)).mean(1))

    return Vit().eval(), torch.randn(1, 3, 224, 224)


def _lm() -> tuple[Any, Any]:
    import torch
    from torch import nn

    width, depth, heads, tokens, vocabulary = LM

    class Lm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.positions = nn.Parameter(torch.randn(1, tokens, width))
            self.blocks = nn.Sequential(*(_block(width, heads, causal=True) for _ in range(depth)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.embedding(ids) + self.positions
            return self.head(self.norm(self.blocks(x)))

    return Lm().eval(), torch.zeros(1, tokens, dtype=torch.long)


#: Name → module and example.
BUILDERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "resnet18": _resnet18,
    "vit": _vit,
    "lm": _lm,
}


if __name__ == "__main__":
    main()
