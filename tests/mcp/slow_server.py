"""A server with one tool that never ends; what stops it is written to a file."""

import sys
import time
from pathlib import Path

from gambrel.mcp import server, tools


class Slow:
    """As `gambrel.mcp.tools.Tool`, as far as the server looks."""

    name = "slow"
    description = "Never ends."
    input_schema: dict[str, object] = {"type": "object"}  # noqa: RUF012
    output_schema: dict[str, object] = {"type": "object"}  # noqa: RUF012

    def __init__(self, told: Path) -> None:
        self.told = told

    def call(self, _: object, *, trust: bool) -> dict[str, object]:
        self.told.write_text("started")
        try:
            while True:
                time.sleep(0.005)
        except BaseException as error:
            self.told.write_text(type(error).__name__)
            raise


if __name__ == "__main__":
    tools.TOOLS["slow"] = Slow(Path(sys.argv[1]))
    made = server.build_server()
    if sys.argv[2] == "http":
        server.serve_http(made, 0)
    else:
        server.serve_stdio(made)
