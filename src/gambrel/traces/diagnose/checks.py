"""The command that checks each cause: one that runs as it stands."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: With a model and a device, the change whose gain `gambrel what-if` predicts.
_CHANGES: Final = {
    "gaps between launches": "graphs",
    "small ops to fuse": "fuse",
    "short kernels": "graphs",
}
#: How the launches of the recording are added up to see a cause.
_GROUPS: Final = {
    "data loading": "range",
    "unhidden communication": "range",
    "Python between ops": "range",
    "host syncs": "launch",
    "clock throttling": "launch",
}
_CLOCKS: Final = (
    "nvidia-smi --query-gpu=timestamp,index,clocks.sm,clocks.max.sm,power.draw,power.limit,"
    "utilization.gpu,clocks_throttle_reasons.active --format=csv"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """What a command can name.

    Attributes:
        files: The recording, then what was logged beside it.
        model: As the user named it; empty without.
        device: Of the catalog; empty where nothing tells.
        on_gpu: Whether kernels of a GPU were recorded.
    """

    files: tuple[Path, ...]
    model: str = ""
    device: str = ""
    on_gpu: bool = False

    def command(self, cause: str, op: str = "") -> str:
        """A command line.

        Args:
            cause: As its line names it.
            op: The op that it is about, as ``gambrel judge`` takes it; empty where none is.
        """
        if cause == "clock throttling" and len(self.files) == 1:
            return _CLOCKS if self.on_gpu else "gambrel peaks --device cpu --quick"
        if op and self.device:
            return shlex.join(["gambrel", "judge", op, "--hardware", self.device, "--limits"])
        if cause in _CHANGES and self.model and self.device:
            asked = ["--hardware", self.device, "--change", _CHANGES[cause]]
            return shlex.join(["gambrel", "what-if", self.model, *asked])
        by = ["--by", _GROUPS.get(cause, "name"), "--top", "10"]
        return shlex.join(["gambrel", "import", *map(str, self.files), *by])
