"""A search that skips what the speed of light rules out finds what a search of everything finds."""

import pytest

import gambrel
from gambrel.advise.check import missed_by, tried_batches
from gambrel.advise.compare import Grid
from gambrel.advise.fleet import Fleet
from gambrel.advise.limits import parse_limits
from gambrel.advise.select import NEAR, _standing, judged, select
from gambrel.advise.verdict import Verdict
from gambrel.device.catalog import list_devices
from tests.advise.small import subject

NAMES = (
    "h100-sxm5-80gb",
    "l4",
    "a10",
    "jetson-orin-nano-8gb",
    "hailo-8",
    "coral-edge-tpu",
    "snapdragon-8-gen-3",
    "tpu-v5e",
)
DEVICES = [d for d in list_devices() if d.id in NAMES]
LIMITS = (
    {"throughput": "300/s"},
    {"throughput": "3000/s"},
    {"throughput": "60000/s"},
    {"throughput": "1000/s", "latency": "5ms"},
    {"latency": "1ms", "power": "30W"},
    {"throughput": "2000/s", "memory": "1GB"},
)
PRECISIONS = ("int8", "fp16")


def of_everything(model, device, limits, sort):
    """The best of all runtimes and formats at all batches; of the first that passes, if any does.

    A few batches far apart come first, as the search has it: a pass at one of them is the answer.
    """
    best = None
    apart, every = tried_batches(model, limits, step=16), tried_batches(model, limits)
    for batch in (*apart, *(b for b in every if b not in apart)):
        able = [f for f in PRECISIONS if model.runs(device, f)]
        points = [p for f in able for p in tried(model, device, f, batch)]
        found = [judged(model.fleet(batch or None), device, p, limits) for p in points]
        best = min([*([best] if best else []), *found], key=lambda c: _standing(c, sort))
        if best.verdict is Verdict.PASS:
            break
    return best


def tried(model, device, precision, batch):
    return model.points(device, precision, None, batch)


@pytest.mark.parametrize("asked", LIMITS, ids=lambda asked: " ".join(asked.values()))
@pytest.mark.parametrize("sort", ["latency", "throughput"])
def test_the_pruned_search_finds_what_a_search_of_everything_finds(asked, sort):
    model, limits = subject("mobilenet-v2"), parse_limits(asked)
    found = select(Grid(subjects=[model], devices=DEVICES, precisions=PRECISIONS), limits, sort)
    shown = {
        c.row.hardware: c for c in (*found.meets, *found.unknown, *found.over_power, *found.near)
    }
    assert sorted([*shown, *found.failed]) == sorted(d.id for d in DEVICES)
    apart = tried_batches(model, limits, step=16)
    for device in DEVICES:
        whole = of_everything(model, device, limits, sort)
        if device.id in found.failed:
            assert whole.verdict is Verdict.FAIL
            assert missed_by(whole.constraints) > NEAR
        else:
            assert shown[device.id].verdict is whole.verdict
            if whole.verdict is Verdict.PASS and whole.row.sizes["batch"] in apart:
                assert shown[device.id] == whole


def test_what_the_speed_of_light_rules_out_is_not_evaluated(monkeypatch):
    def refuse(*_):
        raise AssertionError("evaluated")

    monkeypatch.setattr(Fleet, "_judged", refuse)
    # LiteRT runs fp32 on the Snapdragon, for which no roof is known: nothing rules it out.
    bounded = [d for d in DEVICES if d.id != "snapdragon-8-gen-3"]
    over = Grid(subjects=[subject("mobilenet-v2")], devices=bounded)
    found = select(over, parse_limits({"latency": "1ns"}))
    assert set(found.failed) == {d.id for d in bounded}


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("yolov8n", {"throughput": 2000, "latency": 0.005}),
        ("bert-base", {"throughput": 2000}),
        ("clip-vit-b-32", {"latency": 0.1}),
        ("resnet50", {"throughput": 3000, "latency": 0.02}),
    ],
)
def test_select_and_check_say_the_same(model, asked):
    """Between the batches tried first too, and of ops that a compiler leaves to the host."""
    names = ("a30", "rtx-3090", "rtx-2070", "tpu-v5e", "coral-edge-tpu", "mi210", "l4")
    found = gambrel.select(model, hardware=names, **asked)
    groups = (found.meets, found.unknown, found.over_power, found.near)
    said = {c.row.hardware: c.verdict for group in groups for c in group}
    said |= dict.fromkeys(found.failed, Verdict.FAIL)
    assert said == {name: gambrel.check(model, name, **asked).verdict for name in names}


def test_a_device_that_does_not_take_the_format_is_refused_not_failed():
    devices = ["h100", "coral-edge-tpu"]
    found = gambrel.select("resnet50", hardware=devices, precision="fp16", latency=0.001)
    assert found.refused == ("coral-edge-tpu",)
    assert not found.failed
