"""A specification under models: figures by hand, the same as one by one, messages, faces."""

import json
from pathlib import Path

import numpy as np
import pytest

import gambrel
import gambrel.advise.design as design_package
from gambrel.advise.design.spec import read_spec
from gambrel.engine.tables import plain
from gambrel.errors import FileFormatError, InputError, UnknownNameError

SPECS = Path(design_package.__file__).with_name("examples")
TPU = "tpu-v1-like"
SMALL = """
name = "small"
[parameters]
rows = 16
sram = "64KiB"
dram = "lpddr4"
[device]
precision = "int8"
rows = "rows"
cols = "rows"
clock = "1GHz"
sram = "sram"
dram = "dram"
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_one_gemm_by_hand(small):
    found = gambrel.design(small, "matmul:m=64,n=64,k=64")
    # 16 x 16 units at 1 GHz: 16 folds of 64 cycles, and 30 to fill and drain once
    assert found.totals["peak_flop_per_s"] == 2 * 256 * 1e9
    assert found.totals["array_time_s"] == pytest.approx(max(16 * 64 + 30, 0) / 1e9, rel=1e-9)
    # three matrices of 4,096 bytes over 12.8 GB/s take 0.96 us, less than the work at peak
    assert found.totals["traffic_bytes"] == 3 * 4096
    assert found.totals["roofline_time_s"] == pytest.approx(2 * 64**3 / 512e9)
    assert found.totals["sol_time_s"] == pytest.approx(2 * 64**3 / 512e9)
    assert found.totals["energy_per_item_j"] is None
    assert found.totals["within"] is None
    # 18 rows need as many folds as 16, and take longer to fill
    gains = {one.parameter: one.time_gain for one in found.sensitivities}
    assert gains["sram"] == 0
    assert gains["rows"] < 0


@pytest.fixture(scope="module")
def swept():
    return gambrel.design(
        TPU,
        ["resnet18", "mobilenet-v2"],
        axes=["rows=64,256", "sram=256KiB:16MiB:x8", "dram=ddr3,hbm3", "dataflow=weight,output"],
        where="within or not within",
    )


def test_times_are_in_order(swept):
    table = swept.sweep.table
    sol, roof, array = (table[f"{n}_time_s"] for n in ("sol", "roofline", "array"))
    assert (sol <= roof * (1 + 1e-12)).all()
    assert (roof <= array * (1 + 1e-12)).all()
    assert (table["array_utilization"] <= 1).all()
    assert swept.sweep.points == len(sol) == 3 * 2 * 3 * 2 * 2


def test_a_point_is_the_same_alone(swept):
    table, at = swept.sweep.table, 18  # resnet18 at the seventh design
    row = {name: plain(values)[at] for name, values in table.items()}
    axes = [
        f"{n}={row[n]!r}" if isinstance(row[n], float) else f"{n}={row[n]}"
        for n in swept.chosen
        if n in row
    ]
    alone = gambrel.design(TPU, row["model"], axes=axes)
    for name in ("sol_time_s", "roofline_time_s", "array_time_s", "traffic_bytes", "area_mm2"):
        assert alone.totals[name] == pytest.approx(row[name], rel=1e-12), name


def test_all_models_together_are_their_sum(swept):
    table = swept.sweep.table
    models = table["model"].texts()
    times = [table["array_time_s"][models == m] for m in ("resnet18", "mobilenet-v2", "all models")]
    assert np.allclose(times[0] + times[1], times[2], rtol=1e-9)


def test_more_of_anything_never_costs_time(swept):
    times = swept.sweep.table["array_time_s"].reshape((2, 3, 2, 2, 3))
    assert (np.diff(times, axis=1) <= 1e-15).all()  # sram
    assert (times[:, :, 1] <= times[:, :, 0] + 1e-15).all()  # hbm3 after ddr3


def test_layers_bounds_and_gains(swept):
    for layer in swept.layers:
        if layer.io_bound_bytes is not None:
            assert layer.tiled_bytes >= layer.io_bound_bytes * (1 - 1e-12)
        assert 0 <= layer.array_utilization <= 1 + 1e-12
        assert (layer.gain > 0) == bool(layer.parameter)
    shares = {}
    for layer in swept.layers:
        shares[layer.model] = shares.get(layer.model, 0) + layer.share
    assert all(0.5 < share <= 1 + 1e-9 for share in shares.values())


def test_points_beyond_a_budget_are_left_out():
    found = gambrel.design(TPU, "resnet18", axes=["rows=256,2048"])
    assert found.sweep.rows == 1
    assert found.chosen["rows"] == 256
    none = gambrel.design(TPU, "resnet18", axes=["rows=2048,4096"])
    assert none.sweep.rows == 0
    assert any("none of the 2 points" in text for text in none.warnings)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('rows = "rows"', ""), r"\[device\] lacks rows"),
        (('precision = "int8"', ""), r"\[device\] lacks precision"),
        (('dram = "dram"', ""), r"\[device\] lacks dram"),
        (('"lpddr4"', '"sdram"'), "no number such as"),
        (('clock = "1GHz"', 'clok = "1GHz"'), "unknown entry of"),
        (('clock = "1GHz"', 'clock = "row"'), "unknown device.clock: parameter"),
        (('clock = "1GHz"', 'clock = "1GHz"\npeak = "rows"'), "less than its arrays do"),
        (('clock = "1GHz"', 'clock = "1GHz"\ndataflow = "sideways"'), "unknown device.dataflow"),
        (("[device]", "[device"), "not a TOML file"),
        (("rows = 16", "rows = 0.5"), "at least 1"),
        (("rows = 16", "rows = true"), "neither a number"),
    ],
)
def test_a_wrong_specification_is_one_sentence(small, change, told):
    small.write_text(SMALL.replace(*change))
    with pytest.raises((InputError, FileFormatError), match=told) as error:
        gambrel.design(small, "resnet18")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("axis", "told"),
    [
        ("rows", "PARAMETER=VALUES"),
        ("row=1:2", "unknown parameter 'row'"),
        ("rows=4:2", "no range"),
        ("rows=1:8:x1", "no range"),
        ("rows=a", "no number"),
        ("rows=lpddr5", "not a number"),
        ("dram=4", "not a name"),
        ("rows=1:1000000000000", "take larger steps"),
    ],
)
def test_a_wrong_axis_is_one_sentence(small, axis, told):
    with pytest.raises(InputError, match=told):
        gambrel.design(small, "resnet18", axes=[axis])


def test_axes_given_twice_and_too_many_points(small):
    with pytest.raises(InputError, match="rows is given twice"):
        gambrel.design(small, "resnet18", axes=["rows=1", "rows=2"])
    with pytest.raises(InputError, match="makes 1,000,000,000,000"):
        gambrel.design(small, "resnet18", axes=["rows=1:1000000", "sram=1000:1000000000:1000"])
    with pytest.raises(UnknownNameError, match="unknown objective"):
        gambrel.design(small, "resnet18", pareto="beauty")


def test_the_examples_can_be_read():
    for path in SPECS.glob("*.toml"):
        spec = read_spec(path)
        assert spec.about
        assert all(part.source for budget in (spec.area, spec.power) for part in budget.parts)


def test_the_report_and_its_json(swept):
    from gambrel.report import render

    text = render(swept, "table")
    assert "What more of each parameter saves" in text
    found = json.loads(render(swept, "json"))
    assert found["type"] == "gambrel/design"
    assert found["units"]["array_time_s"] == "s"
    assert len(found["columns"]["array_time_s"]) == swept.sweep.rows
    assert found["design"]["array_time_s"] == swept.totals["array_time_s"]


#: What Timeloop's front end declares for a component (github.com/Accelergy-Project/timeloopfe,
#: v4/arch.py, 2026-11): a class is told by a part of its name, attributes of memories are these.
TIMELOOP_MEMORIES = ("DRAM", "SRAM", "regfile", "smartbuffer", "storage")
TIMELOOP_COMPUTE = ("mac", "intmac", "fpmac", "compute")
TIMELOOP_ATTRIBUTES = {
    *("datawidth", "technology", "n_banks", "block_size", "cluster_size", "width", "depth"),
    *("entries", "sizeKB", "multiple_buffering", "min_utilization", "shared_bandwidth"),
    *("read_bandwidth", "write_bandwidth"),
}


def check_timeloop(text, study):
    """An architecture 0.4 as that front end and the published example designs have it."""
    yaml = pytest.importorskip("yaml")

    class Nodes(yaml.SafeLoader):
        pass

    for tag in ("Component", "Container"):
        Nodes.add_constructor(
            f"!{tag}",
            lambda loader, node, tag=tag: (tag, loader.construct_mapping(node, deep=True)),
        )
    whole = yaml.load(text, Loader=Nodes)["architecture"]
    assert set(whole) == {"version", "nodes"}
    assert str(whole["version"]) == "0.4"
    names = [node["name"] for _, node in whole["nodes"]]
    assert names == ["system", "DRAM", "chip", "buffer", "PE", "register", "mac"]
    nodes = {node["name"]: node for _, node in whole["nodes"]}
    assert {"global_cycle_seconds", "technology"} == set(nodes["system"]["attributes"])
    for kind, node in whole["nodes"]:
        known = {"name", "attributes", "spatial", "constraints"}
        assert set(node) <= known | ({"class", "subclass"} if kind == "Component" else set())
        if any(part in node.get("class", "") for part in TIMELOOP_MEMORIES):
            own = node["attributes"]
            assert set(own) <= TIMELOOP_ATTRIBUTES
            # A line holds whole words, or the program would see a memory without entries.
            assert own["width"] % own["datawidth"] == 0
    assert nodes["mac"]["class"] in TIMELOOP_COMPUTE
    buffer = nodes["buffer"]["attributes"]
    assert buffer["depth"] * buffer["width"] == 8 * study.device["sram"]
    mesh = nodes["PE"]["spatial"]
    assert (mesh["meshX"], mesh["meshY"]) == (study.device["cols"], study.device["rows"])
    words = nodes["DRAM"]["attributes"]["shared_bandwidth"]
    cycle = float(nodes["system"]["attributes"]["global_cycle_seconds"])
    width = nodes["DRAM"]["attributes"]["datawidth"]
    # The exported figure has six digits.
    assert words * width == pytest.approx(8 * study.device["dram_byte_per_s"] * cycle, rel=1e-5)


def test_the_accelerator_of_a_design_is_exported(tmp_path):
    found = gambrel.design("edge-npu", "resnet18", axes=["dataflow=weight"])
    zigzag = gambrel.export(found, tmp_path / "hw.yaml", "zigzag").read_text()
    assert "sizes: [32, 32]" in zigzag
    assert f"size: {512 * 1024 * 8}" in zigzag
    assert "operands: [I2]" in zigzag  # weights stay in the units
    # 0.07 pJ to multiply in int8 and 0.03 to add in int32
    assert "unit_energy: 0.1 # pJ" in zigzag
    timeloop = gambrel.export(found, tmp_path / "arch.yaml", "timeloop").read_text()
    assert "keep_only: [Weights]" in timeloop
    check_timeloop(timeloop, found)
    with pytest.raises(InputError, match="choose with --to"):
        gambrel.export(found, tmp_path / "x.yaml")
    with pytest.raises(UnknownNameError, match="unknown export format"):
        gambrel.export(found, tmp_path / "x.yaml", "gem5")
    rows = gambrel.design("eyeriss-like", "resnet18")
    with pytest.raises(InputError, match="row-stationary"):
        gambrel.export(rows, tmp_path / "x.yaml", "zigzag")
    assert not (tmp_path / "x.yaml").exists()
