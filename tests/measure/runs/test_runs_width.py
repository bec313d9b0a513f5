"""The table of two runs in a terminal."""

import pytest

import gambrel
from gambrel.measure.runs import pair
from gambrel.measure.runs.load import of_analysis
from gambrel.report import Options, render


@pytest.fixture(scope="module")
def two():
    found = [gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=b) for b in (1, 8)]
    return pair(of_analysis(found[0], "one"), of_analysis(found[1], "eight"))


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits(two, width):
    said = str(render(two, "table", Options(width=width, top=5)))
    assert max(map(len, said.splitlines())) <= width
    assert "second / first" in said
    assert ("FLOP/byte first" in said) == (width > 80)


def test_work_is_that_of_the_analysis(two):
    # 8.178 GFLOP of products; the element-wise work is another class and is not added.
    assert "8.178 GFLOP" in str(render(two))
    assert two.second.flops == 8 * two.first.flops
