"""What is assumed of caches is said in every report."""

import gambrel
from gambrel.report import Options, render


def test_the_usable_share_is_called_an_assumption():
    found = gambrel.analyze("resnet50", "h100")
    assert any("75.0% usable by assumption" in text for text in found.cache_notes)
    text = " ".join(render(found, options=Options(levels=True)).split())
    assert "75.0% of each cache is taken as usable: an assumption, not measured." in text


def test_inner_levels_that_limit_are_named():
    found = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=1, precision="fp16")
    # By hand: ops whose slowest resource, levels included, is the L2.
    limited = 0.0
    for op in found.ops:
        times = {x.name: x.time_s or 0.0 for x in op.measures.levels}
        engines = [t.time_s for t in op.measures.times if t.resource != "DRAM"]
        if times["L2"] >= max(*engines, *times.values()) and times["DRAM"] < times["L2"]:
            limited += times["L2"]
    share = f"{limited / found.cached_roofline_time_s:.1%}"
    (said,) = found.cache_notes
    assert said.endswith(f", {share} of it at the roof of L2.")
