"""Builds the hardware catalog: TOML files from a table of figures, and the index of all files.

Runtimes and the constants of energy are TOML files too; what is read of them is built here as well.

    python scripts/build_catalog.py figures.csv     # (re)write the numbers of the devices in it
    python scripts/build_catalog.py --index         # after editing a file by hand

The TOML files are what is committed and what counts. From the table come numbers and their
sources. What the table does not have is kept from the device's TOML file, found by its full name:
id, category, aliases, notes, power, power modes, demonstrated rates, memory levels and their parts.

Columns: device, quantity, value, unit, dense_or_sparse, source_title, source_url, confidence, note.
One row is one figure; a row without a value says that the figure is not published.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gambrel.analysis import energy_constants
from gambrel.device import catalog
from gambrel.runtimes import catalog as runtimes

Row = dict[str, str]

#: ``peak_<unit>_<dtype>`` to the engine of the ceiling; the longest prefix wins.
ENGINES = {
    "peak_matrix_": "matrix",
    "peak_gpu_matrix_": "matrix",
    "peak_vector_": "vector",
    "peak_gpu_vector_": "vector",
    "peak_dla_": "dla",
    "peak_module_": "module",
    "peak_npu_": "npu",
}
LEVELS = {"llc": "LLC", "l2": "L2", "sram": "SRAM"}

#: A blank row with such a note is no gap in knowledge: the thing does not exist.
DOES_NOT_EXIST = re.compile(r"not supported|removed|no (attached )?dram|dram-free|^none$", re.I)
DRAM = ("memory_capacity", "dram_bandwidth", "memory_type")

#: Devices whose datasheet prints fp16 only although the unit runs bf16 at the same rate.
BF16_AT_FP16_RATE = {
    "Ampere (GA10B, sm_87) + NVDLA v2": "tensor cores of sm_80 and later",
    "Blackwell (GB10B, sm_110)": "tensor cores of sm_80 and later",
    "Xe-HPG (Alchemist, ACM-G10)": "XMX units",
}

#: Wordings of the table that say too little, or too much, to someone who reads one file.
TITLES = {
    "Derived by arithmetic from published values in this table (formula in note)": (
        "Derived by arithmetic from the other figures of this file; formula in the note"
    ),
    "Third-party NVIDIA/AMD spec compendium (SM counts, clocks; its PEAKS are double-counted and "
    "are NOT used)": "Third-party compendium of unit counts and clocks (its peaks are not used)",
    "Third-party Ascend 910B tables [: 1.6 TB/s;: 1.2/1.6;: 0.8;: 1.8]": (
        "Third-party Ascend 910B tables (1.6, 1.2, 0.8 and 1.8 TB/s)"
    ),
    "llama.cpp discussion #4167 as": "llama.cpp discussion #4167",
}
NOTES = {
    " (see disagreements)": "",
    "compendium row; ": "",
    " (not re-read)": "",
    "; not re-read": "",
}

#: Power and its source, as the files have them: the most that is drawn (the table's ``tdp``), what
#: is typical (where the row's note begins with that word), and what is drawn without work.
POWERS = (
    ("tdp_w", "tdp_source"),
    ("typical_power_w", "typical_power_source"),
    ("idle_power_w", "idle_power_source"),
)

#: When the table was collected: the date of a source that does not carry one of its own.
READ_ON = "2026-11-20"


@dataclass
class Sources:
    """Sources of one file: each written once, under a readable key."""

    table: dict[str, dict[str, str]] = field(default_factory=dict)

    def key(self, row: Row) -> str:
        entry = source_entry(row)
        for key, known in self.table.items():
            if known == entry:
                return key
        words = re.findall(r"[a-z0-9.]+", re.sub(r"\(.*?\)|\[.*?\]", "", entry["title"].lower()))
        stem = "derived" if entry["confidence"] == "derived" else "-".join(words[:4])
        stem = stem.replace(".", "-")
        key, number = stem, 2
        while key in self.table:
            key, number = f"{stem}-{number}", number + 1
        self.table[key] = entry
        return key


def source_entry(row: Row) -> dict[str, str]:
    """A source as the files hold it: the label without its qualifier, the date apart."""
    label, _, qualifier = row["confidence"].partition(" (")
    title = TITLES.get(row["source_title"], row["source_title"])
    date = re.search(r"\[(?:[^\]]*?\b)?((?:19|20)\d\d(?:-\d\d){0,2})\b[^\]]*\]", title)
    if date is not None:
        title = re.sub(rf"\s*\[{date.group(1)}\]", "", title)
    if qualifier:
        title += f" ({qualifier}"
    entry = {"title": title}
    if row["source_url"].startswith("http"):
        entry["url"] = row["source_url"]
    entry["date"] = READ_ON if date is None else date.group(1)
    return {**entry, "confidence": label.split("/")[0]}


def convert(rows: dict[str, Row], kept: dict[str, Any]) -> dict[str, Any]:
    """One device: its rows by quantity, and what is kept of its file, to the file's content."""
    sources = Sources()
    filled = {name: row for name, row in rows.items() if row["value"]}
    device: dict[str, Any] = {
        "id": kept["id"],
        "name": kept["name"],
        "vendor": filled["vendor"]["value"],
        "category": kept.get("category", filled["class"]["value"]),
        "architecture": filled["architecture"]["value"],
        "year": int(filled["year"]["value"]),
        "aliases": kept.get("aliases", []),
        "notes": kept.get("notes", []),
        "unknown": unknown(rows, filled),
    }
    device |= {key: kept[key] for power in POWERS for key in power if key in kept}
    if "tdp" in filled:
        watt, source = POWERS[filled["tdp"]["note"].startswith("typical")]
        device |= {watt: number(filled["tdp"]), source: sources.key(filled["tdp"])}
    device["ceilings"] = ceilings(filled, sources, device["architecture"])
    device["demonstrated"] = kept.get("demonstrated", [])
    device["memory"] = with_kept_levels(memory(filled, sources), kept.get("memory", []))
    device["links"] = links(filled, sources)
    device["facts"] = with_kept(facts(filled, sources), kept.get("facts", []), ("dla_clock",))
    device["modes"] = kept.get("modes", [])
    device["sources"] = {**kept_sources(device, kept.get("sources", {})), **sources.table}
    return device


def with_kept_levels(
    found: list[dict[str, Any]], kept: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The levels of the table, divided into parts as before, then those that only the file has."""
    parts = {level["name"]: level.get("instance_bytes") for level in kept}
    divided = [
        level | {"instance_bytes": part} if (part := parts.get(level["name"])) else level
        for level in found
    ]
    names = {level["name"] for level in found}
    return divided + [level for level in kept if level["name"] not in names]


def with_kept(
    found: list[dict[str, Any]], kept: list[dict[str, Any]], names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The rows of the table, then those by these names that only the file has."""
    have = {row["name"] for row in found}
    return found + [row for row in kept if row["name"] in names and row["name"] not in have]


def kept_sources(device: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """The sources of the file that what was kept of it refers to."""
    rows = [*device["demonstrated"], *device["memory"], *device["facts"], *device["modes"]]
    used = {row.get(f) for row in rows for f in ("source", "capacity_source", "bandwidth_source")}
    used |= {device.get(source) for _, source in POWERS}
    return {key: source for key, source in kept.items() if key in used}


def unknown(rows: dict[str, Row], filled: dict[str, Row]) -> list[str]:
    blank = [
        name
        for name, row in rows.items()
        if not row["value"] and not DOES_NOT_EXIST.search(row["note"])
    ]
    if not any(name in filled for name in DRAM):  # no DRAM: nothing of it is missing
        blank = [name for name in blank if name not in DRAM]
    return sorted(blank)


def ceiling_of(quantity: str) -> tuple[str, str, str] | None:
    """Engine, dtype and accumulator of a ``peak_*`` row; None when it is no ceiling."""
    for prefix, engine in ENGINES.items():
        if quantity.startswith(prefix) and not quantity.endswith("_alt"):
            dtype, _, rest = quantity.removeprefix(prefix).partition("_")
            return engine, dtype, "fp16" if rest.startswith("fp16acc") else ""
    return None


def ceilings(filled: dict[str, Row], sources: Sources, architecture: str) -> list[dict[str, Any]]:
    found = []
    for quantity, row in filled.items():
        place = ceiling_of(quantity)
        if place is None or quantity.endswith("_sparse"):
            continue
        entry: dict[str, Any] = {"engine": place[0], "dtype": place[1]}
        entry |= {"accumulate": place[2]} if place[2] else {}
        entry |= {"flop_per_s": number(row), "source": sources.key(row)}
        sparse = filled.get(f"{quantity}_sparse")
        if sparse is not None:
            entry |= {"sparse_flop_per_s": number(sparse), "sparse_source": sources.key(sparse)}
        found.append(entry | note(row))
    return found + derived_bf16(found, sources, architecture)


def derived_bf16(
    found: list[dict[str, Any]], sources: Sources, architecture: str
) -> list[dict[str, Any]]:
    have = {entry["dtype"]: entry for entry in found if entry["engine"] == "matrix"}
    if architecture not in BF16_AT_FP16_RATE or "bf16" in have or "fp16" not in have:
        return []
    source = sources.key(
        {
            "source_title": next(iter(TITLES)),
            "source_url": "",
            "confidence": "derived",
        }
    )
    entry = have["fp16"] | {"dtype": "bf16", "source": source}
    if "sparse_flop_per_s" in entry:
        entry["sparse_source"] = source
    entry["note"] = f"equal to fp16: {BF16_AT_FP16_RATE[architecture]} run both at one rate"
    return [entry]


def memory(filled: dict[str, Row], sources: Sources) -> list[dict[str, Any]]:
    names = {"DRAM": ("memory_capacity", "dram_bandwidth")}
    names |= {name: (f"{key}_capacity", f"{key}_bandwidth") for key, name in LEVELS.items()}
    found = []
    for name, (capacity, bandwidth) in names.items():
        entry: dict[str, Any] = {"name": name}
        if name == "DRAM" and "memory_type" in filled:
            entry["technology"] = filled["memory_type"]["value"]
        if capacity in filled:
            entry["capacity_bytes"] = int(number(filled[capacity]))
            entry["capacity_source"] = sources.key(filled[capacity])
        if bandwidth in filled:
            entry["byte_per_s"] = number(filled[bandwidth])
            entry["bandwidth_source"] = sources.key(filled[bandwidth])
        texts = [filled[q]["note"] for q in (capacity, bandwidth) if q in filled]
        if len(entry) > 1:
            found.append(entry | note({"note": "; ".join(filter(None, texts))}))
    return found


def links(filled: dict[str, Row], sources: Sources) -> list[dict[str, Any]]:
    found = []
    for quantity, row in filled.items():
        if quantity.startswith("interconnect_"):
            entry = {
                "name": quantity.removeprefix("interconnect_").replace("_", "-"),
                "byte_per_s": number(row),
                "direction": direction(row["note"]),
                "source": sources.key(row),
            }
            text = row["note"].removeprefix(f"{entry['direction']}; ")
            found.append(entry | note({"note": text}))
    return found


def direction(text: str) -> str:
    """The sense of a link's figure: what its note mentions first."""
    places = {
        "per direction": text.find("per direction"),
        "bidirectional total": text.find("bidirectional"),
    }
    named = {sense: place for sense, place in places.items() if place >= 0}
    return min(named, key=lambda sense: named[sense]) if named else "unknown"


def facts(filled: dict[str, Row], sources: Sources) -> list[dict[str, Any]]:
    prefixes = ("rate_per_clk_per_unit_",)
    names = {"base_clock", "boost_clock", "boost_clock_vector", "num_units", "ddr_capacity"}
    names |= {"l2_read_bytes_per_clk", "sparsity_multiplier", "peak_npu"}
    return [
        {
            "name": quantity.replace("_gpu_", "_"),
            "value": number(row),
            "unit": row["unit"],
            "source": sources.key(row),
            **note(row),
        }
        for quantity, row in filled.items()
        if quantity in names or quantity.startswith(prefixes) or quantity.endswith("_alt")
    ]


def note(row: Row) -> dict[str, str]:
    text = row["note"]
    for old, new in NOTES.items():
        text = text.replace(old, new)
    return {"note": text} if text else {}


def number(row: Row) -> float | int:
    value = float(row["value"])
    return int(value) if value.is_integer() and value < 1e6 else value


def covered(quantity: str) -> bool:
    """Whether `convert` has a place for a quantity; nothing of the table may be dropped."""
    labels = {"vendor", "class", "architecture", "year", "tdp", *DRAM}
    places = {f"{key}_{what}" for key in LEVELS for what in ("capacity", "bandwidth")}
    row = {quantity: {"value": "1", "unit": "", "note": "", "source_title": ""}}
    for entry in row.values():
        entry |= {"source_url": "", "confidence": "derived"}
    return (
        quantity in labels | places
        or quantity.startswith("interconnect_")
        or ceiling_of(quantity) is not None
        or bool(facts(row, Sources()))
    )


def dump(device: dict[str, Any]) -> str:
    """The file's text: plain fields, then one block a figure, then the sources."""
    lines = []
    tables = {key: value for key, value in device.items() if is_table(value)}
    for key, value in device.items():
        if key not in tables and value not in ([], ""):
            lines.append(f"{key} = {scalar(value)}")
    for key, rows in tables.items():
        if isinstance(rows, list):
            for row in rows:
                lines += ["", f"[[{key}]]", *(f"{k} = {scalar(v)}" for k, v in row.items())]
        else:
            for name, row in rows.items():
                lines += ["", f"[{key}.{name}]", *(f"{k} = {scalar(v)}" for k, v in row.items())]
    return "\n".join(lines) + "\n"


def is_table(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    )


def scalar(value: Any) -> str:
    if isinstance(value, list):
        if len(value) < 2 and sum(map(len, value)) < 80:
            return "[" + ", ".join(map(scalar, value)) + "]"
        return "[\n" + "".join(f"  {scalar(item)},\n" for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # TOML's basic strings are JSON's
    if isinstance(value, float) and abs(value) >= 1e6:
        mantissa, exponent = f"{value:.15e}".split("e")
        return f"{float(mantissa)!r}e{int(exponent)}"
    return repr(value)


def read_table(path: Path) -> dict[str, dict[str, Row]]:
    """Rows by device and quantity."""
    devices: dict[str, dict[str, Row]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows = devices.setdefault(row["device"], {})
            if row["quantity"] in rows or not covered(row["quantity"]):
                sys.exit(f"{path}: {row['device']}: {row['quantity']} is doubled or unknown.")
            rows[row["quantity"]] = row
    return devices


def kept_parts(folder: Path) -> dict[str, dict[str, Any]]:
    """What exists of each device already, by full name."""
    files = [p for p in folder.glob("*.toml") if p != catalog.AMBIGUOUS_FILE]
    return {table["name"]: table for table in (tomllib.loads(p.read_text()) for p in files)}


def write_index() -> None:
    devices = catalog.read_files()
    shared = tomllib.loads(catalog.AMBIGUOUS_FILE.read_text())
    built = catalog.build_index(devices, shared)
    text = msgspec.json.format(msgspec.json.encode(built), indent=1)
    catalog.INDEX_FILE.write_bytes(text + b"\n")
    catalog.DEVICES_FILE.write_bytes(catalog.encoded(devices))
    runtimes.BUILT.write_bytes(msgspec.json.encode(runtimes.read_files()) + b"\n")
    energy = tomllib.loads(energy_constants.BUILT.with_suffix(".toml").read_text("utf-8"))
    energy_constants.BUILT.write_bytes(msgspec.json.encode(energy) + b"\n")
    print(f"{catalog.INDEX_FILE}: {len(built.vendors)} devices, {len(built.names)} names")


def slug(name: str) -> str:
    return "-".join(re.findall(r"[a-z0-9+]+", name.lower()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?", help="CSV file of figures")
    parser.add_argument("--index", action="store_true", help="only renew index and devices")
    arguments = parser.parse_args()
    if (arguments.table is None) != arguments.index:
        parser.error("give either a table or --index")
    if arguments.table is not None:
        kept = kept_parts(catalog.CATALOG)
        for name, rows in read_table(arguments.table).items():
            device = convert(rows, kept.get(name, {"id": slug(name), "name": name}))
            (catalog.CATALOG / f"{device['id']}.toml").write_text(dump(device), encoding="utf-8")
    write_index()


if __name__ == "__main__":
    main()
