"""Checkpoints of real torch code, recognised without running them."""

from __future__ import annotations

import argparse
import pickle
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gambrel.capture import zoo  # noqa: E402
from gambrel.capture.files.checkpoint import (  # noqa: E402
    match_checkpoint,
    read_fingerprint,
    weight_shapes,
)
from gambrel.capture.files.checkpoint_file import read_checkpoint  # noqa: E402
from gambrel.capture.files.fingerprint import Fingerprint, match  # noqa: E402
from gambrel.capture.files.modules import find_module, state_dict, walk_modules  # noqa: E402
from gambrel.capture.files.records import TensorInfo  # noqa: E402
from gambrel.capture.files.trusted import capture_trusted  # noqa: E402
from gambrel.errors import CaptureError, FileFormatError  # noqa: E402
from gambrel.workload import Role  # noqa: E402

pytestmark = pytest.mark.torch


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, (3, 5), stride=2, groups=1)
        self.norm = nn.BatchNorm2d(8)
        self.rate = 0.25


class DetectionModel(nn.Module):
    """Carries its definition the way ultralytics' class does."""

    def __init__(self, file: str, scale: str = "n", classes: int = 80) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Conv2d(3, 16, 3))
        self.yaml = {"yaml_file": file, "scale": scale, "nc": classes}


class Hostile:
    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self):
        return (Path.write_text, (self.victim, "owned"))


def save(value, path, legacy=False):
    torch.save(value, path, _use_new_zipfile_serialization=not legacy)
    return path


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickled_module_gives_its_tree(tmp_path, legacy):
    path = save(nn.Sequential(Block(), nn.Linear(4, 2).half()), tmp_path / "m.pt", legacy)
    root = find_module(read_checkpoint(path))
    modules = {m.path: m for m in walk_modules(root)}
    assert list(modules) == ["", "0", "0.conv", "0.norm", "1"]
    conv = modules["0.conv"]
    assert conv.cls == "torch.nn.modules.conv.Conv2d"
    assert conv.options["kernel_size"] == (3, 5)
    assert conv.parameters["weight"].shape == (8, 3, 3, 5)
    assert modules["0"].options["rate"] == 0.25
    assert modules["1"].parameters["weight"].dtype == "float16"
    assert "running_mean" in modules["0.norm"].buffers


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("wrap", ["", "state_dict", "model_state_dict"])
def test_state_dicts_and_nests_of_them(tmp_path, legacy, wrap):
    weights = Block().state_dict()
    held = {"epoch": 3, "args": argparse.Namespace(lr=1), wrap: weights} if wrap else weights
    found = state_dict(read_checkpoint(save(held, tmp_path / "w.pth", legacy)))
    assert {n: t.shape for n, t in found.items()} == {n: tuple(t.shape) for n, t in weights.items()}


def test_every_dtype_has_a_name(tmp_path):
    dtypes = [torch.float64, torch.bfloat16, torch.int8, torch.bool, torch.float8_e4m3fn]
    path = save({str(d): torch.zeros(2, dtype=d) for d in dtypes}, tmp_path / "d.pt")
    found = state_dict(read_checkpoint(path))
    assert {f"torch.{t.dtype}" for n, t in found.items() if n == f"torch.{t.dtype}"} >= {
        str(d) for d in dtypes[:4]
    }


def test_a_parameter_with_attributes_of_its_own(tmp_path):
    weight = nn.Parameter(torch.zeros(3, 2))
    weight.origin = "quantizer"
    found = state_dict(read_checkpoint(save({"w": weight}, tmp_path / "w.pt")))
    assert found["w"].shape == (3, 2)


def test_nothing_runs(tmp_path):
    victim = tmp_path / "victim"
    for name, legacy in [("a.pt", False), ("b.pt", True)]:
        path = save({"model": Hostile(victim)}, tmp_path / name, legacy)
        with pytest.raises(CaptureError, match="no weights that could be read"):
            match_checkpoint(path)
    (tmp_path / "c.pkl").write_bytes(pickle.dumps(Hostile(victim)))
    with pytest.raises(CaptureError):
        match_checkpoint(tmp_path / "c.pkl")
    assert not victim.exists()


def test_a_pickled_detector_is_known_by_its_definition(tmp_path):
    path = save({"epoch": -1, "ema": None, "model": DetectionModel("yolov8n.yaml").half()},
                tmp_path / "best.pt")  # fmt: skip
    found = match_checkpoint(path)
    assert found.workload.ops == zoo.load("yolov8n").ops
    assert found.workload.dtype == "fp16"  # as it was saved
    assert "best.pt holds yolov8n" in found.notes[0]


def test_a_detector_for_other_classes_says_so(tmp_path):
    model = DetectionModel("yolov8.yaml", "s", classes=3)
    found = match_checkpoint(save({"model": model}, tmp_path / "best.pt"))
    assert found.workload.name == zoo.load("yolov8s").name
    assert "trained for 3 classes" in found.notes[1]


def test_an_unknown_detector_is_refused_with_ways_out(tmp_path):
    path = save({"model": DetectionModel("yolov99n.yaml")}, tmp_path / "best.pt")
    with pytest.raises(
        CaptureError, match=r"yolov99n.*module|yolov99n.*file\.py:function"
    ) as caught:
        match_checkpoint(path)
    assert "--trust" in str(caught.value)
    assert "\n" not in str(caught.value)


def zoo_weights(name: str) -> dict[str, torch.Tensor]:
    with torch.device("meta"):
        return {n: torch.empty(s) for n, s in weight_shapes(zoo.load(name)).items()}


def save_meta(weights, path):
    torch.save(weights, path)
    return path


def test_a_state_dict_is_known_by_its_weights(tmp_path):
    found = match_checkpoint(save_meta(zoo_weights("resnet50"), tmp_path / "r.pth"))
    assert found.workload.name == zoo.load("resnet50").name
    assert [n.split(" ")[0] for n in found.notes] == ["r.pth", "Its"]  # match, stored format


def test_a_wrapper_s_prefix_does_not_matter(tmp_path):
    weights = {f"module.{n}": t for n, t in zoo_weights("resnet18").items()}
    found = match_checkpoint(save_meta({"state_dict": weights}, tmp_path / "r.pth"))
    assert found.workload.name == zoo.load("resnet18").name


def test_another_head_is_said(tmp_path):
    weights = zoo_weights("resnet18")
    weights["fc.weight"] = torch.empty(10, 512, device="meta")
    weights["fc.bias"] = torch.empty(10, device="meta")
    found = match_checkpoint(save_meta(weights, tmp_path / "r.pth"))
    assert "fc.weight is 10×512 instead of" in found.notes[1]


def test_other_weights_are_refused(tmp_path):
    path = save(Block().state_dict(), tmp_path / "b.pth")
    with pytest.raises(CaptureError, match="a checkpoint with 4 weights and no graph"):
        match_checkpoint(path)
    path = save(Block(), tmp_path / "b.pt")
    with pytest.raises(CaptureError, match=r"a pickled .*Block \(4 weights\)"):
        match_checkpoint(path)


def test_safetensors_are_matched_as_well(tmp_path):
    import json
    import struct

    header, place = {}, 0
    for name, tensor in zoo_weights("resnet18").items():
        size = tensor.numel() * 2
        header[name] = {
            "dtype": "F16",
            "shape": list(tensor.shape),
            "data_offsets": [place, place + size],
        }
        place += size
    text = json.dumps(header).encode()
    path = tmp_path / "r.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + place)
    assert match_checkpoint(path).workload.name == zoo.load("resnet18").name


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_truncated_files(tmp_path, legacy, share):
    path = save(Block().state_dict(), tmp_path / "w.pth", legacy)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    if legacy and share > 0.5:  # the pickles stand before the weights: only weights are missing
        assert len(state_dict(read_checkpoint(path))) == 7
        return
    with pytest.raises(FileFormatError, match="truncated"):
        read_checkpoint(path)


def test_an_archive_without_a_checkpoint(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(FileFormatError, match=r"no data\.pkl"):
        read_checkpoint(tmp_path / "x.pt")


def test_a_pickle_that_holds_its_weights_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr("gambrel.capture.files.checkpoint_file.MAX_PICKLE_BYTES", 1000)
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps(b"\0" * 5000))
    with pytest.raises(FileFormatError, match="holds its weights inside"):
        read_checkpoint(path)


def test_torchscript_is_run_on_the_user_s_word_only(tmp_path):
    path = tmp_path / "script.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(nn.Sequential(nn.Linear(16, 4))).save(str(path))
        with pytest.raises(CaptureError, match="TorchScript, which cannot be read without running"):
            match_checkpoint(path)
        found = match_checkpoint(path, lambda file: capture_trusted(file, [(2, 16)]))
    assert [op.kind for op in found.workload.ops] == ["matmul"]
    weights = {t.name for t in found.workload.tensors if t.role is Role.WEIGHT}
    assert weights == {"0.weight", "0.bias"}


def test_a_configuration_beside_the_weights_is_pointed_out(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    path = save(Block().state_dict(), tmp_path / "model.pth")
    with pytest.raises(CaptureError, match=r"config\.json beside it describes a model: give that"):
        match_checkpoint(path)


def test_trust_runs_the_file(tmp_path):
    path = save(nn.Sequential(nn.Linear(16, 4)), tmp_path / "m.pt")
    found = match_checkpoint(path, lambda file: capture_trusted(file, [(2, 16)]))
    assert [op.kind for op in found.workload.ops] == ["matmul"]
    assert "as --trust allows" in found.notes[0]
    with pytest.raises(CaptureError, match="--input 1x3x224x224"):
        match_checkpoint(path, capture_trusted)


def test_trust_cannot_invent_a_graph(tmp_path):
    path = save(Block().state_dict(), tmp_path / "w.pt")
    with pytest.raises(CaptureError, match="holds weights and no module"):
        match_checkpoint(path, capture_trusted)


def info(*shape, storage=""):
    return TensorInfo(shape, "float32", storage)


def test_matching_is_by_all_names_and_sizes():
    found = Fingerprint(tensors={"a.weight": info(4, 3), "a.bias": info(4)})
    same = {"a.weight": (3, 4), "a.bias": (4,)}  # seen transposed by the op that uses it
    assert match(found, [("other", lambda: {"b": (4,)}), ("same", lambda: same)]).name == "same"
    assert match(found, [("more", lambda: same | {"c": (1,)})]) is None
    assert match(found, [("fewer", lambda: {"a.bias": (4,)})]) is None


def test_a_tied_weight_may_have_either_name():
    tensors = {"wte": info(9, 4, storage="0"), "head": info(9, 4, storage="0")}
    assert match(Fingerprint(tensors=tensors), [("tied", lambda: {"wte": (9, 4)})]).name == "tied"
    tensors["head"] = info(9, 4, storage="1")
    assert match(Fingerprint(tensors=tensors), [("tied", lambda: {"wte": (9, 4)})]) is None


@pytest.mark.parametrize(
    ("file", "scale", "name"),
    [
        ("yolov8n.yaml", "n", "yolov8n"),
        ("yolov8.yaml", "m", "yolov8m"),
        ("/data/cfg/yolo11.yaml", "x", "yolo11x"),
        ("C:\\cfg\\yolov8-seg.yaml", "n", "yolov8n-seg"),
        ("custom.yaml", "n", "custom"),
        (5, "n", ""),
    ],
)
def test_names_of_definitions(file, scale, name):
    assert Fingerprint(yaml={"yaml_file": file, "scale": scale}).yaml_name == name


def test_a_cycle_of_modules_ends(tmp_path):
    block = Block()
    block._modules["self"] = block
    path = tmp_path / "cycle.pkl"
    path.write_bytes(pickle.dumps({"model": block}))
    root = read_checkpoint(path)["model"]
    assert [m.path for m in walk_modules(root)] == ["", "conv", "norm"]


def test_the_class_is_named(tmp_path):
    assert read_fingerprint(save(Block(), tmp_path / "b.pt")).cls.endswith("Block")
