"""Sessions: for each page processes that answer it, stopped when they take too long."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from gambrel.errors import InputError

#: Pages open at once; the one that asked longest ago makes room.
MOST_SESSIONS: Final = 4
#: Seconds of one answer.
SECONDS: Final = 60.0


class DeskWorker:
    """A process with a desk.

    Args:
        folder: Of files that the page sent.
        trust: Whether models may be code that is run.
        seconds: Of one answer at most.
    """

    def __init__(self, folder: Path, *, trust: bool, seconds: float = SECONDS) -> None:
        self._arguments = [str(folder), "trust" if trust else ""]
        self._seconds = seconds
        self._lock = threading.Lock()
        self._closed = False
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "gambrel.explorer.worker", *self._arguments]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request: bytes) -> bytes:
        """The answer to a request, both as JSON; requests wait for each other."""
        with self._lock:
            process = self._process
            timer = threading.Timer(self._seconds, process.kill)
            timer.start()
            try:
                reply = self._exchanged(process, request)
            finally:
                timer.cancel()
            if reply.endswith(b"\n"):
                return reply
            self._end()
            late = not timer.is_alive() and timer.finished.is_set()
            if not self._closed:
                self._process = self._started()
        return msgspec.json.encode({"error": self._failure(late=late, code=process.returncode)})

    def _exchanged(self, process: subprocess.Popen[bytes], request: bytes) -> bytes:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request.replace(b"\n", b" ") + b"\n")
            process.stdin.flush()
            return process.stdout.readline()
        except OSError:
            return b""

    def _failure(self, *, late: bool, code: int) -> str:
        if late:
            return f"no answer within {self._seconds:g} s; ask for less, e.g. fewer devices."
        return f"the process that answers ended with code {code}; see the terminal."

    def close(self) -> None:
        """Ends the process; an answer that is on its way is not given."""
        self._closed = True
        self._process.kill()
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # what it was being told
                    stream.close()


class PageSession:
    """What belongs to one page: its files, and two workers: no short answer waits for a long one.

    Args:
        trust: Whether models may be code that is run.
    """

    def __init__(self, *, trust: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gambrel-explore-"))
        self._workers = {brief: DeskWorker(self.folder, trust=trust) for brief in (True, False)}

    def ask(self, request: bytes, *, brief: bool) -> bytes:
        """The answer to a request."""
        return self._workers[brief].ask(request)

    def close(self) -> None:
        """Ends the workers and removes the files."""
        for worker in self._workers.values():
            worker.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Sessions:
    """All sessions of a server, and one that waits for the next page with all it needs loaded.

    Args:
        trust: Whether models may be code that is run.
    """

    def __init__(self, *, trust: bool) -> None:
        self._trust = trust
        self._lock = threading.Lock()
        self._closed = False
        self._known: OrderedDict[str, PageSession] = OrderedDict()
        self._spare: PageSession | None = PageSession(trust=trust)
        self._opening = b""

    def first(self, request: bytes) -> bytes:
        """The answer that a page comes with, from the session that waits.

        Raises:
            InputError: The server stops.
        """
        with self._lock:
            self._check_open()
            spare = self._spare = self._spare or PageSession(trust=self._trust)
            self._opening = request
        return spare.ask(request, brief=True)

    def of(self, name: str) -> PageSession:
        """The session of a page, made when it first asks.

        Args:
            name: Chosen by the page.

        Raises:
            InputError: No name, or the server stops.
        """
        if not name or len(name) > 64:
            raise InputError("a page names its session.")
        with self._lock:
            self._check_open()
            if name not in self._known:
                self._known[name] = self._spare or PageSession(trust=self._trust)
                self._spare = None
                threading.Thread(target=self._prepare, daemon=True).start()
            self._known.move_to_end(name)
            session = self._known[name]
            extra = max(0, len(self._known) - MOST_SESSIONS)
            old = [self._known.popitem(last=False)[1] for _ in range(extra)]
        for one in old:
            one.close()
        return session

    def _check_open(self) -> None:
        """A process started after the others were ended would be left behind."""
        if self._closed:
            raise InputError("gambrel explore has stopped; start it again.")

    def _prepare(self) -> None:
        """Makes the session of the next page, which has answered what pages open with."""
        with self._lock:
            if self._spare is not None or self._closed:
                return
            spare = self._spare = PageSession(trust=self._trust)
        if self._opening:
            spare.ask(self._opening, brief=True)

    def close(self) -> None:
        """Ends all of them."""
        with self._lock:
            self._closed = True
            known = [*self._known.values(), *([self._spare] if self._spare else [])]
            self._known.clear()
            self._spare = None
        for session in known:
            session.close()
