"""What a candidate does beside its work: seen by an audit hook, which no Python code can remove."""

from __future__ import annotations

import builtins
import os
import re
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

#: Events that a kernel has no reason to cause → what they are called. Libraries may: compilers of
#: torch start g++ and nvcc. What the candidate's own code causes is refused.
_REFUSED: Final = {
    **dict.fromkeys(
        ("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec", "subprocess.Popen"),
        "starts a process",
    ),
    **dict.fromkeys(("os.kill", "os.killpg"), "signals a process"),
    **dict.fromkeys(("socket.connect", "socket.bind"), "uses the network"),
}
#: Events with which code looks at what is not its own.
_LOOKS: Final = frozenset({"sys._getframe", "gc.get_objects", "gc.get_referrers"})
_LIBRARY: Final = tuple(
    {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_OTHER_PROCESS: Final = re.compile(r"/proc/\d+/")
_PACKAGES: Final = ("site-packages", "dist-packages")


class Watch:
    """Records what the candidate's own code does.

    Args:
        candidate: Its file.
        folder: Of the judge's files.
        reference: File of the reference; empty for none.
    """

    def __init__(self, candidate: Path, folder: Path, reference: str) -> None:
        self.seen: dict[str, str] = {}
        self.active = False
        self._candidate = str(candidate.resolve())
        self._folder = str(folder.resolve())
        self._reference = reference
        self._own = f"/proc/{os.getpid()}/"
        self._inside = False

    def install(self) -> None:
        """From now on every event is looked at."""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        known = event in _REFUSED or event in _LOOKS or event == "open"
        if not known or not self.active or self._inside:
            return
        self._inside = True
        try:
            name = self._name(event, args)
        finally:
            self._inside = False
        if name and event in _REFUSED:
            raise RuntimeError(f"the judge does not allow that a candidate {name} ({event})")

    def _name(self, event: str, args: tuple[Any, ...]) -> str:
        if event == "open":
            name, about = self._opened(str(args[0]))
        elif event in _REFUSED:
            name, about = _REFUSED[event], event
        else:
            name, about = "reads the reference's result", f"{event} to look for it in the judge"
        if name and self._by_candidate(event):
            self.seen.setdefault(name, about)
            return name
        return ""

    def _opened(self, path: str) -> tuple[str, str]:
        if path.startswith(self._folder):
            return "reads the reference's result", "opens the judge's files"
        if _OTHER_PROCESS.match(path) and not path.startswith(("/proc/self/", self._own)):
            return "reads the reference's result", "opens the memory of another process"
        if self._reference and path == self._reference:
            return "uses the reference", f"opens {Path(path).name}"
        return "", ""

    def _by_candidate(self, event: str) -> bool:
        """Whether the nearest code that belongs to no library is the candidate's."""
        for steps, frame in enumerate(_frames()):
            file = frame.f_code.co_filename
            if file == self._candidate:
                return True
            if steps > 40 or not _is_between(file, event):
                return False
        return False


def _is_between(file: str, event: str) -> bool:
    """Whether code of a file only passes on what another asked it for.

    Looking around is passed on by two modules of the standard library, starting a process by any of
    it, opening a file by every library.
    """
    if event in _LOOKS:
        return file.endswith(("inspect.py", "traceback.py"))
    library = file.startswith(("<frozen", *_LIBRARY))
    return library and not (event in _REFUSED and any(p in file for p in _PACKAGES))


def _frames() -> Iterator[FrameType]:
    """Frames of the code that caused an event, the nearest first; those of this file are left out.

    A frame is reached through an exception: asking for it by name would be an event again.
    """
    try:
        raise LookupError
    except LookupError as error:
        trace = error.__traceback__
    frame = None if trace is None else trace.tb_frame.f_back
    while frame is not None:
        if frame.f_code.co_filename != __file__:
            yield frame
        frame = frame.f_back


def originals(*own: type) -> dict[str, Any]:
    """What a cheating candidate would replace: clocks, synchronization, comparisons.

    Args:
        own: Classes of the judge.
    """
    import torch

    places: dict[str, tuple[Any, tuple[str, ...]]] = {
        "time": (time, ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic")),
        "torch": (torch, ("equal", "allclose", "isclose", "save", "empty")),
        "torch.Tensor": (
            torch.Tensor,
            ("clone", "copy_", "add_", "roll", "equal", "cpu", "to", "__eq__"),
        ),
        "torch.cuda": (torch.cuda, ("synchronize", "Event", "current_stream")),
        "torch.cuda.Event": (torch.cuda.Event, ("elapsed_time", "record", "synchronize")),
        "torch.testing": (torch.testing, ("assert_close",)),
        "builtins": (builtins, ("open", "abs", "max", "min", "sum", "print")),
    }
    judge = {f"{kind.__name__}.{name}": value for kind in own for name, value in vars(kind).items()}
    return judge | {
        f"{place}.{name}": getattr(owner, name, None)
        for place, (owner, names) in places.items()
        for name in names
    }


def replaced(before: dict[str, Any], *own: type) -> list[str]:
    """Names of what is no longer what it was."""
    now = originals(*own)
    return [name for name, value in before.items() if now.get(name) is not value]
