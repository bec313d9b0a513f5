"""Prompts alone as NVIDIA published them: inside the range, but for the one that is known."""

import csv
from pathlib import Path

import pytest

import gambrel

ROWS = Path(__file__).parents[3] / "benchmarks/data/trtllm/prompts.csv"
#: Release 0.5 launched each kernel of a short prompt.
OUTSIDE = {("gpt-j-6b", "h100-sxm5-80gb", "128")}


@pytest.mark.parametrize(
    "row",
    list(csv.DictReader(ROWS.read_text().splitlines())),
    ids=lambda row: f"{row['model']} {row['device']} {row['input']}",
)
def test_a_published_prompt_is_inside_the_range(row):
    found = gambrel.analyze(
        row["model"],
        row["device"],
        runtime="tensorrt-llm",
        precision=row["precision"],
        phase="prefill",
        seq=int(row["input"]),
        batch_size=1,
    ).expected_time_s
    inside = found.low <= float(row["ttft_ms"]) / 1e3 <= found.high
    assert inside is ((row["model"], row["device"], row["input"]) not in OUTSIDE)
