"""Reports of measured kernels: the chart's roofs and dots, names, what a file may contain."""

from __future__ import annotations

import pytest

from gambrel.analysis.samples import Known, MeasuredTraffic, MeasuredWork, Sample, Samples, place
from gambrel.analysis.samples.movement import compare
from gambrel.device.lookup import find
from gambrel.errors import UnknownNameError
from gambrel.report import registry
from gambrel.report.answers import Recorded
from gambrel.report.builders.samples import short_name
from gambrel.report.options import Options
from gambrel.report.samples_chart import came_from, describe
from gambrel.traces import read


def render(standing, name, options=None, movement=None):
    return registry.render(Recorded(standing=standing, movement=movement), name, options)


def sample(name="k", flops=10**9, dtype="fp16", time_s=1e-3, sparse=False, **levels):
    work = MeasuredWork(work_class="matrix", dtype=dtype, flops=flops, sparse=sparse)
    traffic = tuple(MeasuredTraffic(level=n, traffic_bytes=b) for n, b in levels.items())
    return Sample(name=name, time_s=time_s, work=(work,), traffic=traffic)


def standing(*launches):
    samples = Samples(format="test", sources=("dir/a.csv",), launches=launches)
    return place(samples, find("a100-sxm4-80gb").device)


def test_one_dot_a_level_at_the_achieved_rate():
    chart = describe(standing(sample(DRAM=10**7, L2=4 * 10**7)))
    assert [(p.kind, p.arithmetic_intensity, p.flop_per_s) for p in chart.points] == [
        ("DRAM", 100.0, 1e12),
        ("L2", 25.0, 1e12),
    ]
    assert [m.used for m in chart.memory_roofs] == [True, True]
    assert chart.title == "a.csv on NVIDIA A100 SXM4 80GB"


def test_sparse_roofs_only_for_sparse_work():
    dense = [r for r in describe(standing(sample(DRAM=1))).roofs if r.used]
    # 312 TFLOP/s of fp16 is also the sparse peak of tf32, which nothing here uses.
    assert [r.peak_flop_per_s for r in dense] == [312e12]
    assert "sparse" not in dense[0].label
    sparse = [r for r in describe(standing(sample(sparse=True, DRAM=1))).roofs if r.used]
    assert [r.peak_flop_per_s for r in sparse] == [624e12]
    assert "sparse" in sparse[0].label


def test_kernels_without_a_count_are_listed_but_not_drawn():
    unknown = Sample(name="u", time_s=1e-3, state=Known.MISSING, why="no counters")
    found = standing(sample(DRAM=10**7), unknown)
    assert {p.name for p in describe(found).points} == {"k"}
    assert describe(found).total.kind == "kernels of known work"
    text = str(render(found, "table", Options(width=100)))
    assert "missing" in text
    assert "no counters" in text


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void scale<(int)64>(const float *, int)", "scale<(int)64>"),
        ("unnamed>::saxpy(float, int)", "saxpy"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("(odd)", "(odd)"),
        ("f(void (*)(int))", "f"),
    ],
)
def test_short_names(name, short):
    assert short_name(name) == short


@pytest.mark.parametrize("name", ["table", "roofline", "json", "csv", "html", "svg"])
def test_hostile_names_and_no_kernels(name):
    hostile = sample(name="</table>\x1b[31m\u202e=1+1", DRAM=10**7)
    text = str(render(standing(hostile), name))
    assert "\x1b" not in text
    assert "</table>\x1b" not in text
    render(standing(), name)


def test_unknown_format():
    with pytest.raises(UnknownNameError, match="unknown format 'docx'"):
        render(standing(sample()), "docx")


def test_pictures_draw_where_dots_stood(tmp_path):
    # One kernel: 800 µs before, 250 µs now, with a quarter of the DRAM bytes.
    head = "name,flops,bytes,l2_bytes,time_us,dtype\n"
    (tmp_path / "old.csv").write_text(f"{head}gemm,2.5e9,4e8,9e8,800,fp16\n")
    (tmp_path / "new.csv").write_text(f"{head}gemm,2.5e9,1e8,4e8,250,fp16\nnew,1e9,1e8,,9,fp16\n")
    device = find("a100-sxm4-80gb").device
    before, after = (place(read(tmp_path / n), device) for n in ("old.csv", "new.csv"))
    movement = compare(before, after)
    # 2.5e9 / 4e8 = 6.25 and 2.5e9 / 9e8 = 2.78 FLOP/byte at 2.5e9 / 800 µs = 3.125 TFLOP/s.
    index = [k.sample.name for k in after.kernels].index("gemm")
    assert came_from(after, movement) == {
        (index, "DRAM"): pytest.approx((6.25, 3.125e12)),
        (index, "L2"): pytest.approx((2.5 / 0.9, 3.125e12)),
    }
    assert came_from(after, None) == {}
    moved = render(after, "svg", movement=movement)
    assert "from the other run" in moved
    assert "from the other run" not in render(after, "svg")
    assert render(after, "png", movement=movement)[:4] == b"\x89PNG"
    assert render(after, "pdf", movement=movement)[:4] == b"%PDF"
