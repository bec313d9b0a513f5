"""What was shown of a runtime, and what a prediction may be called because of it."""

from __future__ import annotations

import msgspec
import pytest

from gambrel.analysis.estimate.constants import packaged
from gambrel.analysis.estimate.held_out import HeldOut
from gambrel.analysis.estimate.kinship import choose, kin_of
from gambrel.analysis.estimate.shown import shares_shown, shown_of, shows
from gambrel.device.catalog import load

GOOD = HeldOut(points=50, mape=0.1, median=0.1, inside=0.9, width=1.4, by_framework={})


@pytest.mark.parametrize(
    ("changed", "expected"), [({}, True), ({"mape": 0.3}, False), ({"inside": 0.7}, False)]
)
def test_high_must_be_borne_out(changed: dict[str, float], expected: bool) -> None:
    assert shows(msgspec.structs.replace(GOOD, **changed)) is expected


def test_a_set_with_poor_held_out_errors_is_never_high() -> None:
    base, device = packaged(), load("h100-sxm5-80gb")
    kin = kin_of(device, base)
    assert kin is not None
    poor = msgspec.structs.replace(GOOD, mape=0.4)
    for held, level in ((GOOD, "high"), (poor, "medium")):
        sets = tuple(
            msgspec.structs.replace(s, held_out=held, confidence="")
            for s in base.sets
            if (s.form, s.device, s.framework) == ("matmul", device.id, "vllm")
        )
        known = msgspec.structs.replace(base, sets=sets)
        chosen = choose("matmul", "bf16", device, kin, known, "vllm")
        assert chosen is not None
        assert chosen.confidence == level


def test_a_range_that_missed_held_out_rows_in_one_bin_is_not_high_there() -> None:
    base, device = packaged(), load("h100-sxm5-80gb")
    kin = kin_of(device, base)
    assert kin is not None
    held = msgspec.structs.replace(GOOD, inside_by_bin=(0.84, 0.86, None, 0.95))
    ends = {"low": (0.8,) * 4, "high": (1.1,) * 4, "held_out": held, "confidence": ""}
    sets = tuple(
        msgspec.structs.replace(s, **ends)
        for s in base.sets
        if (s.form, s.device, s.framework) == ("matmul", device.id, "vllm")
    )
    known = msgspec.structs.replace(base, sets=sets)
    chosen = choose("matmul", "bf16", device, kin, known, "vllm")
    assert chosen is not None
    assert [chosen.judge(i)[0] for i in range(4)] == ["medium", "high", "high", "high"]
    assert chosen.judge(0)[1].endswith("84% of those held out lay inside the range")


def test_every_kind_of_constants_has_its_lines() -> None:
    base = packaged()
    assert {s.what for s in shown_of(("vllm", "any"), base)} >= {"matmul", "attention"}
    assert {s.what for s in shown_of(("torch", "any"), base)} >= {"elementwise", "softmax"}
    chips = {s.device for s in shown_of(("qnn",), base)}
    assert "snapdragon-8-gen-3" in chips
    assert shown_of(("hailort",), base)
    jetson, nvidia = shown_of(("tensorrt", "any"), base)
    assert "jetson" in jetson.device
    assert "nvidia" in nvidia.device
    assert {(e.what, e.confidence) for e in (jetson, nvidia)} == {("whole runs", "medium")}
    assert shown_of((), base) == ()
    assert len(shares_shown("llama-cpp", base)) == 16


def test_nothing_is_called_high_without_rows() -> None:
    base = packaged()
    names = {name for s in base.sets for name in [s.framework]}
    for name in names:
        for line in shown_of((name,), base):
            assert line.rows > 0
            if line.confidence == "high":
                assert line.error <= 0.25
                assert line.inside is not None and line.inside >= 0.8  # noqa: PT018
