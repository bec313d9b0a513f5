"""What can be asked: every field is read alike in every face, and every face has it."""

from __future__ import annotations

import dataclasses
import inspect

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gambrel
from gambrel.analysis import fields as f
from gambrel.analysis.commandline import command_of
from gambrel.analysis.question import FIELDS, VERBS, Question, ask, fields_of
from gambrel.analysis.question.model_sets import MODEL_SETS
from gambrel.capture.zoo import list_models
from gambrel.cli.app import build
from gambrel.errors import InputError, UnknownNameError
from gambrel.mcp import tools
from gambrel.workload.inputs import ExampleInput

#: Verb → words of its command; those that only agents or Python ask have none.
COMMANDS = {
    **{verb: (verb,) for verb in VERBS},
    "devices": ("hardware", "list"),
    "device": ("hardware", "show"),
    "models": ("models", "list"),
    "runtimes": ("runtimes", "list"),
    "runtime": ("runtimes", "show"),
}
#: Asked through another command: analyze --recommend, ask, judge --limits, judge --gap,
#: train-plan --search.
NO_COMMAND = {"recommend", "explain", "limits", "explain-gap", "train-search"}
FUNCTIONS = {
    "analyze": gambrel.analyze,
    "check": gambrel.check,
    "compare": gambrel.compare,
    "select": gambrel.select,
    "what-if": gambrel.what_if,
    "sweep": gambrel.sweep,
    "design": gambrel.design,
    "serve-plan": gambrel.serve_plan,
    "serve-sim": gambrel.serve_sim,
    "serve-split": gambrel.serve_split,
    "train-plan": gambrel.train_plan,
    "train-search": gambrel.train_search,
    "kv-cache": gambrel.kv_cache,
}
TOOLS = {tool.verb: tool for tool in tools.TOOLS.values()}


def command(words: tuple[str, ...]) -> click.Command:
    found: click.Command = build()
    for word in words:
        found = found.get_command(click.Context(found), word)
    return found


def on_the_command_line(verb: str) -> set[str]:
    return {p.name for p in command(COMMANDS[verb]).params}


@pytest.mark.parametrize("verb", sorted(set(VERBS) - NO_COMMAND))
def test_every_field_is_an_option_of_its_command(verb):
    wanted = {field.name for field in fields_of(verb, "cli")}
    assert wanted <= on_the_command_line(verb)
    # -o names a file; the catalog sorts and shows formats in its own way
    others = set(FIELDS) - wanted - {"output", "precision", "sort"}
    assert not others & on_the_command_line(verb)


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_every_field_is_a_keyword_of_its_function(verb):
    found = inspect.signature(FUNCTIONS[verb]).parameters
    assert set(found) == {field.name for field in fields_of(verb, "python")}
    for name in found:
        assert f"    {name}: " in FUNCTIONS[verb].__doc__


@pytest.mark.parametrize("verb", TOOLS)
def test_every_field_is_an_argument_of_its_tool(verb):
    schema = TOOLS[verb].input_schema["properties"]
    assert set(schema) == {field.name for field in fields_of(verb, "mcp")}
    for name, one in schema.items():
        assert one["description"]
        assert one.get("unit") or not FIELDS[name].kind.unit


def test_no_field_is_known_to_one_face_only_without_a_reason():
    faces = {"cli": set(VERBS) - NO_COMMAND, "python": set(FUNCTIONS), "mcp": set(TOOLS)}
    for field in FIELDS.values():
        for face, verbs in faces.items():
            reachable = any(field.on(face, verb) for verb in verbs)
            asked_there = bool(field.verbs & verbs)
            assert reachable or not asked_there or field.absent[face]


def test_what_changes_a_figure_exists_wherever_a_model_runs():
    runs = ("analyze", "compare", "check", "select", "what-if", "sweep", "recommend")
    names = {"runtime", "precision", "causal", "peak", "bandwidth", "sparsity", "engine", "phase"}
    names |= {"seq", "context", "image", "sizes", "batch_size", "train", "trust", "input_shapes"}
    for verb in runs:
        assert names <= {field.name for field in FIELDS.values() if verb in field.verbs}, verb
    for verb in ("serve-plan", "train-plan"):
        on = {field.name for field in FIELDS.values() if verb in field.verbs}
        assert {"runtime", "precision", "peak", "bandwidth"} <= on


def test_flags_are_unique_in_every_command():
    for verb in set(VERBS) - NO_COMMAND:
        flags = [flag for p in command(COMMANDS[verb]).params for flag in p.opts]
        assert len(flags) == len(set(flags)), verb


def test_every_field_has_help_a_group_and_a_verb():
    for field in FIELDS.values():
        assert field.help.endswith((".", "...")), field.name
        assert field.group
        assert field.verbs <= set(VERBS)
        assert field.several | field.required <= field.verbs


ODD = (5, 1.5, True, b"x", [], {}, object(), float("nan"), "", "x", None, -1, 10**30, "٣", [None])


@pytest.mark.parametrize("verb", FUNCTIONS)
@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_wrong_types_are_input_errors(verb, value):
    """Neither AttributeError nor TypeError, whatever is given for whatever keyword."""
    base = {"model": "resnet50", "hardware": "a100", "seq": 8, "input": 8, "output": 8}
    base["change"] = "fuse"
    known = {field.name for field in fields_of(verb, "python")}
    for name in known:
        asked = {k: v for k, v in base.items() if k in known} | {name: value}
        said = ""
        try:
            ask(verb, asked).size_values()
        except InputError as error:
            said = str(error)
        assert len(said) < 1000


def test_an_unknown_keyword_is_refused_with_the_closest():
    with pytest.raises(
        UnknownNameError, match=r"unknown argument .batch_sise.; closest: batch_size"
    ):
        gambrel.analyze("resnet50", "a100", batch_sise=1)
    with pytest.raises(InputError, match=r"name the rest"):
        gambrel.analyze("resnet50", "a100", None, 8)
    with pytest.raises(InputError, match="model is given twice"):
        gambrel.analyze("resnet50", "a100", model="resnet18")


def test_a_sweep_takes_several_of_everything():
    found = gambrel.sweep(
        "resnet18", "a100,h100", precision="fp16,int8", batch_size="1:3", runtime="pytorch,tensorrt"
    )
    assert len(found) == 2 * 2 * 3 * 2
    assert set(found.runtime) == {"pytorch", "tensorrt"}


def test_several_batches_are_no_single_analysis():
    with pytest.raises(InputError, match=r"gambrel.sweep takes several"):
        gambrel.analyze("resnet50", "a100", batch_size=[1, 8])


@pytest.mark.parametrize(
    ("verb", "name", "text", "value"),
    [
        ("analyze", "batch_size", "1,8,64", (1, 8, 64)),
        ("sweep", "batch_size", "1:4", (1, 2, 3, 4)),
        ("sweep", "batch_size", "1:10:4", (1, 5, 9)),
        ("check", "batch_size", "8", 8),
        ("analyze", "seq", "8k", 8192),
        ("analyze", "precision", "w4a16,kv=fp8", "w4a16,kv=fp8"),
        ("compare", "precision", "fp16,int8", ("fp16", "int8")),
        ("serve-plan", "precision", "w4a16,kv=fp8,fp8", ("w4a16,kv=fp8", "fp8")),
        ("what-if", "change", "precision=w4a16,kv=fp8", ("precision=w4a16,kv=fp8",)),
        ("check", "latency", "10ms", 0.01),
        ("check", "throughput", "30", 30.0),
        ("analyze", "sizes", ["steps=30"], {"steps": 30}),
        (
            "sweep",
            "sizes",
            ["steps=10:50:20", "image=64:256:x2"],
            {"steps": (10, 30, 50), "image": (64, 128, 256)},
        ),
        ("select", "prices", ["l4=2500", "t4=900"], {"l4": 2500.0, "t4": 900.0}),
        ("serve-plan", "prices", "3.5/h", {"": 3.5}),
        (
            "analyze",
            "input_shapes",
            "1x3x224x224",
            (ExampleInput(shape=(1, 3, 224, 224)),),
        ),
        (
            "analyze",
            "input_shapes",
            ["input_ids:1x128:int64"],
            (ExampleInput(shape=(1, 128), dtype="int64", name="input_ids"),),
        ),
        ("compare", "model", "resnet50,vit-b-16", ("resnet50", "vit-b-16")),
    ],
)
def test_texts_are_read(verb, name, text, value):
    assert FIELDS[name].read(text, verb) == value


@given(st.integers(1, 10**9))
def test_whole_numbers_survive_as_text(value):
    assert FIELDS["batch_size"].read(str(value), "check") == value
    assert FIELDS["batch_size"].read(value, "check") == value


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_in_one_sentence(text):
    for name, verb in (("batch_size", "sweep"), ("seq", "analyze"), ("latency", "check")):
        said = ""
        try:
            FIELDS[name].read(text, verb)
        except InputError as error:
            said = str(error)
        assert len(said) < 700


def test_a_size_is_given_once():
    question = ask("check", {"model": "m", "sizes": {"batch": 1}, "batch_size": 2})
    with pytest.raises(InputError, match="batch is given twice"):
        question.size_values()
    with pytest.raises(InputError, match="seq is given twice"):
        ask("check", {"sizes": ["seq=1", "seq=2"]})


def test_the_command_of_a_question():
    given = {"model": "resnet50", "hardware": ["l4", "t4"], "batch_size": [1, 8], "sparsity": True}
    words = "gambrel compare resnet50 --hardware l4,t4 --batch 1,8 --sparse"
    assert command_of("compare", given) == words
    limits = {"model": "m", "hardware": "l4", "latency": 0.01, "sizes": {"seq": 8}}
    assert (
        command_of("check", limits) == "gambrel check m --hardware l4 --size seq=8 --latency 10ms"
    )
    assert command_of("device", {"hardware": "h100"}) == "gambrel hardware show h100"
    change = {"model": "m", "hardware": "l4", "change": ["fuse", "batch=8"]}
    assert command_of("what-if", change).endswith("--change fuse --change batch=8")


def test_a_question_is_frozen():
    with pytest.raises(AttributeError):
        Question(verb="check").batch_size = 1  # type: ignore[misc]


def test_kinds_say_their_unit():
    assert f.whole("items").unit == "items"
    assert f.TIME.unit == "s"


def test_no_two_groups_declare_a_field_of_the_same_name():
    """The later one would silently replace the other in the question."""
    groups = [base for base in Question.__mro__[1:] if dataclasses.is_dataclass(base)]
    names = [name for group in groups for name in vars(group).get("__annotations__", {})]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("matmul:m=64,n=64,k=64,int8", ("matmul:m=64,n=64,k=64,int8",)),
        ("attention:heads=8,q=64,d=64,causal,bf16,resnet50",
         ("attention:heads=8,q=64,d=64,causal,bf16", "resnet50")),
        ("resnet50,lstm", ("resnet50", "lstm")),
    ],
)  # fmt: skip
def test_the_format_of_an_op_is_no_model_of_a_list(text, models):
    assert ask("compare", {"model": text, "hardware": "a100"}).several("model") == models


def test_a_set_of_models_is_its_members():
    models = ask("sweep", {"model": "resnet50,zoo-set,unet", "hardware": "a100"}).model
    assert len(models) == len(set(models)) == 20
    assert models[0] == "resnet50"
    family = ask("design", {"model": "family=Recurrent", "device_file": "edge-npu"}).model
    mamba = ("mamba-130m", "mamba-2.8b", "mamba2-130m", "mamba2-2.7b")
    assert family == ("lstm", *mamba, "rwkv7-0.4b", "rwkv7-1.5b", "rwkv7-2.9b")
    with pytest.raises(InputError, match="zoo-set is a set of models, and analyze takes one"):
        ask("analyze", {"model": "zoo-set", "hardware": "a100"})
    with pytest.raises(UnknownNameError, match="unknown family of models 'languages'"):
        ask("sweep", {"model": "family=languages", "hardware": "a100"})


def test_every_member_of_a_set_is_a_model():
    known = {model.name for model in list_models()}
    assert all(set(names) <= known for names in MODEL_SETS.values())
