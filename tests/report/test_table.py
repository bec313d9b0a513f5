"""The terminal table and the Markdown: what is shown at which width, and what is never hidden."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.text import Text

from gambrel.analysis.result import Analysis
from gambrel.report import Options, render, render_many
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
    assert "no formula for: mystery_op ×1" in text(samples.tiny(), width=200)


def test_coverage_is_always_printed() -> None:
    for build in ALL:
        assert "% of ops" in text(build())


def test_unknown_is_said() -> None:
    shown = text(samples.unknown(), width=120)
    assert "bound unknown" in shown
    assert "ridge point unknown" in shown
    assert "Bound time   unknown" in shown
    assert "capacity unknown" in shown
    assert "0 s" not in shown


def test_estimate_with_range_and_confidence() -> None:
    shown = " ".join(text(samples.estimated(), width=120).split())
    # 20 µs over a bound of 32.202 µs: the sample's estimate is made up.
    assert (
        "20 µs (16 µs to 26 µs) · 0.621× the bound · 0.0% of it starting kernels · medium "
        "confidence: calibrated on a sibling"
    ) in shown


def test_top_ops_first_and_the_rest_is_summed() -> None:
    lines = text(samples.tiny(), top=2).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("op "))
    assert lines[at + 2].startswith("layer1.*.conv2")
    assert lines[at + 3].startswith("fc")
    # 32.202 µs in all; 9.24 + 4.102 shown; 18.86 / 32.202 = 58.6 %. Ten rows are left, one of
    # them four executions.
    assert lines[at + 4] == "13 more ops take 58.6% of the bound time"


def test_top_zero_lists_all() -> None:
    shown = text(samples.large(300), top=0, width=200)
    assert "more ops take" not in shown
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
    assert "more ops take" not in shown


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
    golden("compare_80.txt", str(render_many(batches, "table", Options(width=80))))
    assert "tinynet" in str(render_many(batches, "table", Options(width=200)))


def test_markdown_golden(golden: Golden) -> None:
    golden("report.md", str(render(samples.tiny(), "markdown")))


def test_markdown_escapes() -> None:
    shown = str(render(samples.hostile(), "markdown"))
    assert "<script" not in shown
    assert "<img" not in shown
    assert "\x1b" not in shown
    # A "|" in a name opens no further cell: every row of ops has 14 of them unescaped.
    rows = [x for x in shown.splitlines() if "HYPERLINK" in x]
    assert [x.replace("\\|", "").count("|") for x in rows] == [14]


def test_markdown_of_several_and_of_none() -> None:
    shown = str(render_many([samples.tiny(), samples.unknown()], "markdown"))
    assert "| tinynet | batch 1, image 224 | Bare Metal | fp16 | unknown | unknown |" in shown
    assert "## Ops" not in str(render(samples.empty(), "markdown"))


def test_training_and_link_traffic_are_said() -> None:
    import msgspec

    analysis = samples.tiny()
    step = msgspec.structs.replace(
        analysis,
        model=msgspec.structs.replace(analysis.model, training=True),
        total=msgspec.structs.replace(analysis.total, link_bytes=3_000_000),
    )
    shown = text(step, width=120)
    assert "training step" in shown
    assert "3 MB over links" in shown


def test_overhead_bound_says_what_would_be_saved() -> None:
    import gambrel

    analysis = gambrel.analyze("mobilenet-v2", "a100-sxm4-80gb", batch_size=1, precision="fp16")
    shown = " ".join(text(analysis, width=120).split())
    assert "memory-bound, expected overhead-bound" in shown
    assert "overhead-bound · starting 151 kernels takes" in shown
    assert "× as fast (105 kernels) · a CUDA graph, which the expected time supposes" in shown
    # Nothing causal in it: nothing to say about how that was counted.
    assert "Counting" not in shown


def test_confidence_of_every_row_where_there_is_room() -> None:
    import gambrel

    analysis = gambrel.analyze("bert-base", "h100-sxm5-80gb", precision="fp16")
    wide = text(analysis, width=140)
    row = next(x for x in wide.splitlines() if x.startswith("matmul"))
    assert " high " in row
    assert "op by op" in wide
    assert "| confidence |" in str(render(analysis, "markdown"))


#: Kinds of ResNet-50's ops that the matrix unit does.
MATRIX = {"convolution", "matmul"}


def test_ops_without_a_roof_for_their_arithmetic_are_marked() -> None:
    import gambrel

    # A TPU publishes its matrix unit only: element-wise work has the memory's roof alone.
    analysis = gambrel.analyze("resnet50", "tpu-v5e", precision="bf16")
    shown = text(analysis, width=100, top=0)
    halves = [x for x in shown.splitlines() if " memory* " in x]
    assert any(x.startswith("relu ") for x in halves)
    assert not any(x.startswith("fc ") for x in halves)
    share = sum(op.measures.time_share or 0 for op in analysis.ops if op.kind not in MATRIX)
    said = " ".join(shown.split())
    assert f"{share:.1%} in ops (marked *) held against memory alone" in said
    assert "memory\\* |" in str(render(analysis, "markdown"))
    known = gambrel.analyze("resnet50", "a100-sxm4-80gb", precision="fp16")
    assert "marked *" not in text(known)
