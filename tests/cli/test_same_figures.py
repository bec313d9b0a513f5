"""One question through every face: text, JSON, page, compare, check, sweep, what-if, a saved file.

Thirty questions, drawn at random once (the seed is fixed): whatever is asked, and through whichever
face, the figures are the same.
"""

from __future__ import annotations

import json
import random
import re

import pytest

import gambrel as api
from gambrel.analysis.result import Analysis
from gambrel.device.catalog import index
from gambrel.device.resolve import resolve_hardware
from gambrel.runtimes import choose, takes

MODELS = [
    "resnet18",
    "resnet50",
    "vit-b-16",
    "yolov8n",
    "mobilenet-v2",
    "bert-base",
    "swin-t",
    "segformer-b0",
    "lstm",
]
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")
TOTALS = [
    "flops",
    "matrix_flops",
    "vector_flops",
    "special_ops",
    "read_bytes",
    "write_bytes",
    "traffic_bytes",
    "arithmetic_intensity",
    "ridge_point",
    "attainable_flop_per_s",
    "roofline_time_s",
    "compute_utilization",
    "memory_utilization",
]
PREFIXES = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
#: A figure in a text has four digits.
ROUNDING = 6e-4


def questions(count: int) -> list[tuple[str, str, str, int]]:
    draw = random.Random(20261121)
    devices = sorted(index().vendors)
    found = []
    while len(found) < count:
        device = draw.choice(devices)
        has = [p for p in PRECISIONS if _runs(device, p)]
        if has:
            batch = draw.choice((1, 2, 3, 8, 17, 64))
            found.append((draw.choice(MODELS), device, draw.choice(has), batch))
    return found


def _runs(device: str, precision: str) -> bool:
    """Whether a runtime of the device takes the format."""
    try:
        return takes(choose(resolve_hardware(device)[0], precision=precision).runtime, precision)
    except api.InputError:
        return False


def printed(text: str, label: str, unit: str) -> float | None:
    """The figure behind a label, in base units; None where there is none."""
    found = re.search(rf"{label} ([\d.,]+) ([nµmkMGT]?){unit}\b", re.sub(r"\s+", " ", text))
    return None if found is None else float(found[1].replace(",", "")) * PREFIXES[found[2]]


def close(value: float | None, rel: float = 1e-9) -> object:
    return None if value is None else pytest.approx(value, rel=rel)


@pytest.mark.parametrize(("model", "device", "precision", "batch"), questions(30))
def test_every_face_says_the_same(gambrel, tmp_path, model, device, precision, batch):
    found = api.analyze(model, device, batch_size=batch, precision=precision)
    words = (model, "--hardware", device, "--precision", precision, "--batch", str(batch))
    words += ("--runtime", found.runtime)
    expected = found.expected_time_s and found.expected_time_s.value

    said = json.loads(gambrel("analyze", *words, "--json").out)
    assert {k: said["total"][k] for k in TOTALS} == {k: getattr(found.total, k) for k in TOTALS}
    assert said["total"]["expected_time_s"] == expected
    _adds_up(said, found)

    gambrel("analyze", *words, "--html", "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    embedded = re.search(r'id="gambrel-data">(.*?)</script>', page, re.S)
    shown = {f.get("key"): f["text"] for f in json.loads(embedded[1])["views"][0]["figures"]}
    for key, value in (
        ("expected_time_s", expected),
        ("roofline_time_s", found.roofline_time_s),
        ("sol_time_s", found.sol_time_s),
    ):
        assert printed(f"= {shown[key]} ", "=", "s") == close(value, ROUNDING)

    text = gambrel("analyze", *words).out
    assert printed(text, "[Rr]oofline:?", "s") == close(found.roofline_time_s, ROUNDING)
    assert printed(text, "Expected:", "s") == close(expected, ROUNDING)

    row = json.loads(gambrel("compare", *words, "--json").out)["rows"][0]
    assert row["roofline_time_s"] == close(found.roofline_time_s)
    assert row["sol_time_s"] == close(found.sol_time_s)
    # Where frames are streamed the time between two results is known, and no latency.
    latency = None if expected and found.expected_time_s.streamed else expected
    assert row["figures"]["latency"]["value"] == close(latency)
    rate = expected and batch / expected
    assert row["figures"]["throughput"]["value"] == close(rate)

    limits = ("--latency", "10ms", "--memory", "1GiB")
    checked = json.loads(gambrel("check", *words, *limits, "--json").out)["constraints"]
    figures = {c["metric"]: c["figure"]["value"] for c in checked}
    assert figures["latency"] == close(latency)
    assert figures["memory"] == close(found.footprint.total_bytes)

    found.save(tmp_path / "saved.json")
    assert api.load(tmp_path / "saved.json") == found


@pytest.mark.parametrize(("model", "device", "precision", "batch"), questions(30))
def test_a_sweep_says_the_same(model, device, precision, batch):
    found = api.analyze(model, device, batch_size=batch, precision=precision)
    try:
        swept = api.sweep(model, device, precision=precision, batch_size=batch)
    except api.InputError as error:
        assert "lives off its host link" in str(error)  # noqa: PT017
        return
    assert swept.flops[0] == close(found.flops)
    assert swept.traffic_bytes[0] == close(found.traffic_bytes)
    bound, expected = found.roofline_time_s, found.expected_time_s
    nothing = float("nan")
    assert swept.roofline_time_s[0] == pytest.approx(bound or nothing, rel=1e-9, nan_ok=True)
    value = expected.value if expected else nothing
    assert swept.expected_time_s[0] == pytest.approx(value, rel=1e-9, nan_ok=True)


def _adds_up(said: dict[str, object], found: Analysis) -> None:
    """Rows, kinds and modules add up to the total."""
    for part in ("ops", "by_kind", "by_module"):
        rows = said[part]
        assert sum(r["matrix_flops"] for r in rows) == found.total.matrix_flops, part
        assert sum(r["traffic_bytes"] for r in rows) == found.total.traffic_bytes, part
        times = [r["roofline_time_s"] for r in rows if r["roofline_time_s"] is not None]
        if found.on_host:  # how long these take is not known, and so neither is the whole
            assert found.roofline_time_s is None
            continue
        assert sum(times) == pytest.approx(found.roofline_time_s or 0), part
