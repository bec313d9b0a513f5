"""Calls of clients that cancelled or went away are stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

pytest.importorskip("mcp")

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from gambrel.mcp.calls import Stopped, answered

SERVER = str(Path(__file__).with_name("slow_server.py"))
PATIENCE_S = 30.0


def _becomes(told: Path, wanted: str) -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if told.exists() and told.read_text() == wanted:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, SERVER, str(tmp_path / "told"), "http"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        yield server.stderr.readline().decode().split()[-1]
        server.terminate()


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_call_that_a_client_gives_up_is_stopped(
    transport: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    told = tmp_path / "told"
    place = (
        request.getfixturevalue("address")
        if transport == "http"
        else StdioServerParameters(
            command=sys.executable, args=[SERVER, str(told), "stdio"], env=dict(os.environ)
        )
    )

    async def session() -> None:
        async with Client(place) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "slow", {})
            await anyio.to_thread.run_sync(_becomes, told, "started")
            group.cancel_scope.cancel()

    anyio.run(session)
    assert _becomes(told, "Stopped")


def test_a_client_that_is_killed_stops_its_call(address: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    code = (
        "import anyio, sys\n"
        "from mcp.client.client import Client\n"
        "async def go():\n"
        "    async with Client(sys.argv[1]) as client:\n"
        "        await client.call_tool('slow', {})\n"
        "anyio.run(go)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, address]) as client:
        assert _becomes(told, "started")
        client.kill()
    assert _becomes(told, "Stopped")


def test_work_that_ends_gives_its_result_and_its_error() -> None:
    assert anyio.run(answered, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        anyio.run(answered, lambda: 1 // 0)


def test_stopping_reaches_the_thread_that_works() -> None:
    seen: list[type[BaseException]] = []
    left = threading.Event()

    def endless() -> None:
        try:
            while True:
                time.sleep(0.001)
        except Stopped as stopped:
            seen.append(type(stopped))
            left.set()
            raise

    async def give_up() -> None:
        with anyio.move_on_after(0.05):
            await answered(endless)

    anyio.run(give_up)
    assert left.wait(PATIENCE_S)
    assert seen == [Stopped]
