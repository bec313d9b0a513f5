"""What is assumed of caches, and what was not compared with its source, is said in every report."""

import pytest

import gambrel
from gambrel.report.levels import render_levels


@pytest.mark.parametrize(
    ("device", "unread"), [("l40s", "the sizes of L1 were not compared"), ("h100", None)]
)
def test_sizes_that_were_not_compared_with_their_source(device, unread):
    found = gambrel.analyze("resnet50", device)
    said = [text for text in found.assumptions if "not compared with their source" in text]
    assert len(said) == (unread is not None)
    assert all(text.startswith(unread) for text in said)


def test_the_usable_share_is_called_an_assumption():
    found = gambrel.analyze("resnet50", "h100")
    assert any("75.0% usable by assumption" in text for text in found.assumptions)
    text = " ".join(render_levels(found).split())
    assert "75.0% of each cache is taken as usable: an assumption, not measured." in text
