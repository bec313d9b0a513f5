"""JSON: nothing is lost, nothing is guessed, and what is no analysis is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.analysis.measures import Bound, EngineWork, Estimate, Measures, ResourceTime, State
from gambrel.analysis.result import Analysis, Group, OpResult
from gambrel.errors import FileFormatError, clean
from gambrel.report import envelope, load_analyses, load_analysis, render
from gambrel.report.json_head import encoded
from gambrel.report.terms import DEFINITIONS, DERIVED
from gambrel.report.units import unit_of
from tests.report import samples

BUILDERS = (
    samples.tiny,
    samples.hostile,
    samples.empty,
    samples.unknown,
    samples.estimated,
)


@pytest.mark.parametrize("build", BUILDERS)
def test_loads_without_loss(build: Callable[[], Analysis]) -> None:
    analysis = build()
    assert load_analysis(str(render(analysis, "json")).encode()) == analysis


def test_loads_two_thousand_ops() -> None:
    analysis = samples.large()
    assert load_analysis(str(render(analysis, "json")).encode()) == analysis


FINITE = st.floats(allow_nan=False, allow_infinity=False)
COUNT = st.integers(0, 2**80)  # beyond 64 bits: counts are exact at any size
MEASURES = st.builds(
    Measures,
    matrix_flops=COUNT,
    vector_flops=COUNT,
    special_ops=COUNT,
    read_bytes=COUNT,
    write_bytes=COUNT,
    link_bytes=COUNT,
    work=st.tuples(
        st.builds(
            EngineWork,
            work_class=st.text(),
            dtype=st.text(),
            flops=COUNT,
            peak_flop_per_s=st.none() | FINITE,
            time_s=st.none() | FINITE,
        )
    ),
    times=st.tuples(
        st.builds(
            ResourceTime,
            resource=st.text(),
            bound=st.sampled_from(Bound),
            time_s=FINITE,
            utilization=FINITE,
        )
    ),
    bound=st.none() | st.sampled_from(Bound),
    roofline_time_s=st.none() | st.floats(0, 1e9),
    expected_time_s=st.none()
    | st.builds(
        Estimate, value=FINITE, low=FINITE, high=FINITE, confidence=st.text(), reason=st.text()
    ),
    peak_flop_per_s=st.none() | st.floats(1, 1e20),
    peak_byte_per_s=st.none() | st.floats(1, 1e20),
    time_share=st.none() | FINITE,
)
OPS = st.lists(
    st.builds(
        OpResult,
        name=st.text(),
        kind=st.text(),
        op=st.text(),
        module=st.text(),
        source=st.text(),
        phase=st.text(),
        state=st.sampled_from(State),
        count=COUNT,
        shapes=st.text(),
        measures=MEASURES,
    ),
    max_size=3,
).map(tuple)
GROUPS = st.lists(st.builds(Group, name=st.text(), count=COUNT, measures=MEASURES), max_size=2)


@settings(deadline=None, max_examples=60)
@given(MEASURES, OPS, GROUPS.map(tuple), st.dictionaries(st.text(), FINITE, max_size=3))
def test_any_analysis_loads_without_loss(
    total: Measures, ops: tuple[OpResult, ...], groups: tuple[Group, ...], shares: dict[str, float]
) -> None:
    analysis = msgspec.structs.replace(
        samples.empty(), total=total, ops=ops, by_kind=groups, by_module=groups, bound_shares=shares
    )
    assert load_analysis(str(render(analysis, "json")).encode()) == analysis


def test_no_stored_field_of_an_op_or_group_is_hidden_by_a_measure() -> None:
    measures = {*Measures.__struct_fields__, *DERIVED}
    assert measures & {*OpResult.__struct_fields__, *Group.__struct_fields__} == {"measures"} - {
        "measures"
    }


def test_promised_keys() -> None:
    data = json.loads(render(samples.tiny(), "json"))
    head = ("type", "schema_version", "gambrel_version", "units", "assumptions", "warnings")
    assert tuple(data)[:6] == head
    assert data["schema_version"] == 2
    assert {"definitions", "model", "hardware", "runtime", "total", "ops"} <= data.keys()
    promised = {
        *("flops", "traffic_bytes", "arithmetic_intensity", "ridge_point", "bound"),
        *("sol_time_s", "sol_bound", "sol_arithmetic_intensity", "roofline_time_s"),
        *("expected_time_s", "expected_low_s", "expected_high_s", "confidence", "limited_by"),
        *("coverage", "coverage_time"),
    }
    keys = promised | {
        *("matrix_flops", "vector_flops", "special_ops", "read_bytes", "write_bytes"),
        *("attainable_flop_per_s", "compute_utilization", "memory_utilization"),
    }
    assert keys <= data["total"].keys()
    assert all(
        {*keys, "name", "kind", "count", "shapes", "state"} <= op.keys() for op in data["ops"]
    )


def test_figures_by_hand() -> None:
    total = json.loads(render(samples.tiny(), "json"))["total"]
    # 236e6 + 924e6 + 50e6 + 4.096e6 in the four matrix ops
    assert total["flops"] == total["matrix_flops"] == 1_214_096_000
    # 2 + 3.2 + 3.2 + 2 + 4 + 3.2 + 1.5 + 2 + 0.4 + 0 + 4.102 MB
    assert total["traffic_bytes"] == 25_602_000
    assert total["ridge_point"] == 100.0  # 100 TFLOP/s over 1 TB/s
    assert total["arithmetic_intensity"] == pytest.approx(47.4219, abs=1e-4)
    # 2.36 + 3.2 + 3.2 + 2 + 9.24 + 3.2 + 1.5 + 2 + 0.4 + 1 + 4.102 µs
    assert total["roofline_time_s"] == pytest.approx(32.202e-6)
    assert total["attainable_flop_per_s"] == pytest.approx(47.4219e12, rel=1e-5)
    assert total["coverage"] == pytest.approx(14 / 15)  # 12 ops and 3 free ones, one unmodelled


def test_infinite_intensity_is_a_text_and_unknown_is_null() -> None:
    ops = {op["name"]: op for op in json.loads(render(samples.tiny(), "json"))["ops"]}
    assert ops["layer2.0.on_chip"]["arithmetic_intensity"] == "Infinity"
    assert ops["layer2.0.cat"]["arithmetic_intensity"] == 0
    assert ops["conv1"]["expected_time_s"] is None
    bare = json.loads(render(samples.unknown(), "json"))["total"]
    assert bare["bound"] is bare["roofline_time_s"] is bare["ridge_point"] is None


def test_every_number_has_a_unit() -> None:
    units = json.loads(render(samples.estimated(), "json"))["units"]
    assert all(units.values())
    assert units["expected_low_s"] == "s"
    assert units["traffic_bytes"] == units["total_bytes"] == "byte"
    assert units["arithmetic_intensity"] == "FLOP/byte"
    assert units["peak_flop_per_s"] == "FLOP/s"
    words = {"bound", "limited_by", "confidence"}
    assert {name for name in DEFINITIONS if unit_of(name) is None} == words


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden("analysis.json", str(render(samples.tiny(), "json")))


def test_several_stand_side_by_side() -> None:
    batches = [samples.build(batch=b) for b in (1, 8)]
    text = str(render(batches, "json"))
    assert load_analyses(text.encode()) == tuple(batches)
    with pytest.raises(FileFormatError, match="several analyses; read it with load_analyses"):
        load_analysis(text.encode())
    assert load_analyses(str(render(batches[0], "json")).encode()) == (batches[0],)


def test_not_finite_is_refused_rather_than_written_as_unknown() -> None:
    broken = msgspec.structs.replace(samples.tiny(), coverage=math.inf)
    with pytest.raises(ValueError, match=r"analysis\.coverage is inf"):
        render(broken, "json")


def _changed(**change: Any) -> bytes:
    return json.dumps(envelope(samples.tiny()) | change, default=str).encode()


def _without(key: str) -> bytes:
    data = envelope(samples.tiny())
    del data["total"][key]
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "no valid JSON"),
        (b"\xff\xfe\x00", "no valid JSON"),
        (b"[" * 100_000, "no valid JSON"),
        (b"{}", '"type" is not "gambrel/analysis"'),
        (b"3", '"type" is not'),
        (b'{"schema_version": 2}', '"type" is not'),
        (_changed(schema_version=99), "schema version 99; this gambrel reads version 2"),
        (_changed(ops=7), "not a complete analysis"),
        (_changed(ops=["x"]), "not a complete analysis"),
        (_changed(total=None), "not a complete analysis"),
        (_changed(coverage=0, hardware={"id": "x"}), "`name`"),
        (_changed(model="resnet50"), "Expected `object`, got `str`"),
        (_without("matrix_flops"), "field 'matrix_flops' is missing"),
        (_without("coverage"), "field 'coverage' is missing"),
    ],
)
def test_broken_data_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        load_analysis(raw)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40_000))
def test_truncated_is_refused(length: int) -> None:
    raw = str(render(samples.tiny(), "json")).rstrip().encode()
    with pytest.raises(FileFormatError):
        load_analysis(raw[: min(length, len(raw) - 1)])


def test_files(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"cannot read .*absent.json: No such file"):
        load_analysis(tmp_path / "absent.json")
    with pytest.raises(FileFormatError, match=r" is a folder; name the files in it"):
        load_analysis(tmp_path)
    path = tmp_path / "a.json"
    path.write_text(str(render(samples.tiny(), "json")), encoding="utf-8")
    assert load_analysis(str(path)) == samples.tiny()
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate((1 << 29) + 1)  # sparse: occupies no disk
    with pytest.raises(FileFormatError, match="larger than"):
        load_analysis(huge)


def test_an_estimate_is_flat() -> None:
    total = json.loads(render(samples.estimated(), "json"))["total"]
    times = ("expected_time_s", "expected_low_s", "expected_high_s", "expected_launches_s")
    assert [total[name] for name in times] == [2e-5, 1.6e-5, 2.6e-5, 1.1e-5]
    assert (total["confidence"], total["confidence_reason"]) == (
        *("medium", "calibrated on a sibling"),
    )
    assert total["limited_by"] == "launches"
    bare = json.loads(render(samples.tiny(), "json"))["total"]
    assert bare["expected_time_s"] is bare["expected_low_s"] is bare["confidence"] is None


def test_why_there_is_no_expected_time_stands_in_every_face() -> None:
    import gambrel
    from gambrel.mcp.records import plain

    analysis = gambrel.analyze("resnet50", "sn40l")
    reason = "no constants were fitted for this device and runtime in bf16"
    data = json.loads(render(analysis, "json"))
    assert data["total"]["expected_time_s"] is None
    assert data["total"]["confidence_reason"] == analysis.confidence_reason == reason
    assert plain(analysis)["confidence_reason"] == reason
    assert reason in " ".join(str(render(analysis, "table")).split())
    assert load_analysis(json.dumps(data).encode()) == analysis


def test_a_real_analysis_loads_without_loss() -> None:
    import gambrel

    analysis = gambrel.analyze("mobilenet-v2", "a100-sxm4-80gb", batch_size=1, precision="fp16")
    data = json.loads(render(analysis, "json"))
    assert all(data["units"].values())
    assert load_analysis(json.dumps(data).encode()) == analysis


@settings(max_examples=200)
@given(st.text())
def test_no_character_of_json_steers_a_terminal(text):
    said = encoded({"name": text})
    assert json.loads(said) == {"name": text}
    assert clean(said) == said


def test_codes_are_escaped_and_letters_stay():
    assert encoded(["\x9b31m\u202e\x7f", "卷积 é 😀"]) == (
        '["\\u009b31m\\u202e\\u007f","卷积 é 😀"]'
    )
    assert encoded("\U000e0041") == '"\\udb40\\udc41"'
