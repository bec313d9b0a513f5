"""Pictures of language models: their figures, their text, where they appear."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import gambrel
from gambrel.analysis.result import Analysis
from gambrel.errors import InputError, UnknownNameError
from gambrel.llm.recipe import recipe_of
from gambrel.report import check_file, render, write
from gambrel.report.answers import Pictures
from gambrel.report.llm_pictures import layer_type, pictures
from gambrel.report.page import page_data
from gambrel.report.picture import CURVES, Axis, Bar, Bars, Chart, Curve, ReferenceLine, formatted
from gambrel.report.serving_chart import pareto
from gambrel.report.svg import draw, draw_file, spread

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def config(path: Path, **changes: Any) -> str:
    path.write_text(json.dumps(LLAMA | changes))
    return str(path)


@pytest.fixture
def decode(tmp_path: Path) -> Analysis:
    return gambrel.analyze(
        config(tmp_path / "config.json"), "h200", phase="decode", batch_size=16, context=2048
    )


def curves(analysis: Analysis, number: int) -> Chart:
    found = pictures(analysis)[number]
    assert isinstance(found, Chart)
    return found


def test_the_star_lies_on_its_curve(decode: Analysis) -> None:
    chart = curves(decode, 0)
    assert chart.mark == (16, decode.total.arithmetic_intensity)
    own = next(c for c in chart.curves if c.name == "2,048 tokens")
    assert dict(own.points)[16.0] == pytest.approx(decode.total.arithmetic_intensity, rel=1e-9)
    assert chart.levels == (ReferenceLine(name="ridge", value=decode.total.ridge_point or 0),)


def test_intensity_by_hand(decode: Analysis) -> None:
    """One sequence: 2 FLOP for each 2 bytes of weights, and 4 for each 2 of cache: a little over 1.

    Llama-3-8B at a context of 2,048: 16.083 GFLOP; weights but the table 15.010 GB, cache 0.268.
    """
    own = next(c for c in curves(decode, 0).curves if c.name == "2,048 tokens")
    assert dict(own.points)[1.0] == pytest.approx(16.083e9 / (15.010e9 + 0.2684e9), rel=0.003)


def test_curves_rise_with_the_batch_and_fall_with_the_context(decode: Analysis) -> None:
    chart = curves(decode, 0)
    for curve in chart.curves:
        values = [y for _, y in curve.points]
        assert values == sorted(values)
    at_largest = [c.points[-1][1] for c in chart.curves]
    assert at_largest == sorted(at_largest, reverse=True)


def test_time_by_layer_type_is_all_of_the_time(decode: Analysis) -> None:
    bars = pictures(decode)[1]
    assert isinstance(bars, Bars)
    assert bars.series == ("roofline", "expected")
    total = decode.total
    assert total.roofline_time_s is not None
    assert total.expected_time_s is not None
    assert sum(r.values[0] for r in bars.rows) == pytest.approx(total.roofline_time_s)
    assert sum(r.values[1] for r in bars.rows) == pytest.approx(total.expected_time_s.value)
    assert {r.name for r in bars.rows} == {
        "attention over the cache",
        "attention projections",
        "feed-forward",
        "norms and residuals",
        "residual additions",
        "lm head",
        "embedding",
    }


def test_cache_against_capacity(decode: Analysis) -> None:
    chart = curves(decode, 2)
    # 16,060,522,496 bytes of weights; 131,072 a token and sequence.
    levels = {v.name: v.value for v in chart.levels}
    assert levels == {"weights": 16_060_522_496, "capacity": decode.footprint.capacity_bytes}
    at = {c.name: dict(c.points) for c in chart.curves}
    assert at["batch 1"][8192] == 16_060_522_496 + 8192 * 131_072
    assert at["batch 128"][2048] == 16_060_522_496 + 128 * 2048 * 131_072
    assert chart.mark == (2048, 16_060_522_496 + 16 * 2048 * 131_072)
    assert {c.style for c in chart.curves} == {"solid"}


def test_windows_need_less_than_is_reserved(tmp_path: Path) -> None:
    path = config(tmp_path / "c.json", model_type="mistral", sliding_window=1024)
    found = gambrel.analyze(path, "h200", phase="decode", context=4096)
    chart = curves(found, 2)
    solid = next(c for c in chart.curves if c.name == "batch 1")
    dashed = next(c for c in chart.curves if c.style == "dashed" and c.color == solid.color)
    weights = chart.levels[0].value
    assert dict(solid.points)[8192] - weights == 8 * (dict(dashed.points)[8192] - weights)


def test_models_without_pictures(tmp_path: Path) -> None:
    assert pictures(gambrel.analyze("resnet18", "a100")) == ()
    with pytest.raises(InputError, match=r"resnet18: pictures of batch, context and cache are"):
        write(Pictures(analysis=gambrel.analyze("resnet18", "a100")), tmp_path / "x.svg")
    assert not (tmp_path / "x.svg").exists()


def test_a_damaged_recipe_gives_no_pictures(decode: Analysis) -> None:
    assert decode.workload is not None
    for text in ("{", "[]", '{"spec": 5}', "null", "[" * 5000):
        broken = replace(decode, workload=replace(decode.workload, recipe=text))
        assert recipe_of(broken.workload) is None
        assert pictures(broken) == ()


def test_the_recipe_is_saved_with_the_analysis(decode: Analysis, tmp_path: Path) -> None:
    decode.save(tmp_path / "a.json")
    loaded = gambrel.load(tmp_path / "a.json")
    assert loaded == decode
    assert pictures(loaded) == pictures(decode)


@pytest.mark.parametrize(
    ("module", "kind", "name"),
    [
        ("moe_layers.*.feed_forward", "softmax", "router"),
        ("moe_layers.*.feed_forward", "sort", "router"),
        ("layers.*.attention", "attention", "attention over the cache"),
        ("layers.*.attention.q_proj", "matmul", "attention projections"),
        ("layers.*.feed_forward.experts.down_proj", "grouped_matmul", "experts"),
        ("layers.*.feed_forward.router", "matmul", "router"),
        ("layers.*.feed_forward.shared_expert.up_proj", "matmul", "shared expert"),
        ("layers.*.feed_forward.up_proj", "matmul", "feed-forward"),
        ("layers.*.input_norm", "normalization", "norms and residuals"),
        ("layers.*.mamba.in_proj", "matmul", "mamba"),
        ("lm_head", "matmul", "lm head"),
        ("layers.*", "collective", "communication"),
        ("layers.*", "elementwise", "residual additions"),
    ],
)
def test_layer_types(decode: Analysis, module: str, kind: str, name: str) -> None:
    assert layer_type(replace(decode.ops[0], module=module, kind=kind)) == name


# The drawing


def texts(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ET.fromstring(svg).iter() if e.tag.endswith("}text")]


def test_drawings_are_whole_and_say_what_they_show(decode: Analysis) -> None:
    for picture in pictures(decode):
        said = texts(draw(picture))
        assert picture.title in said
    drawn = draw(pictures(decode)[0])
    assert {"ridge 206", "2,048 tokens", "batch: sequences at once"} <= set(texts(drawn))
    points = ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}polyline")
    assert len(list(points)) == len(curves(decode, 0).curves)


HOSTILE = '</text><script>alert(1)</script>&"\u202e\x00'


def test_names_are_text_only() -> None:
    chart = Chart(
        title=HOSTILE,
        about=HOSTILE,
        x=Axis(title="x"),
        y=Axis(title=HOSTILE[:30]),
        curves=(Curve(name=HOSTILE, points=((1, 1), (2, 3))),),
        levels=(ReferenceLine(name=HOSTILE, value=2),),
    )
    bars = Bars(
        title=HOSTILE, about="", unit="s", series=(HOSTILE,),
        rows=(Bar(name=HOSTILE, values=(1.0,), color=HOSTILE),),
    )  # fmt: skip
    svg = draw_file((chart, bars))
    root = ET.fromstring(svg)
    assert not [e for e in root.iter() if e.tag.endswith("}script")]
    assert "\x00" not in svg
    assert "\u202e" not in svg


def test_nothing_is_loaded_from_elsewhere(decode: Analysis) -> None:
    svg = draw_file(pictures(decode)).replace('xmlns="http://www.w3.org/2000/svg"', "")
    for word in ("http", "url(", "@import", "<script", "<image", "href"):
        assert word not in svg


def test_points_stay_in_the_frame(decode: Analysis) -> None:
    for line in ET.fromstring(draw(pictures(decode)[2])).iter(
        "{http://www.w3.org/2000/svg}polyline"
    ):
        pairs = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
        assert all(84 <= x <= 620 - 138 for x, _ in pairs)
        assert all(34 <= y <= 360 - 52 for _, y in pairs)


@given(
    wanted=st.lists(st.floats(0, 300), min_size=1, max_size=CURVES).map(sorted),
)
def test_names_never_overlap(wanted: list[float]) -> None:
    places = spread(wanted, 15.0, 40.0, 308.0)
    assert all(b - a >= 15 - 1e-9 for a, b in pairwise(places))
    assert places[-1] <= 308
    if len(wanted) == 1 and 40 <= wanted[0] <= 308:
        assert places == wanted


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1, "count", "1"),
        (1024, "count", "1,024"),
        (32768, "count", "32k"),
        (2**34, "capacity", "16 GiB"),
        (0.00353, "s", "3.53 ms"),
        (206.14, "FLOP/byte", "206"),
    ],
)
def test_numbers(value: float, unit: Any, text: str) -> None:
    assert formatted(value, unit) == text


# Where they appear


def test_the_page_shows_them_for_language_models_only(decode: Analysis) -> None:
    page = str(render(decode, "html"))
    assert "Intensity against batch and context, decode" in page
    other = str(render(gambrel.analyze("resnet18", "a100"), "html"))
    assert "Intensity against batch and context" not in other


@pytest.mark.parametrize(
    ("suffix", "begins"), [(".svg", b"<svg xmlns"), (".png", b"\x89PNG"), (".pdf", b"%PDF")]
)
def test_files(decode: Analysis, tmp_path: Path, suffix: str, begins: bytes) -> None:
    written = write(Pictures(analysis=decode), tmp_path / f"p{suffix}")
    assert written.read_bytes().startswith(begins)


def test_refused_files(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"file suffix '.gif'"):
        check_file(tmp_path / "x.gif", Pictures)
    with pytest.raises(InputError, match=r"there is no folder"):
        check_file(tmp_path / "none" / "x.svg", Pictures)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gambrel", *arguments], capture_output=True, text=True, check=False
    )


def test_the_command(tmp_path: Path) -> None:
    path = config(tmp_path / "config.json")
    target = tmp_path / "p.svg"
    done = run("analyze", path, "-d", "h100", "--phase", "decode", "--pictures", str(target))
    assert done.returncode == 0, done.stderr
    assert f"wrote {target}" in done.stderr
    assert ET.fromstring(target.read_text()).tag.endswith("svg")
    several = run("analyze", path, "-d", "h100", "-b", "1,2", "--pictures", str(target))
    assert several.returncode == 2
    assert "this format shows one analysis" in several.stderr


def test_the_front_of_a_plan(tmp_path: Path) -> None:
    plan = gambrel.serve_plan(
        config(tmp_path / "config.json"), ["h100"], input="1k", output="200", max_devices=2
    )
    chart = pareto(plan)
    assert chart is not None
    *clouds, front = chart.curves
    drawn = {p for c in clouds for p in c.points}
    for x, y in front.points:
        assert not any(a > x and b > y for a, b in drawn)
    assert "Throughput against speed for one user" in str(render(plan, "svg"))
    titles = [c["title"] for c in page_data(plan)["views"][0]["charts"]]
    assert "Throughput against speed for one user" in titles
    assert pareto(replace(plan, points=(), pareto=())) is None


def test_why_the_context_matters(tmp_path: Path) -> None:
    mamba = {"model_type": "mamba2", "num_hidden_layers": 4, "hidden_size": 256, "num_heads": 8}
    mamba |= {"head_dim": 64, "expand": 2, "n_groups": 1, "state_size": 64, "conv_kernel": 4}
    mamba |= {"vocab_size": 1000, "torch_dtype": "bfloat16"}
    path = tmp_path / "mamba.json"
    path.write_text(json.dumps(mamba))
    chart = curves(gambrel.analyze(str(path), "h200", phase="decode", context=700), 0)
    assert [c.name for c in chart.curves] == ["700 tokens"]
    assert "Recurrent state does not grow" in chart.about
    llama = curves(gambrel.analyze(config(tmp_path / "c.json"), "h200", phase="decode"), 0)
    assert "a cache of its own for every sequence" in llama.about
