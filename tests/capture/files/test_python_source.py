from __future__ import annotations

import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

from gambrel.capture.files.python_source import load_target  # noqa: E402
from gambrel.errors import CaptureError, FileFormatError, InputError  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def code(tmp_path):
    def write(text: str, name: str = "net.py") -> str:
        path = tmp_path / name
        path.write_text("import torch\nfrom torch import nn\n" + textwrap.dedent(text))
        return str(path)

    return write


def test_model_alone_takes_shapes_from_the_command_line(code):
    path = code("def build(): return nn.Linear(4, 2).half()")
    found = load_target(f"{path}:build", [(3, 4)])
    assert isinstance(found.model, torch.nn.Linear)
    assert [tuple(t.shape) for t in found.args] == [(3, 4)]
    assert found.args[0].dtype is torch.float16


@pytest.mark.parametrize(
    ("returned", "args", "kwargs"),
    [
        ("nn.Linear(4, 2), torch.zeros(3, 4)", 1, []),
        ("nn.Linear(4, 2), (torch.zeros(3, 4),)", 1, []),
        ("nn.Linear(4, 2), {'input': torch.zeros(3, 4)}", 0, ["input"]),
        ("nn.Linear(4, 2), (torch.zeros(3, 4),), {'k': 1}", 1, ["k"]),
    ],
)
def test_what_a_function_may_return(code, returned, args, kwargs):
    found = load_target(f"{code(f'def build(): return {returned}')}:build")
    assert len(found.args) == args
    assert list(found.kwargs) == kwargs


def test_a_class_or_a_module_object(code):
    path = code(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 2)
        made = Net()
        """
    )
    assert type(load_target(f"{path}:Net", [(1, 4)]).model).__name__ == "Net"
    assert type(load_target(f"{path}:made", [(1, 4)]).model).__name__ == "Net"


def test_a_package_s_class():
    found = load_target("torch.nn:Identity", [(1, 4)])
    assert isinstance(found.model, torch.nn.Identity)


def test_neighbours_are_importable_and_nothing_is_left(code, tmp_path):
    code("width = 4", "neighbour_of_net.py")
    path = code("import neighbour_of_net\ndef build(): return nn.Linear(neighbour_of_net.width, 2)")
    before, flag = list(sys.path), sys.dont_write_bytecode
    load_target(f"{path}:build", [(1, 4)])
    assert sys.path == before
    assert sys.dont_write_bytecode is flag
    assert sorted(p.name for p in tmp_path.iterdir()) == ["neighbour_of_net.py", "net.py"]


def test_what_the_code_prints_does_not_reach_stdout(code, capsys):
    path = code("print('on import')\ndef build():\n    print('in build')\n    return nn.ReLU()")
    load_target(f"{path}:build", [(1, 4)])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "on import\nin build\n"


@pytest.mark.parametrize(
    ("text", "name", "error", "sentence"),
    [
        ("def build(): return nn.ReLU()", "bild", InputError, "no 'bild' there; it defines build"),
        ("x = 1", "build", InputError, "it defines nothing callable"),
        ("def build(): return 5", "build", CaptureError, "returned an int, not a torch.nn.Module"),
        ("def build(): return None", "build", CaptureError, "returned a NoneType"),
        ("def build(n): return nn.ReLU()", "build", CaptureError, "needs arguments"),
        ("def build(): raise KeyError('oops')", "build", CaptureError, "failed: KeyError: 'oops'"),
        ("def build(): return 1 + 'a'", "build", CaptureError, "failed: TypeError"),
        ("def build(: pass", "build", CaptureError, "cannot be imported: SyntaxError"),
        ("import no_such_package_here", "build", CaptureError, "needs the module 'no_such_package"),
        (
            "def build(): return nn.ReLU(), 1, 2, 3",
            "build",
            CaptureError,
            "returned 4 values; return",
        ),
    ],
)
def test_errors_say_what_to_do(code, text, name, error, sentence):
    with pytest.raises(error, match=sentence.replace("(", r"\(")) as caught:
        load_target(f"{code(text)}:{name}")
    assert "\n" not in str(caught.value)


def test_what_is_not_there():
    with pytest.raises(FileFormatError, match=r"no such file: gone\.py"):
        load_target("gone.py:build")
    with pytest.raises(InputError, match="no module 'no_such_module'"):
        load_target("no_such_module:Net")
    with pytest.raises(InputError, match=r"write file\.py:function"):
        load_target("nonsense")


def test_a_failed_import_leaves_no_module(code):
    with pytest.raises(CaptureError):
        load_target(f"{code('raise RuntimeError', 'broken_net.py')}:build")
    assert not [name for name in sys.modules if "broken_net" in name]
