"""Which GPU of AMD a run used: the file that the profilers write beside their counters.

rocprof-compute writes ``sysinfo.csv``, rocprofv3 ``<process>_agent_info.csv``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gambrel.errors import GambrelError
from gambrel.traces.source import TextFile

_MODEL: Final = re.compile(r"MI\d{3}[AX]?", re.IGNORECASE)
#: Names of a series, under which versions before 2024 filed every board, and the boards by compute
#: units. A die of an MI250 has the ceilings of an MI210: 104 units, 1.7 GHz, 1.6384 TB/s.
_SERIES: Final = frozenset({"MI200", "MI300"})
_BOARDS: Final = {
    ("gfx90a", "104"): ("MI210", "a die of an MI250 has the same ceilings as an MI210"),
    ("gfx942", "304"): ("MI300X", ""),
    ("gfx942", "228"): ("MI300A", ""),
}
_DIES: Final = {
    "MI250": ("MI210", "a die of an MI250 has the same ceilings as an MI210"),
    "MI250X": ("MI250X (one die of two)", ""),
    "MI355": ("MI355X", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInfo:
    """A GPU as a profiler describes it.

    Attributes:
        chip: Such as ``"gfx942"``; empty where it is not named.
        device_name: For the catalog; empty where several boards or none are named.
        note: What to know about it.
    """

    chip: str = ""
    device_name: str = ""
    note: str = ""


def is_gpu_info(columns: Sequence[str]) -> bool:
    """Whether a heading is that of ``sysinfo.csv`` or ``agent_info.csv``."""
    found = set(columns)
    return bool(found & {"gpu_arch", "gpu_soc"}) or {"Agent_Type", "Product_Name"} <= found


def from_rows(rows: Sequence[Mapping[str, str]]) -> GpuInfo:
    """What the rows of such a file say."""
    if rows and "Agent_Type" in rows[0]:
        return _of_agents(rows)
    return _of_system(rows[0]) if rows else GpuInfo()


def beside(path: Path) -> GpuInfo | None:
    """What the file beside a table of counters says; None where there is none.

    Args:
        path: Of the counters.
    """
    process = path.name.split("_", 1)[0]
    for name in ("sysinfo.csv", f"{process}_agent_info.csv"):
        place = path.with_name(name)
        try:
            if place != path and place.is_file():
                rows = list(csv.DictReader(TextFile(place)))
                if rows and is_gpu_info(list(rows[0])):
                    return from_rows(rows)
        except (GambrelError, csv.Error, OSError):
            continue  # the counters can be read without it
    return None


def _of_agents(rows: Sequence[Mapping[str, str]]) -> GpuInfo:
    agents = [row for row in rows if row.get("Agent_Type") == "GPU"]
    chips = {row.get("Name") or "" for row in agents}
    names = {row.get("Product_Name") or "" for row in agents}
    return GpuInfo(
        chip=chips.pop() if len(chips) == 1 else "",
        device_name=names.pop() if len(names) == 1 else "",
    )


def _of_system(row: Mapping[str, str]) -> GpuInfo:
    chip = (row.get("gpu_arch") or row.get("gpu_soc") or "").strip()
    named = _MODEL.match((row.get("gpu_model") or row.get("name") or "").strip())
    model, note = named[0].upper() if named else "", ""
    units = (row.get("cu_per_gpu") or row.get("numCU") or "").strip()
    if not model or model in _SERIES:
        model, note = _BOARDS.get((chip, units), ("", ""))
    elif model in _DIES:
        model, note = _DIES[model]
    partition = (row.get("compute_partition") or "").strip().upper()
    if partition.startswith(("DPX", "TPX", "QPX", "CPX")):
        note = f"the GPU was partitioned ({partition}): a partition has a share of the roofs"
        model = f"{model} ({partition} partition)" if model else ""
    return GpuInfo(chip=chip, device_name=f"AMD Instinct {model}" if model else "", note=note)
