"""The pages run as they are printed, name only options that exist, and keep the house's words."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import gambrel
from gambrel.cli import run
from gambrel.cli.app import build

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
}
#: What a user has at hand where a command names ``config.json``.
CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
MODEL = """
import torch

def build():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64))
"""
LIMITS = 'model = "yolov8n"\nhardware = "jetson-orin-nano"\n[limits]\nlatency = "33ms"\n'

#: Commands and snippets that tests cannot run as printed, by a fragment of their text.
SKIPPED = {
    "gambrel peaks": "measures the machine; tests/measure",
    "gambrel profile": "measures the machine; tests/measure",
    "gambrel calibrate": "needs or makes measurements; tests/measure",
    "--hardware this": "measures the machine; tests/measure",
    "lab.toml": "a file that 'gambrel peaks --save' writes",
    "gambrel chat": "reads from a prompt; tests/chat",
    "gambrel mcp": "serves until it is stopped; tests/mcp",
    "gambrel explore": "serves until it is stopped; tests/explorer",
    "--llm": "needs an endpoint and a key; tests/chat",
    "gambrel gate": "reads and writes files of users; tests/advise/gate",
    "gambrel diagnose": "reads traces; tests/traces",
    "gambrel import": "reads files of profilers; tests/traces",
    ".gguf": "reads a file of many gigabytes; tests/llm",
    "my-diffusers-folder": "a folder that users bring; tests/capture",
    "measure_peaks(": "measures the machine; tests/measure",
    "RooflineAnalyzer(": "measures the machine; tests/measure",
    'read("kernels.csv")': "reads files of profilers; tests/traces",
}
#: Commands whose exit code is a verdict.
VERDICTS = ("check", "serve-plan", "serve-sim", "train-plan", "kv-cache")


def skipped(text):
    return next((fragment for fragment in SKIPPED if fragment in text), None)


def blocks(page, *languages):
    for language, text in re.findall(
        r"^```(\w*)\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL
    ):
        if language in languages:
            yield text


def commands(page):
    """What a page tells to type: lines after a ``$`` where a block has any, else all lines."""
    for block in blocks(page, "bash", "console"):
        lines = block.replace("\\\n", " ").splitlines()
        typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
        for part in (part.strip() for line in typed for part in line.split("&&")):
            if "gambrel " in part and not part.startswith("pip "):
                yield part


def printed():
    """One parameter for each command of each page."""
    for page in PAGES:
        for command in commands(page):
            marks = [pytest.mark.torch] if "my_model.py" in command else []
            if fragment := skipped(command):
                marks.append(pytest.mark.skip(reason=SKIPPED[fragment]))
            yield pytest.param(command, marks=marks, id=f"{Path(page).stem}: {command}")


FUNCTION = """
import jax


def step(w, x):
    return jax.nn.softmax(x @ w.astype(x.dtype))
"""


def subcommands(group=None, path=()):
    """Every command of the command line, as ``(("hardware", "show"), command)``."""
    group = group or build()
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from subcommands(command, (*path, name))


def write_onnx(path):
    """A model over ten features of each frame, of open length."""
    from tests.capture.onnx.models import array, node, save, value

    inputs, stored = [value("x", ["N", "frames", 10])], [array("w", 10, 4)]
    save(path, [node("MatMul", "x w", "y")], inputs, [value("y", None)], stored)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that the pages name."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (folder / "my_model.py").write_text(MODEL, encoding="utf-8")
    (folder / "net.py").write_text(FUNCTION, encoding="utf-8")
    write_onnx(folder / "model.onnx")
    (folder / "limits.toml").write_text(LIMITS, encoding="utf-8")
    for name, batch in (("before", 1), ("after", 8), ("batch1", 1), ("batch8", 8)):
        gambrel.analyze("resnet18", "a100", batch_size=batch).save(folder / f"{name}.json")
    return folder


@pytest.fixture
def desk(files, tmp_path, monkeypatch):
    """A working folder with those files."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", list(printed()))
def test_commands_run(command, desk, capsys):
    words = shlex.split(command, comments=True)[1:]
    assert run(words) in ({0, 1, 3} if words[0] in VERDICTS else {0})
    assert capsys.readouterr().out


@pytest.mark.torch
@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page, "python"))])
def test_python_runs_in_order(page, desk):
    scope = {}
    for block in blocks(page, "python"):
        if not skipped(block):
            exec(compile(block, page, "exec"), scope)


@pytest.mark.parametrize(
    ("page", "start", "command"),
    [
        ("README.md", "resnet50, batch 1", "analyze resnet50 --hardware a100"),
        ("docs/estimates.md", "Expected:", "analyze bert-base --hardware h100"),
        ("docs/tutorial/first-report.md", "resnet50, batch 1", "analyze resnet50 --hardware a100"),
    ],
)
def test_printed_answers_are_those_of_the_command(page, start, command, capsys, request):
    assert run(command.split()) == 0
    printed_now = capsys.readouterr().out
    shown = next(text for text in blocks(page, "text", "console") if start in text)
    shown = shown[shown.index(start) :]
    now = "".join(printed_now[printed_now.index(start) :].splitlines(True)[: shown.count("\n")])
    if request.config.getoption("--update-golden"):
        (ROOT / page).write_text(PAGES[page].replace(shown, now), encoding="utf-8")
    else:
        assert shown == now


def test_what_is_skipped_exists():
    texts = [text for page in PAGES for text in (*commands(page), *blocks(page, "python"))]
    assert {f for f in SKIPPED if not any(f in text for text in texts)} == set()


def test_the_site_builds_without_a_broken_link():
    pytest.importorskip("zensical")
    pytest.importorskip("mkdocstrings")
    script = ROOT / "scripts" / "build_docs.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (ROOT / "build" / "docs" / "reference" / "commands" / "index.html").is_file()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", PAGES[page]):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), target


# Options and commands named within a sentence.

#: Options of pytest and of profilers that the pages name.
OTHERS = {
    "--all-differential",
    "--all-published",
    "--cache-control",
    "--enforce-eager",
    "--gambrel",
    "--help",
    "--hypothesis-profile",
    "--metrics",
    "--per-socket",
    "--update-golden",
}


@pytest.mark.parametrize("page", PAGES)
def test_options_exist(page):
    known = {o for _, c in subcommands() for p in c.params for o in (*p.opts, *p.secondary_opts)}
    spans = re.findall(r"`((?:gambrel |--)[^`]*)`", PAGES[page])
    named = {option for span in spans for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)}
    assert named - known - OTHERS == set()


@pytest.mark.parametrize("page", PAGES)
def test_named_commands_exist(page):
    known = {path[0] for path, _ in subcommands()}
    named = set(re.findall(r"`gambrel ([a-z][\w-]*)", PAGES[page]))
    assert named - known == set()


# The house's words.

#: What is not written, and what is.
WORDS = {
    r"--(stack|framework)\b": "--runtime",
    r"(?<!call )\bstacks?\b(?! trace)": "runtime",
    r"\b\w*bound_(time|step)_s\b": "sol_time_s or roofline_time_s",
    r"\bbound time\b": "roofline time, speed of light",
    r"overhead-bound|launch-bound": "limited by kernel launches, limited by the host",
    r"\bideally fused\b": "speed of light",
    r"start(ing|s)? (of )?(the |a )?kernels?\b": "kernel-launch overhead",
    r"\bfor 1 (J|W|item|token)\b": "per",
    r"bound lets every op": "Roofline assumes that every op reads and writes DRAM.",
    r"\b(matrix|forward|fp\d+|bf16|int8) products?\b": "GEMMs, matmuls",
    r"\bproducts (in|with|of a few)\b": "GEMMs, matmuls",
    r"keeps? the promise|(a|the) promise\b": "meets the target",
    r"will it do\b": "does it meet the target?",
    r"\band leave\b": "and exit",
    r"of importance|by importance": "matters when",
    r"\breckon|\bmended\b|\bin vain\b": "derived, fixed, no gain",
    r"is not told": "is not published",
    r"prompts of others": "chunked prefill interleaved with decode",
    r"(/s|\d [µnm]s|tokens?|items|bytes|bits|points|FLOP|instructions|requests|samples|images|"
    r"sectors|rows|files|launches|cycles) an? (second|device|kernel|token|element|item|op|step|"
    r"user|unit|clock|cycle|request|prompt|row|point|call|day|task)\b": "per",
    r"\bone (formula|point|module|row) an? (op|kind|device|format)\b": "per",
    r"\bschema_version`? ?\(?1\b": "2",
}
#: Only the speed of light is a limit of every run.
LIMIT = re.compile(
    r"no run (is|can be|will be) faster|at most [\d,]+ (samples|images|tokens)/s", re.I
)


def unlike_house(text):
    """What of a text is not the house's words, each with what to write."""
    for pattern, instead in WORDS.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield f"{match.group()!r}: {instead}"
    for paragraph in re.split(r"\n\s*\n", text):
        if LIMIT.search(paragraph) and "speed of light" not in paragraph.lower():
            yield f"a limit that is not the speed of light: {paragraph[:80]!r}"


@pytest.mark.parametrize("page", PAGES)
def test_pages_keep_the_words(page):
    assert list(unlike_house(PAGES[page])) == []


#: "Stack" is also the field's word: of calls, of software, of pipeline stages.
SENTENCES = {pattern: words for pattern, words in WORDS.items() if "stack" not in pattern}


def sentences(package):
    """The strings and docstrings of a package, each with its line."""
    for path in sorted((Path(gambrel.__file__).parent / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield f"{path.name}:{node.lineno}", node.value


@pytest.mark.parametrize(
    "package",
    sorted(p.name for p in Path(gambrel.__file__).parent.iterdir() if (p / "__init__.py").exists()),
)
def test_sentences_of_the_source_keep_the_words(package):
    assert [
        f"{line} {match.group()!r}: {words}"
        for line, text in sentences(package)
        for pattern, words in SENTENCES.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ] == []


@pytest.mark.parametrize("path", [path for path, _ in subcommands()], ids=" ".join)
def test_help_keeps_the_words(path, capsys):
    assert run([*path, "--help"]) == 0
    assert list(unlike_house(capsys.readouterr().out)) == []


@pytest.mark.parametrize(
    "text",
    [
        "Use --stack compiled.",
        "No run is faster than the bound.",
        "starting kernels takes 495 µs",
        "100 tokens/s a device",
        "The run is overhead-bound.",
    ],
)
def test_old_words_are_seen(text):
    assert list(unlike_house(text))


def test_a_limit_by_the_speed_of_light_is_one():
    assert not list(unlike_house("No run is faster than the speed of light."))
