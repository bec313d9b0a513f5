"""The chart description: one truth for every renderer."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest

import gambrel
from gambrel.analysis.measures import EngineWork
from gambrel.analysis.result import Analysis
from gambrel.report.chart import BOUND_COLORS, SHAPES, ChartPoint, RooflineChart, decades, describe
from tests.report import samples


def named(chart: RooflineChart, name: str) -> ChartPoint:
    return next(p for p in chart.points if p.name == name)


def roof_at(chart: RooflineChart, intensity: float) -> float | None:
    """The highest rate that the used roofs allow at an intensity; None without any."""
    peak = max((r.peak_flop_per_s for r in chart.roofs if r.used), default=math.inf)
    slope = max((m.byte_per_s for m in chart.memory_roofs if m.used), default=math.inf)
    height = min(peak, intensity * slope)
    return None if math.isinf(height) else height


def test_golden(golden: Callable[[str, str], None]) -> None:
    raw = msgspec.json.encode(describe(samples.tiny()))
    golden("chart.json", msgspec.json.format(raw, indent=2).decode() + "\n")


def test_roofs_of_the_device() -> None:
    chart = describe(samples.tiny())
    assert [(r.label, r.used) for r in chart.roofs] == [
        ("matrix int8 200 TFLOP/s", False),
        ("matrix fp16 100 TFLOP/s", True),
        ("vector fp32 10 TFLOP/s", True),
    ]
    # L1 has no published bandwidth: absent rather than invented.
    assert [(m.label, m.used) for m in chart.memory_roofs] == [
        ("L2 5 TB/s", False),
        ("DRAM 1 TB/s", True),
    ]


def test_roofs_of_one_height_are_one_line() -> None:
    labels = [r.label for r in describe(samples.empty()).roofs]
    assert "matrix fp16, bf16 100 TFLOP/s" in labels


def test_ridge_points() -> None:
    ridges = describe(samples.tiny()).ridges
    # 100e12 / 1e12 and 10e12 / 1e12
    assert [(r.arithmetic_intensity, r.flop_per_s, r.main) for r in ridges] == [
        (100.0, 100e12, True),
        (10.0, 10e12, False),
    ]


def test_points_by_hand() -> None:
    chart = describe(samples.tiny())
    conv = named(chart, "conv1")
    assert conv.arithmetic_intensity == 118.0  # 236e6 / 2e6
    assert conv.flop_per_s == pytest.approx(100e12)
    assert (conv.bound, conv.kind, conv.margin) == ("compute", "convolution", "")
    relu = named(chart, "relu")
    assert relu.arithmetic_intensity == 0.25  # 0.8e6 / 3.2e6
    assert relu.flop_per_s == pytest.approx(0.25e12)
    # Area shows time: sqrt(3.2 / 9.24)
    assert relu.size == pytest.approx(0.5885, abs=1e-4)
    assert chart.points[0].name == "layer1.*.conv2"
    assert chart.points[0].size == 1.0


def test_no_work_and_no_traffic_go_to_the_margins() -> None:
    chart = describe(samples.tiny())
    copy, on_chip = named(chart, "layer2.0.cat"), named(chart, "layer2.0.on_chip")
    assert (copy.margin, copy.arithmetic_intensity, copy.flop_per_s) == ("left", None, None)
    assert copy.note == "no work: intensity 0"
    assert (on_chip.margin, on_chip.arithmetic_intensity) == ("right", None)
    assert on_chip.flop_per_s == pytest.approx(10e12)
    assert on_chip.note == "no traffic: infinite intensity"
    lost = named(chart, "layer2.0.mystery")
    assert (lost.margin, lost.bound) == ("left", "unknown")
    assert lost.note.startswith("cost unknown")


def test_unknown_device() -> None:
    chart = describe(samples.unknown())
    assert chart.roofs == chart.memory_roofs == chart.ridges == ()
    assert roof_at(chart, 1.0) is None
    assert named(chart, "conv1").margin == "bottom"
    assert chart.total.margin == "bottom"


@pytest.mark.parametrize("build", [samples.tiny, samples.hostile, samples.large])
def test_no_point_lies_above_the_roofs(build: Callable[[], Analysis]) -> None:
    chart = describe(build())
    for point in (*chart.points, chart.total):
        if point.arithmetic_intensity is not None and point.flop_per_s is not None:
            roof = roof_at(chart, point.arithmetic_intensity)
            assert roof is not None
            assert point.flop_per_s <= roof * (1 + 1e-9)


@pytest.mark.parametrize(
    "build", [samples.tiny, samples.hostile, samples.empty, samples.unknown, samples.large]
)
def test_limits_contain_points_ridges_and_roofs(build: Callable[[], Analysis]) -> None:
    chart = describe(build())
    (left, right), (low, high) = chart.x_range, chart.y_range
    assert 0 < left < right < math.inf
    assert 0 < low < high < math.inf
    xs = [p.arithmetic_intensity for p in (*chart.points, chart.total)]
    xs += [r.arithmetic_intensity for r in chart.ridges]
    ys = [p.flop_per_s for p in (*chart.points, chart.total)]
    ys += [r.peak_flop_per_s for r in chart.roofs]
    assert all(left < x < right for x in xs if x is not None)
    assert all(low < y < high for y in ys if y is not None)


def test_a_roof_that_the_device_does_not_list_is_drawn() -> None:
    analysis = samples.tiny()
    work = EngineWork(
        work_class="matrix", dtype="fp16", flops=1, engine="dla", engine_dtype="int4",
        peak_flop_per_s=7e12,
    )  # fmt: skip
    total = msgspec.structs.replace(
        analysis.total, work=(*analysis.total.work, work), peak_byte_per_s=3e12
    )
    chart = describe(msgspec.structs.replace(analysis, total=total))
    assert ("dla int4 7 TFLOP/s", True) in [(r.label, r.used) for r in chart.roofs]
    assert ("DRAM 3 TB/s", True) in [(m.label, m.used) for m in chart.memory_roofs]


def test_sparse_peaks_where_asked_for() -> None:
    sparse = msgspec.structs.replace(samples.empty(), sparsity=True)
    roofs = {r.label: r.source for r in describe(sparse).roofs}
    assert "structured sparsity" in roofs["matrix fp16, int8 200 TFLOP/s"]


def test_shapes_follow_time_and_the_last_is_shared() -> None:
    chart = describe(samples.tiny())
    assert chart.kinds["convolution"] == "circle"
    assert chart.kinds["elementwise"] == "square"
    rows = tuple(samples.Row(name=f"op{i}", kind=f"kind{i}", read=100 - i) for i in range(12))
    kinds = describe(samples.build(rows)).kinds
    assert list(kinds.values())[:9] == list(SHAPES)
    assert kinds["kind11"] == SHAPES[-1]
    assert "star" not in kinds.values()


def test_points_know_their_block() -> None:
    chart = describe(samples.tiny())
    assert named(chart, "layer1.*.conv2").module == "layer1.*"
    assert named(chart, "fc").module == "fc"
    assert set(chart.modules) == {p.module for p in chart.points}


def test_colours_differ() -> None:
    light, dark = zip(*BOUND_COLORS.values(), strict=True)
    assert len(set(light)) == len(set(dark)) == len(BOUND_COLORS)


def test_decades() -> None:
    assert decades(0.5, 200) == [1.0, 10.0, 100.0]
    assert decades(2, 5) == []


def test_heading() -> None:
    assert describe(samples.tiny()).title == "tinynet, batch 1, image 224, fp16 on Round 100"
    assert describe(samples.tiny(), "mine").title == "mine"


@pytest.mark.parametrize(
    ("model", "device"),
    [("yolov8n", "jetson-orin-nano-8gb"), ("resnet50", "h100"), ("mobilenet-v2", "coral-edge-tpu")],
)
def test_no_op_of_a_compiled_graph_lies_above_the_roofs(model: str, device: str) -> None:
    """What an engine folds away has no time of its own, and so no rate."""
    analysis = gambrel.analyze(model, hardware=device, runtime=_ENGINES.get(device))
    shares = [t.utilization for op in analysis.ops for t in op.measures.times]
    assert all(share is None or share <= 1 + 1e-9 for share in shares)
    for point in describe(analysis).points:
        if point.flop_per_s and point.attainable_flop_per_s:
            assert point.flop_per_s <= point.attainable_flop_per_s * (1 + 1e-9)


_ENGINES = {"h100": "tensorrt"}
