"""The catalog in a terminal: every figure with its source, unknown said, names shown as text."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from rich.cells import cell_len
from rich.text import Text

from gambrel.device.catalog import list_devices
from gambrel.device.listing import Filter, list_rows
from gambrel.device.model import Ceiling, CeilingKind, Device, Link, MemoryLevel, Source
from gambrel.report import Options, render
from gambrel.report.answers import Devices, Sheet

SHEET = Source(
    title="Example data sheet, table 3",
    url="https://example.com/sheet.pdf",
    date="2024-05-01",
    confidence="primary",
)
PRESS = Source(title="Example press note", confidence="secondary")

#: 100 TFLOP/s over 1 TB/s: ridge 100 dense, 200 sparse; 10 TFLOP/s: 10; int8 200 TOP/s: 200.
BOARD = Device(
    id="board-16",
    name="Example Board 16GB",
    vendor="Example",
    category="edge",
    architecture="Circle",
    year=2024,
    aliases=("board", "the [bold]board[/]"),
    tdp_w=15.0,
    tdp_source=SHEET,
    ceilings=(
        Ceiling(
            engine="matrix",
            dtype="fp16",
            flop_per_s=100e12,
            sparse_flop_per_s=200e12,
            source=SHEET,
            sparse_source=PRESS,
        ),
        Ceiling(engine="matrix", dtype="int8", flop_per_s=200e12, source=SHEET),
        Ceiling(
            engine="matrix",
            dtype="fp16",
            flop_per_s=150e12,
            source=SHEET,
            accumulate="fp16",
            kind=CeilingKind.DERIVED,
            note="sums in half precision",
        ),
        Ceiling(engine="vector", dtype="fp32", flop_per_s=10e12, source=PRESS),
    ),
    memory=(
        MemoryLevel(
            name="DRAM",
            capacity_bytes=16 * 2**30,
            byte_per_s=1e12,
            technology="LPDDR5",
            capacity_source=SHEET,
            bandwidth_source=PRESS,
        ),
        MemoryLevel(name="L2", capacity_bytes=4 * 2**20, capacity_source=SHEET),
    ),
    links=(Link(name="pcie", byte_per_s=32e9, direction="per direction", source=SHEET),),
    unknown=("L2 bandwidth", "clock"),
)
BARE = Device(id="bare", name="Bare Metal")


def shown(device: Device, *notes: str, **options: object) -> str:
    return str(render(Sheet(device=device, notes=notes), "table", Options(**options)))  # type: ignore[arg-type]


def row(text: str, *first: str) -> list[str]:
    """The words of the one line that starts with these."""
    found = [x.split() for x in text.splitlines() if x.split()[: len(first)] == list(first)]
    assert len(found) == 1
    return found[0]


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden("hardware_80.txt", shown(BOARD, "board is ambiguous: using board-16.", width=80))


def test_ceilings_dense_and_sparse_apart() -> None:
    text = shown(BOARD, width=120)
    assert row(text, "matrix", "fp16", "100") == [
        *("matrix", "fp16", "100", "T", "100", "200", "T", "200", "datasheet", "[1][2]")
    ]
    assert row(text, "matrix", "int8") == [
        *("matrix", "int8", "200", "T", "200", "–", "–", "datasheet", "[1]")
    ]
    assert row(text, "matrix", "fp16", "(fp16")[4:7] == ["150", "T", "150"]
    assert row(text, "vector", "fp32")[2:5] == ["10", "T", "10"]
    assert "sums in half precision" in text


def test_sources_are_numbered_once_in_order_of_use() -> None:
    lines = shown(BOARD, width=200).splitlines()
    at = lines.index("Sources")
    assert lines[at + 1 :] == [
        "[1]  Example data sheet, table 3, 2024-05-01 (primary) https://example.com/sheet.pdf",
        "[2]  Example press note (secondary)",
    ]


def test_both_readings_are_explained() -> None:
    text = shown(BOARD, width=200)
    assert "ridge point 100 dense, 200 sparse, FLOP/byte" in text


def test_unknown_is_said() -> None:
    text = shown(BOARD, width=120)
    assert row(text, "L2") == ["L2", "–", "4", "MiB", "unknown", "[1]"]
    assert "Unknown\n• L2 bandwidth, clock\n" in text


def test_a_device_of_which_nothing_is_known() -> None:
    text = shown(BARE)
    assert text.splitlines()[:2] == ["Bare Metal (bare)", "TDP unknown"]
    assert "No compute roof is known." in text
    assert "No memory level is known." in text
    assert "Sources" not in text
    assert "None" not in text


def test_names_are_not_markup_and_cannot_colour() -> None:
    assert "the [bold]board[/]" in shown(BOARD)
    evil = msgspec.structs.replace(BOARD, name="x\x1b[31m[red]y")
    assert shown(evil).startswith("x\\x1b[31m[red]y (board-16)\n")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_device_of_the_catalog_is_wider_than_the_terminal(width: int) -> None:
    for device in list_devices():
        lines = shown(device, width=width).splitlines()
        assert max(map(cell_len, lines)) <= max(width, 72), device.id


def test_colour_changes_nothing_but_colour() -> None:
    colored, plain = shown(BOARD, color=True), shown(BOARD)
    assert "\x1b" in colored
    assert [Text.from_ansi(x).plain.rstrip() for x in colored.splitlines()] == plain.splitlines()


def listing(width: int, **wanted: str) -> list[str]:
    rows = list_rows(Filter(**wanted))  # type: ignore[arg-type]
    found = Devices(devices=tuple(rows))
    return str(render(found, "table", Options(width=width))).splitlines()


def test_list_has_a_line_per_device() -> None:
    lines = listing(200)
    count = len(list_devices())
    assert count >= 103
    assert lines[0] == f"{count} devices"
    assert lines[count + 4].startswith("Peaks are dense")  # after a heading, a rule, the devices


def test_list_figures() -> None:
    lines = listing(200, text="a100-sxm4-80gb")
    # 312 T / 2.039 T = 153.0
    assert lines[4].split() == [
        *("a100-sxm4-80gb", "NVIDIA", "A100", "SXM4", "80GB", "datacenter", "gpu", "2020"),
        *("fp16", "312", "T", "2.039", "T", "153", "80", "GiB", "400", "W"),
    ]


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (40, ["device", "dense", "byte/s"]),
        (60, ["device", "format", "dense", "byte/s", "ridge"]),
        (80, ["device", "format", "dense", "byte/s", "ridge", "memory", "TDP"]),
    ],
)
def test_list_drops_columns_by_importance(width: int, headings: list[str]) -> None:
    lines = listing(width)
    assert lines[2].split() == headings
    assert max(map(cell_len, lines)) <= width


def test_empty_list_says_how_to_see_all() -> None:
    assert listing(80, text="no such thing") == [
        "No device matches. Run 'gambrel hardware list' to see all."
    ]
