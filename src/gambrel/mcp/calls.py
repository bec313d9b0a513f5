"""Work for a client in a thread of its own, stopped when the client has cancelled or gone."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


class Stopped(BaseException):
    """Raised inside a call that nobody waits for any more; no handler of errors takes it."""


class _Call(Generic[T]):
    """One piece of work and the thread that runs it, known only while it does."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._thread: int | None = None

    def run(self) -> T:
        with self._lock:
            self._thread = threading.get_ident()
        try:
            return self._work()
        finally:
            with self._lock:
                self._thread = None

    def stop(self) -> None:
        """Raises `Stopped` in the thread at its next Python instruction, if it still works."""
        with self._lock:
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(Stopped)
                )


async def answered(work: Callable[[], T]) -> T:
    """The result of some work, done in a thread.

    Args:
        work: Takes as long as it takes; when the task that waits for it is cancelled, it is
            stopped.
    """
    call = _Call(work)
    try:
        return await anyio.to_thread.run_sync(call.run, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        call.stop()
        raise
