"""Questions of a page and their answers, without a server."""

import msgspec
import pytest

import gambrel
from gambrel.analysis.question import FIELDS, fields_of
from gambrel.explorer.controls import TABS, controls, names
from gambrel.explorer.desk import Desk

RESNET = {"model": "resnet18", "hardware": "a100-sxm4-80gb"}


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def analyzed(desk, given, **more):
    return desk.answer({"verb": "analyze", "given": given, "brief": True, **more})


def test_controls_are_the_fields_of_the_questions():
    made = controls()
    assert [tab["verb"] for tab in made["tabs"]] == list(TABS)
    for tab in made["tabs"]:
        assert tab["fields"] == [field.name for field in fields_of(tab["verb"], "page")]
        assert set(tab["start"]) <= set(tab["fields"])
        assert set(tab["sliders"]) <= set(tab["fields"])
    assert made["fields"]["precision"]["help"] == FIELDS["precision"].help
    assert "trust" not in made["fields"]  # that is for who starts the server
    msgspec.json.encode(made)


def test_every_model_and_device_can_be_chosen():
    known = names()
    assert "resnet50" in dict(known["models"])
    assert "a100-sxm4-80gb" in dict(known["devices"])
    assert len(dict(known["models"])) == len(known["models"])


def test_an_answer_has_the_figures_of_the_library(desk):
    made = analyzed(desk, {**RESNET, "batch_size": "8"})
    analysis = gambrel.analyze("resnet18", "a100-sxm4-80gb", batch_size=8)
    expected = made["page"]["views"][0]["answer"][0]
    assert expected == gambrel.report.document(analysis).answer[0]
    batch, image = made["sizes"]
    assert (batch["name"], batch["value"], batch["least"]) == ("batch", 8, 1)
    assert image["step"] == 32
    assert [made["runtime"], made["language"]] == [analysis.runtime, False]
    assert "fp16" in made["precisions"]
    assert analysis.runtime in dict(made["runtimes"])


def test_a_short_answer_has_no_advice_and_the_whole_one_has(desk):
    assert "changes" not in analyzed(desk, RESNET)
    whole = desk.answer({"verb": "analyze", "given": RESNET})
    best = whole["changes"][0]
    assert best["gain"] > 1
    assert analyzed(desk, RESNET, changes=best["changes"])["page"]["type"] == "gambrel/what-if"


def test_devices_stand_side_by_side(desk):
    made = analyzed(desk, {**RESNET, "hardware": "a100-sxm4-80gb,l4"})
    assert made["page"]["type"] == "gambrel/analyses"
    assert len(made["page"]["views"]) == 3
    five = analyzed(desk, {**RESNET, "hardware": "a100,l4,t4,h100,h200"})
    assert five["error"] == "5 devices: at most 4 side by side."


def test_what_is_pinned_is_compared_with(desk):
    made = analyzed(desk, {**RESNET, "batch_size": "16"}, against={**RESNET, "batch_size": "1"})
    chart = made["page"]["views"][0]["charts"][0]
    assert len(chart["moves"]) > 10
    changed = analyzed(desk, RESNET, against=RESNET, changes=["fuse"])["page"]["views"][0]
    alone = analyzed(desk, RESNET, changes=["fuse"])["page"]["views"][0]
    assert changed["answer"][0] == alone["answer"][0]
    assert not changed["answer"][0].startswith("1×")
    back = analyzed(desk, RESNET, against=RESNET, against_changes=["fuse"])["page"]["views"][0]
    assert "slower" in back["answer"][0]
    other = analyzed(desk, {**RESNET, "model": "resnet34"}, against=RESNET)
    assert [v["label"][:8] for v in other["page"]["views"][1:]] == ["resnet18", "resnet34"]


def test_a_roof_of_ones_own(desk):
    made = analyzed(desk, {"model": "resnet18", "peak": "100T", "bandwidth": "1T"})
    roofs = made["page"]["views"][0]["charts"][0]["roofs"]
    assert {roof["peak_flop_per_s"] for roof in roofs} == {100e12}


def test_every_answer_says_its_command(desk):
    given = {"model": "llama-3.1-8b", "hardware": "h100", "input": "1024", "output": "128"}
    made = desk.answer({"verb": "serve-plan", "given": given, "brief": True})
    shell = made["page"]["views"][0]["commands"]["shell"]
    assert shell.startswith("gambrel serve-plan llama-3.1-8b --hardware h100 --input 1024")


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"verb": "import", "given": {}}, "a page does not ask 'import'"),
        ({"given": {}}, "not a request of a page"),
        ({"verb": "analyze", "given": 3}, "not a request of a page"),
        ({"verb": "analyze", "given": RESNET | {"batch_size": "no"}}, "is not a whole number"),
        ({"verb": "analyze", "given": RESNET | {"trust": True}}, "trust"),
        ({"verb": "analyze", "given": {"model": "os:system", "hardware": "l4"}}, "is code"),
        ({"verb": "analyze", "given": {"model": "x.py:f", "hardware": "l4"}}, "is code"),
        ({"verb": "analyze", "given": RESNET | {"model": "upload:../../x"}}, "not here any more"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(desk, request_, said):
    made = desk.answer(request_)
    assert list(made) == ["error"]
    assert said in made["error"]


def test_measured_times_lie_over_the_answer(tmp_path):
    desk = Desk(tmp_path)
    path = tmp_path / "a" / "kernels.csv"
    path.parent.mkdir()
    path.write_text("name,flops,dram_bytes,time\nimplicit_gemm_conv,236027904,5000000,0.0001\n")
    given = {"model": "upload:a/kernels.csv"}
    assert desk.answer({"verb": "file", "given": given}) == {"measured": True}
    asked = {"verb": "analyze", "given": RESNET, "measured": given["model"], "brief": True}
    made = desk.answer(asked)["page"]
    chart = made["views"][0]["charts"][0]
    rates = [rate for rate in chart["points"]["rate"] if rate]
    assert chart["measured"]
    assert rates == [pytest.approx(236027904 / 1e-4, rel=1e-6)]  # its alone: this is no whole run
    assert made["views"][0]["answer"][0].startswith("Measured: unknown; 1 of 68 ops")
    gone = asked | {"measured": "upload:b/kernels.csv"}
    assert "not here any more" in desk.answer(gone)["error"]


def test_what_the_batch_does(desk):
    given = {"model": "resnet50", "hardware": "a100-sxm4-80gb", "batch_size": "48"}
    made = desk.answer({"verb": "analyze", "given": given})
    batches = [dot["at"][0] for dot in made["scan"]["dots"]]
    assert batches == [1, 2, 4, 8, 16, 32, 48, 64, 128, 256, 512]
    assert made["scan"]["mark"] == made["place"]
    rates = dict(dot["at"] for dot in made["scan"]["dots"])
    for batch in (1, 48):
        analysis = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=batch)
        assert rates[batch] == pytest.approx(batch / analysis.expected_time_s.value)
    assert made["scan"]["about"].startswith(
        "Batch 1 to 16: limited by the host; 16 times the batch"
    )
    brief = desk.answer({"verb": "analyze", "given": given, "brief": True})
    assert brief["place"] == made["place"]
    assert brief["why"] == made["why"]
    assert "scan" not in brief


def test_a_batch_says_why_it_is_as_fast_as_it_is(desk):
    """What a reader sees who drags the slider from 1 to 256."""
    said = []
    for batch in (1, 256):
        given = {"model": "resnet50", "hardware": "a100-sxm4-80gb", "batch_size": str(batch)}
        said.append(desk.answer({"verb": "analyze", "given": given, "brief": True})["why"])
    assert said[0].startswith("Batch 1: limited by the host (")
    # 51,220,304 bytes of weights of 210,890,528 that batch 1 moves, 40,926,797,648 that 256 do.
    assert "A run moves 211 MB, 24.3% of it weights" in said[0]
    assert "It does 38.8 FLOP for each byte; from 153 (the ridge point)" in said[0]
    assert said[1].startswith("Batch 256: limited by memory traffic (")
    assert "A run moves 40.9 GB, 0.1% of it weights" in said[1]


def test_the_crossing_of_the_ridge_is_marked(desk):
    given = {"model": "bert-base", "hardware": "a100-sxm4-80gb", "seq": "16"}
    chart = desk.answer({"verb": "analyze", "given": given})["scan"]
    (note,) = chart["notes"]
    first = int(note["text"].removeprefix("ridge crossed at batch ").replace(",", ""))
    bounds = {
        batch: gambrel.analyze("bert-base", "a100-sxm4-80gb", seq=16, batch_size=batch).bound
        for batch in (first // 2, first)
    }
    assert [bound.value for bound in bounds.values()] == ["memory", "compute"]
    assert f"from batch {first:,} on compute-bound" in chart["about"]
    (wall,) = [curve for curve in chart["curves"] if curve["style"] == "faint"]
    assert {x for x, _ in wall["points"]} == {first}


def test_a_ridge_that_no_batch_crosses_is_not_marked(desk):
    given = {"model": "resnet50", "hardware": "a100-sxm4-80gb"}
    chart = desk.answer({"verb": "analyze", "given": given})["scan"]
    assert not chart["notes"]
    assert "memory-bound at every batch" in chart["about"]
