"""The other end of a candidate's process: commands, replies, deadlines, and how it died."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gambrel.measure.machine import scheduled

#: Seconds in which the process must be ready, torch imported.
_READY_S: Final = 120.0
#: A deadline is put off by what other programs took, and by no more than so many times itself.
_LONGER: Final = 4


class EndedError(Exception):
    """The process gave no reply; says why."""

    def __init__(self, name: str, about: str) -> None:
        super().__init__(about)
        self.name, self.about = name, about


class Child:
    """A process with one candidate in it.

    Args:
        folder: Of the job; what the candidate prints is written there.
    """

    def __init__(self, folder: Path) -> None:
        out_read, commands = os.pipe()
        self._replies, in_write = os.pipe()
        self._out = (folder / "printed.txt").open("wb")
        self._log = (folder / "errors.txt").open("wb")
        words = ["-m", "gambrel.measure.candidate.worker", str(folder)]
        self._process = subprocess.Popen(
            [sys.executable, *words, str(out_read), str(in_write)],
            pass_fds=(out_read, in_write),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._log,
            cwd=folder,
            start_new_session=True,
            env=_environment(),
        )
        os.close(out_read)
        os.close(in_write)
        self._commands = commands
        self._buffer = b""
        self._reply("", _READY_S, self._threads())

    def ask(self, do: str, limit_s: float, **more: Any) -> tuple[dict[str, Any], float]:
        """A reply, and how long it took by this process's clock.

        What its threads waited for a processor that another program had is no part of that.

        Raises:
            EndedError: There is none in time, or the process has ended.
        """
        nonce = secrets.token_hex(8)
        line = json.dumps({"do": do, "nonce": nonce, **more}) + "\n"
        before = self._threads()
        start = time.perf_counter()
        try:
            os.write(self._commands, line.encode())
        except BrokenPipeError:
            raise self._how() from None
        said = self._reply(nonce, limit_s, before)
        spent = time.perf_counter() - start
        used, waited = self._shares(before)
        return said, min(spent, max(spent - waited, used))

    def close(self) -> None:
        """Ends the process and everything that it started."""
        for fd in (self._commands, self._replies):
            os.close(fd)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()
        self._out.close()

    def _threads(self) -> dict[str, tuple[float, float]]:
        """Seconds that each thread ran and waited, this process's own among them."""
        try:
            tasks = list(Path(f"/proc/{self._process.pid}/task").iterdir())
        except OSError:  # it has ended, or another system
            tasks = []
        threads = [Path("/proc/thread-self"), *tasks]
        return {t.name: found for t in threads if (found := scheduled(t)) is not None}

    def _shares(self, before: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
        """Seconds since: that the busiest thread ran, and that the one which waited most waited."""
        ran, waited = [0.0], [0.0]
        for name, now in self._threads().items():
            then = before.get(name, (0.0, 0.0))
            ran.append(now[0] - then[0])
            waited.append(now[1] - then[1])
        return max(ran), max(waited)

    def _reply(
        self, nonce: str, limit_s: float, before: Mapping[str, tuple[float, float]]
    ) -> dict[str, Any]:
        start = time.monotonic()
        while b"\n" not in self._buffer:
            left = limit_s - (time.monotonic() - start)
            if left <= 0:
                left += min(self._shares(before)[1], _LONGER * limit_s)
            if left <= 0:
                raise EndedError("hangs", f"no reply within {limit_s:.0f} s")
            if not select.select([self._replies], [], [], left)[0]:
                continue
            read = os.read(self._replies, 1 << 16)
            if not read:
                raise self._how()
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            raise EndedError("forges a reply", "writes into the judge's pipe") from None
        if said.get("nonce", "") != nonce:
            raise EndedError("forges a reply", "answers what was not asked")
        return said

    def _how(self) -> EndedError:
        code = self._process.wait(10)
        if code < 0:
            name = signal.Signals(-code).name
            memory = " (memory)" if name == "SIGKILL" else ""
            return EndedError("crashes", f"the process ended with {name}{memory}")
        return EndedError("exits", f"the process ended with exit code {code} before it answered")


def _environment() -> dict[str, str]:
    """That of this process, with gambrel where it was imported from."""
    import gambrel

    home = str(Path(gambrel.__file__).parents[1])
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
