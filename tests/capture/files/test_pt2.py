"""Exported programs: the same answer as capturing the model that was exported."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections import Counter
from math import prod

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from gambrel.capture.files.export_graph import module_path, source_line  # noqa: E402
from gambrel.capture.files.pt2 import read_pt2  # noqa: E402
from gambrel.capture.torch import capture  # noqa: E402
from gambrel.errors import FileFormatError  # noqa: E402
from gambrel.ops import OpView, TensorView, cost  # noqa: E402
from gambrel.workload import Role, Workload  # noqa: E402
from gambrel.workload.binding import bind  # noqa: E402
from gambrel.workload.formats import in_format  # noqa: E402
from gambrel.workload.prune import drop_unused_outputs  # noqa: E402

pytestmark = pytest.mark.torch


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(True))
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        y = F.max_pool2d(F.silu(self.depthwise(self.stem(x))), 2)
        return self.head(y.mean((2, 3)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)
        self.register_buffer("scale", torch.ones(32))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, t, 32)) * self.scale


class Products(nn.Module):
    """Products whose operands eager torch copies first, and a bias that it adds afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 32)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.first(x.transpose(0, 1)).view(t, b, 4, 8).permute(1, 2, 0, 3)
        scores = (q @ q.transpose(-2, -1)).softmax(-1)
        return torch.matmul(scores @ q, torch.ones(8))


class Writes(nn.Module):
    """In-place ops, a slice assignment, a gradient switch, two inputs, two outputs."""

    def forward(self, x, index):
        y = x.clone()
        y.mul_(2).relu_()
        y[:, 0] = 1
        with torch.no_grad():
            z = y.exp()
        return z[index], y.sum()


def image():
    return torch.zeros(2, 3, 32, 32)


MODELS = {
    "convolutions": (Convolutions, lambda: (image(),)),
    "block": (Block, lambda: (torch.zeros(2, 16, 32),)),
    "block, bf16": (lambda: Block().bfloat16(), lambda: (torch.zeros(2, 16, 32).bfloat16(),)),
    "gelu": (
        lambda: nn.Sequential(nn.Linear(8, 4), nn.GELU("tanh"), nn.Dropout()),
        lambda: (torch.zeros(2, 8),),
    ),
    "products": (Products, lambda: (torch.zeros(2, 16, 32),)),
    "embedding": (lambda: nn.Embedding(50, 8), lambda: (torch.zeros(2, 5, dtype=torch.long),)),
}


def export(model, args, path, dynamic=None):
    program = torch.export.export(model.eval(), args, dynamic_shapes=dynamic, strict=False)
    torch.export.save(program, path)
    return path


def named(workload: Workload):
    """Names of the weights."""
    return {t.name for t in workload.tensors if t.role is Role.WEIGHT}


def totals(workload: Workload):
    """Work by engine and format, bytes read, bytes written."""
    workload = bind(workload) if workload.symbols else workload
    seen = [
        TensorView(
            shape=t.shape,
            dtype=t.dtype,
            elements=prod(t.shape) if t.elements is None else t.elements,
            storage=t.storage,
            offset=t.offset,
            role=t.role,
        )
        for t in workload.tensors
    ]
    found: Counter = Counter()
    for op in workload.ops:
        view = OpView(
            kind=op.kind,
            inputs=tuple(seen[i] for i in op.inputs),
            outputs=tuple(seen[i] for i in op.outputs),
            sizes=op.sizes,
            attrs=op.attrs,
        )
        spent = cost(view)
        assert spent is not None, op
        found.update(spent.work)
        found.update(read=spent.read_bytes, written=spent.write_bytes)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_equals_the_live_capture(name, tmp_path):
    make, inputs = MODELS[name]
    model = make().eval()
    stored = read_pt2(export(model, inputs(), tmp_path / "m.pt2"))
    live = drop_unused_outputs(in_format(capture(model, inputs()), "fp32"))
    assert totals(stored) == totals(live)
    assert [op.kind for op in stored.ops] == [op.kind for op in live.ops]
    assert [op.module for op in stored.ops] == [op.module for op in live.ops]
    assert stored.dtype == live.dtype
    assert named(stored) == named(live)


def test_writes_make_versions(tmp_path):
    args = (torch.zeros(4, 8), torch.zeros(3, dtype=torch.long))
    program = torch.export.export(Writes(), args, strict=False)
    torch.export.save(program, tmp_path / "w.pt2")
    workload = read_pt2(tmp_path / "w.pt2")
    kinds = [op.name for op in workload.ops]
    assert "aten.exp" in kinds  # it ran inside a graph of its own
    # clone, mul_, relu_ and the slice each leave a newer version of the same memory behind.
    mul = next(op for op in workload.ops if op.name == "aten.mul_")
    before, after = workload.tensors[mul.inputs[0]], workload.tensors[mul.outputs[0]]
    assert (after.storage, after.version) == (before.storage, before.version + 1)
    assert len(workload.outputs) == 2
    assert all(workload.tensors[i].role is Role.OUTPUT for i in workload.outputs)


def test_roles_names_and_places(tmp_path):
    workload = read_pt2(export(Block(), (torch.zeros(2, 16, 32),), tmp_path / "block.pt2"))
    assert workload.name == "block"
    assert workload.origin == f"torch.export {torch.__version__}"
    roles = {t.name: t.role for t in workload.tensors if t.name}
    assert roles["x"] is Role.INPUT
    assert roles["qkv.weight"] is Role.WEIGHT
    assert roles["scale"] is Role.CONSTANT
    first = workload.ops[0]
    assert first.module == "norm"
    assert first.source.startswith("test_pt2.py:")


def test_slices_of_one_projection_are_regions_of_one_memory(tmp_path):
    workload = read_pt2(export(Block(), (torch.zeros(2, 16, 32),), tmp_path / "b.pt2"))
    attention = next(op for op in workload.ops if op.kind == "attention")
    q, k, v = (workload.tensors[i] for i in attention.inputs)
    assert q.storage == k.storage == v.storage
    assert (q.offset, k.offset, v.offset) == (0, 32, 64)


def test_dynamic_dimensions_are_symbols(tmp_path):
    batch, tokens = torch.export.Dim("b", min=1, max=64), torch.export.Dim("t", min=2, max=512)
    dynamic = {"x": {0: batch, 1: tokens}}
    path = export(Block(), (torch.zeros(2, 16, 32),), tmp_path / "b.pt2", dynamic)
    workload = read_pt2(path)
    assert [(s.name, s.default, s.minimum, s.maximum) for s in workload.symbols] == [
        ("batch", 2, 1, 64),
        ("seq", 16, 2, 512),
    ]
    assert workload.symbols[1].about == "dimension 1 of input x"
    # At sizes that no capture used, the same as a capture at those sizes.
    at = bind(workload, {"batch": 7, "seq": 333})
    live = drop_unused_outputs(capture(Block().eval(), (torch.zeros(7, 333, 32),)))
    assert totals(at) == totals(live)


def test_sides_of_images_are_symbols_at_multiples_of_the_strides(tmp_path):
    class Strided(nn.Module):
        def forward(self, x):
            return F.max_pool2d(F.max_pool2d(x, 2), 2)

    side = torch.export.Dim("n", min=8, max=100)
    args = (torch.zeros(1, 2, 32, 30),)
    workload = read_pt2(export(Strided(), args, tmp_path / "s.pt2", {"x": {2: side}}))
    (height,) = workload.symbols
    assert (height.name, height.minimum, height.multiple_of) == ("height", 8, 4)
    assert workload.tensors[workload.outputs[0]].shape == (1, 2, "1/4*height", 7)


def test_a_dimension_that_is_no_polynomial_stays_as_exported(tmp_path):
    class Thirds(nn.Module):
        def forward(self, x):
            return F.max_pool2d(x, 3)

    side = torch.export.Dim("n", min=8, max=100)
    path = export(Thirds(), (torch.zeros(1, 2, 30, 30),), tmp_path / "s.pt2", {"x": {2: side}})
    workload = read_pt2(path)
    assert workload.symbols == ()
    assert "sizes are fixed as in the export (height=30)" in workload.assumptions[0]
    assert workload.tensors[workload.outputs[0]].shape == (1, 2, 10, 10)


def test_needs_no_torch(tmp_path):
    path = export(Convolutions(), (image(),), tmp_path / "c.pt2")
    code = (
        "import sys; from gambrel.capture.files.pt2 import read_pt2;"
        f"w = read_pt2({str(path)!r}); assert len(w.ops) == 8, len(w.ops);"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def program(tmp_path):
    path = export(nn.Linear(4, 2), (torch.zeros(3, 4),), tmp_path / "good.pt2")
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
        return json.loads(archive.read(name))


def stored(program, path, member="m/models/model.json"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, program if isinstance(program, str) else json.dumps(program))
    return path


def test_the_layout_of_older_versions(program, tmp_path):
    program["schema_version"] = {"major": 7, "minor": 0}
    for node in program["graph_module"]["graph"]["nodes"]:
        for given in node["inputs"]:
            given.pop("kind")
        node["metadata"]["nn_module_stack"] = "L['self'],L['self'].fc,torch.nn.Linear"
    path = stored(program, tmp_path / "old.pt2", "serialized_exported_program.json")
    workload = read_pt2(path)
    assert [op.kind for op in workload.ops] == ["matmul"]
    assert workload.ops[0].module == "fc"


def broken(change):
    def apply(program):
        change(program)
        return program

    return apply


def graph(program):
    return program["graph_module"]["graph"]


BROKEN = {
    "not JSON": (lambda p: "{", "the program inside is no JSON"),
    "deep JSON": (lambda p: "[" * 100_000, "the program inside is no JSON"),
    "another JSON": (lambda p: {"a": 1}, "the JSON inside is no exported program"),
    "unknown version": (
        broken(lambda p: p.update(schema_version={"major": 99})),
        "version 99 of the export format is not known",
    ),
    "no nodes": (broken(lambda p: graph(p).pop("nodes")), "the exported program is damaged"),
    "no signature": (broken(lambda p: p["graph_module"].pop("signature")), "is damaged"),
    "an undescribed tensor": (
        broken(lambda p: graph(p)["tensor_values"].pop("linear")),
        "the tensor 'linear' is not described",
    ),
    "an unknown format": (
        broken(lambda p: graph(p)["tensor_values"]["linear"].update(dtype=77)),
        r"unknown number format \(77\)",
    ),
    "a hostile size": (
        broken(
            lambda p: graph(p)["tensor_values"]["linear"].update(
                sizes=[{"as_expr": {"expr_str": "__import__('os').system('x')"}}] * 2
            )
        ),
        "cannot read the size",
    ),
    "an undefined size": (
        broken(lambda p: graph(p)["tensor_values"]["linear"].update(sizes=[{"as_name": "s"}] * 2)),
        "the size 's' is not defined",
    ),
    "nodes of another type": (broken(lambda p: graph(p).update(nodes=5)), "is damaged"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_programs(program, tmp_path, name):
    change, sentence = BROKEN[name]
    path = stored(change(program), tmp_path / "bad.pt2")
    with pytest.raises(FileFormatError, match=sentence) as caught:
        read_pt2(path)
    assert "bad.pt2" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_archives_that_hold_none(tmp_path):
    path = stored("{}", tmp_path / "x.pt2", "data.json")
    with pytest.raises(FileFormatError, match="holds no exported program; write one with"):
        read_pt2(path)
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(FileFormatError, match="damaged or truncated archive"):
        read_pt2(path)


def test_unknown_ops_are_reported_not_dropped(program, tmp_path):
    graph(program)["nodes"][0]["target"] = "torch.ops.mylib.magic.default"
    workload = read_pt2(stored(program, tmp_path / "u.pt2"))
    assert [op.kind for op in workload.ops] == ["mylib.magic"]


def test_module_stacks():
    assert module_path("L__self__,,M;L__self__a,layer1.0.conv,torch.nn.Conv2d") == "layer1.0.conv"
    assert module_path("L['self'],L['self'].a.b@2,torch.nn.Linear") == "a.b"
    assert module_path("") == ""


def test_source_lines():
    trace = (
        'File "/home/me/net.py", line 7, in forward\n  x\n'
        '  File "/v/site-packages/torch/nn/modules/linear.py", line 134, in forward'
    )
    assert source_line(trace) == "net.py:7"
    assert source_line('File "C:\\\\me\\\\net.py", line 3, in f') == "net.py:3"
    assert source_line("") == ""
