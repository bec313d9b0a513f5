"""``gambrel mcp``: the tools for agents."""

from __future__ import annotations

from typing import Annotated

import typer

from gambrel.errors import MissingExtraError

EXAMPLES = """Examples:

gambrel mcp

gambrel mcp --http --port 8765

claude mcp add gambrel -- gambrel mcp
"""


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Streamable HTTP on 127.0.0.1 instead of stdio.")
    ] = False,
    port: Annotated[
        int, typer.Option(help="For --http; 0 takes a free one.", min=0, max=65535)
    ] = 8765,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust", help="Let agents name models as code (file.py:function), run here."
        ),
    ] = False,
) -> None:
    """Serve analyses to agents over the Model Context Protocol."""
    try:
        from gambrel.mcp.server import build_server, serve_http, serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "pydantic", "uvicorn", "starlette"}:
            raise
        raise MissingExtraError("mcp (2.0 or later)", "mcp", "gambrel mcp") from None
    server = build_server(trust=trust)
    if http:
        serve_http(server, port)
    else:
        serve_stdio(server)
