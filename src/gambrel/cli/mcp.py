"""``gambrel mcp``: the tools for agents."""

from __future__ import annotations

import sys

import click

from gambrel.cli.command import OTHER, command, flag, option
from gambrel.errors import InputError, MissingExtraError

PORT = 8765


@command(
    "mcp",
    flag("--http", help="Streamable HTTP on 127.0.0.1 instead of stdio.", section=OTHER),
    option(
        *("--port",),
        help=f"For --http; 0 takes a free one. [{PORT}]",
        type=click.IntRange(0, 65535),
        metavar="N",
    ),
    flag(
        *("--trust",),
        help="Let agents name models as code (file.py:function), run here.",
        section=OTHER,
    ),
    examples="""
  gambrel mcp
  gambrel mcp --http --port 8765
  claude mcp add gambrel -- gambrel mcp
""",
)
def mcp(http: bool, port: int | None, trust: bool) -> None:
    """Serve analyses to agents over the Model Context Protocol."""
    if port is not None and not http:
        raise InputError("--port is for --http; without it the server speaks over stdin.")
    try:
        from gambrel.mcp.server import build_server, serve_http, serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types", "uvicorn", "starlette"}:
            raise
        raise MissingExtraError("mcp (2.0 or later)", "mcp", "gambrel mcp") from None
    if not http and (sys.stdin is None or sys.__stdout__ is None):
        raise InputError("standard input or output is closed; open both, or give --http.")
    server = build_server(trust=trust)
    if http:
        serve_http(server, PORT if port is None else port)
    else:
        serve_stdio(server)
