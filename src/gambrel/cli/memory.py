"""``--memory``, ``--checkpoint`` and ``--memory-plot`` of ``gambrel analyze``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gambrel.cli.output import write_text
from gambrel.errors import InputError

if TYPE_CHECKING:
    from gambrel.analysis.result import Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """What was asked for about memory over time.

    Attributes:
        shown: Print it.
        checkpoint: ``"auto"``, module paths of blocks, or None for no checkpointing.
        path: Picture or page to write.
    """

    shown: bool = False
    checkpoint: str | None = None
    path: Path | None = None

    def check(self, count: int) -> None:
        """Refuses, before any work, a file that could not be written.

        Raises:
            UnknownNameError: Of its suffix.
            InputError: Its folder does not exist, or there are several analyses.
        """
        if self.path is None:
            return
        from gambrel.report.timeline import check_memory_path

        check_memory_path(self.path)
        if count > 1:
            raise InputError(f"{self.path}: a memory plot shows one analysis, not {count}.")

    def show(self, analyses: Sequence[Analysis], *, quiet: bool) -> None:
        """Prints the timelines unless ``quiet`` (stdout is for JSON), and writes the file."""
        wanted = self.shown or self.checkpoint is not None
        if self.path is None and (quiet or not wanted):
            return
        from gambrel.report import terminal_options
        from gambrel.report.timeline import render, write_memory

        blocks: bool | str = {None: False, "auto": True}.get(self.checkpoint, self.checkpoint or "")
        for analysis in analyses if wanted and not quiet else ():
            write_text("\n" + render(analysis, terminal_options(sys.stdout), blocks))
        if self.path is not None:
            print(f"wrote {write_memory(analyses[0], self.path, blocks)}", file=sys.stderr)
