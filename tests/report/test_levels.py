"""The hierarchical roofline in every picture, and the table of levels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gambrel
from gambrel.analysis.result import Analysis
from gambrel.cli import run
from gambrel.report import Options, render
from gambrel.report.builders.analysis import slowest
from gambrel.report.builders.levels import level_section
from gambrel.report.chart import describe
from gambrel.report.level_points import level_chart
from gambrel.report.picture import COLORS, color
from gambrel.report.plot_interactive import plot
from gambrel.report.terminal import render_block
from tests.report import samples
from tests.report.pages import page


@pytest.fixture(scope="module")
def resnet() -> Analysis:
    return gambrel.analyze("resnet18", "a100-sxm4-80gb", batch_size=1, precision="fp16")


def test_one_rate_and_falling_intensities(resnet: Analysis) -> None:
    found = level_chart(resnet)
    assert found is not None
    assert found.names == ("DRAM", "L2", "L1")
    for point in found.points:
        known = [x for x in point.intensities if x is not None]
        assert known == sorted(known, reverse=True)
    worked = sum(1 for op in resnet.ops if op.measures.flops)
    assert len(found.points) == worked


def test_no_point_lies_above_the_roof_of_its_level(resnet: Analysis) -> None:
    found = level_chart(resnet)
    assert found is not None
    assert found.total is not None
    for point in (*found.points, found.total):
        for intensity, bandwidth in zip(point.intensities, found.byte_per_s, strict=True):
            if intensity is not None and bandwidth is not None:
                assert point.flop_per_s <= intensity * bandwidth * (1 + 1e-9)


def test_the_whole_runs_at_its_bound_with_caches(resnet: Analysis) -> None:
    found = level_chart(resnet)
    assert found is not None
    assert found.total is not None
    assert resnet.cached_roofline_time_s is not None
    assert found.total.flop_per_s == pytest.approx(resnet.flops / resnet.cached_roofline_time_s)
    assert found.total.intensities[0] == pytest.approx(
        resnet.flops / (resnet.cached_traffic_bytes or 0)
    )


def test_nothing_to_show_without_levels() -> None:
    assert level_chart(samples.tiny()) is None
    assert describe(samples.tiny(), levels=True).levels is None
    assert describe(samples.tiny(), levels=True) == describe(samples.tiny())


def test_the_chart_has_them_only_when_asked(resnet: Analysis) -> None:
    assert describe(resnet).levels is None
    chart = describe(resnet, levels=True)
    assert chart.levels == level_chart(resnet)
    assert {m.label.split()[0] for m in chart.memory_roofs} == {"DRAM", "L2", "L1"}
    low, high = chart.x_range
    for point in chart.levels.points if chart.levels else ():
        for intensity in point.intensities:
            assert intensity is None or low < intensity < high


def test_pictures(resnet: Analysis) -> None:
    text = str(render(resnet, "svg", Options(levels=True)))
    for name in ("DRAM", "L2", "L1"):
        assert f"at {name}" in text
    assert "at L2" not in str(render(resnet, "svg"))
    names = [trace.name for trace in plot(resnet, levels=True).data]
    assert names[-3:] == ["at DRAM", "at L2", "at L1"]
    assert "convolution" not in names
    assert resnet.plot(levels=True).data[-1].name == "at L1"


def test_the_page_carries_them(resnet: Analysis) -> None:
    found = page(resnet).data["views"][0]["charts"][0]["levels"]
    assert found["names"] == ["DRAM", "L2", "L1"]
    rows = slowest(resnet)
    assert set(found["row"]) == {-1, *(i for i, op in enumerate(rows) if op.measures.flops)}


def levels(analysis: Analysis) -> str:
    blocks = level_section(analysis, folded=False).blocks
    return "\n".join(render_block(block, Options(width=100)) for block in blocks)


def test_the_table(resnet: Analysis) -> None:
    text = levels(resnet)
    lines = text.splitlines()
    assert lines[0] == "Memory levels"
    assert [line.split()[0] for line in lines[3:6]] == ["DRAM", "L2", "L1"]
    assert sum("longest" in line for line in lines[3:6]) == 1
    assert "2.039 T" in lines[3]
    assert any(line.startswith("slowest ops") for line in lines)
    assert "layer" in text


def test_the_table_says_what_is_unknown() -> None:
    assert "no memory level is known" in levels(samples.tiny())
    one = levels(gambrel.analyze("resnet18", "gh200-96gb"))
    assert "not known" in one


def test_colours_are_distinct() -> None:
    for dark in (False, True):
        shades = {COLORS[color(name)][dark] for name in ("DRAM", "LLC", "L2", "L1", "other")}
        assert len(shades) == 5


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "levels.svg"
    words = ["analyze", "resnet18", "--hardware", "a100-sxm4-80gb", "--levels", "-o", str(target)]
    assert run(words) == 0
    cold = capsys.readouterr().out
    assert "Memory levels" in cold
    assert "at L2" in target.read_text(encoding="utf-8")
    assert run([*words, "--warm"]) == 0
    warm = capsys.readouterr().out
    assert warm.split("Memory levels")[1] != cold.split("Memory levels")[1]


def test_json_has_every_level(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "resnet18", "--hardware", "a100-sxm4-80gb", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    dram, l2, _ = data["total"]["levels"]
    assert data["total"]["cached_traffic_bytes"] == dram["traffic_bytes"] < l2["traffic_bytes"]
    assert data["total"]["cached_roofline_time_s"] < data["total"]["roofline_time_s"]
    assert l2["arithmetic_intensity"] == pytest.approx(l2["flops"] / l2["traffic_bytes"])
    assert len(data["ops"][0]["levels"]) == 3
