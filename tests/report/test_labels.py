"""What charts and cards call things: bars, legends, rates, limits."""

from __future__ import annotations

import gambrel
from gambrel.report import document
from gambrel.report.answers import Analyses
from gambrel.report.builders.analyses import pictures
from gambrel.report.options import Options
from gambrel.report.page import page_data
from gambrel.units import format_si


def test_bars_of_one_device_are_told_apart_by_what_differs() -> None:
    made = gambrel.compare(["yolov8n", "mobilenet-v2"], ["l4", "t4"])
    (view, *_) = page_data(made)["views"]
    names = [row["name"] for row in view["charts"][0]["rows"]]
    assert "l4, yolov8n" in names
    assert "t4, mobilenet-v2" in names
    assert not any("batch" in name or "fp16" in name for name in names)


def test_bars_of_several_analyses_say_what_limits_the_expected_time() -> None:
    asked = [gambrel.analyze("resnet50", "jetson-orin-nx-16gb", batch_size=b) for b in (1, 8)]
    found = Analyses(analyses=tuple(asked))
    (bars,) = pictures(found, Options())
    limiters = {a.limited_by.value for a in found.analyses}
    bounds = {a.bound.value for a in found.analyses}
    assert (limiters, bounds) == ({"memory"}, {"compute"})
    assert [key.text for key in bars.legend] == ["limited by memory traffic"]


def test_rates_below_one_are_plain() -> None:
    found = gambrel.sweep("stable-diffusion-1.5", "l4", batch_size=[1, 2])
    (column,) = (c for c in document(found).tables[0].columns if c.key == "items_per_s")
    assert all(cell.startswith("0.") and not cell.endswith("m") for cell in column.cells)


def test_the_speed_of_light_of_a_judged_time_is_that() -> None:
    found = gambrel.judge("vit-b-16", "1ms", "h100")
    (figure,) = (f for f in document(found).figures if f.label == "speed of light")
    assert figure.text == format_si(found.limits.sol_time_s, "s")
    assert format_si(found.limits.cold_time_s, "s") in figure.note
    assert found.limits.sol_time_s < found.limits.cold_time_s
