"""A desk in a process of its own: a request a line on stdin, an answer a line on stdout."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path


def main(folder: str, trust: str) -> None:
    """Answers until stdin ends.

    Args:
        folder: Of files that the page sent.
        trust: ``trust`` lets models be code that is run; anything else does not.
    """
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a model prints is no answer

    import msgspec

    from gambrel.explorer.desk import Desk

    # What is loaded by now stays; collecting it again and again would delay answers.
    gc.freeze()
    gc.set_threshold(50_000)
    desk = Desk(Path(folder), trust=trust == "trust")
    for line in sys.stdin.buffer:
        try:
            made = desk.answer(msgspec.json.decode(line))
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            made = {"error": f"this is a defect of gambrel: {type(error).__name__}."}
        replies.write(msgspec.json.encode(made) + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
