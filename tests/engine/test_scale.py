"""The page on scale says what its script computes."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_of_the_page_are_those_of_the_script():
    scale = runpy.run_path(str(ROOT / "benchmarks" / "scale.py"), run_name="scale")
    page = (ROOT / "docs" / "scale.md").read_text("utf-8")
    for _, _, rows in scale["tables"]():
        for row in rows:
            assert f"| {' | '.join(row)} |" in page
    # 1e6 points of 4.50 us each are 4.5 s; 32 tasks of 1.84 ms are 1.31 % of that.
    assert scale["sweep_row"](10**6, scale["constants"]())[1:5] == [
        "32",
        "4.5 s",
        "0.14 s",
        "1.31%",
    ]
