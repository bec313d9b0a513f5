"""The Edge TPU: Google's published times against its limits and its expected times."""

import csv
from pathlib import Path

import pytest

import gambrel
from gambrel.analysis.fold import fold

ROWS = Path(__file__).parents[3] / "benchmarks/data/coral/edgetpu.csv"


def published():
    with ROWS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def analyzed(row):
    name, _, size = row["size"].partition("=")
    return gambrel.analyze(row["model"], row["device"], **({name: int(size)} if name else {}))


def test_no_published_time_is_below_the_speed_of_light_and_most_are_in_the_range():
    inside = []
    for row in published():
        found, measured = analyzed(row), float(row["ms"]) / 1e3
        assert found.sol_time_s < measured, row
        expected = found.expected_time_s
        inside.append(expected.low <= measured <= expected.high)
    assert sum(inside) >= 0.85 * len(inside)


def test_weights_that_do_not_fit_cross_the_link_and_limit_the_run():
    """VGG16: 138 MB less what 67 % of 8 MiB hold, at 0.5 GB/s; the speed of light keeps 8 MiB."""
    found = gambrel.analyze("vgg16", "coral-edge-tpu")
    assert not found.on_host  # its adaptive pooling pools nothing at this size
    weights = 138.358e6 - 0.67 * 8 * 2**20
    assert found.roofline_time_s == pytest.approx(weights / 0.5e9, rel=0.01)
    assert found.sol_time_s == pytest.approx((138.358e6 - 8 * 2**20) / 0.5e9, rel=0.01)
    assert found.limited_by == "network"
    by_name = {op.name: op for op in found.ops}
    assert by_name["classifier.0"].measures.limited_by == "network"


def test_activations_take_time_though_they_never_leave_the_chip():
    found = gambrel.analyze("mobilenet-v1", "coral-edge-tpu")
    assert found.limited_by == "memory"
    assert found.total.write_bytes < 10_000  # the scores alone cross the link


def test_the_slower_host_is_slower():
    usb, board = (
        gambrel.analyze("resnet152", device, image=288).expected_time_s.value
        for device in ("coral-edge-tpu", "coral-dev-board")
    )
    assert usb < board


def test_a_published_rate_never_fails():
    fastest = {r["model"]: r for r in sorted(published(), key=lambda r: -float(r["ms"]))}
    for row in fastest.values():
        found = gambrel.check(row["model"], row["device"], latency=f"{row['ms']}ms")
        assert found.verdict != "FAIL", row


@pytest.mark.parametrize(
    ("model", "latency", "proof"),
    [("resnet50", "20ms", "expected"), ("mobilenet-v1", "50us", "sol")],
)
def test_only_what_must_cross_the_link_proves(model, latency, proof):
    """Google times 56 MB of weights at 57 ms, 38 ms less than they take over the link."""
    checked = gambrel.check(model, "coral-edge-tpu", latency=latency)
    assert (checked.verdict, checked.proof) == ("FAIL", proof)


def test_the_rows_of_a_report_add_up_and_say_what_bounds_them():
    """Equal ops that wait for different things are rows of their own."""
    found = gambrel.analyze("resnet50", "coral-edge-tpu")
    whole, rows = found.expected_time_s, fold(found.ops)
    parts = [op.measures.expected_time_s.value for op in rows if op.measures.expected_time_s]
    assert sum(parts) + whole.host_s == pytest.approx(whole.value, rel=1e-4)
    longest = max(rows, key=lambda op: op.measures.roofline_time_s or 0.0)
    assert longest.measures.bound == "network"
