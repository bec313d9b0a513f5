"""A work of the engine that is small, slow on request, and counts what was computed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gambrel.engine.tables import FLAG, NUMBER, TEXT, WHOLE, DataField, Words

FIELDS = (
    DataField(name="kind", kind=TEXT),
    DataField(name="index", kind=WHOLE),
    DataField(name="latency_s", kind=NUMBER, unit="s"),
    DataField(name="power_w", kind=NUMBER, unit="W"),
    DataField(name="fits", kind=FLAG),
)


@dataclass(frozen=True, kw_only=True)
class Small:
    """``points`` rows; every partition that is computed leaves a line in ``log``."""

    points: int = 100
    partition_points: int = 10
    name: str = "small"
    pause_s: float = 0.0
    log: str = ""
    ballast: bytes = b""

    fields = FIELDS

    @property
    def identity(self):
        return f"{self.name} {self.points} {self.partition_points}".encode()

    def evaluate(self, start, stop):
        time.sleep(self.pause_s)
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{start} {os.getpid()}\n")
        index = np.arange(start, stop, dtype=np.int64)
        latency = 1e-3 * (1 + index % 7)
        latency = np.where(index % 10 == 3, np.nan, latency)
        return {
            "kind": Words((index % 2).astype(np.int32), ("even", "odd")),
            "index": index,
            "latency_s": latency,
            "power_w": 10.0 + index % 5,
            "fits": np.where(index % 10 == 5, -1, index % 3 == 0).astype(np.int8),
        }
