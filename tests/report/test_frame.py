"""The table of ops as a data frame: a row an op, base units, unknown missing."""

from __future__ import annotations

import math
import sys

import pytest

from gambrel.errors import MissingExtraError
from gambrel.report.frame import to_dataframe
from tests.report import samples

pandas = pytest.importorskip("pandas")


def test_a_row_an_op_in_order() -> None:
    analysis = samples.tiny()
    frame = to_dataframe(analysis)
    assert list(frame["name"]) == [op.name for op in analysis.ops]
    assert frame["matrix_flops"].sum() == analysis.total.matrix_flops
    assert frame["vector_flops"].sum() == analysis.total.vector_flops
    assert frame["traffic_bytes"].sum() == analysis.total.traffic_bytes


def test_base_units() -> None:
    row = to_dataframe(samples.tiny()).set_index("name").loc["conv1"]
    assert (row["flops"], row["traffic_bytes"]) == (236_000_000, 2_000_000)
    assert row["arithmetic_intensity"] == 118.0
    # 236e6 FLOP / 100e12 FLOP/s = 2.36 µs, above 2e6 byte / 1e12 byte/s = 2 µs
    assert row["roofline_time_s"] == pytest.approx(2.36e-6)
    assert row["bound"] == "compute"
    assert row["compute_utilization"] == pytest.approx(1.0)
    assert row["memory_utilization"] == pytest.approx(2 / 2.36)


def test_unknown_is_missing_and_never_zero() -> None:
    frame = to_dataframe(samples.tiny()).set_index("name")
    lost = frame.loc["layer2.0.mystery"]
    assert lost["state"] == "unmodelled"
    assert pandas.isna(lost[["roofline_time_s", "bound", "time_share"]]).all()
    assert math.isinf(frame.loc["layer2.0.on_chip", "arithmetic_intensity"])
    bare = to_dataframe(samples.unknown())
    assert bare["roofline_time_s"].isna().all()
    assert bare["ridge_point"].isna().all()


def test_no_ops_still_name_the_columns() -> None:
    empty = to_dataframe(samples.empty())
    assert len(empty) == 0
    assert list(empty.columns) == list(to_dataframe(samples.tiny()).columns)


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="data frame needs pandas, which is not installed"):
        to_dataframe(samples.tiny())
