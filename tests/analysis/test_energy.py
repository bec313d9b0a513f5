"""The energy estimate: hand arithmetic, laws, unknown cases, and figures of real devices."""

import csv
import json
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gambrel
from gambrel.analysis import energy_constants
from gambrel.analysis.energy import energy
from gambrel.analysis.energy_constants import memory_energy, node_of, static_power, work_energy
from gambrel.analysis.measures import Bound, EngineWork, Estimate, Measures, ResourceTime
from gambrel.device.catalog import list_devices
from gambrel.device.lookup import find

DATA = tomllib.loads(
    (resources.files("gambrel.analysis") / "energy_constants.toml").read_text(encoding="utf-8")
)
POWER = Path(__file__).parents[1] / "data" / "power.csv"
TPU_V4 = find("tpu-v4").device


def run(seconds, traffic=0, **work):
    """Measures of a run: work by "class_dtype" in FLOP."""
    return Measures(
        read_bytes=traffic,
        roofline_time_s=seconds,
        work=tuple(
            EngineWork(work_class=name.split("_")[0], dtype=name.split("_")[1], flops=flops)
            for name, flops in work.items()
        ),
    )


def test_by_hand():
    # TPU v4: 90 W for 2 s; bf16 products in 7 nm: (0.21 multiply + 0.38 add in fp32) / 2 = 0.295
    # pJ/FLOP; fp32 vector work (1.31 + 0.38) / 2 = 0.845 pJ/FLOP; HBM2 3.92 pJ/bit = 31.36 pJ/byte
    total = run(2.0, traffic=10**12, matrix_bf16=10**14, vector_fp32=10**12)
    found = energy(total, TPU_V4, 4)
    assert found.static_j == pytest.approx(180.0)
    assert found.compute_j == pytest.approx(29.5 + 0.845)
    assert found.memory_j == pytest.approx(31.36)
    assert found.energy_j == pytest.approx(180 + 29.5 + 0.845 + 31.36)
    assert found.energy_upper_bound_j == pytest.approx(192 * 2)  # highest power measured: 192 W
    assert found.average_power_w == pytest.approx(241.705 / 2)
    assert found.energy_per_inference_j == pytest.approx(241.705 / 4)
    assert found.inferences_per_j == pytest.approx(4 / 241.705)
    assert (found.confidence, found.time_kind, found.capped) == ("low", "roofline", False)
    titles = " ".join(s.title for s in found.sources)
    assert "TPU v4 docs" in titles
    assert "Fine-Grained DRAM" in titles
    assert "Ten Lessons" in titles


def test_scaling_between_nodes():
    # 16 nm needs 1/(1 - 60 %) = 2.5 of 7 nm, 5 nm needs 70 % of it, 3 nm 72.5 % of that
    def each(name):
        return work_energy(find(name).device, "matrix", "bf16").value

    seven = (0.21 + 0.38) / 2 * 1e-12
    assert each("tpu-v4") == pytest.approx(seven)
    assert each("a100-sxm4-40gb") == pytest.approx(seven)
    assert each("tpu-v3") == pytest.approx(seven * 2.5)
    assert each("h100-sxm5-80gb") == pytest.approx(seven * 0.7)
    assert each("mi355x") == pytest.approx(seven * 0.7 * 0.725)
    assert (
        "4N is taken as 5 nm" in work_energy(find("h100-sxm5-80gb").device, "matrix", "bf16").note
    )


def test_integers_add_in_int32():
    # (0.07 + 0.03) / 2
    assert work_energy(TPU_V4, "matrix", "int8").value == pytest.approx(0.05e-12)


def test_the_expected_time_comes_first():
    expected = Estimate(value=3.0, low=2.0, high=4.0, confidence="low", reason="a test")
    total = Measures(roofline_time_s=1.0, expected_time_s=expected)
    found = energy(total, TPU_V4, 1)
    assert (found.time_s, found.time_kind, found.static_j) == (3.0, "expected", 270.0)


def test_capped_by_tdp():
    # 1e15 FLOP of bf16 in 1 s would take 295 J; TDP is 192 W
    found = energy(run(1.0, matrix_bf16=10**15), TPU_V4, 1)
    assert found.energy_j == found.energy_upper_bound_j == pytest.approx(192)
    assert found.capped
    assert found.average_power_w == pytest.approx(192)


def test_unknown_parts_make_the_sum_unknown():
    card = find("rtx-6000-ada").device
    found = energy(run(1.0, traffic=10**9, matrix_fp16=10**12), card, 1)
    assert found.energy_j is None
    assert found.static_j is None
    assert found.memory_j == pytest.approx(7.5 * 8e-12 * 1e9)  # GDDR6
    assert found.energy_upper_bound_j == pytest.approx(300)
    assert found.confidence == "unknown"
    assert found.reason == "no published constant for the static power of rtx-6000-ada"
    assert found.average_power_w is found.energy_per_inference_j is found.inferences_per_j is None


def test_a_format_without_a_figure_is_unknown():
    card = find("rtx-4090").device
    found = energy(run(1.0, matrix_fp8=10**12), card, 1)
    assert found.compute_j is found.energy_j is None
    assert found.missing == ("the static power of rtx-4090", "fp8 arithmetic in 5nm")
    assert found.energy_upper_bound_j == pytest.approx(450)


SHARES = DATA["measured"]["datacenter gpu"]


def held(seconds, compute_s, memory_s, host_s=0.0):
    """A run that keeps the tensor cores and the memory busy for so long."""
    expected = Estimate(
        value=seconds, low=seconds, high=2 * seconds, confidence="high", reason="", host_s=host_s
    )
    return Measures(
        read_bytes=1,
        roofline_time_s=seconds / 2,
        expected_time_s=expected,
        work=(EngineWork(work_class="matrix", dtype="fp16", flops=1, time_s=compute_s),),
        times=(
            ResourceTime(resource="DRAM", bound=Bound.MEMORY, time_s=memory_s, utilization=0.5),
        ),
    )


def test_measured_shares_by_hand():
    # H100, 700 W, idle 70 W: 2 s, of which 0.5 s wait for the host; tensor cores 1 s, memory 0.4 s
    found = energy(held(2.0, 1.0, 0.4, host_s=0.5), find("h100-sxm5-80gb").device, 1)
    busy, memory, compute = (700 * SHARES[name] for name in ("busy", "memory", "compute"))
    assert found.static_j == pytest.approx(busy * 1.5 + 70 * 0.5)
    assert found.compute_j == pytest.approx(compute * 1.0)
    assert found.memory_j == pytest.approx(memory * 0.4)
    whole = busy * 1.5 + 35 + compute + memory * 0.4
    assert found.energy_j == pytest.approx(whole)
    assert found.power_low_w == pytest.approx(whole / 2 * SHARES["low"])
    assert found.power_high_w == pytest.approx(min(700, whole / 2 * SHARES["high"]))
    assert found.energy_upper_bound_j == pytest.approx(700 * 4.0)  # the slow end is 4 s
    assert (found.confidence, found.capped) == ("medium", False)


def test_measured_shares_never_exceed_the_design_power():
    found = energy(held(1.0, 1.0, 1.0), find("h100-sxm5-80gb").device, 1)
    assert found.capped
    assert found.energy_j == pytest.approx(700)
    assert found.power_high_w == 700


def test_measured_runs_are_met():
    """Every median within 25 %; the fit itself is `scripts/fit_power.py`."""
    lines = [x for x in POWER.read_text().splitlines() if not x.startswith("#")]
    for row in csv.DictReader(lines):
        model, *sizes = row["runs"].split(";")[0].split()
        given = {name: int(value) for name, value in (s.split("=") for s in sizes)}
        more = {"phase": "decode"} if "context" in given else {"precision": "bf16"}
        batch = given.pop("batch")
        found = gambrel.analyze(model, row["device"], batch_size=batch, **given, **more).energy
        assert found.average_power_w == pytest.approx(float(row["median_w"]), rel=0.25), row
        assert found.power_low_w <= float(row["median_w"]) <= found.power_high_w


def test_typical_power_for_the_time_of_the_run():
    # Hailo-8: 2.5 W typical, 8.65 W at most; nothing is published of its parts
    expected = Estimate(value=0.1, low=0.08, high=0.2, confidence="low", reason="a test")
    found = energy(Measures(expected_time_s=expected), find("hailo-8").device, 1)
    assert found.energy_j == pytest.approx(0.25)
    assert found.energy_upper_bound_j == pytest.approx(8.65 * 0.2)
    assert found.static_j is None
    assert "typical power" in found.reason


def test_nothing_known():
    coral = find("coral-edge-tpu").device
    found = energy(Measures(read_bytes=5), coral, 1)
    assert found.energy_j is found.energy_upper_bound_j is found.time_s is None
    assert found.missing == ("the run's time (no known roof)", "the memory of coral-edge-tpu")
    assert node_of(coral) == ""
    assert static_power(coral) is memory_energy(coral) is None
    assert work_energy(coral, "matrix", "int8") is None


def test_special_functions_are_left_out_and_said():
    found = energy(run(1.0, special_fp32=10**9), TPU_V4, 1)
    assert found.compute_j == 0.0
    assert found.notes == ("evaluations of special functions are not counted",)


amounts = st.integers(0, 10**15)


@given(amounts, amounts, amounts, amounts, st.floats(1e-6, 10))
def test_laws(work, more_work, traffic, more_traffic, seconds):
    less = energy(run(seconds, traffic=traffic, matrix_bf16=work), TPU_V4, 1)
    more = energy(
        run(seconds, traffic=traffic + more_traffic, matrix_bf16=work + more_work), TPU_V4, 1
    )
    assert less.energy_j <= more.energy_j <= more.energy_upper_bound_j
    assert less.compute_j <= more.compute_j
    assert less.memory_j <= more.memory_j
    parts = less.static_j + less.compute_j + less.memory_j
    assert less.energy_j == (less.energy_upper_bound_j if less.capped else pytest.approx(parts))


@pytest.mark.parametrize(("name", "watt"), [("tpu-v3", (220, 262)), ("tpu-v4", (170, 192))])
def test_full_load_of_a_tpu_is_between_its_measured_mean_and_maximum(name, watt):
    """Google publishes min/mean/max of production; only the minimum is an input here."""
    found = find(name).device
    peak = found.ceiling("matrix", "bf16").flop_per_s
    traffic = found.memory[0].byte_per_s
    full = energy(run(1.0, traffic=round(traffic), matrix_bf16=round(peak)), found, 1)
    uncapped = full.static_j + full.compute_j + full.memory_j
    assert watt[0] * 0.95 < full.average_power_w <= watt[1]
    assert uncapped == pytest.approx(watt[1], rel=0.1)


def test_every_constant_names_a_source():
    used = set()
    for table in ("nodes", "architectures", "memories", "measured"):
        for name, entry in DATA[table].items():
            assert entry["source"] in DATA["sources"], (table, name)
            used.add(entry["source"])
    assert used == set(DATA["sources"])
    for name, source in DATA["sources"].items():
        assert source["title"], name
        checked = {"primary", "primary-quoted", "secondary", "derived"}
        assert source["confidence"] in (checked if "checked" in source else {"unverified"}), name
        assert source.get("url") or re.search(r"whitepaper|brief|nvidia-smi", source["title"]), name


def test_constants_are_sane_and_refer_to_the_catalog():
    devices = {d.id: d for d in list_devices()}
    for device in devices.values():
        if device.idle_power_w is not None:
            assert 0.1 * device.tdp_w <= device.idle_power_w <= 0.6 * device.tdp_w
    assert set(DATA["measured"]) <= {d.category for d in devices.values()}
    for start in DATA["architectures"]:
        assert any(d.architecture.startswith(start) for d in devices.values()), start
    technologies = {m.technology for d in devices.values() for m in d.memory}
    for name, entry in DATA["memories"].items():
        assert name in technologies
        assert 1 < entry["pj_per_bit"] < 30
    for node in ("45nm", "7nm"):
        add, mul = DATA["nodes"][node]["add"], DATA["nodes"][node]["mul"]
        assert all(add[f] < mul[f] for f in mul)


def test_what_was_not_compared_with_its_source_is_said():
    # of TPU v3 the process node, 16 nm
    found = energy(run(1.0, matrix_bf16=10**12), find("tpu-v3").device, 1)
    assert len(found.unverified) == 1
    assert "TPU v2 and v3 in 16 nm" in found.unverified[0]
    assert "published constants (1 not compared with their source)" in found.reason
    assert energy(run(1.0, matrix_bf16=10**12), TPU_V4, 1).unverified == ()


def test_in_an_analysis():
    found = gambrel.analyze("resnet50", "h100", batch_size=8).energy
    assert found.inferences == 8
    assert found.confidence == "medium"
    assert 0 < found.energy_j <= found.energy_upper_bound_j
    unknown = gambrel.analyze("resnet50", "graviton4").energy
    assert unknown.energy_j is None
    assert unknown.energy_upper_bound_j is None  # no TDP in the catalog


def test_what_is_missing_is_named_once() -> None:
    import gambrel

    # Matrix and vector work are both in bf16, of which nothing is published here.
    found = gambrel.analyze("resnet50", "tpu-v5e", precision="bf16").energy
    assert found is not None
    assert found.energy_j is None
    assert len(found.missing) == len(set(found.missing))


def test_what_is_read_was_built_from_the_file():
    built = energy_constants.BUILT
    assert json.loads(built.read_text()) == tomllib.loads(built.with_suffix(".toml").read_text())
