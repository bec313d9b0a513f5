"""The terminal table and the Markdown: what is shown at which width, and what is never hidden."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.text import Text

from gambrel.analysis.result import Analysis
from gambrel.report import Options, render
from tests.report import samples

Golden = Callable[[str, str], None]
ALL = (samples.tiny, samples.hostile, samples.empty, samples.unknown, samples.estimated)


def text(analysis: Analysis, **options: object) -> str:
    return str(render(analysis, "table", Options(**options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [80, 200])
def test_golden(width: int, golden: Golden) -> None:
    golden(f"table_{width}.txt", text(samples.tiny(), width=width))


def test_golden_hostile(golden: Golden) -> None:
    golden("table_hostile.txt", text(samples.hostile(), width=80))


def test_golden_unknown(golden: Golden) -> None:
    golden("table_unknown.txt", text(samples.unknown(), width=80))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 159, 160, 200, 300])
@pytest.mark.parametrize("build", ALL)
def test_no_line_is_wider_than_the_terminal(build: Callable[[], Analysis], width: int) -> None:
    lines = text(build(), width=width).splitlines()
    # Below 60 columns the figures that always stay may need a little more.
    assert max(map(cell_len, lines)) <= max(width, 60)


@pytest.mark.parametrize("build", ALL)
def test_colour_changes_nothing_but_colour(build: Callable[[], Analysis]) -> None:
    analysis = build()
    plain, colored = text(analysis), text(analysis, color=True)
    assert "\x1b" not in plain
    assert colored != plain
    assert [Text.from_ansi(x).plain.rstrip() for x in colored.splitlines()] == plain.splitlines()


def test_wider_terminals_show_more() -> None:
    narrow, wide = text(samples.tiny(), width=80), text(samples.tiny(), width=200)
    assert "1x3x224x224, 64x3x7x7 -> 1x64x112x112" in wide
    assert "1x3x224x224, 64x3x7x7" not in narrow


def test_unmodelled_ops_have_no_figures() -> None:
    line = next(x for x in text(samples.tiny()).splitlines() if "layer2.0.mystery" in x)
    assert line.split() == ["layer2.0.mystery", "?", "?", "?", "?", "?", "?"]
    assert "none for: mystery_op ×1." in " ".join(text(samples.tiny(), width=200).split())


def test_coverage_is_always_printed() -> None:
    for build in ALL:
        said = " ".join(text(build(), verbose=True).split())
        assert "% of the ops and " in said or "no ops that cost" in said


def test_unknown_is_said() -> None:
    shown = text(samples.unknown(), width=120, verbose=True)
    assert "Bound:    unknown; roofline unknown, speed of light unknown" in shown
    assert "ridge point unknown" in shown
    assert "Expected: unknown, as the roofline is" in shown
    assert "capacity unknown" in shown
    assert " 0 s" not in shown


def test_estimate_with_range_and_confidence() -> None:
    shown = " ".join(text(samples.estimated(), width=120, verbose=True).split())
    # One image in 20 µs. 20 µs over a roofline of 32.202 µs: the sample's estimate is made up.
    assert (
        "Expected: 20 µs (16 µs to 26 µs, medium confidence), leaving out 1 op without a formula"
        in shown
    )
    # 11 of the 20 µs are launches.
    assert (
        "Limited by: kernel-launch overhead, 55.0% of the time; roofline 32.2 µs (memory-bound), "
        "speed of light 12.2 µs (no run is faster)"
    ) in shown
    assert ("0.621× the roofline; 55.0% kernel-launch overhead; calibrated on a sibling") in shown


def test_top_ops_first_and_the_rest_is_summed() -> None:
    lines = text(samples.tiny(), top=2).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("op "))
    assert lines[at + 2].startswith("layer1.*.conv2")
    assert lines[at + 3].startswith("fc")
    # 32.202 µs in all; 9.24 + 4.102 shown; 18.86 / 32.202 = 58.6 %. Ten rows are left.
    assert lines[at + 4] == "10 more take 58.6% of the roofline time; --top 0 shows all."


def test_top_zero_lists_all() -> None:
    shown = text(samples.large(300), top=0, width=200)
    assert " more take " not in shown
    assert shown.count("model.layers.") == 300


def test_identical_ops_of_repeated_layers_are_one_row() -> None:
    rows = tuple(
        samples.Row(name=f"layers.{i}.mlp", kind="matmul", matrix=10**9, read=10**6)
        for i in range(32)
    )
    shown = text(samples.build((*rows, samples.Row(name="head", kind="matmul", matrix=10**6))))
    # 32 × 10 µs of 320.01 µs
    line = next(x for x in shown.splitlines() if x.startswith("layers.*.mlp ×32"))
    assert line.split()[2:] == [
        "matmul",
        "32",
        "G",
        "32",
        "M",
        "1000",
        "compute",
        "320",
        "µs",
        "100.0%",
    ]
    assert " more take " not in shown


def test_no_ops() -> None:
    assert "The model has no ops that cost anything." in text(samples.empty())


def test_does_not_fit() -> None:
    import msgspec

    analysis = samples.tiny()
    tight = msgspec.structs.replace(analysis.footprint, capacity_bytes=2**20, fits=False)
    shown = text(msgspec.structs.replace(analysis, footprint=tight), width=120)
    assert "does NOT fit in 1 MiB" in shown


def test_several(golden: Golden) -> None:
    batches = [samples.build(batch=b) for b in (1, 8, 64)]
    golden("compare_80.txt", str(render(batches, "table", Options(width=80))))
    assert "tinynet" in str(render(batches, "table", Options(width=200)))


def test_markdown_golden(golden: Golden) -> None:
    golden("report.md", str(render(samples.tiny(), "markdown")))


def test_markdown_escapes() -> None:
    shown = str(render(samples.hostile(), "markdown"))
    assert "<script" not in shown
    assert "<img" not in shown
    assert "\x1b" not in shown
    # A "|" in a name opens no further cell: every row of ops has 11 of them unescaped.
    rows = [x for x in shown.splitlines() if "HYPERLINK" in x]
    assert [x.replace("\\|", "").count("|") for x in rows] == [11]


def test_markdown_of_several_and_of_none() -> None:
    shown = str(render([samples.tiny(), samples.unknown()], "markdown"))
    assert "| tinynet | batch 1, image 224 | Bare Metal | fp16 | pytorch | unknown |" in shown
    assert "| op |" not in str(render(samples.empty(), "markdown"))


def test_training_and_link_traffic_are_said() -> None:
    import msgspec

    analysis = samples.tiny()
    step = msgspec.structs.replace(
        analysis,
        model=msgspec.structs.replace(analysis.model, training=True),
        total=msgspec.structs.replace(analysis.total, link_bytes=3_000_000),
    )
    shown = text(step, width=120, verbose=True)
    assert "training step" in shown
    assert "3 MB over links" in shown


def test_the_limiter_leads_beside_the_roofline() -> None:
    import gambrel

    analysis = gambrel.analyze(
        "mobilenet-v2", "a100-sxm4-80gb", batch_size=1, precision="fp16", runtime="pytorch"
    )
    shown = " ".join(text(analysis, width=120).split())
    share = analysis.expected_time_s.host_share
    assert f"Limited by: the host, {share:.1%} of the time; roofline " in shown
    assert "(memory-bound), speed of light " in shown
    # 3x3 convolutions have an algorithm with fewer multiplications: the line claims no proof.
    assert analysis.sol.caveats
    assert "no run is faster" not in shown
    # Nothing causal in it: nothing to say about how that was counted.
    assert "Counting" not in text(analysis, verbose=True)


def test_a_rate_that_was_only_reached_is_called_no_limit() -> None:
    import gambrel

    # No clock at full load is published for this processor.
    analysis = gambrel.analyze("resnet50", "xeon-platinum-8580", precision="fp32")
    assert not analysis.sol.proves
    assert "(at the best known rate, which is no limit)" in " ".join(text(analysis).split())


def test_only_the_speed_of_light_claims_that_no_run_is_faster() -> None:
    for build in ALL:
        for line in text(build(), verbose=True, width=300).splitlines():
            at = line.find("no run is faster")
            assert at < 0 or "speed of light" in line[:at]


def test_what_is_folded_is_named() -> None:
    shown, opened = text(samples.tiny()), text(samples.tiny(), verbose=True)
    assert "--verbose shows sums by kind of op, all figures, assumptions" in shown
    assert "by kind" not in shown.replace("by kind of op", "")
    assert "--verbose" not in opened
    assert "Weights are read once per run." in opened
    assert "<details><summary>assumptions</summary>" in str(render(samples.tiny(), "markdown"))


def test_confidence_of_every_row_where_there_is_room() -> None:
    import gambrel

    analysis = gambrel.analyze("bert-base", "h100-sxm5-80gb", precision="fp16")
    wide = text(analysis, width=140, verbose=True)
    row = next(x for x in wide.splitlines() if x.startswith("matmul"))
    assert " high " in row
    assert "confidence op by op" in wide
    assert "| confidence |" in str(render(analysis, "markdown"))


#: Kinds of ResNet-50's ops that the matrix unit does.
MATRIX = {"convolution", "matmul"}


def test_ops_without_a_roof_for_their_arithmetic_have_no_bound() -> None:
    import gambrel

    # A TPU publishes its matrix unit only: element-wise work has the memory's roof alone.
    analysis = gambrel.analyze("resnet50", "tpu-v5e", precision="bf16", runtime="pytorch")
    shown = text(analysis, width=100, top=0)
    lost = [x for x in shown.splitlines() if " unknown " in x]
    assert any(x.startswith("relu ") for x in lost)
    assert not any(x.startswith("fc ") for x in lost)
    counted = [op for op in analysis.ops if op.kind not in MATRIX and op.measures.flops]
    share = sum(op.measures.time_share or 0 for op in counted)
    said = " ".join(shown.split())
    assert f"arithmetic of these ops, {share:.1%} of the roofline time; memory alone" in said
    known = gambrel.analyze("resnet50", "a100-sxm4-80gb", precision="fp16")
    assert "memory alone" not in text(known)
