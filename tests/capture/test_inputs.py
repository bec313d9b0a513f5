"""Example inputs: as text, made after a description, and for models in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gambrel.capture.inputs import ExampleInput, example_call, given_call, parse_input
from gambrel.errors import CaptureError, InputError

torch = pytest.importorskip("torch")

import gambrel  # noqa: E402
from gambrel.cli import run  # noqa: E402

pytestmark = pytest.mark.torch

_CODE = """
import torch
from torch import nn

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, input_ids, attention_mask=None):
        x = self.table(input_ids)
        if attention_mask is not None:
            x = x * attention_mask[..., None]
        return self.head(x)

def conv():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

def given():
    return nn.Linear(4, 2), torch.zeros(3, 4)
"""


@pytest.fixture
def code(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text(_CODE)
    return str(path)


@pytest.mark.parametrize(
    ("text", "shape", "dtype", "name"),
    [
        ("1x3x224x224", (1, 3, 224, 224), "", ""),
        ("8", (8,), "", ""),
        ("1,128", (1, 128), "", ""),
        ("1x128:int64", (1, 128), "int64", ""),
        ("input_ids:1x128", (1, 128), "", "input_ids"),
        ("input_ids:1x128:int64", (1, 128), "int64", "input_ids"),
        ("t:scalar:float16", (), "fp16", "t"),
        ("mask:2x4:bool", (2, 4), "bool", "mask"),
        ((2, 3), (2, 3), "", ""),
    ],
)
def test_what_can_be_written(text, shape, dtype, name) -> None:
    assert parse_input(text) == ExampleInput(shape=shape, dtype=dtype, name=name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no example input; write .NAME:.SHAPE"),
        ("ids", "no example input"),
        ("1x0x3", "'0' is no size from 1"),
        ("-1x3", "no example input"),
        ("1x99999999999999999999999", "is no size"),
        ("9" * 5000, "is no size"),
        ("a b:1x3", "no name of an argument"),
        ("1x3:int9", "int9"),
        ("a:b:1x3", "no example input"),
        ("x".join(["1"] * 5000), "5000 dimensions"),
        ((1, True), "True is no size"),
        (3, "a int is no example input"),
    ],
)
def test_what_cannot(text, said) -> None:
    with pytest.raises(InputError, match=said) as caught:
        parse_input(text)
    assert len(str(caught.value)) < 500


def test_tensors_after_a_description() -> None:
    model = torch.nn.Linear(2, 2).half()
    args, kwargs = example_call(model, ["1x2", "ids:3:int64", "mask:2:bool", "x:2:bf16"])
    assert [(a.dtype, a.is_meta) for a in args] == [(torch.float16, True)]
    assert {k: v.dtype for k, v in kwargs.items()} == {
        "ids": torch.int64,
        "mask": torch.bool,
        "x": torch.bfloat16,
    }
    real, _ = example_call(model, ["1x2"], device="cpu")
    assert not real[0].is_meta
    with pytest.raises(InputError, match="'a' is given twice"):
        example_call(model, ["a:1", "a:2"])


def test_a_dict_is_keywords_where_the_model_takes_them() -> None:
    class Dict(torch.nn.Module):
        def forward(self, features):
            return features["a"]

    values = {"a": 1}
    assert given_call(Dict(), values, None) == ((values,), {})
    assert given_call(Dict(), {"features": values}, None) == ((), {"features": values})
    assert given_call(Dict(), [1, 2], {"k": 3}) == ((1, 2), {"k": 3})


def test_code_takes_inputs_of_the_call_and_descriptions(code: str) -> None:
    ids = torch.zeros(2, 16, dtype=torch.long)
    # rows 2·16, 8 to 4: 2·32·8·4
    for options in (
        {"inputs": ids},
        {"inputs": {"input_ids": ids}},
        {"kwargs": {"input_ids": ids}},
        {"input_shapes": ["input_ids:2x16:int64"]},
        {"input_shapes": ["2x16:int64"]},
    ):
        analysis = gambrel.analyze(f"{code}:Words", "h100", **options)
        assert [op.count for op in analysis.ops if op.kind == "matmul"] == [1]
        assert analysis.coverage == 1
        assert "32x8" in next(op.shapes for op in analysis.ops if op.kind == "matmul")


def test_inputs_of_the_call_come_before_those_of_the_code(code: str) -> None:
    analysis = gambrel.analyze(f"{code}:given", "h100", inputs=torch.zeros(5, 4))
    assert "5x4" in analysis.ops[0].shapes


def test_code_without_inputs_says_how_to_give_them(code: str) -> None:
    with pytest.raises(CaptureError, match=r"conv: the model needs example inputs.*--input"):
        gambrel.analyze(f"{code}:conv", "h100")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_trusted_file_takes_inputs(code: str, tmp_path: Path) -> None:
    model = torch.jit.script(torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.Linear(8, 4)))
    model.save(str(tmp_path / "words.pt"))
    ids = torch.zeros(2, 16, dtype=torch.long)
    for options in ({"inputs": ids}, {"input_shapes": ["2x16:int64"]}):
        analysis = gambrel.analyze(str(tmp_path / "words.pt"), "h100", trust=True, **options)
        assert analysis.model.parameters == 50 * 8 + 36
    with pytest.raises(CaptureError, match="--input input_ids:1x128:int64"):
        gambrel.analyze(str(tmp_path / "words.pt"), "h100", trust=True)


def test_inputs_that_would_be_ignored_are_refused(tmp_path: Path) -> None:
    image = torch.zeros(8, 3, 224, 224)
    with pytest.raises(InputError, match=r"resnet50 is a built-in model.*--batch"):
        gambrel.analyze("resnet50", "h100", inputs=image)
    program = torch.export.export(torch.nn.Linear(4, 2), (torch.zeros(3, 4),))
    torch.export.save(program, tmp_path / "a.pt2")
    with pytest.raises(InputError, match=r"a.pt2 is a description of a model .pt2."):
        gambrel.analyze(str(tmp_path / "a.pt2"), "h100", inputs=torch.zeros(9, 4))


def test_profile_runs_on_inputs_with_values(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--hardware", "h100", "--steps", "2", "--warmup", "1", "--json"]
    status = run(["profile", f"{code}:conv", "--input", "1x3x16x16", *options])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert json.loads(printed.out)["type"]


def test_profile_says_what_is_missing(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", f"{code}:conv", "--hardware", "h100"]) == 2
    assert "--input 1x3x224x224" in capsys.readouterr().err


def test_shapes_are_enough_for_a_live_module():
    model = torch.nn.Linear(16, 8).half()
    given = gambrel.analyze(model, "a100", torch.empty(4, 16, dtype=torch.half))
    for shape in ((4, 16), "4x16", "input:4x16"):
        found = gambrel.analyze(model, "a100", input_shapes=[shape])
        assert found.total == given.total
    with pytest.raises(InputError, match="is a live module: give example inputs"):
        gambrel.analyze(model, "a100")


def test_another_batch_of_code_is_another_input(tmp_path, capsys):
    path = tmp_path / "own.py"
    path.write_text(_CODE)
    asked = ["analyze", f"{path}:conv", "--input", "1x3x8x8", "--trust", "-d", "t4", "--batch", "8"]
    assert run(asked) != 0
    assert "For another batch give its --input" in capsys.readouterr().err
