"""The loop: pipes, a line editor, a real terminal."""

import io
import os
import pty
import select
import subprocess
import sys
import time

import pytest

from gambrel.chat.repl import completer, completions, converse, prompt_session, turn
from gambrel.chat.session import Conversation
from gambrel.report.options import Options

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:prompt_toolkit")


def talk(text):
    """What is shown for each line."""
    session, told = Conversation(), []
    for line in text.splitlines(keepends=True):
        shown = []
        converse(session, Options(), stdin=io.StringIO(line), write=shown.append)
        told += ["\n".join(shown)] if shown else []
    return told


def test_a_pipe_is_answered_line_by_line():
    shown = talk("how fast is resnet50 on an l4?\n\n   \nand at batch 8?\n")
    assert len(shown) == 2
    assert "gambrel analyze resnet50 --hardware l4\n" in shown[0]
    assert "gambrel analyze resnet50 --hardware l4 --batch 8\n" in shown[1]


@pytest.mark.parametrize("word", ["/quit", "quit", "exit", "/exit", "QUIT"])
def test_quit_ends(word):
    shown = []
    lines = io.StringIO(f"explain mfu\n{word}\nexplain tdp\n")
    converse(Conversation(), Options(), stdin=lines, write=shown.append)
    assert "Model FLOPs" in "".join(shown)
    assert "Thermal" not in "".join(shown)


def test_commands():
    shown = talk("/help\n/models\n/devices\n/new\n/nonsense\n")
    assert "Is ResNet-50 compute-bound or memory-bound on an A100?" in shown[0]
    assert "resnet50" in shown[1]
    assert "devices." in shown[2]
    assert "dense" in shown[2]
    assert "forgotten" in shown[3]
    assert "unknown command '/nonsense'; there are /help" in shown[4]


def test_new_forgets():
    *_, last = talk("how fast is resnet50 on an l4\n/new\nand at batch 8?\n")
    assert "Which model" in last or "did not understand" in last


def test_what_is_not_understood_says_what_can_be_asked():
    (shown,) = talk("asdf\n")
    assert "I did not understand 'asdf'" in shown
    assert "I can answer" in shown


def test_an_interrupted_turn_does_not_end_the_conversation():
    class Impatient:
        previous = None

        def ask(self, question):
            raise KeyboardInterrupt

    assert list(turn(Impatient(), "x", Options())) == ["interrupted\n"]


def test_the_answer_is_shown_before_what_takes_longer():
    parts = turn(Conversation(), "is resnet50 memory bound on an l4", Options())
    assert "memory-bound" in next(parts)
    assert "Recommendations" in "".join(parts)


def test_more_shows_the_reports_that_an_answer_rests_on():
    shown = talk_on("which layers of resnet50 take longest on a t4\nmore\n")
    assert len(shown[0].splitlines()) <= 20
    assert len(shown[1].splitlines()) > 20
    assert "take longest" in shown[1]
    assert "nothing more" in talk_on("/more\n")[0]


def talk_on(text):
    """What is shown for each line of one conversation."""
    session, last = Conversation(), []
    return ["\n".join(turn(session, line, Options(), last)) for line in text.splitlines()]


def test_completion_has_names_and_commands():
    words = completions()
    assert {"/help", "/quit", "resnet50", "llama-3-8b", "a100-sxm4-80gb"} <= set(words)
    assert len(words) == len(set(words))


def test_completion_of_the_word_before_the_cursor():
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    def offered(text):
        found = completer().get_completions(Document(text), CompleteEvent())
        return [(c.text, c.start_position) for c in found]

    assert offered("how fast is wide-resnet5") == [("wide-resnet50", -12)]
    assert ("a100-sxm4-80gb", -6) in offered("resnet50 on A100-s")
    assert offered("/q") == [("/quit", -2)]
    assert offered("zzz") == []


def test_the_line_editor_keeps_history(tmp_path, monkeypatch):
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as keys:
        session = prompt_session(input=keys, output=DummyOutput())
        keys.send_text("explain mfx\x7fu\r")  # edited: backspace
        assert session.prompt("> ") == "explain mfu"
        keys.send_text("\x04")
        with pytest.raises(EOFError):
            session.prompt("> ")
    assert "explain mfu" in (tmp_path / "gambrel" / "chat_history").read_text()


def test_history_that_cannot_be_written_is_kept_in_memory(tmp_path, monkeypatch):
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with create_pipe_input() as keys:
        session = prompt_session(input=keys, output=DummyOutput())
    assert isinstance(session.history, InMemoryHistory)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_in_a_terminal(tmp_path):
    """Ctrl-C drops the line, the next one is answered, Ctrl-D ends with code 0."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-m", "gambrel", "chat"], stdin=theirs, stdout=theirs, stderr=theirs,
        env=env, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = Screen(ours)
    try:
        shown.until("/quit", PROMPTS)
        os.write(ours, b"nonsense\x03")
        shown.until(PROMPTS)
        os.write(ours, b"explain mfu\r")
        shown.until("utilization", PROMPTS)
        os.write(ours, b"\x04")
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert "Traceback" not in shown.text
    assert "did not understand" not in shown.text


#: The editor turns bracketed paste on whenever it waits for a line.
PROMPTS = "\x1b[?2004h"


class Screen:
    """What a terminal shows."""

    def __init__(self, fd):
        self.fd, self.text, self.at = fd, "", 0

    def until(self, *words, seconds=60):
        """Reads until these appear one after another, past what was found before."""
        end = time.monotonic() + seconds
        for word in words:
            while word not in self.text[self.at :]:
                assert time.monotonic() < end, f"{word!r} did not appear in {self.text!r}"
                if select.select([self.fd], [], [], 0.1)[0]:
                    self.text += os.read(self.fd, 4096).decode(errors="replace")
            self.at = self.text.index(word, self.at) + len(word)


def test_chat_reads_a_pipe_as_a_process():
    done = subprocess.run(
        [sys.executable, "-m", "gambrel", "chat"],
        input=b"explain mfu\n\xff\xfe\n/quit\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert b"Model FLOPs utilization" in done.stdout
    assert b"Traceback" not in done.stderr
