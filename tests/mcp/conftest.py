"""A real server over a real transport, and the SDK's own client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

COMMAND = (sys.executable, "-m", "gambrel", "mcp")


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where a server in a process of its own listens."""
    with subprocess.Popen([*COMMAND, "--http", "--port", "0"], stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        line = server.stderr.readline().decode()
        assert line.startswith("listening on http://127.0.0.1:"), line
        yield line.split()[-1]
        server.terminate()


@pytest.fixture(params=["stdio", "http"])
def place(request: pytest.FixtureRequest) -> Any:
    """What the client connects to."""
    if request.param == "http":
        return request.getfixturevalue("address")
    return StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:]], env=dict(os.environ))


def ask(place: Any, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Calls tools one after another in one session."""

    async def session() -> list[Any]:
        async with Client(place) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return anyio.run(session)


def listed(place: Any) -> list[Any]:
    """The tools that a client sees."""

    async def session() -> list[Any]:
        async with Client(place) as client:
            return (await client.list_tools()).tools

    return anyio.run(session)
