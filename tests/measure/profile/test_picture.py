"""The chart and the page of a profile, from a real one; times are never judged."""

import os

import msgspec
import pytest

torch = pytest.importorskip("torch")

from gambrel import RooflineAnalyzer  # noqa: E402
from gambrel.device.lookup import from_peaks  # noqa: E402
from gambrel.measure.profile.quiet import quiet  # noqa: E402
from gambrel.report import Options, render  # noqa: E402
from gambrel.report.answers import Profiled  # noqa: E402
from tests.report.pages import Page, cells, tables  # noqa: E402

nn = torch.nn


@pytest.fixture(scope="module")
def done():
    model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    ra = RooflineAnalyzer(
        model.eval(), torch.randint(0, 50, (4, 8)), from_peaks(1e18, 1e18, name="fast")
    )
    ra.profile("cpu", warmup=1, steps=2)
    return ra


def test_dots_are_at_measured_rates(done):
    chart = done.chart()
    by_row = {p.index: p for p in chart.points}
    assert len(by_row) == len(done.results) == 4
    for i, result in enumerate(done.results):
        assert by_row[i].flop_per_s == (result.achieved_flop_per_s or None)
    # An embedding does no work: it has a place on the margin and not in the plot.
    assert by_row[0].margin == "left"
    # 2 products: 2·32·16·32 and 2·32·32·4 FLOP, over the time that a user waits.
    assert chart.total.flop_per_s == pytest.approx(
        (2 * 32 * 16 * 32 + 2 * 32 * 32 * 4) / done.totals.plain_s
    )
    assert max(p.size for p in chart.points) == 1
    assert chart.y_range[0] < min(p.flop_per_s for p in chart.points if p.flop_per_s)


def test_what_has_no_measured_time_lies_at_the_bottom(done):
    import msgspec

    kept = done.results
    try:
        unseen = msgspec.structs.replace(kept[1], time_s=None, achieved_flop_per_s=None)
        done.results = [kept[0], unseen, *kept[2:]]
        point = next(p for p in done.chart().points if p.index == 1)
        assert (point.margin, point.flop_per_s, point.size) == ("bottom", None, 0)
    finally:
        done.results = kept


def test_in_a_terminal(done):
    shown = done.roofline()
    assert "measured" in shown.splitlines()[0]
    assert "★ whole model" in shown


def test_the_page_has_what_was_measured(done):
    page = Page(done.to_html())
    table = next(t for t in tables(page.data) if t.get("linked"))
    times = next(c["value"] for c in table["columns"] if c.get("key") == "time_s")
    assert times == pytest.approx(sorted((p.time_s for p in done.results), reverse=True))
    assert sum(table["shares"]) == pytest.approx(1)
    chart = page.data["views"][0]["charts"][0]
    assert chart["measured"]
    names = cells(page.data, table, "name")
    for i, row in enumerate(chart["points"]["row"]):
        if row >= 0:
            assert page.data["strings"][chart["points"]["name"][i]] == names[row]
    assert page.data["views"][0]["answer"][0].startswith("Measured")


def test_sums_of_modules_do_not_mix_classes_of_work(done):
    whole = done.modules[0]
    # The products alone; the 1,024 FLOP of the ReLU are vector work.
    assert whole.flops == 2 * 32 * 16 * 32 + 2 * 32 * 32 * 4
    relu = next(m for m in done.modules if m.name == "2")
    assert relu.flops == 4 * 8 * 32


def test_reasons_are_under_the_table(done):
    said = str(render(Profiled(profile=done.record)))
    # Everything is far below roofs of 1e18. Which reason comes first depends on measured times.
    reasons = said.partition("\nFar from the roof\n")[2].partition("\n\n")[0]
    assert "• small problem" in reasons
    assert "No roofline" in said


def test_the_caches_that_served_ops_are_named_for_the_whole(done):
    fast = [
        msgspec.structs.replace(p, achieved_byte_per_s=1e30, served_by="LLC" if i else "")
        for i, p in enumerate(done.record.ops)
    ]
    record = msgspec.structs.replace(done.record, ops=tuple(fast))
    said = " ".join(str(render(Profiled(profile=record))).split())
    n = len(fast)
    assert f"{n} of {n} ops moved data faster than DRAM can: {n - 1} from LLC, 1 from no" in said
    assert "faster than DRAM can" not in str(render(Profiled(profile=done.record)))


def test_the_profiler_is_silent_and_its_variable_is_put_back(done, capfd, monkeypatch):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    done.profile("cpu", warmup=0, steps=1)
    assert "profiler_start" not in capfd.readouterr().err
    assert "KINETO_LOG_LEVEL" not in os.environ
    monkeypatch.setenv("KINETO_LOG_LEVEL", "3")
    with quiet():
        assert os.environ["KINETO_LOG_LEVEL"] == "3"
    assert os.environ["KINETO_LOG_LEVEL"] == "3"


@pytest.mark.parametrize("width", [80, 100, 160])
def test_tables_fit_the_terminal(done, width):
    options = Options(width=width)
    for by in ("op", "module"):
        shown = Profiled(profile=done.record, by=by, compared=True)
        said = str(render(shown, "table", options))
        assert max(map(len, said.splitlines())) <= width
    said = str(render(Profiled(profile=done.record), "table", options))
    head = next(line for line in said.splitlines() if line.startswith("name ")).split()
    assert {"name", "bound", "util%", "time"} <= set(head)
