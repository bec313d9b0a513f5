"""Every page offers the command and the Python that ask for it again."""

import random
import shlex
import sys
from pathlib import Path

import click
import pytest

import gambrel
from gambrel.analysis.commandline import WITHOUT_FUNCTION, command_of
from gambrel.analysis.question import VERBS, ask
from gambrel.cli import run
from gambrel.cli.app import build
from gambrel.cli.invocation import again
from gambrel.errors import GambrelError
from tests.report.pages import Page, page

sys.path.insert(0, str(Path(__file__).parents[2]))

from scripts.sweeps import commands

KNOWN = list(commands.commands())


def read(words):
    """The innermost context of a command line."""
    words, command, context = list(words), build(), None
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context, info_name=words.pop(0))
        command = command.get_command(context, words[0])
    name = words.pop(0)
    return command.make_context(name, words, parent=context)


def said(words):
    """What a command line gives besides the places where its answer goes, and how to repeat it."""
    context = read(words)
    gone = {"as_json", "html", "output", "verbose", "figure"} - set(context.command.fields)
    with context.scope(cleanup=False):
        return {n: v for n, v in context.params.items() if n not in gone}, again()


@pytest.mark.parametrize(("path", "command"), KNOWN, ids=[" ".join(path) for path, _ in KNOWN])
def test_a_copied_command_asks_the_same(path, command):
    """Also with texts that a shell reads: quotes, blanks, escapes."""
    chance, seen = random.Random(0), 0
    for _ in range(400):
        line = commands.command_line(path, command, chance)
        try:
            params, made = said(["gambrel", *line])
        except (click.ClickException, click.exceptions.Exit):
            continue
        seen += 1
        back, same = said(shlex.split(made["shell"]))
        verb = command.verb
        if verb:
            assert question(verb, back, command) == question(verb, params, command), made["shell"]
        own = [n for n in params if n not in command.fields]
        assert [back[n] for n in own] == [params[n] for n in own], made["shell"]
        assert same == made
    assert seen > 3


def question(verb, params, command):
    """What is asked, or the sentence that refuses it."""
    given = {n: list(v) if isinstance(v, tuple) else v for n, v in params.items()}
    given = {n: given[n] for n in command.fields if given[n] not in (False, [])}
    try:
        return ask(verb, given, "cli")
    except GambrelError as error:
        return str(error)


ASKED = [
    "compare resnet18 --hardware l4,t4 --metric latency,power",
    "select resnet18 --precision fp16,int8 --latency 1ms --power 80W",
    "check resnet18 --hardware l4 --latency 10ms",
    "what-if resnet18 --hardware l4 --change fuse --change batch=8",
    "sweep resnet18 --hardware l4 --batch 1,8",
    "train-plan llama-3.1-8b --hardware h100 --seq 4k",
    "kv-cache llama-3.1-8b --hardware h100 --context 8k",
    "serve-split llama-3.1-8b --hardware h100 --ttft 1s --tpot 20ms --input 4k --output 200",
    "judge matmul:m=64,n=64,k=64,bf16 --hardware h100 --time 250us",
]


def test_what_is_printed_is_no_part_of_the_python(tmp_path):
    """The command draws and recommends as it did; a function returns the same either way."""
    plain, drawn = tmp_path / "plain.html", tmp_path / "drawn.html"
    asked = ["analyze", "resnet18", "--hardware", "l4"]
    run([*asked, "--html", str(plain)])
    run([*asked, "--roofline", "--recommend", "--html", str(drawn)])
    first, second = (
        Page(file.read_text(encoding="utf-8")).data["views"][0]["commands"]
        for file in (plain, drawn)
    )
    assert first["python"] == second["python"] != ""
    assert "--roofline" in second["shell"]


@pytest.mark.parametrize("line", ASKED)
def test_a_page_of_a_command_says_it_and_its_python(line, tmp_path, capsys):
    target = tmp_path / "a page.html"
    run([*shlex.split(line), "--html", str(target)])
    made = Page(target.read_text(encoding="utf-8")).data["views"][0]["commands"]
    assert made["shell"] == f"gambrel {line}"
    space = {}
    call = made["python"].replace("\ngambrel.", "\nagain = gambrel.")
    exec(call, space)
    told = page(space["again"]).data["views"][0]["commands"]
    # Of Python the command may write the same words otherwise; the call it gives is the same.
    assert told["python"] == made["python"]


def test_a_command_without_a_question_is_said_as_well(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    gambrel.analyze("resnet18", "l4").save("it's a run.json")
    for line in ('record b.json "it\'s a run.json"', 'check b.json "it\'s a run.json"'):
        words = ["gate", *shlex.split(line)]
        assert run([*words, "--html", "g.html"]) == 0
        made = Page(Path("g.html").read_text(encoding="utf-8")).data["views"][0]["commands"]
        assert shlex.split(made["shell"]) == ["gambrel", *words]
        assert "python" not in made


def test_what_no_text_says_has_no_command():
    device = gambrel.analyze("resnet18", "l4").hardware
    assert page(gambrel.compare("resnet18", [device])).data["views"][0]["commands"] == {}


def test_the_verbs_without_a_function_are_those_that_gambrel_does_not_export():
    named = {verb for verb in VERBS if verb.replace("-", "_") in gambrel.__all__}
    assert named == set(VERBS) - WITHOUT_FUNCTION


def test_a_size_that_has_no_option_of_its_own():
    given = {"model": "sd", "hardware": "h100", "sizes": {"steps": 30}}
    assert command_of("analyze", given).endswith("--hardware h100 --size steps=30")
