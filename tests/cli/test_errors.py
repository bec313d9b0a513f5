"""A user's error: exit code 2, one line on stderr that says what to do, nothing written."""

from __future__ import annotations

import gzip
import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import Gambrel

DEVICE = ("--hardware", "a100-sxm4-80gb")


def refused(gambrel: Gambrel, *words: str) -> str:
    """The one line that a wrong command gets; nothing may be new in the folder."""
    before = sorted(Path().rglob("*"))
    done = gambrel(*words)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("gambrel: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    assert sorted(Path().rglob("*")) == before
    return done.err.removeprefix("gambrel: ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("analyse", "resnet50"), r"No such command 'analyse'.*'analyze'.* Run 'gambrel --help'"),
        (("hardware", "shwo"), r"No such command 'shwo'.*'show'.* Run 'gambrel hardware --help'"),
        (("analyze",), r"Missing argument 'MODEL'. Run 'gambrel analyze --help'."),
        (
            ("analyze", "resnet50", "--presicion", "fp16"),
            r"No such option:? .?--presicion.*--precision.* Run 'gambrel analyze --help'.",
        ),
        (
            ("serve-plan", "llama-3.1-8b", *DEVICE, "--trace", "t.csv"),
            r"'serve-plan' has no option '--trace'; serve-sim has it. Run 'gambrel serve-plan",
        ),
        (
            ("analyze", "resnet50", "--tensor", "2"),
            r"'analyze' has no option '--tensor'; serve-plan, .* and train-plan have it.",
        ),
        (
            ("analyze", "resnet50", "--device", "h100"),
            r"No such option '--device'. Did you mean '--hardware'\?",
        ),
        (
            ("select", "yolov8n", "--fps", "30"),
            r"No such option '--fps'. Did you mean '--throughput'\?",
        ),
        (
            ("analyze", "resnet50", *DEVICE, "--half"),
            r"No such option '--half'. Did you mean '--precision fp16'\?",
        ),
        (
            ("compare", "resnet50", "bert-base", *DEVICE),
            r"Got unexpected extra argument .*\. Several models are one list: resnet50,bert-base\.",
        ),
        (("--verison",), r"No such option:? .?--verison.* Run 'gambrel --help'."),
        (
            ("analyze", "resnet5O", *DEVICE),
            r"unknown model 'resnet5O'; closest: resnet50.* Run 'gambrel models list'.",
        ),
        (
            ("analyze", "resnet50", "--hardware", "a1000"),
            r"unknown device 'a1000'; closest: a100-.* Run 'gambrel hardware list', or give --peak",
        ),
        (
            ("hardware", "show", "h1000"),
            r"unknown device 'h1000'; closest: .*gambrel hardware list",
        ),
        (
            ("analyze", "resnet50", *DEVICE, "--precision", "fp17"),
            r"unknown precision 'fp17'; closest: .*fp16.*",
        ),
        (("hardware", "list", "--precision", "fp17"), r"unknown precision 'fp17'"),
        (("hardware", "list", "--sort", "price"), r"unknown sort key 'price'; closest: name, year"),
        (("hardware", "list", "--min-memory", "big"), r"'big' is not a size; write .*4GiB"),
        (("hardware", "list", "--max-tdp", "5GB"), r"'5GB': unknown unit 'GB' for a power"),
        (("analyze", "resnet50"), r"which device\? Give --hardware NAME .*gambrel hardware list"),
        (
            ("analyze", "resnet50", "--peak", "5T"),
            r"which device\? .*--peak 989T --bandwidth 3.35T",
        ),
        (("analyze", "resnet50", "--bandwidth", "5T"), r"which device\?"),
        (("analyze", "resnet50", *DEVICE, "--peak", "5T"), r"give either --hardware or --peak"),
        (("analyze", "resnet50", *DEVICE, "--bandwidth", ""), r"--bandwidth is empty; write"),
    ],
)
def test_unknown_names(gambrel: Gambrel, words: tuple[str, ...], said: str) -> None:
    assert re.match(said, refused(gambrel, *words))


@pytest.mark.parametrize("command", [(), ("hardware",), ("models",)])
def test_no_command_shows_the_help(gambrel: Gambrel, command: tuple[str, ...]) -> None:
    done = gambrel(*command)
    assert done.code == 2
    assert "Usage: " in done.out
    place = " ".join(("gambrel", *command))
    assert done.err == f"gambrel: no command given. Run '{place} --help'.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--batch", "0"), "--batch: '0' is not a whole number of at least 1."),
        (("--batch", "-3"), "--batch: '-3' is not a whole number of at least 1."),
        (("--batch", "many"), "--batch: 'many' is not a whole number of at least 1."),
        (("--batch", "1.5"), "--batch: '1.5' is not a whole number of at least 1."),
        (("--batch", "1,,2"), "--batch: '' is not a whole number of at least 1."),
        (("--batch", ""), "--batch: '' is not a whole number of at least 1."),
        (
            ("--input", "1x0"),
            "--input: '0' is no size from 1 to 1,000,000,000; write [NAME:]SHAPE[:DTYPE], e.g. "
            "1x3x224x224 or input_ids:1x128:int64.",
        ),
        (("--image", "0"), "--image: '0' is not a whole number of at least 1."),
        (
            ("--size", "foo=3"),
            "resnet50 has no size 'foo'; it has batch, image; it takes batch x 3 x image x image.",
        ),
        (("--size", "foo"), "--size 'foo': write NAME=NUMBER, e.g. --size seq=2048."),
        (("--phase", "decode"), "resnet50 has no phase 'decode'; it has one forward pass."),
        (("--phase", "foo"), "unknown --phase 'foo'; closest: prefill, decode."),
        (("--causal", "foo"), "unknown --causal 'foo'; closest: half, full."),
        (("--batch", "٣"), "--batch: '٣' is not a whole number of at least 1."),
        (("--batch", "10^26"), "--batch: '10^26' is not a whole number of at least 1."),
        (
            ("--image", "1000000000000"),
            "--image: '1000000000000' is not a whole number of at most 1,000,000,000.",
        ),
        (
            ("--size", "batch=1", "--batch", "2"),
            "batch is given twice: 1 among the sizes, 2 on its own; give it once.",
        ),
    ],
)
def test_wrong_values(gambrel: Gambrel, words: tuple[str, ...], said: str) -> None:
    assert refused(gambrel, "analyze", "resnet50", *DEVICE, *words) == said


def test_a_side_that_the_stored_network_does_not_have(gambrel: Gambrel) -> None:
    """No library at hand has the code of YOLOv8."""
    said = "image=225: this model takes multiples of 32; nearest: 224, 256."
    assert refused(gambrel, "analyze", "yolov8n", *DEVICE, "--image", "225") == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "foo"), r"a100-sxm4-80gb has no engine 'foo'; it has (matrix|vector)"),
        (
            ("--runtime", "foo"),
            r"unknown runtime 'foo'. Run 'gambrel runtimes list', or leave it out",
        ),
        (("--runtime", "hailort"), r"Hailo.* does not run on a100-sxm4-80gb; choose from "),
        (("--top", "-1"), r"--top: '-1' is not a whole number of at least 0."),
        (("--image", "abc"), r"--image: 'abc' is not a whole number of at least 1."),
    ],
)
def test_wrong_choices(gambrel: Gambrel, words: tuple[str, ...], said: str) -> None:
    assert re.match(said, refused(gambrel, "analyze", "resnet50", *DEVICE, *words))


@pytest.mark.parametrize(
    ("peak", "bandwidth", "said"),
    [
        ("-5T", "1T", "--peak: '-5T' is not a positive, finite rate."),
        ("0", "1T", "--peak: '0' is not a positive, finite rate."),
        ("nan", "1T", "--peak: 'nan' is not a rate; write for example 989T or 989TFLOP/s."),
        ("inf", "1T", "--peak: 'inf' is not a rate; write for example 989T or 989TFLOP/s."),
        ("1e999", "1T", "--peak: '1e999' is not a positive, finite rate."),
        ("", "1T", "--peak is empty; write for example 989T."),
        ("5TB/s", "1T", "--peak: '5TB/s': unknown unit 'TB/s' for a rate; "),
        (
            *("312", "2T"),
            "--peak 312 is 312 FLOP/s, slower than any device; write the unit: 312T or 312 T",
        ),
        (
            "312T",
            "2",
            "--bandwidth 2 is 2 byte/s, slower than any device; write the unit: 2T or 2 TB/s.",
        ),
        ("5T", "3 parsecs", "--bandwidth: '3 parsecs': unknown unit 'parsecs' for a bandwidth; "),
    ],
)
def test_wrong_peaks(gambrel: Gambrel, peak: str, bandwidth: str, said: str) -> None:
    words = ("analyze", "resnet50", f"--peak={peak}", f"--bandwidth={bandwidth}")
    assert refused(gambrel, *words).startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "a.docx"), r"unknown file suffix '.docx'. a.docx: write one of .txt, .json,"),
        (("-o", "report"), r"unknown file suffix ''. report: write one of"),
        (("-o", "absent/a.html"), r"cannot write absent/a.html: there is no folder absent."),
        (("--html", "absent/a.html"), r"cannot write absent/a.html: there is no folder absent."),
        (("-o", "dir.json"), r"cannot write dir.json: it is a folder."),
        (("--html", "dir.json"), r"--html dir.json: name a .html file"),
        (("--html", "a.svg"), r"--html a.svg: name a .html file; --output a.svg is svg."),
        (("-o", "good.json", "-o", "absent/b.json"), r"cannot write absent/b.json"),
    ],
)
def test_outputs_are_refused_before_any_work(
    gambrel: Gambrel, words: tuple[str, ...], said: str
) -> None:
    Path("dir.json").mkdir()
    # The model does not exist, which only the analysis would find out.
    assert re.match(said, refused(gambrel, "analyze", "no-such-model", *DEVICE, *words))


class _Evil:
    """A pickle that runs a command when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch EXECUTED",)


def _pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(_Evil(), protocol=2))


def _archive(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def _pickle_in_zip(path: Path) -> None:
    evil = pickle.dumps({"model": _Evil()}, protocol=2)
    _archive(path, {"evil/data.pkl": evil, "evil/version": b"3\n"})


def _truncated(path: Path) -> None:
    _pickle_in_zip(path)
    path.write_bytes(path.read_bytes()[:-40])


def _bomb(path: Path) -> None:
    _archive(path, {"bomb/data.pkl": b"\x80\x02" + bytes(64 * 2**20), "bomb/version": b"3\n"})


def _bomb_pt2(path: Path) -> None:
    members = {"bomb/models/model.json": bytes(64 * 2**20), "bomb/archive_format": b"pt2"}
    _archive(path, members)


def _traversal(path: Path) -> None:
    evil = pickle.dumps({}, protocol=2)
    _archive(path, {"../../escaped/data.pkl": evil, "../../escaped/version": b"3\n"})


def _text(text: str):
    def write(path: Path) -> None:
        path.write_text(text)

    return write


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("absent.pt", None, r"no such file: absent.pt. .*gambrel models list"),
        ("absent/config.json", None, r"no such file: absent/config.json."),
        ("empty.pt", _text(""), r"empty.pt is empty; was the download or export interrupted\?"),
        ("noise.pt", _text("hello"), r"noise.pt is text, not a model; give a .pt2 export"),
        ("evil.pt", _pickle, r"evil.pt: .*--trust if you trust the file"),
        ("evil.pth", _pickle_in_zip, r"evil.pth: .*--trust if you trust the file"),
        ("short.pt", _truncated, r"short.pt is a damaged or truncated archive"),
        ("bomb.pt", _bomb, r"bomb.pt: member 'bomb/data.pkl' expands .* a zip bomb; refused."),
        ("bomb.pt2", _bomb_pt2, r"bomb.pt2: member .* expands .* a zip bomb; refused."),
        ("out.pt", _traversal, r"out.pt: a checkpoint with no weights"),
        ("half.json", _text('{"model_type": "llama"'), r"half.json is damaged or truncated JSON"),
        ("other.json", _text("{}"), r"other.json is JSON of an unknown kind"),
        ("net.py", _text("x = 1"), r"net.py: name the function or class .* e.g. net.py:build."),
        ("folder", Path.mkdir, r"folder is a directory; give a file in it."),
    ],
)
def test_files_as_models(gambrel: Gambrel, name: str, make, said: str) -> None:
    if make is not None:
        make(Path(name))
    assert re.match(said, refused(gambrel, "analyze", name, *DEVICE))
    assert not Path("EXECUTED").exists()


def test_the_evil_pickle_is_evil() -> None:
    _pickle(Path("evil.pt"))
    pickle.loads(Path("evil.pt").read_bytes())
    assert Path("EXECUTED").exists()


def test_truncated_workload(gambrel: Gambrel) -> None:
    whole = gzip.compress(b'{"format":"gambrel-workload","version":1}' + b" " * 2000)
    Path("w.json.gz").write_bytes(whole[:-12])
    assert "w.json.gz" in refused(gambrel, "analyze", "w.json.gz", *DEVICE)


def test_a_directory_stands_for_the_config_in_it(gambrel: Gambrel) -> None:
    Path("model").mkdir()
    assert refused(gambrel, "analyze", "model", *DEVICE).startswith("model is a directory; give a")
    Path("model/config.json").write_text("{}")
    said = refused(gambrel, "analyze", "model", *DEVICE)
    assert said.startswith("model/config.json is JSON of an unknown kind")


@pytest.mark.torch
def test_torchscript_needs_trust(gambrel: Gambrel) -> None:
    torch = pytest.importorskip("torch")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(torch.nn.Linear(3, 4), torch.ones(1, 3)), "m.pt")
    said = refused(gambrel, "analyze", "m.pt", *DEVICE)
    assert said.startswith("m.pt: TorchScript, which cannot be read without running it.")
    assert "--trust" in said


@pytest.mark.torch
@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("net.py:nope", "net.py:nope: no 'nope' there; it defines build, fail."),
        ("net.py:build", "net.py:build returned an int, not a torch.nn.Module; return the model"),
        ("net.py:fail", "net.py:fail failed: ZeroDivisionError: division by zero"),
        ("absent.py:build", "no such file: absent.py. Check the path before the colon."),
        ("no_such_package:Net", "no module 'no_such_package'; give the path of a file"),
    ],
)
def test_code_as_model(gambrel: Gambrel, target: str, said: str) -> None:
    Path("net.py").write_text("def build():\n    return 1\n\ndef fail():\n    1 / 0\n")
    assert refused(gambrel, "analyze", target, *DEVICE).startswith(said)


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("absent.toml", None, "cannot read absent.toml: No such file or directory."),
        ("bad.toml", _text("{"), "bad.toml: not a TOML file: "),
        ("empty.toml", _text(""), "empty.toml: "),
        ("folder.toml", Path.mkdir, "folder.toml is a folder; name the files in it."),
    ],
)
def test_files_as_devices(gambrel: Gambrel, name: str, make, said: str) -> None:
    if make is not None:
        make(Path(name))
    assert refused(gambrel, "hardware", "show", name).startswith(said)
    assert refused(gambrel, "analyze", "resnet50", "--hardware", name).startswith(said)


def test_names_cannot_colour_the_message(gambrel: Gambrel) -> None:
    said = refused(gambrel, "analyze", "\x1b[31mx\n.pt", *DEVICE)
    assert "\x1b" not in said
    assert said.startswith("no such file: \\x1b[31mx .pt.")


def test_a_defect_is_one_line_and_never_a_verdict(
    gambrel: Gambrel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("fp8_block,block=128")

    monkeypatch.setattr("gambrel.api.advise.check.answer", broken)
    words = ("check", "resnet50", *DEVICE, "--latency", "1ms")
    done = gambrel(*words)
    assert (done.code, done.out, done.err.count("\n")) == (70, "", 1)
    assert "KeyError: 'fp8_block,block=128' Set GAMBREL_TRACEBACK=1" in done.err
    monkeypatch.setenv("GAMBREL_TRACEBACK", "1")
    with pytest.raises(KeyError):
        gambrel(*words)


def test_a_closed_output_is_no_defect() -> None:
    code = (
        "import sys; sys.stdout = None; from gambrel.cli import run; sys.exit(run(['--version']))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
