"""One network in every format, and exports to ONNX: the same work, parameters and traffic.

``python benchmarks/formats.py`` writes ``results/formats.md``. With ``--exports [name ...]`` it
exports the models of `scripts.sweeps.onnx_exports`, appends them to ``--rows FILE`` (JSON lines)
and writes ``results/formats_onnx.md`` from that file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gambrel
from common import report
from gambrel.capture.torch import ensure_torchvision

DATA = Path(__file__).parent.parent / "tests" / "data"
COLUMNS = ("network", "format", "matrix FLOP", "parameters", "traffic, MB", "coverage", "read, s")


def main() -> None:
    """Writes one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exports", action="store_true")
    parser.add_argument("--rows", type=Path, default=Path("formats_rows.jsonl"))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    ensure_torchvision()
    if args.exports:
        _exports(args.rows, args.names)
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = [_row(*one) for one in sources(Path(folder))]
    report(
        "formats",
        "One network in every format",
        COLUMNS,
        rows,
        notes=(
            "ONNX and OpenVINO have a value less per channel of a folded batch norm; the "
            "converted OpenVINO files came from fresh norms, whose biases are zero and left out. "
            "HLO does not say which arguments are parameters.",
            "Traffic is that of PyTorch eager on an H100 at the file's batch, in the format's own "
            "number formats, of one kernel per op: a file without batch norms has fewer, JAX "
            "writes a bias as an op. The time includes the analysis.",
        ),
        packages=("gambrel", "torch", "onnx", "jax", "timm"),
    )


def sources(folder: Path) -> Iterator[tuple[str, str, Any, Any]]:
    """Network, format, model and inputs."""
    import torch
    import torchvision
    from scripts.sweeps.onnx_exports import distinct

    module, image = small(), torch.randn(1, 3, 32, 32)
    distinct(module)
    yield "small CNN", "torch", module, image
    yield "small CNN", "torch.export .pt2", _exported(module, image, folder / "cnn.pt2"), None
    yield "small CNN", "ONNX", _onnx(module, image, folder / "cnn.onnx"), None
    yield "small CNN", "Keras archive", DATA / "keras" / "cnn.keras", None
    yield from _of_jax(folder)
    for name in ("resnet18", "mobilenet_v3_small"):
        model, picture = torchvision.models.get_model(name).eval(), torch.randn(1, 3, 224, 224)
        distinct(model)
        yield name, "torch", model, picture
        yield name, "ONNX", _onnx(model, picture, folder / f"{name}.onnx"), None
        yield name, "OpenVINO IR", DATA / "openvino" / f"{name}.xml", None
        if name == "resnet18":
            yield name, "torch.export .pt2", _exported(model, picture, folder / "r.pt2"), None
            yield name, "OpenVINO IR, int8", DATA / "openvino" / "resnet18_int8.xml", None
            yield name, "timm/resnet18", "timm/resnet18", None
            yield name, "built-in", "resnet18", None
    for kind in ("float", "fp16", "dynamic", "int8"):
        yield "ds_cnn", f"TFLite, {kind}", DATA / "tflite" / f"ds_cnn_{kind}.tflite", None


def small() -> Any:
    """The network of ``tests/data/keras/cnn.keras`` in torch."""
    import torch
    from torch import nn

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
            self.norm = nn.BatchNorm2d(16)
            self.deep = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
            self.head = nn.Linear(16, 10)

        def forward(self, x: Any) -> Any:
            x = self.norm(self.stem(x)).relu()
            x = (x + self.deep(x)) * 2.0
            return torch.softmax(self.head(x.mean((2, 3))), -1)

    return Small().eval()


def _of_jax(folder: Path) -> Iterator[tuple[str, str, Any, Any]]:
    import jax
    import jax.numpy as jnp

    def conv(x: Any, kernel: Any, stride: int, groups: int = 1) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", feature_group_count=groups,
            dimension_numbers=layout,
        )  # fmt: skip

    def network(params: Any, x: Any) -> Any:
        x = jax.nn.relu(conv(x, params["stem"], 2) * params["scale"] + params["shift"])
        x = (x + conv(x, params["deep"], 1, 16) + params["deep_bias"]) * 2.0
        return jax.nn.softmax(x.mean((1, 2)) @ params["head"] + params["head_bias"])

    shapes = {"stem": (3, 3, 3, 16), "scale": (16,), "shift": (16,), "deep": (3, 3, 1, 16)}
    shapes |= {"deep_bias": (16,), "head": (16, 10), "head_bias": (10,)}
    params = {k: jax.ShapeDtypeStruct(s, jnp.float32) for k, s in shapes.items()}
    image = jax.ShapeDtypeStruct((1, 32, 32, 3), jnp.float32)
    yield "small CNN", "JAX", network, (params, image)
    lowered = jax.jit(network).lower(params, image)
    texts = {"StableHLO": lowered.as_text(debug_info=True), "HLO": lowered.as_text(dialect="hlo")}
    for (name, text), suffix in zip(texts.items(), ("mlir", "hlo"), strict=True):
        path = folder / f"cnn.{suffix}"
        path.write_text(text)
        yield "small CNN", name, path, None


def _onnx(module: Any, inputs: Any, path: Path) -> Path:
    import torch

    torch.onnx.export(module, (inputs,), str(path), dynamo=False)
    return path


def _exported(module: Any, inputs: Any, path: Path) -> Path:
    import torch

    torch.export.save(torch.export.export(module, (inputs,)), path)
    return path


def _row(network: str, form: str, model: Any, inputs: Any) -> tuple[object, ...]:
    given = {} if inputs is None else {"inputs": inputs}
    start = time.perf_counter()
    found = gambrel.analyze(model, "h100", runtime="pytorch", **given)
    seconds = time.perf_counter() - start
    return (
        *(network, form, f"{found.total.matrix_flops:,}", f"{found.model.parameters:,}"),
        *(f"{found.traffic_bytes / 1e6:.3f}", f"{found.coverage:.1%}", f"{seconds:.2f}"),
    )


def _exports(path: Path, wanted: list[str]) -> None:
    """Compares exports, as many as wanted, and writes the table of all that are in the file."""
    from scripts.sweeps import onnx_exports
    from scripts.sweeps.reference import Row

    known = _rows(path)
    for name, build in onnx_exports.models():
        if (wanted and name not in wanted) or name in known:
            continue
        row = onnx_exports.compared(name, build, dynamo=name in onnx_exports.NEWER)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        sys.stdout.write(f"{name}: {row.verdict}\n")
        sys.stdout.flush()
    measured = _rows(path)
    rows = [Row(**measured[name]) for name, _ in onnx_exports.models() if name in measured]
    cells = [
        (
            *(r.name, f"{r.flops[0]:,}", f"{r.parameters[0]:,}"),
            *(f"{value / 1e6:.1f}" for value in r.traffic),
            *(f"{r.coverage:.1%}", f"{r.seconds:.2f}", r.verdict),
        )
        for r in rows
    ]
    report(
        "formats_onnx",
        "Exports to ONNX against the capture of the module",
        ("model", "matrix FLOP", "parameters", "traffic, MB", "of the module", "coverage",
         "read, s", "verdict"),
        cells,
        notes=(
            "equal: matrix FLOP and parameters are exactly those of the captured module, less the "
            "one or two values a channel that exporters fold with a batch norm.",
            "Traffic is that of PyTorch eager on an H100 at batch 1, with one kernel per op: a "
            "folded batch norm is none. Seconds are those of reading the file alone.",
        ),
        packages=("gambrel", "torch", "onnx", "timm", "transformers"),
    )  # fmt: skip


def _rows(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        return {}
    lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return {str(data["name"]): data for data in lines}


if __name__ == "__main__":
    main()
